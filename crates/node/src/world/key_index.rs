//! The keys that count over the world, and the counts of their cells in the region's last reply.
//!
//! A key's state has no room for its limit, for what the world store has of it, or for its name. They are here, for the
//! keys whose counts other regions need and for no others. Written where a key asks, read where a reply arrives and by
//! the periodic scan, never by a decision. Bounded.

use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::Arc;
use tidegate_core::counts::CellReply;
use tidegate_core::window::add_count;
use tidegate_core::world::{CellUsage, WorldPolicy, is_due, spenders};
use tidegate_core::{CellId, Class, Item, KeyId, Nanos, Sequence, Spec};
use tidegate_origin::PublishRequest;

/// So many that threads which record keys seldom contend.
const SHARDS: usize = 64;
/// A cell's publish isn't requested again before this, unless the cell grew by as much again.
const PUBLISH_REQUEST_TTL: Nanos = Nanos::from_secs(1);
/// A cell whose count hasn't changed for so long is idle: its row is made exact with the next scan, so that rows are
/// right within 10 s.
const IDLE_AFTER: Nanos = Nanos::from_secs(2);
/// A cell that ended isn't worth a row for less than half of a fortieth of the limit, over all regions: see
/// `world_credit`.
const RESIDUE_DIVISOR: u64 = 40;

/// About so many idle keys are published again in one scan, of very many more: each about once in an hour.
const IDLE_PER_SCAN: usize = 64;
const IDLE_SCAN_TURN: Nanos = Nanos::from_secs(5);
const IDLE_SCAN_TURNS_MAX: usize = 720;

/// Keys whose counts other regions need, with their limits and the last observation of their cells. Bounded.
#[derive(Debug)]
pub(super) struct WorldKeyIndex {
    shards: Box<[Mutex<HashMap<KeyId, KeyEntry>>]>,
    /// Of each shard.
    keys_max: usize,
    names_max: usize,
}

/// One key, and the last observation of its cells.
#[derive(Debug)]
struct KeyEntry {
    spec: Spec,
    /// Asks keep to the world credit.
    is_abuse: bool,
    name: Option<Arc<str>>,
    epoch: u16,
    current: CellObservation,
    /// The cell before, while it matters: a publish request about it may have been lost.
    previous: CellObservation,
    /// The entry can be dropped after this.
    expires: Nanos,
    /// When its count last changed; unchanged for [`IDLE_AFTER`] is idle.
    changed_at: Nanos,
    /// The next reply requests a publish however little has grown.
    is_idle: bool,
    requested: [LastRequest; 2],
}

/// A cell's counts in the last reply about it.
#[derive(Clone, Copy, Debug, Default)]
struct CellObservation {
    sequence: Sequence,
    total: u64,
    published: u64,
    used: u64,
    /// The other regions know the cell, or the one before, and none has counted in either.
    is_alone: bool,
}

/// The last publish request of a cell: its total then, and when.
#[derive(Clone, Copy, Debug, Default)]
struct LastRequest {
    sequence: Sequence,
    total: u64,
    at: Nanos,
}

/// A cell and the one before it have slots of their own: a request for one must not hide that the other was begun.
fn slot_of(sequence: Sequence) -> usize {
    usize::from(sequence.0 % 2 == 1)
}

/// The policy and the time by which a cell is evaluated.
#[derive(Clone, Copy, Debug)]
pub(super) struct Judge {
    pub(super) policy: WorldPolicy,
    pub(super) regions: u32,
    pub(super) now: Nanos,
}

/// A reply about a key's cells.
#[derive(Clone, Copy, Debug)]
pub(super) struct CellUpdate {
    pub(super) epoch: u16,
    pub(super) sequence: Sequence,
    pub(super) current: CellReply,
    pub(super) previous: Option<CellReply>,
    pub(super) expires: Nanos,
}

impl WorldKeyIndex {
    pub(super) fn new(keys_max: usize, names_max: usize) -> Self {
        WorldKeyIndex {
            shards: (0..SHARDS).map(|_| Mutex::default()).collect(),
            keys_max: keys_max.div_ceil(SHARDS).max(1),
            names_max: names_max.div_ceil(SHARDS).max(1),
        }
    }

    fn shard(&self, key: KeyId) -> &Mutex<HashMap<KeyId, KeyEntry>> {
        // The high bits spread the table, the low ones are the key's place: these are neither.
        let index = usize::try_from((key.get() >> 64) % SHARDS as u128).unwrap_or(0);
        &self.shards[index]
    }

    /// Records a key, or its present limit. Returns false when there is no room for it.
    pub(super) fn record(&self, item: &Item, now: Nanos, name: impl FnOnce() -> Arc<str>) -> bool {
        let Item { key, spec, class, .. } = item;
        let is_abuse = *class == Class::Abuse;
        let mut shard = self.shard(*key).lock();
        let expires = now.plus(spec.longest_memory());
        if let Some(entry) = shard.get_mut(key) {
            (entry.spec, entry.is_abuse) = (*spec, is_abuse);
            entry.expires = entry.expires.max(expires);
            return true;
        }
        if shard.len() >= self.keys_max {
            return false;
        }
        let name = (shard.len() < self.names_max).then(name);
        let entry = KeyEntry {
            spec: *spec,
            is_abuse,
            name,
            epoch: 0,
            current: CellObservation::default(),
            previous: CellObservation::default(),
            expires,
            changed_at: now,
            is_idle: false,
            requested: [LastRequest::default(); 2],
        };
        shard.insert(*key, entry);
        true
    }

    /// Returns the limit of a key whose asks keep to the world credit.
    pub(super) fn abuse_limit(&self, key: KeyId) -> Option<Spec> {
        self.shard(key).lock().get(&key).filter(|entry| entry.is_abuse).map(|entry| entry.spec)
    }

    /// Updates a key from a reply, and calls `due` for each cell that must be published.
    pub(super) fn receive(
        &self,
        key: KeyId,
        update: &CellUpdate,
        judge: Judge,
        mut due: impl FnMut(PublishRequest),
    ) {
        let mut shard = self.shard(key).lock();
        let Some(entry) = shard.get_mut(&key) else { return };
        if update.epoch < entry.epoch
            || (update.epoch == entry.epoch && update.sequence < entry.current.sequence)
        {
            return;
        }
        entry.epoch = update.epoch;
        entry.expires = entry.expires.max(update.expires);
        let used = entry.used(update, judge.now);
        let mut cells = update.previous.iter().chain([&update.current]);
        let is_alone = cells.clone().all(|cell| cell.world == 0) && cells.any(|cell| cell.published > 0);
        if let (Some(cell), Some(before)) = (update.previous, update.sequence.0.checked_sub(1)) {
            let CellReply { total, published, .. } = cell;
            let observed = CellObservation { sequence: Sequence(before), total, published, used, is_alone };
            entry.previous = observed;
            if entry.is_residue(&observed, judge) {
                due(entry.request_publish(key, &observed, update.expires, judge));
            }
        }
        let CellReply { total, published, .. } = update.current;
        let observed = CellObservation { sequence: update.sequence, total, published, used, is_alone };
        if (observed.sequence, observed.total) != (entry.current.sequence, entry.current.total) {
            entry.changed_at = judge.now;
        }
        entry.current = observed;
        let is_rest = std::mem::take(&mut entry.is_idle) && total > published;
        if is_rest || entry.is_unpublished(&observed, judge) || entry.is_late(&observed, judge) {
            due(entry.request_publish(key, &observed, update.expires, judge));
        }
    }

    /// Scans every key. Returns those that should be synced, so that their replies show whether they must be published.
    /// Drops entries that expired.
    pub(super) fn scan(&self, judge: Judge) -> Vec<KeyId> {
        let mut keys = Vec::new();
        for shard in &self.shards {
            shard.lock().retain(|key, entry| {
                if entry.is_due_on_scan(judge) {
                    keys.push(*key);
                }
                entry.expires > judge.now
            });
        }
        keys
    }

    /// Returns publish requests for some of the cells that are published and idle, in turns, so that a worker that took
    /// over from another one detects what the store lost meanwhile. Cells that grow are published anyway. All nodes
    /// request the same keys at about the same time, so that the publish queue has them once.
    pub(super) fn idle_requests(&self, now: Nanos) -> Vec<PublishRequest> {
        let turns = (self.len() / IDLE_PER_SCAN).clamp(1, IDLE_SCAN_TURNS_MAX) as u128;
        // By chance, so that looks of any interval come upon all of them.
        let chance = u128::from(now.get() / IDLE_SCAN_TURN.get()).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
        let turn = chance % turns;
        let mut requests = Vec::new();
        for shard in &self.shards {
            // Other bits than those that choose the shard.
            for (key, entry) in shard.lock().iter().filter(|(key, _)| (key.get() >> 96) % turns == turn) {
                requests.extend(entry.idle_requests(*key, now));
            }
        }
        requests
    }

    /// Returns publish requests for everything that is unpublished, however little.
    pub(super) fn unpublished_requests(&self, now: Nanos) -> Vec<PublishRequest> {
        let mut requests = Vec::new();
        for shard in &self.shards {
            for (key, entry) in &mut *shard.lock() {
                let observed = entry.current;
                if observed.total > observed.published && entry.expires > now {
                    requests.push(entry.publish_request(*key, &observed, entry.expires));
                }
            }
        }
        requests
    }

    pub(super) fn len(&self) -> usize {
        self.shards.iter().map(|shard| shard.lock().len()).sum()
    }
}

impl KeyEntry {
    /// Returns how much of the limit all regions use, with the weighted rest of the previous cell.
    fn used(&self, update: &CellUpdate, now: Nanos) -> u64 {
        let in_use = |cell: CellReply| add_count(cell.total, cell.world);
        let faded = match (self.spec, update.previous) {
            (Spec::Sliding { period, .. }, Some(previous)) => {
                let rest = period.cell(update.sequence).end.minus(now).min(period.length());
                let faded = u128::from(in_use(previous)) * u128::from(rest.get());
                u64::try_from(faded / u128::from(period.length().get().max(1))).unwrap_or(u64::MAX)
            }
            _ => 0,
        };
        add_count(in_use(update.current), faded)
    }

    fn unpublished(&self, observed: &CellObservation) -> CellUsage {
        let CellObservation { total, published, used, .. } = *observed;
        CellUsage { limit: self.spec.shown_limit(), used, total, published }
    }

    /// Returns the last publish request of a cell, if there was one.
    fn last_request(&self, sequence: Sequence) -> Option<LastRequest> {
        Some(self.requested[slot_of(sequence)]).filter(|last| last.sequence == sequence)
    }

    /// Returns whether the cell is due and wasn't requested just now.
    fn is_unpublished(&self, observed: &CellObservation, judge: Judge) -> bool {
        let last = self
            .last_request(observed.sequence)
            .filter(|last| judge.now.minus(last.at) < PUBLISH_REQUEST_TTL);
        let published = observed.published.max(last.map_or(0, |last| last.total));
        let regions = spenders(judge.regions, self.is_abuse, observed.is_alone);
        is_due(judge.policy, &self.unpublished(&CellObservation { published, ..*observed }), regions)
    }

    /// Returns whether the cell has ended, and its growth since the last publish is worth a row.
    fn is_residue(&self, observed: &CellObservation, judge: Judge) -> bool {
        let growth = observed.total.saturating_sub(observed.published);
        let was_named = self.last_request(observed.sequence).is_some_and(|last| {
            last.total >= observed.total && judge.now.minus(last.at) < PUBLISH_REQUEST_TTL
        });
        if growth == 0 || was_named {
            return false;
        }
        let limit = self.spec.shown_limit();
        match judge.policy {
            // Of windows that forget at once, only what was begun is brought to its end.
            WorldPolicy::Headroom => {
                let share = limit / (RESIDUE_DIVISOR * u64::from(judge.regions.max(1)));
                let fades = matches!(self.spec, Spec::Sliding { .. });
                observed.published > 0 || (fades && growth.saturating_mul(2) >= share)
            }
            WorldPolicy::Floor { .. } => is_due(judge.policy, &self.unpublished(observed), judge.regions),
        }
    }

    /// Returns whether the cell has ended, and nobody has counted in the next one.
    fn is_late(&self, observed: &CellObservation, judge: Judge) -> bool {
        self.end_of(observed.sequence).is_some_and(|end| end <= judge.now) && self.is_residue(observed, judge)
    }

    /// Returns when a cell ends; `None` when that isn't known.
    fn end_of(&self, sequence: Sequence) -> Option<Nanos> {
        match self.spec {
            Spec::Sliding { period, .. } | Spec::Fixed { period, .. } => Some(period.cell(sequence).end),
            Spec::Calendar { cell, .. } if sequence <= cell.sequence => Some(cell.end),
            Spec::Calendar { .. } | Spec::Gcra { .. } => None,
        }
    }

    fn is_due_on_scan(&mut self, judge: Judge) -> bool {
        let observed = self.current;
        let stands_still = judge.now.minus(self.changed_at) >= IDLE_AFTER;
        // Once begun, the row of an idle cell is made exact. The last reply may have arrived too early to show whether
        // it was.
        let is_begun = observed.published > 0 || self.last_request(observed.sequence).is_some();
        let is_resting = stands_still && is_begun && observed.total > observed.published;
        let is_resting = is_resting && judge.policy == WorldPolicy::Headroom;
        self.is_idle |= is_resting;
        let is_left = self.is_residue(&self.previous, judge);
        is_resting || is_left || self.is_unpublished(&observed, judge) || self.is_late(&observed, judge)
    }

    fn idle_requests(&self, key: KeyId, now: Nanos) -> impl Iterator<Item = PublishRequest> {
        let is_idle = now.minus(self.changed_at) >= IDLE_AFTER && self.expires > now;
        let cells = [self.current, self.previous].into_iter().filter(move |observed| {
            is_idle && observed.published > 0 && observed.total <= observed.published
        });
        cells.map(move |observed| self.publish_request(key, &observed, self.expires))
    }

    fn request_publish(
        &mut self,
        key: KeyId,
        observed: &CellObservation,
        expires: Nanos,
        judge: Judge,
    ) -> PublishRequest {
        let last = LastRequest { sequence: observed.sequence, total: observed.total, at: judge.now };
        self.requested[slot_of(observed.sequence)] = last;
        self.publish_request(key, observed, expires)
    }

    fn publish_request(&self, key: KeyId, observed: &CellObservation, expires: Nanos) -> PublishRequest {
        PublishRequest {
            cell: CellId { key, epoch: self.epoch, sequence: observed.sequence },
            limit: self.spec.shown_limit(),
            expires,
            name: self.name.clone().unwrap_or_else(|| Arc::from("")),
        }
    }
}
