//! The counter table: every key's state, in shards, each behind its own lock.
//!
//! A decision locks the shards of its keys in ascending order, so batches that share keys never deadlock,
//! and nobody sees half a batch. It never allocates but to grow, and grows one shard at a time.

mod entries;
mod occupancy;
mod outbox;
mod room;
mod shard;
mod shares;
mod steps;
#[cfg(test)]
mod tests;

use crate::identity::{KeyId, TenantTag};
use crate::limit::Spec;
use crate::state::{PublishUrgency, State};
use crate::sync::Mutex;
use crate::time::{ClockStep, Moment, Nanos, StepId};
use occupancy::Occupancy;
use outbox::Outbox;
use shard::Hint;
pub(crate) use shard::Shard;
use shares::Shares;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};
pub use steps::STEPS_HANDED_ON_MAX;
use steps::{Steps, is_later};

/// A shard behind its lock, with the hint for prefetching: one cache line.
#[repr(align(64))]
#[derive(Debug)]
struct LockedShard<S> {
    shard: Mutex<Shard<S>>,
    /// A copy of the shard's [`Hint`], read without the lock. It may be out of date: it only ever leads to
    /// a prefetch, which may be useless but never wrong.
    address: AtomicUsize,
    homes: AtomicUsize,
}

#[derive(Debug)]
pub struct Table<S> {
    shards: Box<[LockedShard<S>]>,
    shard_bits: u32,
    steps: Steps,
    /// How many nodes share the region, this one included.
    live_nodes: AtomicU32,
    outbox: Outbox,
    occupancy: Occupancy,
    shares: Shares,
    /// Live entries that were dropped to make room.
    evicted: AtomicU64,
    /// Something was dropped, or found no room, or was counted in a time that came again.
    has_gaps: AtomicBool,
}

/// Enough that threads seldom meet.
const SHARD_BITS_MAX: u32 = 10;
/// A small table has fewer shards, so that each is large enough for all to fill up together.
const KEYS_PER_SHARD_MIN: usize = 1024;
/// An entry is swept only this long after it expired: callers' timestamps may lag behind the sweeper's.
const SWEEP_MARGIN: Nanos = Nanos::from_secs(1);
/// How many entries a walk visits before it lets decisions in: some microseconds.
const VISITED_AT_ONCE: usize = 256;

impl<S: State> Table<S> {
    /// A table for at most `keys_max` keys. All shards share that: a shard that more keys fall into than into others
    /// grows for as long as the table has room.
    pub fn new(keys_max: usize) -> Self {
        let shards = (keys_max / KEYS_PER_SHARD_MIN).max(2);
        Self::with_shard_bits(keys_max, shards.ilog2().min(SHARD_BITS_MAX))
    }

    /// Fewer shards make collisions in a test likely.
    pub fn with_shard_bits(keys_max: usize, shard_bits: u32) -> Self {
        assert!((1..=16).contains(&shard_bits), "2 to 65536 shards");
        let shards = 1_usize << shard_bits;
        let occupancy = Occupancy::new(keys_max, shards);
        let guarded = |_| LockedShard {
            shard: Mutex::new(Shard::new(u8::try_from(shard_bits).unwrap_or(u8::MAX))),
            address: AtomicUsize::new(0),
            homes: AtomicUsize::new(0),
        };
        let outbox = Outbox::new(if S::SHARED { shards } else { 0 });
        let shards = (0..shards).map(guarded).collect();
        Table {
            shards,
            shard_bits,
            steps: Steps::default(),
            live_nodes: AtomicU32::new(1),
            outbox,
            shares: Shares::new(if S::SHARED { keys_max } else { keys_max / 2 }),
            occupancy,
            evicted: AtomicU64::new(0),
            has_gaps: AtomicBool::new(false),
        }
    }

    /// Gives each of these tenants an equal part of the table that the others can't take; those that aren't named
    /// have what nobody needs. Before the first entry, and then whenever the tenants change.
    pub fn share_among(&self, tenants: &[TenantTag]) {
        self.shares.divide(tenants);
    }

    #[inline]
    pub(crate) fn shard_index(&self, key: KeyId) -> usize {
        usize::try_from(key.high() >> (64 - self.shard_bits)).unwrap_or(0)
    }

    #[inline]
    pub(crate) fn shard(&self, index: usize) -> &Mutex<Shard<S>> {
        &self.shards[index].shard
    }

    /// Tells the prefetcher where the shard's slots are now.
    pub(crate) fn publish_hint(&self, index: usize, shard: &Shard<S>) {
        let Hint { address, homes } = shard.hint();
        self.shards[index].address.store(address, Ordering::Relaxed);
        self.shards[index].homes.store(homes, Ordering::Relaxed);
    }

    /// Starts fetching what [`Table::prefetch`] reads: for whoever has many keys, so that it needn't wait there.
    #[inline]
    pub fn prefetch_shard(&self, key: KeyId) {
        prefetch_line(std::ptr::from_ref(&self.shards[self.shard_index(key)]).addr());
    }

    /// Starts fetching what a decision about `key` will read, so that several keys' cache misses overlap.
    #[inline]
    pub fn prefetch(&self, key: KeyId) {
        let guarded = &self.shards[self.shard_index(key)];
        let hint = Hint {
            address: guarded.address.load(Ordering::Relaxed),
            homes: guarded.homes.load(Ordering::Relaxed),
        };
        prefetch_line(hint.address_of::<S>(key, self.shard_bits));
        prefetch_line(hint.address_of::<S>(key, self.shard_bits).wrapping_add(64));
    }

    /// Brings a state to `moment`; says the present in the state's own time.
    #[inline]
    pub(crate) fn align(&self, state: &mut S, spec: &Spec, moment: Moment) -> Nanos {
        if state.step() == moment.step { moment.now } else { self.align_over_step(state, spec, moment) }
    }

    #[cold]
    fn align_over_step(&self, state: &mut S, spec: &Spec, moment: Moment) -> Nanos {
        if *state == S::default() {
            *state = state.with_step(moment.step);
            return moment.now;
        }
        if is_later(state.step(), moment.step) {
            // The caller read the clock before the step, somebody else wrote the state after it.
            let ahead_ns = self.steps.between(moment.step, state.step());
            return moment.now.shifted(ahead_ns);
        }
        while state.step() != moment.step {
            let next = StepId(state.step().0.wrapping_add(1));
            *state = state.carried(spec, self.steps.step(next)).with_step(next);
        }
        moment.now
    }

    /// Brings instants to the time of `moment`, where no limit is known: what is published, or told by the region, is of
    /// this time, and would be carried over a clock step once more if the entry stayed behind it.
    pub(crate) fn align_instants(&self, state: &mut S, moment: Moment) {
        while state.step() != moment.step && !is_later(state.step(), moment.step) {
            let next = StepId(state.step().0.wrapping_add(1));
            let Some(carried) = state.carried_instants(self.steps.step(next)) else { return };
            *state = carried.with_step(next);
        }
    }

    /// Tells the table that the clock is about to be set, by `delta_ns` and to `lands_at`. Moments with the
    /// step that is returned are in the new time; nothing that was charged in the old one is forgotten.
    pub fn clock_stepped(&self, delta_ns: i64, lands_at: Nanos) -> StepId {
        self.has_gaps.store(true, Ordering::Relaxed);
        self.steps.push(ClockStep { delta_ns, lands_at })
    }

    /// The step that the latest moments are of, and the steps up to it, the latest first: what a table that
    /// is to hold this one's states must know.
    pub fn steps(&self) -> (StepId, Vec<ClockStep>) {
        self.steps.latest_first()
    }

    /// Learns the steps of another table, the latest first, before it takes over that table's states. For a
    /// table that has none of its own yet.
    pub fn take_over_steps(&self, latest_first: &[ClockStep]) {
        self.steps.take_over(latest_first);
    }

    /// From when on a state says no more than a default one, in the time of `moment`.
    pub fn expires_at(&self, state: &S, moment: Moment) -> Nanos {
        state.expires().shifted(self.steps.between(state.step(), moment.step))
    }

    pub(crate) fn is_expired(&self, state: &S, moment: Moment) -> bool {
        self.expires_at(state, moment).plus(SWEEP_MARGIN) <= moment.now
    }

    /// How many entries there are: counted where they come and go, so that nothing is locked.
    pub fn len(&self) -> usize {
        self.occupancy.held()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub fn shard_count(&self) -> usize {
        self.shards.len()
    }

    /// Drops what has expired in one shard. Locks it for some tens of microseconds per 1,000 entries.
    pub fn sweep_shard(&self, index: usize, moment: Moment) -> usize {
        let mut shard = self.shards[index].shard.lock();
        let expired = |state: &S| self.is_expired(state, moment);
        let holders = self.shares.counted();
        let swept = self.dropping(&mut shard, holders.as_deref(), |shard, left| shard.sweep(expired, left));
        if index == 0 {
            self.occupancy.reset_given_up();
        }
        self.publish_hint(index, &shard);
        swept
    }

    /// Visits every entry that is there from the beginning to the end of the walk exactly once, letting
    /// decisions in every few microseconds.
    pub fn for_each(&self, mut visit: impl FnMut(KeyId, &mut S)) {
        for guarded in &self.shards {
            let mut from = KeyId::from_hash(0);
            while let Some(next) = guarded.shard.lock().visit(from, VISITED_AT_ONCE, &mut visit) {
                from = next;
            }
        }
    }

    /// Hands out copies of what `for_each` visits, a few at a time and with no lock held, so that whoever takes
    /// them may be slow. Ends at the first error.
    pub fn for_each_batch<E>(&self, mut take: impl FnMut(&[(KeyId, S)]) -> Result<(), E>) -> Result<(), E> {
        let mut batch = Vec::with_capacity(VISITED_AT_ONCE);
        for guarded in &self.shards {
            let mut from = Some(KeyId::from_hash(0));
            while let Some(key) = from {
                batch.clear();
                let copy = |key, state: &mut S| batch.push((key, *state));
                from = guarded.shard.lock().visit(key, VISITED_AT_ONCE, copy);
                take(&batch)?;
            }
        }
        Ok(())
    }

    /// How many live entries have been dropped to make room for others.
    pub fn evicted(&self) -> u64 {
        self.evicted.load(Ordering::Relaxed)
    }

    #[inline]
    pub fn live_nodes(&self) -> u32 {
        if S::SHARED { self.live_nodes.load(Ordering::Relaxed) } else { 1 }
    }

    pub fn set_live_nodes(&self, nodes: u32) {
        self.live_nodes.store(nodes.max(1), Ordering::Relaxed);
    }

    /// Queues a key for publishing when its state has come to need it.
    #[inline]
    pub(crate) fn announce(&self, key: KeyId, before: PublishUrgency, after: PublishUrgency) {
        if S::SHARED && after > before {
            self.outbox.push(self.shard_index(key), key, after);
        }
    }

    /// Queues a key again whose state says so already.
    pub fn requeue(&self, key: KeyId, publish: PublishUrgency) {
        self.outbox.push(self.shard_index(key), key, publish);
    }

    /// Whether some key is to be published at once.
    #[inline]
    pub fn is_urgent(&self) -> bool {
        self.outbox.is_urgent()
    }

    /// The keys that are to be published at once.
    pub fn take_urgent(&self) -> Vec<KeyId> {
        self.outbox.take_urgent()
    }

    /// The keys that are to be published with the flush.
    pub fn take_soon(&self, into: &mut Vec<KeyId>) {
        self.outbox.take_soon(into);
    }
}

/// Brings a cache line nearer. Does nothing on processors for which Rust has no stable way to say it.
#[inline]
#[allow(unsafe_code)]
fn prefetch_line(address: usize) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: a prefetch reads nothing, writes nothing and never faults, whatever the address. Measured:
        // a five-limit request and a run of pipelined requests wait for one cache miss instead of for each.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(std::ptr::without_provenance(address)) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = address;
}
