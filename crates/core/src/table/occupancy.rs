//! How many entries a table holds, against the cap that its shards share.
//!
//! Written where entries come and go, never by a decision about an entry that is there. Threads that insert at the same
//! time may each see the last free place: the table exceeds its cap by what they insert at once, and by no more.

use crate::time::Nanos;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// Beyond the cap, for each shard, for the keys that stand in for those that got no entry.
const RESERVED_PER_SHARD: usize = 16;
/// A shard's length is a `u32`, and all entries may be in one.
const KEYS_MAX: usize = 1 << 31;
/// After a search of all shards found nothing, none is begun for this long.
const SEARCH_PAUSE: Nanos = Nanos::from_secs(1);

/// On a cache line of its own: decisions read its neighbours.
#[repr(align(64))]
#[derive(Debug)]
pub(super) struct Occupancy {
    held: AtomicUsize,
    keys_max: usize,
    shards: usize,
    /// Places that tenants beyond their share gave up, for tenants within theirs. Forgotten once in each round of sweeps.
    given_up: AtomicUsize,
    /// The shard at which the next search goes on.
    next_shard: AtomicUsize,
    /// When all shards may be searched again: for tenants that have no right to more, and for those that have.
    search_from: [AtomicU64; 2],
}

impl Occupancy {
    pub(super) fn new(keys_max: usize, shards: usize) -> Self {
        Occupancy {
            held: AtomicUsize::new(0),
            keys_max: keys_max.clamp(1, KEYS_MAX),
            shards,
            given_up: AtomicUsize::new(0),
            next_shard: AtomicUsize::new(0),
            search_from: [AtomicU64::new(0), AtomicU64::new(0)],
        }
    }

    #[inline]
    pub(super) fn held(&self) -> usize {
        self.held.load(Ordering::Relaxed)
    }

    /// Whether `more` entries fit under the cap.
    #[inline]
    pub(super) fn fits(&self, more: usize) -> bool {
        self.held() + more <= self.keys_max
    }

    /// Whether `more` entries fit into what is kept beyond the cap.
    pub(super) fn fits_beyond(&self, more: usize) -> bool {
        self.held() + more <= self.keys_max + RESERVED_PER_SHARD * self.shards
    }

    /// Returns whether a shard of so many entries holds its even part of the table, or more.
    pub(super) fn is_oversubscribed(&self, len: usize) -> bool {
        len * self.shards >= self.keys_max
    }

    pub(super) fn enter(&self) {
        self.held.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn leave(&self, count: usize) {
        if count > 0 {
            self.held.fetch_sub(count, Ordering::Relaxed);
        }
    }

    /// How many of the free places are for tenants within their share.
    pub(super) fn given_up(&self) -> usize {
        self.given_up.load(Ordering::Relaxed)
    }

    pub(super) fn give_up(&self, count: usize) {
        self.given_up.fetch_add(count, Ordering::Relaxed);
    }

    /// A tenant within its share took a place.
    pub(super) fn take_given_up(&self) {
        if self.given_up() > 0 {
            let fewer = |count: usize| count.checked_sub(1);
            let _ = self.given_up.fetch_update(Ordering::Relaxed, Ordering::Relaxed, fewer);
        }
    }

    pub(super) fn reset_given_up(&self) {
        self.given_up.store(0, Ordering::Relaxed);
    }

    /// The shard at which a search begins; `None` while it would find nothing new.
    pub(super) fn begin_search(&self, has_rights: bool, now: Nanos) -> Option<usize> {
        let from = Nanos::new(self.search_from[usize::from(has_rights)].load(Ordering::Relaxed));
        // Further ahead than a pause means that the clock was set back.
        let is_paused = now < from && from <= now.plus(SEARCH_PAUSE);
        (!is_paused).then(|| self.next_shard.load(Ordering::Relaxed) % self.shards)
    }

    /// A search ended at `shard`; the next one goes on after it.
    pub(super) fn search_ended_at(&self, shard: usize) {
        self.next_shard.store(shard.wrapping_add(1), Ordering::Relaxed);
    }

    /// A search visited all shards and found nothing.
    pub(super) fn search_failed(&self, has_rights: bool, now: Nanos) {
        self.search_from[usize::from(has_rights)].store(now.plus(SEARCH_PAUSE).get(), Ordering::Relaxed);
    }
}
