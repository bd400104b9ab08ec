//! What a node knows of each shard's data: which incarnation it is, and whether it can be relied on.
//!
//! A shard that lost data would grant what was spent before. So what it grants counts as verified only while its record
//! names the incarnation that the node knows, and isn't recovering. A node that learns of a new incarnation publishes
//! everything that it knows again, a few keys at a time, and then confirms it: [`tidegate_origin::record`].

use super::pending::Pending;
use super::{CLOCKS_DIFFER, Effects, Region, Route, Ticket};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use tidegate_core::exchange::{CountSync, KeySync};
use tidegate_core::{KeyId, Moment, Nanos, SharedState, Table};
use tidegate_origin::record::{
    Eviction, Incarnation, PULSE_RETENTION, Pulse, PulseReply, RecordReading, ShardRecord,
};
use tidegate_origin::{DoneReset, Grant, OriginError, ShardId};

/// How many keys are published again at the same time, on each shard.
const REPUBLISHED_AT_ONCE: usize = 64;
/// A server that goes on removing keys is told what this node knows so often.
const EVICTED_EVERY: Nanos = Nanos::from_secs(60);
/// So many pulses in a row must fail before that is shown: one may be late on a busy machine.
const FAILED_PULSES_SHOWN: u32 = 2;
/// As many as one call of the script carries.
const KEYS_PER_CALL: usize = 32;
/// A shard that takes longer to answer than this is given the next keys with the next flush only.
const SLOW_FROM: Nanos = Nanos::from_millis(10);

/// A pulse that took longer than a call may doesn't show how the shard's clock differs.
const PULSE_TIMEOUT: Nanos = Nanos::from_millis(50);

/// Whether the data of a shard can be relied on.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum ShardHealth {
    /// No pulse was answered yet: what is granted is verified by the record that is read beside it.
    #[default]
    Unknown,
    Healthy,
    /// An answer showed that something is gone. The next pulse tells how much.
    Suspect,
    /// Nodes are publishing again what they know.
    Recovering,
    /// It doesn't answer pulses, or refuses them. Shown in the place of the others.
    Unavailable,
}

impl ShardHealth {
    pub fn name(self) -> &'static str {
        match self {
            ShardHealth::Unknown => "unknown",
            ShardHealth::Healthy => "healthy",
            ShardHealth::Suspect => "suspect",
            ShardHealth::Recovering => "recovering",
            ShardHealth::Unavailable => "unavailable",
        }
    }
}

/// What is shown of a shard.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ShardCondition {
    pub shard: ShardId,
    pub health: ShardHealth,
    /// Why the last pulses failed; `None` where the last was answered.
    pub problem: Option<OriginError>,
    /// Keys that this node has yet to publish again.
    pub keys_to_republish: usize,
}

/// What the operator should hear about a shard's data.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ShardEvent {
    /// Data is gone; this node publishes so many keys again.
    LostData {
        keys: usize,
    },
    Recovered,
    /// The server removed keys by itself; this node publishes so many again.
    Evicted {
        keys: usize,
    },
    /// The recovery took too long: what so many nodes know isn't all published again.
    GaveUpRecovery {
        nodes: u32,
    },
}

#[derive(Debug, Default)]
pub(super) struct ShardData {
    pub(super) health: ShardHealth,
    known: Option<Incarnation>,
    confirmed: Option<Incarnation>,
    /// Pulses that failed since the last that was answered, and why the last of them did.
    failed_pulses: u32,
    problem: Option<OriginError>,
    /// The number of the last pulse, and of the last that was acknowledged, and when that was.
    sent: u64,
    acked: Option<(u64, Nanos)>,
    /// Keys to be published again, those that this node counted in first.
    queue: VecDeque<KeyId>,
    in_flight: BTreeSet<KeyId>,
    is_slow: bool,
    /// When the last pulse left, and how the shard's clock differs from the region's time.
    sent_at: Nanos,
    clock: Option<ShardClock>,
    evicted: EvictedKeys,
    /// Resets that the shard is told again, before anything is published to it.
    resets: BTreeMap<KeyId, DoneReset>,
}

/// How a shard's clock differs from the region's time, as a pulse showed it.
#[derive(Clone, Copy, Debug)]
struct ShardClock {
    ahead_ns: i64,
    /// By how much that may be wrong.
    error: Nanos,
}

impl ShardClock {
    /// A shard showed `shown` between two instants of the node's clock.
    fn measured(shown: Nanos, sent_at: Nanos, now: Nanos) -> Self {
        let error = Nanos::new(now.minus(sent_at).get() / 2);
        ShardClock { ahead_ns: shown.ahead_of_ns(sent_at.plus(error)), error }
    }
}

/// What a server removed by itself, and when keys were last published again because of it.
#[derive(Debug, Default)]
struct EvictedKeys {
    known: Option<u64>,
    is_owed: bool,
    republished_at: Option<Nanos>,
}

impl EvictedKeys {
    /// Whether keys were removed since the last time that this returned true, which is a minute ago or more.
    fn is_due(&mut self, eviction: Option<Eviction>, now: Nanos) -> bool {
        if let Some(Eviction { keys, .. }) = eviction {
            // A server that was started again counts from 0, and its data is recovered in any case.
            let known = self.known.replace(keys);
            self.is_owed |= known.is_some_and(|known| keys > known);
        }
        let is_calm = self.republished_at.is_none_or(|at| now.minus(at) >= EVICTED_EVERY);
        let is_due = self.is_owed && is_calm;
        if is_due {
            (self.is_owed, self.republished_at) = (false, Some(now));
        }
        is_due
    }
}

impl ShardData {
    /// Whether the node's clock showed the region's time when an exchange was answered. It didn't if the machine stood
    /// still since the last pulse, or the shard's own clock was set: then the exchange was about other cells than those of
    /// the other nodes.
    pub(super) fn agrees_on_time(&self, shown: Nanos, sent_at: Nanos, now: Nanos) -> bool {
        let known = self.clock.unwrap_or(ShardClock { ahead_ns: 0, error: Nanos::ZERO });
        let seen = ShardClock::measured(shown, sent_at, now);
        let tolerated = CLOCKS_DIFFER.plus(known.error).plus(seen.error);
        now >= sent_at && seen.ahead_ns.abs_diff(known.ahead_ns) <= tolerated.get()
    }

    /// Whether requests may ask this shard, and believe what it grants.
    pub(super) fn is_reliable(&self) -> bool {
        matches!(self.health, ShardHealth::Unknown | ShardHealth::Healthy)
    }

    /// An answer showed that something is gone.
    pub(super) fn suspect_loss(&mut self) {
        if self.is_reliable() {
            self.health = ShardHealth::Suspect;
        }
    }

    /// A pulse failed. A server that refuses them can't count what a node says: it isn't asked before it answers one.
    fn pulse_failed(&mut self, error: &OriginError) {
        self.failed_pulses = self.failed_pulses.saturating_add(1);
        self.problem = Some(error.clone());
        if self.is_unavailable() && matches!(error, OriginError::Refused { .. }) {
            self.suspect_loss();
        }
    }

    fn is_unavailable(&self) -> bool {
        self.failed_pulses >= FAILED_PULSES_SHOWN
    }

    fn suspect_if_known(&mut self) {
        if self.health == ShardHealth::Healthy {
            self.health = ShardHealth::Suspect;
        }
    }

    /// Whether a record shows that nothing is gone.
    fn agrees_with(&self, record: ShardRecord) -> bool {
        !record.is_recovering && self.known.is_none_or(|known| known == record.incarnation)
    }

    pub(super) fn has_republished(&self) -> bool {
        self.queue.is_empty() && self.in_flight.is_empty() && self.resets.is_empty()
    }

    /// A key that was published again came back, or its call failed: then it is tried again.
    pub(super) fn returned(&mut self, key: KeyId, has_failed: bool, took: Nanos) {
        if self.in_flight.remove(&key) && has_failed {
            self.queue.push_back(key);
        }
        self.is_slow = took > SLOW_FROM;
        if self.has_republished() {
            self.confirmed = self.known;
        }
    }
}

impl Pending {
    pub(super) fn shard(&mut self, shard: ShardId) -> &mut ShardData {
        self.shards.entry(shard).or_default()
    }

    /// Whether what an exchange granted may be relied on, by the record that was read with it.
    pub(super) fn is_verified(&mut self, shard: ShardId, record: RecordReading) -> bool {
        let data = self.shard(shard);
        match record {
            _ if !data.is_reliable() => false,
            RecordReading::NotRead => true,
            RecordReading::Found(record) if data.agrees_with(record) => true,
            RecordReading::Found(_) | RecordReading::Missing => {
                data.health = ShardHealth::Suspect;
                false
            }
        }
    }
}

impl Region {
    /// The next pulse to a shard.
    pub fn pulse(&self, shard: ShardId, alive_for: Nanos, now: Nanos) -> Pulse {
        let node = self.options.node;
        let mut pending = self.pending.lock();
        let next = Incarnation(pending.random());
        let adopts = pending.adopts;
        let data = pending.shard(shard);
        data.sent += 1;
        data.sent_at = now;
        let remembered = |(number, at): &(u64, Nanos)| (now.minus(*at) < PULSE_RETENTION).then_some(*number);
        let acked = data.acked.as_ref().and_then(remembered).unwrap_or(0);
        let (number, known, confirmed) = (data.sent, data.known, data.confirmed);
        let adopts = adopts && known.is_none();
        Pulse { node, next, number, acked, known, confirmed, alive_for, leaves: false, adopts }
    }

    /// Another server may answer for a shard from now on: what it grants is unverified until the next pulse, which is due
    /// at once if this returns true.
    pub fn reconnected(&self, shard: ShardId) -> bool {
        let mut pending = self.pending.lock();
        let data = pending.shard(shard);
        let is_due = data.health == ShardHealth::Healthy;
        data.suspect_if_known();
        is_due
    }

    /// The store holds counts of a release that kept no records: a shard without one has lost nothing.
    pub fn adopt_records(&self) {
        self.pending.lock().adopts = true;
    }

    /// A pulse was answered, or wasn't; the node's clock shows the region's time, or is about to step. Returns what is worth
    /// a word to the operator.
    pub fn pulsed(
        &self,
        table: &Table<SharedState>,
        (shard, sent): (ShardId, Pulse),
        result: &Result<PulseReply, OriginError>,
        (moment, clock_is_right): (Moment, bool),
        route: Route<'_>,
    ) -> (Effects, Option<ShardEvent>) {
        let mut effects = Effects::default();
        let PulseReply { record, unconfirmed, eviction, now: shown } = match result {
            Ok(pulsed) => pulsed,
            Err(error) => {
                self.pulse_failed(shard, error);
                return (effects, None);
            }
        };
        let (is_new, has_evicted) = {
            let mut pending = self.pending.lock();
            let data = pending.shard(shard);
            if data.acked.is_some_and(|(number, _)| number >= sent.number) {
                // A later one was answered already.
                return (effects, None);
            }
            data.acked = Some((sent.number, moment.now));
            (data.failed_pulses, data.problem) = (0, None);
            let took = moment.now.minus(data.sent_at);
            if clock_is_right && sent.number == data.sent && took <= PULSE_TIMEOUT {
                data.clock = Some(ShardClock::measured(*shown, data.sent_at, moment.now));
            }
            let before = data.known.replace(record.incarnation);
            let is_calm = !record.is_recovering && data.queue.is_empty();
            (before != Some(record.incarnation), is_calm && data.evicted.is_due(*eviction, moment.now))
        };
        // Not under the lock: a table of a million keys takes some milliseconds to look through.
        let keys = if is_new || has_evicted { self.keys_of(table, shard, route) } else { Vec::new() };
        let mut pending = self.pending.lock();
        let of_shard = |(key, _): &(&KeyId, &DoneReset)| route(**key) == shard;
        // A process that stood still may remember resets that are over.
        let counts = |(_, done): &(&KeyId, &DoneReset)| done.expires > moment.now;
        let done = pending.done_resets.iter().filter(|_| is_new).filter(of_shard).filter(counts);
        let resets: BTreeMap<KeyId, DoneReset> = done.map(|(key, done)| (*key, *done)).collect();
        let data = pending.shard(shard);
        let was_recovering = data.health == ShardHealth::Recovering;
        let had_known = data.health != ShardHealth::Unknown;
        data.health = if record.is_recovering { ShardHealth::Recovering } else { ShardHealth::Healthy };
        let count = keys.len();
        if is_new {
            data.in_flight.clear();
            data.queue = keys.into();
            data.resets = if had_known { resets } else { BTreeMap::new() };
            effects.restore.extend(data.resets.values().map(|done| (shard, *done)));
            if data.has_republished() {
                data.confirmed = data.known;
            }
        } else {
            data.queue.extend(keys);
            data.resets.retain(|_, done| done.expires > moment.now);
            effects.restore.extend(data.resets.values().map(|done| (shard, *done)));
        }
        self.republish_on(&mut pending, table, shard, moment, &mut effects);
        drop(pending);
        self.counted(&effects);
        let event = match record.is_recovering {
            _ if *unconfirmed > 0 => Some(ShardEvent::GaveUpRecovery { nodes: *unconfirmed }),
            true if !was_recovering || is_new => Some(ShardEvent::LostData { keys: count }),
            false if has_evicted && !is_new => Some(ShardEvent::Evicted { keys: count }),
            false if was_recovering || (is_new && had_known) => Some(ShardEvent::Recovered),
            _ => None,
        };
        (effects, event)
    }

    /// A shard was told of a reset again, or couldn't be: then it is tried with the next pulse.
    pub fn restored(&self, shard: ShardId, done: &DoneReset, is_done: bool) {
        let mut pending = self.pending.lock();
        let data = pending.shard(shard);
        if is_done {
            data.resets.remove(&done.reset.key);
        }
        if data.has_republished() {
            data.confirmed = data.known;
        }
    }

    /// A pulse to a shard failed, or couldn't be sent because nothing is known of the store.
    pub fn pulse_failed(&self, shard: ShardId, error: &OriginError) {
        self.pending.lock().shard(shard).pulse_failed(error);
    }

    /// How it stands with every shard that was heard of.
    pub fn shard_conditions(&self) -> Vec<ShardCondition> {
        let pending = self.pending.lock();
        let of = |(shard, data): (&ShardId, &ShardData)| {
            let is_unavailable = data.is_unavailable();
            ShardCondition {
                shard: *shard,
                health: if is_unavailable { ShardHealth::Unavailable } else { data.health },
                problem: data.problem.clone().filter(|_| is_unavailable),
                keys_to_republish: data.queue.len() + data.in_flight.len(),
            }
        };
        pending.shards.iter().map(of).collect()
    }

    /// Whether asks may be sent to a shard.
    pub fn is_reliable(&self, shard: ShardId) -> bool {
        self.pending.lock().shard(shard).is_reliable()
    }

    /// The keys of a shard of which this node knows something: those that it counted in first, each part in random order.
    fn keys_of(&self, table: &Table<SharedState>, shard: ShardId, route: Route<'_>) -> Vec<KeyId> {
        let (mut own, mut others) = (Vec::new(), Vec::new());
        table.for_each(|key, state| match state.publishing() {
            Some(counts) if route(key) == shard => match published_counts(&counts) {
                (0, 0) => {}
                (0, _) => others.push(key),
                _ => own.push(key),
            },
            _ => {}
        });
        let mut pending = self.pending.lock();
        for part in [&mut own, &mut others] {
            for index in (1..part.len()).rev() {
                let other = pending.random() % (u64::try_from(index).unwrap_or(0) + 1);
                part.swap(index, usize::try_from(other).unwrap_or(0));
            }
        }
        own.append(&mut others);
        own
    }

    /// Publishes the next keys of a shard again, as many as may be on their way.
    pub(super) fn republish_on(
        &self,
        pending: &mut Pending,
        table: &Table<SharedState>,
        shard: ShardId,
        moment: Moment,
        effects: &mut Effects,
    ) {
        let mut syncs = Vec::<(KeySync, Ticket)>::new();
        let data = pending.shard(shard);
        let mut tries = data.queue.len().min(REPUBLISHED_AT_ONCE.saturating_sub(data.in_flight.len()));
        if tries > 0 && !pending.breaker(shard).admits() {
            // One key is the probe, where nothing else would find out that the shard is back: all nodes wait for this one.
            let is_due = !pending.has_probe(shard) && pending.breaker(shard).probe_due(moment.now);
            tries = usize::from(is_due);
        }
        while tries > 0 {
            tries -= 1;
            let Some(key) = pending.shard(shard).queue.pop_front() else { break };
            if pending.keys.get(&key).is_some_and(|entry| entry.in_flight) {
                // Its call may have gone out before the loss.
                pending.shard(shard).queue.push_back(key);
            } else if let Some((sync, ticket)) = pending.publishing(table, key, moment) {
                pending.shard(shard).in_flight.insert(key);
                syncs.push((sync, Ticket { is_republished: true, ..ticket }));
            }
        }
        while !syncs.is_empty() {
            let rest = syncs.split_off(syncs.len().min(KEYS_PER_CALL));
            effects.send.push(self.outgoing(shard, Grant::Each, syncs, moment.now));
            syncs = rest;
        }
        let data = pending.shard(shard);
        if data.has_republished() {
            data.confirmed = data.known;
        }
    }

    /// With each flush: the next keys of shards that are slow to answer, or whose keys failed.
    pub(super) fn republish_due(
        &self,
        pending: &mut Pending,
        table: &Table<SharedState>,
        moment: Moment,
        effects: &mut Effects,
    ) {
        let due: Vec<ShardId> = pending
            .shards
            .iter()
            .filter(|(_, data)| !data.queue.is_empty())
            .map(|(shard, _)| *shard)
            .collect();
        for shard in due {
            self.republish_on(pending, table, shard, moment, effects);
        }
    }

    /// The next keys of a shard that answers fast leave at once.
    pub(super) fn republish_next(
        &self,
        pending: &mut Pending,
        table: &Table<SharedState>,
        shard: ShardId,
        moment: Moment,
        effects: &mut Effects,
    ) {
        let data = pending.shard(shard);
        if !data.queue.is_empty()
            && !data.is_slow
            && data.in_flight.len() <= REPUBLISHED_AT_ONCE - KEYS_PER_CALL
        {
            self.republish_on(pending, table, shard, moment, effects);
        }
    }
}

/// What the node itself counted, and what it knows of the others.
fn published_counts(counts: &CountSync) -> (u64, u64) {
    match counts {
        CountSync::Window(window) => {
            let previous = window.previous.map_or((0, 0), |cell| (cell.component, cell.claim));
            (window.current.component.max(previous.0), window.current.claim.max(previous.1))
        }
        CountSync::Gcra { sync, .. } => (sync.cumulative, sync.busy.tat.get()),
    }
}
