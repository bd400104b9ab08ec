//! Which situations the simulated runs have met.
//!
//! A situation is a triple: what a node knows of a key, what the store holds of the key's cell, and the event that
//! comes then. Seeds say how long a run was; triples say what it has seen. Every triple must be met often, or be named
//! in `crates/sim/coverage/unreachable.txt` with the reason why it can't be. Pairs of events that hit one key within one
//! window are counted beside them.

use std::fmt;

/// Every triple must be met so often.
pub const ENOUGH: u64 = 30;
/// The triples that can't be met, with reasons.
pub const UNREACHABLE: &str = include_str!("../coverage/unreachable.txt");

/// Declares an enum whose variants have names that people read and write.
macro_rules! named {
    ($(#[$doc:meta])* $name:ident { $($(#[$variant_doc:meta])* $variant:ident = $text:literal,)+ }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
        pub enum $name { $($(#[$variant_doc])* $variant,)+ }

        impl $name {
            pub const ALL: &'static [$name] = &[$($name::$variant,)+];

            pub fn name(self) -> &'static str {
                match self { $($name::$variant => $text,)+ }
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.pad(self.name())
            }
        }
    };
}

named! {
    /// What a node knows of a key. The first that applies, from top to bottom.
    NodeState {
        /// Some of the key is held back for a request of this node that asks several shards.
        Holding = "holding",
        /// The node never had an entry for the key.
        Absent = "absent",
        /// The node had an entry, and dropped it.
        Evicted = "evicted",
        /// The key was reset, and the node doesn't know.
        BehindEpoch = "behind-epoch",
        /// The key is hot here: only what was granted ahead is spent.
        Leased = "leased",
        /// Something was granted and isn't spent yet.
        Prepaid = "prepaid",
        /// Nothing of the current window is known, only of an earlier one.
        PreviousOnly = "previous-only",
        /// Something was admitted here that the store doesn't know of.
        Unsynced = "unsynced",
        /// The node denies by itself.
        Spent = "spent",
        /// The last reply is too old to go by.
        Stale = "stale",
        /// Nothing of the above: the next small request is admitted at once.
        WithRoom = "with-room",
    }
}

named! {
    /// What the store holds of the cell that the node is in. The first that applies, from top to bottom.
    StoreState {
        /// The store counts the key in another epoch than the node.
        OtherEpoch = "other-epoch",
        Absent = "absent",
        /// Some of the key is held back for requests that ask several shards.
        Reserved = "reserved",
        /// The cell is deleted within ten seconds.
        Expiring = "expiring",
        /// Somebody claimed a higher count than the sum of what the owners published.
        BelowFloor = "below-floor",
        AtFloor = "at-floor",
    }
}

named! {
    /// What happens.
    EventKind {
        SmallRequest = "request",
        /// A request that costs more than the node may admit without asking.
        BeyondCredit = "request-beyond-credit",
        BeyondLimit = "request-beyond-limit",
        Peek = "peek",
        Report = "report",
        /// A request at a node whose clock is off by more than the store believes.
        SkewedClock = "request-at-skewed-clock",
        Reset = "reset",
        LimitRaised = "limit-raised",
        LimitLowered = "limit-lowered",
        LimitZero = "limit-zero",
        DurationChanged = "duration-changed",
        LeaseGranted = "lease-granted",
        LeaseEnded = "lease-ended",
        /// This node crashes.
        Crash = "crash",
        /// Another node starts again.
        Restart = "restart",
        /// Another node joins that was never there.
        Join = "join",
        /// This node leaves.
        Leave = "leave",
        /// This node stands still.
        Pause = "pause",
        /// This node's clock is set.
        ClockStep = "clock-step",
        StoreLost = "store-lost",
        ShardLost = "shard-lost",
        KeyLost = "key-lost",
        FieldsLost = "fields-lost",
        EpochLost = "epoch-lost",
        CoordinationLost = "coordination-lost",
        FailOver = "fail-over",
        SlotMove = "slot-move",
        WorldRowsLost = "world-rows-lost",
        RegionJoin = "region-join",
        RegionLeave = "region-leave",
        RegionRename = "region-rename",
        QuotaChange = "quota-change",
    }
}

/// A node's state of a key, the store's state of the cell, and the event that came then.
pub type Triple = (NodeState, StoreState, EventKind);

/// How often each triple, and each pair of events, was met.
#[derive(Clone, Debug)]
pub struct Coverage {
    triples: Vec<u64>,
    pairs: Vec<u64>,
}

impl Default for Coverage {
    fn default() -> Self {
        let events = EventKind::ALL.len();
        let triples = NodeState::ALL.len() * StoreState::ALL.len() * events;
        Coverage { triples: vec![0; triples], pairs: vec![0; events * events] }
    }
}

impl Coverage {
    pub fn add(&mut self, triple: Triple) {
        self.triples[index_of(triple)] += 1;
    }

    /// One event came after another, of the same key within one window.
    pub fn add_pair(&mut self, first: EventKind, then: EventKind) {
        self.pairs[first as usize * EventKind::ALL.len() + then as usize] += 1;
    }

    pub fn add_all(&mut self, other: &Coverage) {
        let add = |(sum, count): (&mut u64, &u64)| *sum += count;
        self.triples.iter_mut().zip(&other.triples).for_each(add);
        self.pairs.iter_mut().zip(&other.pairs).for_each(add);
    }

    pub fn of(&self, triple: Triple) -> u64 {
        self.triples[index_of(triple)]
    }

    pub fn of_pair(&self, first: EventKind, then: EventKind) -> u64 {
        self.pairs[first as usize * EventKind::ALL.len() + then as usize]
    }

    /// Compares the counts with the list of what can't be met.
    pub fn compare(&self, unreachable: &[Unreachable]) -> Comparison {
        let is_listed = |triple: Triple| unreachable.iter().any(|listed| listed.covers(triple));
        let (listed, reachable): (Vec<Triple>, Vec<Triple>) =
            triples().partition(|triple| is_listed(*triple));
        let rare = |triple: &Triple| self.of(*triple) < ENOUGH;
        Comparison {
            reachable: reachable.len(),
            rare: reachable.into_iter().filter(rare).map(|triple| (triple, self.of(triple))).collect(),
            listed_but_met: listed.into_iter().filter(|triple| self.of(*triple) > 0).collect(),
        }
    }
}

/// What a coverage run found.
#[derive(Clone, Debug)]
pub struct Comparison {
    /// The triples that aren't listed as unreachable.
    pub reachable: usize,
    /// Those of them that were met too rarely, and how often.
    pub rare: Vec<(Triple, u64)>,
    /// The list is wrong about these.
    pub listed_but_met: Vec<Triple>,
}

/// All triples, in order.
pub fn triples() -> impl Iterator<Item = Triple> {
    let of_node = |node: &NodeState| {
        let node = *node;
        StoreState::ALL
            .iter()
            .flat_map(move |store| EventKind::ALL.iter().map(move |event| (node, *store, *event)))
    };
    NodeState::ALL.iter().flat_map(of_node)
}

fn index_of((node, store, event): Triple) -> usize {
    (node as usize * StoreState::ALL.len() + store as usize) * EventKind::ALL.len() + event as usize
}

/// A line of the list: triples that can't be met, and why.
#[derive(Clone, Debug)]
pub struct Unreachable {
    nodes: Vec<NodeState>,
    stores: Vec<StoreState>,
    events: Vec<EventKind>,
    pub reason: String,
}

/// A line that can't be read.
#[derive(Debug, thiserror::Error)]
#[error(
    "line {line}: {problem}; a line is `node states | store states | events : reason`, names with commas, * for all"
)]
pub struct ListError {
    line: usize,
    problem: String,
}

impl Unreachable {
    /// Reads the list: one line for each group of triples, `#` for comments.
    pub fn read(text: &str) -> Result<Vec<Unreachable>, ListError> {
        let lines =
            text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty() && !line.starts_with('#'));
        lines
            .map(|(index, line)| {
                Unreachable::read_line(line).map_err(|problem| ListError { line: index + 1, problem })
            })
            .collect()
    }

    fn read_line(line: &str) -> Result<Unreachable, String> {
        let (states, reason) = line.split_once(" : ").ok_or("there is no reason after ` : `")?;
        let fields: Vec<&str> = states.split('|').map(str::trim).collect();
        let [nodes, stores, events] = fields[..] else { return Err("there aren't three fields".to_owned()) };
        Ok(Unreachable {
            nodes: chosen(nodes, NodeState::ALL, NodeState::name)?,
            stores: chosen(stores, StoreState::ALL, StoreState::name)?,
            events: chosen(events, EventKind::ALL, EventKind::name)?,
            reason: reason.trim().to_owned(),
        })
    }

    pub fn covers(&self, (node, store, event): Triple) -> bool {
        self.nodes.contains(&node) && self.stores.contains(&store) && self.events.contains(&event)
    }
}

fn chosen<T: Copy>(text: &str, all: &[T], name: impl Fn(T) -> &'static str) -> Result<Vec<T>, String> {
    if text == "*" {
        return Ok(all.to_vec());
    }
    let find = |word: &str| {
        let found = all.iter().copied().find(|one| name(*one) == word);
        found.ok_or_else(|| format!("nothing is called {word:?}"))
    };
    text.split(',').map(|word| find(word.trim())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_committed_list_is_readable() {
        let list = Unreachable::read(UNREACHABLE).unwrap();
        assert!(list.iter().all(|line| line.reason.len() > 10), "every line gives its reason");
    }

    #[test]
    fn a_rare_triple_and_a_wrong_line_are_both_reported() {
        let list = Unreachable::read("absent | * | crash, leave : for the test\n").unwrap();
        let mut coverage = Coverage::default();
        coverage.add((NodeState::Absent, StoreState::Absent, EventKind::Crash));
        for _ in 0..ENOUGH {
            coverage.add((NodeState::Spent, StoreState::AtFloor, EventKind::Reset));
        }
        let comparison = coverage.compare(&list);
        let listed = 2 * StoreState::ALL.len();
        assert_eq!(comparison.reachable, triples().count() - listed);
        assert_eq!(comparison.rare.len(), comparison.reachable - 1);
        assert_eq!(comparison.listed_but_met, [(NodeState::Absent, StoreState::Absent, EventKind::Crash)]);
    }

    #[test]
    fn a_line_without_a_reason_is_refused() {
        let error = Unreachable::read("# comment\nabsent | * | crash\n").unwrap_err();
        assert!(error.to_string().starts_with("line 2: there is no reason"), "{error}");
    }
}
