//! Scenarios that lead one node and the store into a chosen situation: what the node knows of a key, and what the store
//! holds of the key's cell.
//!
//! A history only has to pass through the situation: `swarm/aimed.rs` runs it until that is so, and lets the event
//! happen right then. Always about node 0 and key 0. Nodes 1 and 2 do what else is needed, and node 3 isn't there yet.

mod drawn;

use super::patterns::at;
use crate::coverage::{EventKind, NodeState, StoreState, Triple};
use crate::fault::Fault;
use crate::network::{Latency, NetworkOptions, Way};
use crate::random::Random;
use crate::scenario::{Arrival, KeyPlan, LimitChange, Scenario, fixed, gcra, policy_of_size, sliding};
use crate::simulation::shard_of;
use drawn::{accuracy_of, class_of, is_slow, limit_of, scenario_of};
use tidegate_core::{Accuracy, Nanos};
use tidegate_node::GivenPolicy;

/// What the situations are about.
pub(crate) const SUBJECT: usize = 0;
/// The node that isn't there at the beginning.
pub(crate) const NEWCOMER: usize = 3;
pub(crate) const HELPER: usize = 1;
const OTHER_HELPER: usize = 2;
/// Keys 0 and 1 are asked about together, and lie on different servers.
const TOGETHER: usize = 2;
const SHARDS: u32 = 3;
/// A store keeps a cell so much longer than its nodes, as in `crates/core/src/shared/exchange.rs`.
const STORE_MARGIN_MS: u64 = 60_000;
/// A reservation lasts so long, and is to be met before it ends.
const RESERVED_FOR_MS: u64 = 250;

/// The requests of a scenario beside a plain one for each key.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Requests {
    pub(crate) both: usize,
    pub(crate) all_at_once: usize,
    pub(crate) beyond_limit: usize,
    pub(crate) peek: usize,
    pub(crate) report: usize,
    /// A quarter of the limit.
    pub(crate) some: usize,
    pub(crate) report_all: usize,
    /// Two fifths of the limit.
    pub(crate) much: usize,
}

pub(crate) fn requests_of(scenario: &Scenario) -> Requests {
    let both = scenario.keys.len();
    Requests {
        both,
        all_at_once: both + 1,
        beyond_limit: both + 2,
        peek: both + 3,
        report: both + 4,
        some: both + 5,
        report_all: both + 6,
        much: both + 7,
    }
}

/// Whether a node is in a state by what it knows of the cell that its clock is in.
pub(crate) fn is_of_cell(node: NodeState) -> bool {
    matches!(
        node,
        NodeState::Prepaid | NodeState::Unsynced | NodeState::Spent | NodeState::Stale | NodeState::WithRoom
    )
}

/// When a node's clock lands in the first cell, so that what it last heard there is fresh, or isn't.
pub(crate) fn lands_ms(node: NodeState, random: &mut Random) -> u64 {
    match node {
        NodeState::Stale => random.between(6_500, 9_500),
        _ => random.between(1_000, 3_500),
    }
}

/// A history that passes through the situation, with some luck.
pub(crate) fn history(aim: Triple, seed: u64, is_in_world: bool) -> Scenario {
    let mut random = Scenario::random_of(seed ^ 0x7369_7475);
    let mut history = History::new(aim, seed, is_in_world, &mut random);
    history.tell();
    history.finish()
}

struct History<'r> {
    node: NodeState,
    store: StoreState,
    event: EventKind,
    random: &'r mut Random,
    scenario: Scenario,
    arrivals: Vec<Arrival>,
    now_ms: u64,
    /// How long a message takes, one way.
    latency_ms: u64,
    period_ms: u64,
    is_bucket: bool,
    is_in_world: bool,
}

impl<'r> History<'r> {
    fn new(aim: Triple, seed: u64, is_in_world: bool, random: &'r mut Random) -> Self {
        let (node, store, event) = aim;
        let latency_ms = match aim {
            // A request that gave up before the lease is there would make an entry.
            (NodeState::Absent, StoreState::BelowFloor, EventKind::LeaseGranted) => random.between(1, 2),
            _ if is_slow(aim) => random.between(8, 18),
            _ => 0,
        };
        let is_quota = event == EventKind::QuotaChange;
        let needs_window = node == NodeState::PreviousOnly
            || store == StoreState::BelowFloor
            || store == StoreState::Expiring && !matches!(node, NodeState::Absent | NodeState::Evicted)
            || is_in_world && !is_quota;
        let needs_bucket =
            store == StoreState::Expiring && matches!(node, NodeState::Absent | NodeState::Evicted);
        let is_bucket = needs_bucket || !needs_window && random.one_in(2);
        let period_ms = match (node, store) {
            _ if is_in_world && !is_quota => 60_000,
            (_, StoreState::Expiring) => 10_000,
            (NodeState::PreviousOnly, StoreState::BelowFloor) => 10_000,
            (NodeState::PreviousOnly, _) => *random.pick(&[1_000, 2_000]),
            _ if is_quota => *random.pick(&[10_000, 30_000]),
            _ => *random.pick(&[10_000, 60_000, 3_600_000]),
        };
        let limit = limit_of(aim, random);
        let policy = match is_bucket {
            true => gcra(*random.pick(&[1, 2]), limit),
            false if random.one_in(2) => sliding(limit, period_ms / 1_000),
            false => fixed(limit, period_ms / 1_000),
        };
        let key = KeyPlan {
            class: class_of(aim, random),
            accuracy: accuracy_of(aim, random),
            is_hot: node == NodeState::Leased,
            ..KeyPlan::new("key 0", policy)
        };
        let mut scenario = scenario_of(seed, &key, node == NodeState::Evicted);
        if latency_ms > 0 {
            let (least, most) = (Nanos::from_millis(latency_ms), Nanos::from_millis(latency_ms));
            let latency = Latency { least, most: most.plus(Nanos::new(50_000)), ..Latency::LOOPBACK };
            scenario.network = NetworkOptions { latency, ..NetworkOptions::LOOPBACK };
        }
        let now_ms = random.between(0, 100);
        let arrivals = Vec::new();
        History {
            node,
            store,
            event,
            random,
            scenario,
            arrivals,
            now_ms,
            latency_ms,
            period_ms,
            is_bucket,
            is_in_world,
        }
    }

    fn finish(self) -> Scenario {
        let History { mut scenario, mut arrivals, now_ms, .. } = self;
        arrivals.sort_by_key(|arrival| arrival.at);
        scenario.faults.sort_by_key(|(at, _)| *at);
        let mut scenario = scenario.with_arrivals(arrivals);
        scenario.ends_at = scenario.ends_at.max(at(now_ms));
        scenario
    }

    fn fault(&mut self, fault: Fault) {
        self.scenario.faults.push((at(self.now_ms), fault));
    }

    fn cut(&mut self, node: usize) {
        [Way::Out, Way::Back].into_iter().for_each(|way| self.fault(Fault::Cut { node, way }));
    }

    fn mend(&mut self, node: usize) {
        [Way::Out, Way::Back].into_iter().for_each(|way| self.fault(Fault::Mend { node, way }));
    }

    fn wait(&mut self, least_ms: u64, most_ms: u64) {
        self.now_ms += self.random.between(least_ms, most_ms);
    }

    /// So many requests of one template at one node, a few milliseconds apart, and time for their answers.
    fn send(&mut self, node: usize, template: usize, count: u64) {
        for _ in 0..count {
            self.arrivals.push(Arrival { at: at(self.now_ms), node, template });
            self.wait(1, 3);
        }
        self.now_ms += 2 * self.latency_ms;
    }

    fn tell(&mut self) {
        if self.event == EventKind::Restart && self.store != StoreState::BelowFloor {
            self.fault(Fault::Crash { node: OTHER_HELPER });
        }
        if self.event == EventKind::QuotaChange {
            // Slices are made.
            self.wait(3_000, 8_000);
        }
        self.others_use_it();
        match self.store {
            StoreState::BelowFloor => self.let_the_floor_be_claimed(),
            StoreState::OtherEpoch if self.node != NodeState::BehindEpoch => self.be_reset(),
            StoreState::Expiring if self.is_bucket => self.let_the_bucket_be_idle(),
            StoreState::Expiring => self.sleep_until_the_cell_expires(),
            _ => {}
        }
        for _ in 0..3 {
            self.lead_node();
            self.lead_store();
            self.wait(300, 600);
            self.mend(SUBJECT);
            self.mend(HELPER);
            self.fault(Fault::StoreComesBack);
            self.wait(200, 1_500);
        }
    }

    /// The cell is there, and somebody counts in it.
    fn others_use_it(&mut self) {
        let is_skipped = match self.store {
            StoreState::Absent => self.random.one_in(2),
            StoreState::Reserved => self.node == NodeState::Leased,
            _ => self.random.one_in(4),
        };
        if is_skipped && self.node != NodeState::Absent {
            return;
        }
        let count = self.random.between(1, 2);
        self.send(HELPER, 0, count);
        self.send(OTHER_HELPER, 0, 1);
        self.wait(50, 150);
    }

    /// A node that died counted something that only the others know of, and the store forgot.
    fn let_the_floor_be_claimed(&mut self) {
        let claims: &[usize] = match self.node {
            NodeState::Absent => &[HELPER],
            _ => &[HELPER, SUBJECT],
        };
        self.send(OTHER_HELPER, 0, 2);
        self.wait(100, 150);
        claims.iter().for_each(|node| self.send(*node, 0, 1));
        self.wait(100, 150);
        self.fault(Fault::Crash { node: OTHER_HELPER });
        self.wait(1, 20);
        self.fault(Fault::StoreForgets);
        // Everybody says what it knows before anything is granted anew.
        self.wait(2_500, 3_500);
        claims.iter().for_each(|node| self.send(*node, 0, 1));
    }

    /// Everybody knows of a reset.
    fn be_reset(&mut self) {
        if self.node != NodeState::Absent {
            self.send(SUBJECT, 0, 1);
        }
        self.fault(Fault::Reset { node: HELPER, key: 0 });
        self.wait(900, 1_300);
        self.send(HELPER, 0, 1);
    }

    fn let_the_bucket_be_idle(&mut self) {
        if self.node == NodeState::Evicted {
            self.send(SUBJECT, 0, 2);
        }
        self.wait(66_000, 72_000);
    }

    /// The node stands still until the store is about to delete the cell that it is in: nodes that go on drop their entries
    /// a minute before the store does, and every sync of a cell that isn't over keeps it for a minute more.
    fn sleep_until_the_cell_expires(&mut self) {
        self.use_it_before_sleeping();
        self.wait(20, 100);
        let is_sliding = matches!(self.scenario.keys[0].policy, GivenPolicy::Sliding { .. });
        let kept_ms = self.period_ms * if is_sliding { 2 } else { 1 } + STORE_MARGIN_MS;
        let wakes_ms = kept_ms - self.random.between(7_000, 9_500);
        self.fault(Fault::Pause { node: SUBJECT, length: Nanos::from_millis(wakes_ms - self.now_ms) });
        self.now_ms = wakes_ms;
        match self.node {
            _ if self.draws() => {
                self.mend(SUBJECT);
                self.now_ms -= 200;
                // Somebody who has an entry knows of the reset that comes.
                self.send(HELPER, 0, 1);
            }
            NodeState::BehindEpoch => {
                self.now_ms -= 300;
                self.send(HELPER, 0, 1);
                self.fault(Fault::Reset { node: HELPER, key: 0 });
                self.wait(50, 100);
                self.send(HELPER, 0, 1);
                self.fault(Fault::EpochIsLost { key: 0 });
                self.cut(SUBJECT);
            }
            // Its clock is set back into the cell: otherwise only an earlier one is known.
            node if is_of_cell(node) => {
                let lands_ms = lands_ms(node, self.random);
                let delta_ns = -(i64::try_from(wakes_ms - lands_ms).unwrap_or(0) * 1_000_000);
                self.fault(Fault::StepClock { node: SUBJECT, delta_ns });
            }
            _ => {}
        }
        self.now_ms = wakes_ms;
    }

    fn use_it_before_sleeping(&mut self) {
        match self.node {
            NodeState::Leased => self.send(SUBJECT, 0, 20),
            NodeState::Prepaid => self.send(SUBJECT, 0, 2),
            NodeState::Spent if !self.draws() => self.spend_all(),
            NodeState::Spent | NodeState::Stale | NodeState::WithRoom if self.draws() => {
                // The first is granted when it has been denied, and is spent by the second.
                self.send(SUBJECT, 0, 1);
                self.wait(40, 60);
                self.send(SUBJECT, 0, 1);
            }
            NodeState::Unsynced => {
                self.send(SUBJECT, 0, 1);
                self.wait(60, 100);
                self.cut(SUBJECT);
                self.send(SUBJECT, 0, 3);
            }
            _ => self.send(SUBJECT, 0, 1),
        }
    }

    fn lead_node(&mut self) {
        match self.node {
            // The node knows all counts of this cell; anything it learned now would belong to the next cell.
            node if self.store == StoreState::Expiring
                && !self.is_bucket
                && (node != NodeState::Holding || self.draws()) => {}
            NodeState::Spent | NodeState::Unsynced | NodeState::Evicted | NodeState::BehindEpoch
                if self.draws() && self.store != StoreState::Expiring =>
            {
                self.send(SUBJECT, 0, 1);
            }
            NodeState::Absent => {}
            NodeState::Evicted => self.be_evicted(),
            NodeState::Holding => self.hold(SUBJECT),
            NodeState::BehindEpoch => self.miss_a_reset(),
            NodeState::Leased => self.send(SUBJECT, 0, 20),
            NodeState::Prepaid if self.draws() => self.send(SUBJECT, requests_of(&self.scenario).some, 1),
            NodeState::Prepaid => self.send(SUBJECT, 0, 2),
            NodeState::PreviousOnly => self.stay_behind(),
            NodeState::Unsynced => self.admit_alone(),
            NodeState::Spent => self.spend_all(),
            NodeState::Stale => {
                self.send(SUBJECT, 0, 1);
                self.wait(5_100, 6_000);
            }
            NodeState::WithRoom => self.send(SUBJECT, 0, 1),
        }
    }

    fn be_evicted(&mut self) {
        if self.store != StoreState::Expiring {
            self.send(SUBJECT, 0, 1);
        }
        self.wait(60, 150);
        (TOGETHER..self.scenario.keys.len()).for_each(|key| self.send(SUBJECT, key, 1));
        self.wait(60, 150);
        (TOGETHER..self.scenario.keys.len()).for_each(|key| self.send(SUBJECT, key, 1));
    }

    /// Asks for two keys at once, and is cut off while the store holds both.
    fn hold(&mut self, node: usize) {
        let both = requests_of(&self.scenario).both;
        self.arrivals.push(Arrival { at: at(self.now_ms), node, template: both });
        self.now_ms += self.latency_ms;
        self.wait(1, 2);
        if self.random.one_in(2) {
            self.cut(node);
        }
    }

    fn miss_a_reset(&mut self) {
        self.send(SUBJECT, 0, 1);
        let is_gone = self.store == StoreState::BelowFloor || self.event == EventKind::Restart;
        let resets = if is_gone { HELPER } else { OTHER_HELPER };
        self.send(resets, 0, 1);
        self.wait(100, 200);
        self.cut(SUBJECT);
        if self.store == StoreState::Reserved {
            self.hold(HELPER);
        }
        self.fault(Fault::Reset { node: resets, key: 0 });
        self.now_ms += 2 * self.latency_ms;
        self.wait(2, 10);
        if self.store != StoreState::OtherEpoch {
            self.fault(Fault::EpochIsLost { key: 0 });
        }
    }

    fn stay_behind(&mut self) {
        let rest_ms = self.period_ms - self.now_ms % self.period_ms;
        let begins_ms = rest_ms.saturating_sub(4 * self.latency_ms + 100);
        self.now_ms += begins_ms;
        self.send(SUBJECT, 0, 1);
        if self.store == StoreState::Reserved {
            self.hold(HELPER);
        }
        self.now_ms += self.period_ms - self.now_ms % self.period_ms;
    }

    fn admit_alone(&mut self) {
        if self.scenario.keys[0].accuracy != Accuracy::Async {
            self.send(SUBJECT, 0, 1);
            self.wait(60, 100);
        }
        if self.random.one_in(2) || self.scenario.keys[0].accuracy == Accuracy::Exact {
            self.cut(SUBJECT);
        }
        self.send(SUBJECT, 0, 3);
    }

    /// Spends the limit, or hears that it is a smaller one by now.
    fn spend_all(&mut self) {
        let size = self.scenario.keys[0].size();
        if self.is_in_world {
            // Other regions go by the limit that this node has.
            if self.store == StoreState::Reserved {
                self.hold(HELPER);
            }
            return self.send(SUBJECT, requests_of(&self.scenario).report_all, 1);
        }
        self.send(SUBJECT, 0, 1);
        if self.store != StoreState::Reserved && self.random.one_in(2) {
            return self.send(SUBJECT, 0, size + 2);
        }
        let policy = policy_of_size(&self.scenario.keys[0].policy, self.random.below(2));
        let mut heard_at = vec![Nanos::MAX; self.scenario.nodes];
        heard_at[SUBJECT] = at(self.now_ms);
        self.scenario.changes.push(LimitChange { keys: 0..1, policy, heard_at });
    }

    /// What comes while a lease is drawn is not the history's.
    fn draws(&self) -> bool {
        self.event == EventKind::LeaseGranted
    }

    fn lead_store(&mut self) {
        match self.store {
            _ if self.draws() => {}
            StoreState::OtherEpoch if self.node != NodeState::BehindEpoch => {
                self.fault(Fault::EpochIsLost { key: 0 });
                self.stay_away();
            }
            StoreState::Absent => self.lose_it(),
            StoreState::Reserved if self.is_in_world && self.node == NodeState::Spent => {}
            StoreState::Reserved if !matches!(self.node, NodeState::Holding | NodeState::BehindEpoch) => {
                self.hold(HELPER);
                self.wait(RESERVED_FOR_MS / 4, RESERVED_FOR_MS / 2);
            }
            StoreState::AtFloor | StoreState::BelowFloor if self.node == NodeState::Holding => {
                self.fault(if self.store == StoreState::BelowFloor {
                    Fault::StoreForgets
                } else {
                    Fault::KeyIsLost { key: 0 }
                });
                self.send(HELPER, 0, 1);
            }
            _ => {}
        }
    }

    fn lose_it(&mut self) {
        let key = self.scenario.keys[0].id();
        let shard = usize::try_from(shard_of(key, SHARDS).0).unwrap_or(0);
        let fault = *self.random.pick(&[
            Fault::StoreForgets,
            Fault::KeyIsLost { key: 0 },
            Fault::ShardForgets { shard },
        ]);
        self.fault(fault);
        self.stay_away();
    }

    /// Often the store goes down: it stays as it is.
    fn stay_away(&mut self) {
        if self.random.one_in(2) {
            self.fault(Fault::StoreGoesDown);
        }
    }
}
