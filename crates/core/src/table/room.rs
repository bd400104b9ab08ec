//! Room in the table: who gets an entry, and what goes for it.
//!
//! All shards share one cap, so no set of keys makes one of them refuse while the table has room. In a full table,
//! expired entries go first, of any shard. After them, where other nodes know the counts, go the coldest entries of
//! shards that hold more than an even part, and those of tenants beyond their share. A table of a lone node never drops
//! an entry that is alive: nobody else knows what was counted in it.

use super::shares::{Entered, Holders};
use super::{Shard, Table};
use crate::identity::{KeyId, TenantTag};
use crate::state::State;
use crate::time::Moment;
use std::sync::atomic::Ordering;

/// How many entries of other shards one request looks at: some tens of microseconds. The next request goes on.
const SCANNED_MAX: usize = 8192;

/// Who needs room, and for how many entries.
struct RoomRequest<'h> {
    tenant: TenantTag,
    more: usize,
    moment: Moment,
    /// `None` in a table of one tenant.
    holders: Option<&'h Holders>,
    /// How many more entries the tenant may make within its share.
    rights: usize,
}

impl<S: State> Table<S> {
    /// Whether `more` entries fit under the cap, whoever they are of.
    #[inline]
    pub(crate) fn fits(&self, more: usize) -> bool {
        self.occupancy.fits(more)
    }

    /// Whether `more` entries fit into what is kept beyond the cap.
    pub(crate) fn has_reserved_room(&self, more: usize) -> bool {
        self.occupancy.fits_beyond(more)
    }

    /// Whether `more` entries of a tenant fit.
    pub(crate) fn has_room(&self, tenant: TenantTag, more: usize) -> bool {
        let holders = self.shares.counted();
        self.fits(more + holders.map_or(0, |holders| self.reserved_for_others(holders.rights(tenant))))
    }

    /// How many of the free places aren't for a tenant with so many rights.
    fn reserved_for_others(&self, rights: usize) -> usize {
        match rights {
            0 if S::SHARED => self.occupancy.given_up(),
            0 => self.shares.unclaimed(),
            _ => 0,
        }
    }

    /// Gives a key its entry, for which there is room.
    pub(crate) fn insert(&self, index: usize, shard: &mut Shard<S>, key: KeyId, state: S) {
        if shard.insert(key, state) {
            self.occupancy.enter();
            if self.shares.enter(key.tenant()) == Entered::WithinShare {
                self.occupancy.take_given_up();
            }
        }
        self.publish_hint(index, shard);
    }

    /// Runs a change that drops entries of a shard, and counts those that left.
    pub(super) fn dropping<T>(
        &self,
        shard: &mut Shard<S>,
        holders: Option<&Holders>,
        change: impl FnOnce(&mut Shard<S>, Option<&dyn Fn(KeyId)>) -> T,
    ) -> T {
        let before = shard.len();
        let result = match holders {
            None => change(shard, None),
            Some(holders) => change(shard, Some(&|key: KeyId| self.shares.leave(holders, key.tenant()))),
        };
        self.occupancy.leave(before - shard.len());
        result
    }

    /// Makes room for `more` entries of a tenant, if there is none and that can be. The shard is the one that they are
    /// to be put into; others are only tried, so that no lock is waited for while this one is held.
    pub(crate) fn make_room(
        &self,
        index: usize,
        shard: &mut Shard<S>,
        (tenant, more): (TenantTag, usize),
        moment: Moment,
    ) {
        if self.fits(more) && (S::SHARED || self.has_room(tenant, more)) {
            return;
        }
        let holders = self.shares.counted();
        let rights = holders.as_ref().map_or(0, |holders| holders.rights(tenant));
        let request = RoomRequest { tenant, more, moment, holders: holders.as_deref(), rights };
        // A shard with few entries isn't emptied for the sake of one with many.
        if self.occupancy.is_oversubscribed(shard.len()) || !S::SHARED {
            self.search_shard(index, shard, &request);
        }
        if !self.is_met(&request) {
            self.search_others(index, &request);
        }
        if !self.is_met(&request) {
            self.search_shard(index, shard, &request);
        }
    }

    fn is_met(&self, request: &RoomRequest<'_>) -> bool {
        let kept = match request.holders {
            Some(_) if !S::SHARED => self.reserved_for_others(request.rights),
            _ => 0,
        };
        self.fits(request.more + kept)
    }

    /// Drops what a request may make go in one shard.
    fn search_shard(&self, index: usize, shard: &mut Shard<S>, request: &RoomRequest<'_>) {
        let RoomRequest { tenant, more, moment, holders, rights } = *request;
        let excess = |key: KeyId| holders.map_or(usize::MAX, |holders| holders.excess(key.tenant()));
        if shard.begin_search(moment.now) {
            let expired = |state: &S| self.is_expired(state, moment);
            // A tenant that has no right to more makes room among its own entries, and among those of tenants that
            // have too many.
            let may_go = |key: KeyId| (rights == 0 && key.tenant() == tenant) || excess(key) > 0;
            let evicted = self.dropping(shard, holders, |shard, left| shard.make_room(expired, may_go, left));
            self.count_evicted(evicted);
        }
        if S::SHARED && rights > 0 && !self.fits(more) {
            // Several at a time, since it takes a walk; not so many that nothing is left to those who come next.
            let count = (rights / (2 * self.shards.len())).max(more);
            let evicted = self.dropping(shard, holders, |shard, left| shard.give_way(count, excess, left));
            self.occupancy.give_up(evicted);
            self.count_evicted(evicted);
        }
        self.publish_hint(index, shard);
    }

    /// Searches other shards until there is room: first those that hold more than their even part of the table. Shards
    /// that somebody has locked are passed over.
    fn search_others(&self, own: usize, request: &RoomRequest<'_>) {
        let (has_rights, now) = (request.rights > 0, request.moment.now);
        let Some(first) = self.occupancy.begin_search(has_rights, now) else { return };
        let mut looked_at = 0;
        for is_crowded in [true, false] {
            for step in 0..self.shards.len() {
                let index = (first + step) % self.shards.len();
                // Whoever has it locked, perhaps this request, may be in the middle of a change.
                let Some(mut shard) = self.shard(index).try_lock().filter(|_| index != own) else { continue };
                if self.occupancy.is_oversubscribed(shard.len()) != is_crowded
                    || !shard.is_worth_a_search(now, has_rights)
                {
                    continue;
                }
                looked_at += shard.len();
                self.search_shard(index, &mut shard, request);
                if self.is_met(request) || looked_at >= SCANNED_MAX {
                    self.occupancy.search_ended_at(index);
                    return;
                }
            }
        }
        self.occupancy.search_failed(has_rights, now);
    }

    fn count_evicted(&self, count: usize) {
        if count > 0 {
            self.has_gaps.store(true, Ordering::Relaxed);
        }
        self.evicted.fetch_add(count as u64, Ordering::Relaxed);
    }
}
