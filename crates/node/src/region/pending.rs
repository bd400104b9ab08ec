//! What is in flight, what waits, and what failed lately. Bounded by the requests that wait and the table.

use super::figures::Figures;
use super::lease::Leases;
use super::owners::CrowdedCells;
use super::shards::ShardData;
use super::{AskId, AskItem, AskOutcome, AskOutcomes, FAILED_SYNC_RETRY_AFTER, Wake};
use crate::quota::KeyMap;
use smallvec::SmallVec;
use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use tidegate_core::ask::AskReason;
use tidegate_core::exchange::{ASKS_MAX, CountSync, GrantRequest, HoldId, KeySync};
use tidegate_core::gcra_sync::GcraSync;
use tidegate_core::window::add_count;
use tidegate_core::{Accuracy, Class, Cost, KeyId, Nanos, Sequence, Spec};
use tidegate_origin::{Breaker, DoneReset, ResetPosition, ShardId};

/// The longest that [`Pending::jittered`] makes of [`FAILED_SYNC_RETRY_AFTER`]: an instant further away was made before the clock
/// was set back.
const FAILED_FOR_MAX: Nanos = Nanos::new(FAILED_SYNC_RETRY_AFTER.get() / 5 * 6);
/// At most so many keys are remembered as failed; beyond that a failure is only the breaker's business.
const FAILED_MAX: usize = 100_000;

/// Stands for a bucket, which has no cells.
const BUCKET: Sequence = Sequence(0);

#[derive(Debug)]
pub(super) struct Pending {
    pub(super) keys: KeyMap<PendingKey>,
    asks: BTreeMap<AskId, OpenAsk>,
    next_ask: u64,
    pub(super) breakers: BTreeMap<ShardId, Breaker>,
    /// Of the same shards.
    pub(super) figures: BTreeMap<ShardId, Figures>,
    /// Keys that are to be published when their shard's breaker closes.
    pub(super) held: BTreeMap<ShardId, Vec<KeyId>>,
    /// What to probe a shard with whose keys have nothing to publish.
    pub(super) probes: BTreeMap<ShardId, AskItem>,
    /// Keys whose sync failed, by when it is tried again.
    pub(super) retries: BTreeMap<(Nanos, KeyId), ()>,
    /// What a changed origin hasn't heard of yet.
    pub(super) republish: VecDeque<KeyId>,
    /// Keys that have reservations to name.
    pub(super) settling: Vec<KeyId>,
    pub(super) leases: Leases,
    pub(super) crowded: CrowdedCells,
    /// What is known of the data of each shard.
    pub(super) shards: BTreeMap<ShardId, ShardData>,
    /// A shard without a record holds the counts of a release that kept none.
    pub(super) adopts: bool,
    /// How far the log of resets has been read.
    pub(super) reset_position: Option<ResetPosition>,
    pub(super) resets_read_at: Option<Nanos>,
    /// Resets that this node carried out and that aren't over.
    pub(super) done_resets: BTreeMap<KeyId, DoneReset>,
    /// What requests hold that have been woken and not yet decided.
    holds: BTreeMap<AskId, KeyHolds>,
    random: u64,
}

#[derive(Debug, Default)]
pub(super) struct PendingKey {
    pub(super) in_flight: bool,
    pub(super) waiting: VecDeque<WaitingAsk>,
    /// Admissions go unverified until then.
    pub(super) failed_until: Option<Nanos>,
    /// Reservations to be named in the next sync.
    pub(super) settled: SmallVec<[HoldId; 2]>,
    /// Requests of several limits that wait for the call in flight.
    pub(super) deferred: Vec<DeferredAsk>,
    /// It is published, also where everything about it seems to be known: its last call failed, the origin is
    /// another one, or the world asks.
    pub(super) is_unpublished: bool,
    /// The highest component of a cell, or of a bucket, that was sent since the last reply: the origin may have counted it.
    sent: SmallVec<[(Sequence, u64); 2]>,
}

/// The requests that a key's next call is for.
pub(super) struct TakenAsks {
    pub(super) spec: Spec,
    pub(super) regions: u32,
    pub(super) asks: Asks,
    pub(super) classes: SmallVec<[Class; 4]>,
    pub(super) peeks: Asks,
    pub(super) request: GrantRequest,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct WaitingAsk {
    pub(super) id: AskId,
    pub(super) index: usize,
    pub(super) item: AskItem,
}

/// A request of several limits that is to be asked about later.
#[derive(Debug)]
pub(super) struct DeferredAsk {
    pub(super) id: AskId,
    pub(super) items: SmallVec<[AskItem; 4]>,
    pub(super) askable: SmallVec<[usize; 4]>,
}

/// For each ask of a call, the request and which of its limits.
pub(super) type Asks = SmallVec<[(AskId, usize); 4]>;

struct OpenAsk {
    outcomes: SmallVec<[Option<AskOutcome>; 4]>,
    open: usize,
    /// Made when the request reserved something.
    holds: Option<KeyHolds>,
    wake: Wake,
}

/// The keys at which a request holds a reservation.
#[derive(Debug)]
struct KeyHolds {
    id: HoldId,
    keys: SmallVec<[KeyId; 4]>,
}

impl fmt::Debug for OpenAsk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OpenAsk").field("outcomes", &self.outcomes).finish_non_exhaustive()
    }
}

fn is_over(until: Nanos, now: Nanos) -> bool {
    until <= now || until.minus(now) > FAILED_FOR_MAX
}

impl PendingKey {
    /// The key's call leaves; says which reservations are named in it.
    pub(super) fn leaves(&mut self) -> SmallVec<[HoldId; 2]> {
        (self.in_flight, self.is_unpublished) = (true, false);
        std::mem::take(&mut self.settled)
    }

    fn is_idle(&self, now: Nanos) -> bool {
        !self.in_flight
            && self.waiting.is_empty()
            && self.settled.is_empty()
            && self.deferred.is_empty()
            && !self.is_unpublished
            && self.sent.is_empty()
            && self.failed_until.is_none_or(|until| is_over(until, now))
    }
}

impl Pending {
    pub(super) fn new(seed: u64) -> Self {
        Pending {
            keys: KeyMap::default(),
            asks: BTreeMap::new(),
            next_ask: 0,
            breakers: BTreeMap::new(),
            figures: BTreeMap::new(),
            held: BTreeMap::new(),
            probes: BTreeMap::new(),
            retries: BTreeMap::new(),
            republish: VecDeque::new(),
            settling: Vec::new(),
            leases: Leases::default(),
            crowded: CrowdedCells::default(),
            shards: BTreeMap::new(),
            adopts: false,
            reset_position: None,
            resets_read_at: None,
            done_resets: BTreeMap::new(),
            holds: BTreeMap::new(),
            random: seed | 1,
        }
    }

    pub(super) fn register(&mut self, limits: usize, wake: Wake) -> AskId {
        self.next_ask += 1;
        let id = AskId(self.next_ask);
        let outcomes = SmallVec::from_elem(None, limits);
        self.asks.insert(id, OpenAsk { outcomes, open: limits, holds: None, wake });
        id
    }

    pub(super) fn breaker(&mut self, shard: ShardId) -> &mut Breaker {
        let seed = self.random ^ u64::from(shard.0);
        self.breakers.entry(shard).or_insert_with(|| Breaker::new(seed))
    }

    /// Whether flushes have something to probe a shard with.
    pub(super) fn has_probe(&self, shard: ShardId) -> bool {
        self.probes.contains_key(&shard) || self.held.contains_key(&shard)
    }

    pub(super) fn may_ask(&mut self, key: KeyId, shard: ShardId, now: Nanos) -> bool {
        let failed = self.keys.get(&key).and_then(|key| key.failed_until);
        let has_probe = self.has_probe(shard);
        let is_reliable = self.shard(shard).is_reliable();
        let breaker = self.breaker(shard);
        // Who comes where nothing else would find out that the shard is back, does.
        failed.is_none_or(|until| is_over(until, now))
            && is_reliable
            && (breaker.admits() || (!has_probe && breaker.probe_due(now)))
    }

    /// A shard can't be asked: keeps something to probe it with.
    pub(super) fn unaskable(&mut self, shard: ShardId, item: &AskItem) {
        self.probes.entry(shard).or_insert(*item);
    }

    /// One limit of a request has its outcome; the request is finished when it was the last.
    pub(super) fn resolve(
        &mut self,
        id: AskId,
        index: usize,
        outcome: AskOutcome,
        finished: &mut Vec<(Wake, AskOutcomes)>,
    ) {
        let Some(asking) = self.asks.get_mut(&id) else { return };
        let Some(slot @ None) = asking.outcomes.get_mut(index) else { return };
        *slot = Some(outcome);
        asking.open -= 1;
        if asking.open == 0 {
            finished.extend(self.conclude(id));
        }
    }

    pub(super) fn give_up(&mut self, id: AskId) -> Option<AskOutcomes> {
        self.conclude(id).map(|(_, outcomes)| outcomes)
    }

    fn conclude(&mut self, id: AskId) -> Option<(Wake, AskOutcomes)> {
        let asking = self.asks.remove(&id)?;
        if let Some(reserved) = asking.holds {
            self.holds.insert(id, reserved);
        }
        let outcomes = asking.outcomes.iter().map(|outcome| outcome.unwrap_or(AskOutcome::Unverified));
        Some((asking.wake, outcomes.collect()))
    }

    /// The request was decided: what it reserved is named to its keys with their next sync. By now the cost
    /// is in the component, or it never will be.
    pub(super) fn complete(&mut self, id: AskId) {
        let Some(reserved) = self.holds.remove(&id) else { return };
        for key in reserved.keys {
            self.end_hold_at(key, reserved.id);
        }
    }

    pub(super) fn end_hold_at(&mut self, key: KeyId, id: HoldId) {
        self.keys.entry(key).or_default().settled.push(id);
        self.settling.push(key);
    }

    /// The asks of a key's next call: those of the first one's spec, in order, whose requests still wait.
    pub(super) fn take_asks(&mut self, key: KeyId) -> Option<TakenAsks> {
        let Pending { keys, asks, .. } = self;
        let waiting = &mut keys.get_mut(&key)?.waiting;
        let (mut tickets, mut wants, mut spec, mut regions) =
            (SmallVec::new(), GrantRequest::default(), None, 1);
        let (mut peeks, mut classes) = (SmallVec::new(), SmallVec::new());
        while let Some(WaitingAsk { id, index, item }) = waiting.front() {
            if asks.contains_key(id) {
                if *spec.get_or_insert(item.spec) != item.spec || wants.asks.len() == ASKS_MAX {
                    break;
                }
                regions = regions.max(item.regions);
                if item.cost == Cost::PEEK {
                    peeks.push((*id, *index));
                    waiting.pop_front();
                    continue;
                }
                wants.asks.push(item.cost.get());
                // A busy key near its limit; `exact` never draws ahead of the refill.
                wants.draw |= item.reason == AskReason::Credit && item.accuracy == Accuracy::Bounded;
                tickets.push((*id, *index));
                classes.push(item.class);
            }
            waiting.pop_front();
        }
        Some(TakenAsks { spec: spec?, regions, asks: tickets, classes, peeks, request: wants })
    }

    /// A key's counts leave. What was sent or asked for before, and not answered, may have been counted: it isn't new to
    /// the origin.
    pub(super) fn mark_sent(&mut self, sync: &mut KeySync) {
        let asked = sync.request.most_granted();
        let window = match &mut sync.counts {
            CountSync::Window(window) => window,
            CountSync::Gcra { sync: bucket, burst } => {
                let asked = if sync.request.draw { add_count(asked, *burst) } else { asked };
                return self.mark_bucket_sent(sync.key, bucket, asked);
            }
        };
        let asked = if sync.request.draw { add_count(asked, window.limit) } else { asked };
        let sent = &mut self.keys.entry(sync.key).or_default().sent;
        let before = Sequence(window.sequence.0.wrapping_sub(1));
        let current = (window.sequence, Some(&mut window.current), asked);
        let cells = [current, (before, window.previous.as_mut(), 0)];
        sent.retain(|(sequence, _)| *sequence >= before);
        for (sequence, cell, asked) in cells {
            let Some(cell) = cell.filter(|cell| cell.component > cell.acked || asked > 0) else { continue };
            let counted = add_count(cell.component, asked);
            match sent.iter_mut().find(|(other, _)| *other == sequence) {
                Some((_, highest)) => {
                    cell.acked = cell.acked.max((*highest).min(cell.component));
                    *highest = (*highest).max(counted);
                }
                None => sent.push((sequence, counted)),
            }
        }
    }

    fn mark_bucket_sent(&mut self, key: KeyId, bucket: &mut GcraSync, asked: u64) {
        if bucket.cumulative <= bucket.acked && asked == 0 {
            return;
        }
        let sent = &mut self.keys.entry(key).or_default().sent;
        let counted = add_count(bucket.cumulative, asked);
        match sent.first_mut() {
            Some((_, highest)) => {
                bucket.sent = bucket.acked.max((*highest).min(bucket.cumulative));
                *highest = (*highest).max(counted);
            }
            None => sent.push((BUCKET, counted)),
        }
    }

    /// A key's counts were answered: the state knows what the origin has.
    pub(super) fn is_answered(&mut self, sync: &KeySync) {
        let asked = sync.request.most_granted();
        let Some(entry) = self.keys.get_mut(&sync.key) else { return };
        let window = match &sync.counts {
            CountSync::Window(window) => window,
            CountSync::Gcra { sync: bucket, burst } => {
                let asked = if sync.request.draw { add_count(asked, *burst) } else { asked };
                return entry.sent.retain(|(_, highest)| *highest > add_count(bucket.cumulative, asked));
            }
        };
        let asked = if sync.request.draw { add_count(asked, window.limit) } else { asked };
        let before = Sequence(window.sequence.0.wrapping_sub(1));
        entry.sent.retain(|(sequence, highest)| {
            let answered = match *sequence {
                at if at == window.sequence => add_count(window.current.component, asked),
                at if at == before => window.previous.map_or(0, |cell| cell.component),
                _ => 0,
            };
            *highest > answered
        });
    }

    pub(super) fn add_hold(&mut self, id: AskId, reservation: HoldId, key: KeyId) {
        let Some(asking) = self.asks.get_mut(&id) else {
            // It gave up before: the reservation is released.
            return self.end_hold_at(key, reservation);
        };
        let reserved =
            asking.holds.get_or_insert_with(|| KeyHolds { id: reservation, keys: SmallVec::new() });
        if !reserved.keys.contains(&key) {
            reserved.keys.push(key);
        }
    }

    /// Whether a request still waits.
    pub(super) fn is_waiting(&self, id: AskId) -> bool {
        self.asks.contains_key(&id)
    }

    /// Notes that a key's sync failed: for a while it isn't asked about, then it is published again.
    pub(super) fn failed(&mut self, key: KeyId, now: Nanos) {
        let until = now.plus(self.jittered(FAILED_SYNC_RETRY_AFTER));
        if self.retries.len() < FAILED_MAX {
            self.keys.entry(key).or_default().failed_until = Some(until);
        }
        self.retries.insert((until, key), ());
    }

    /// The next key whose sync is tried again now, if one is.
    pub(super) fn take_retry(&mut self, now: Nanos) -> Option<KeyId> {
        // Those of a clock that was set back come last.
        let ends = [self.retries.first_key_value(), self.retries.last_key_value()];
        let &(until, key) =
            ends.into_iter().flatten().map(|(at, ())| at).find(|(until, _)| is_over(*until, now))?;
        self.retries.remove(&(until, key));
        Some(key)
    }

    /// ± a fifth.
    fn jittered(&mut self, length: Nanos) -> Nanos {
        let fifth = length.get() / 5;
        Nanos::new(length.get() - fifth + self.random() % (2 * fifth + 1))
    }

    /// Xorshift: for jitter and names, not for secrets.
    pub(super) fn random(&mut self) -> u64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        self.random
    }

    /// Forgets a key about which there is nothing to remember.
    pub(super) fn remove_if_idle(&mut self, key: KeyId, now: Nanos) {
        if self.keys.get(&key).is_some_and(|entry| entry.is_idle(now)) {
            self.keys.remove(&key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn where_there_is_nothing_to_probe_with_a_request_is_the_probe() {
        let (shard, key, now) = (ShardId(0), KeyId::from_hash(1), Nanos::from_secs(1_000));
        let mut pending = Pending::new(7);
        (0..5).for_each(|_| pending.breaker(shard).on_failure(now));
        assert!(!pending.may_ask(key, shard, now), "it failed just now");
        let later = now.plus(Nanos::from_secs(10));
        assert!(pending.may_ask(key, shard, later), "nobody else asks whether it is back");
        assert!(!pending.may_ask(key, shard, later), "one is enough");
        pending.held.insert(shard, vec![key]);
        assert!(!pending.may_ask(key, shard, later.plus(Nanos::from_secs(10))), "the next flush asks");
    }

    #[test]
    fn a_clock_that_is_set_back_holds_up_no_retry() {
        let (late, early) = (Nanos::from_secs(1_000), Nanos::from_secs(500));
        let [first, second] = [1, 2].map(KeyId::from_hash);
        let mut pending = Pending::new(7);
        pending.failed(first, late);
        assert!(!pending.may_ask(first, ShardId(0), late) && pending.take_retry(late).is_none());
        assert!(pending.may_ask(first, ShardId(0), early), "no failure keeps a key waiting so long");
        pending.failed(second, early);
        assert!(!pending.may_ask(second, ShardId(0), early));
        assert_eq!([pending.take_retry(early), pending.take_retry(early)], [Some(first), None]);
        assert_eq!(pending.take_retry(early.plus(FAILED_FOR_MAX)), Some(second));
    }
}
