//! Which keys are hot here, and how much is drawn ahead for each (docs/design.md, "Leases").
//!
//! A key is hot because it comes often, because the region's other nodes say so, or because an override does. Who
//! says so says it again while it lasts. Sans-IO; bounded by [`HOT_MAX`] keys.

use super::pending::{Pending, PendingKey};
use super::{Effects, Region, Route, Ticket};
use crate::quota::{KeySet, Quotas};
use std::collections::HashMap;
use std::sync::Arc;
use tidegate_core::exchange::{GrantRequest, KEY_LEASE_TTL, KeySync, LeaseRequest};
use tidegate_core::state::{PublishUrgency, State as _};
use tidegate_core::{Accuracy, Item, KeyId, Moment, Nanos, Sequence, SharedState, Spec, Table, is_leasable};
use tidegate_origin::{Grant, ShardId};

/// So many keys are leased at a time; the next ones keep to their credit.
pub const HOT_MAX: usize = 1000;
/// A key is treated as hot for so long after it last was.
const HOT_KEY_TTL: Nanos = Nanos::from_secs(5);
/// A lease that was spent sooner than this was too small to tell how fast it is spent.
const MEASURED_MIN: Nanos = Nanos::from_millis(1);
/// So much more is drawn than seems to be needed, and so much less seems to be each time: an eighth.
const MARGIN: u64 = 8;

/// A limit that is hot.
#[derive(Clone, Copy, Debug)]
pub struct HotLimit {
    pub item: Item,
    /// What `item` enforces a part of, where the limit is shared by quotas.
    pub limit: Option<Spec>,
}

/// The limits that are hot here.
#[derive(Debug, Default)]
pub(super) struct Leases(HashMap<KeyId, HotKeyLease>);

#[derive(Debug)]
struct HotKeyLease {
    limit: HotLimit,
    hot_until: Nanos,
    /// When something was last drawn, and how the state's count stood then.
    drawn: Option<(Nanos, Sequence, u64)>,
    /// What is admitted while a lease lasts.
    demand: u64,
}

impl HotKeyLease {
    /// The limit as it is enforced now.
    fn item(&self, quotas: Option<&Quotas>, now: Nanos) -> Item {
        let HotLimit { item, limit: whole } = self.limit;
        match (whole, quotas) {
            (Some(whole), Some(quotas)) => {
                Item { spec: quotas.apply_slice(item.key, &whole, item.class, now), ..item }
            }
            _ => item,
        }
    }

    /// What to draw now, by what was admitted since the last time.
    fn request(&mut self, item: &Item, state: &SharedState, live_nodes: u32, now: Nanos) -> LeaseRequest {
        let (sequence, admitted) = state.admitted();
        if let Some((at, before_sequence, before)) = self.drawn {
            let more = if sequence == before_sequence { admitted.saturating_sub(before) } else { admitted };
            let elapsed = now.minus(at);
            let recent = scaled(more, KEY_LEASE_TTL, elapsed.max(MEASURED_MIN));
            let is_old = elapsed > KEY_LEASE_TTL.plus(KEY_LEASE_TTL);
            self.demand = if is_old { recent } else { recent.max(self.demand - self.demand / MARGIN) };
        }
        self.drawn = Some((now, sequence, admitted));
        state.lease_request(item, self.demand.saturating_add(self.demand / MARGIN), live_nodes, now)
    }
}

impl Leases {
    /// What to draw beside a request's asks, by the spec that they are asked for with.
    pub(super) fn request(
        &mut self,
        (key, spec): (KeyId, Spec),
        state: &SharedState,
        live_nodes: u32,
        now: Nanos,
    ) -> Option<LeaseRequest> {
        let held = self.0.get_mut(&key)?;
        // The limit may have changed since the key was found to be hot: it is renewed by this one, or not at all.
        held.limit.item.spec = spec;
        if !is_leasable(&spec, live_nodes) || state.is_dry(now) {
            return None;
        }
        let item = held.limit.item;
        Some(held.request(&item, state, live_nodes, now))
    }

    /// Keys that became hot, of which nothing was drawn yet.
    fn new_keys(&self) -> impl Iterator<Item = KeyId> {
        self.0.iter().filter(|(_, held)| held.drawn.is_none()).map(|(key, _)| *key)
    }

    /// Removes keys that aren't hot any more, and those whose limit is too small for the nodes that there are now.
    fn remove_cold(&mut self, hot: &KeySet, live_nodes: u32, now: Nanos) -> Vec<KeyId> {
        let is_cold = |key: &KeyId, held: &mut HotKeyLease| {
            held.hot_until <= now && !hot.contains(key) || !is_leasable(&held.limit.item.spec, live_nodes)
        };
        self.0.extract_if(is_cold).map(|(key, _)| key).collect()
    }
}

impl Region {
    /// A limit is hot, and comes so often to this node as far as is known.
    pub fn heat(&self, limit: HotLimit, per_second: u64, now: Nanos) {
        if limit.item.accuracy == Accuracy::Async || !is_leasable(&limit.item.spec, 1) {
            return;
        }
        let Leases(leases) = &mut self.pending.lock().leases;
        let hot_until = now.plus(HOT_KEY_TTL);
        let has_room = leases.len() < HOT_MAX;
        if let Some(held) = leases.get_mut(&limit.item.key) {
            (held.limit, held.hot_until) = (limit, hot_until);
        } else if has_room {
            let demand = scaled(per_second, KEY_LEASE_TTL, Nanos::from_secs(1));
            leases.insert(limit.item.key, HotKeyLease { limit, hot_until, drawn: None, demand });
        }
    }

    /// The keys that are hot in the region, from here on.
    pub fn set_hot(&self, keys: impl IntoIterator<Item = KeyId>) {
        self.hot.store(Arc::new(keys.into_iter().take(HOT_MAX).collect()));
    }

    /// Whether a key is hot in the region.
    pub fn is_hot(&self, key: KeyId) -> bool {
        self.hot.load().contains(&key)
    }

    /// The keys that are leased.
    pub fn leased(&self) -> Vec<KeyId> {
        self.pending.lock().leases.0.keys().copied().collect()
    }

    /// Ends the leases of keys that aren't hot any more; says which became hot and have nothing drawn yet.
    pub(super) fn turn_over_leases(&self, table: &Table<SharedState>, now: Nanos) -> Vec<KeyId> {
        let leases = &mut self.pending.lock().leases;
        for key in leases.remove_cold(&self.hot.load(), table.live_nodes(), now) {
            table.update(key, SharedState::end_lease);
        }
        leases.new_keys().collect()
    }

    /// The call that renews a key's lease; `None` where there is none to renew, or one is on its way.
    pub(super) fn renewing(
        &self,
        pending: &mut Pending,
        table: &Table<SharedState>,
        (key, shard): (KeyId, ShardId),
        moment: Moment,
    ) -> Option<(KeySync, Ticket)> {
        if pending.keys.get(&key).is_some_and(|entry| entry.in_flight) {
            return None;
        }
        // What a shard that is recovering grants can't be relied on.
        if !pending.shard(shard).is_reliable() {
            return None;
        }
        let held = pending.leases.0.get_mut(&key)?;
        let item = held.item(self.quotas.as_deref(), moment.now);
        table.state(key)?;
        let state = table.aligned(key, &item.spec, moment);
        if !is_leasable(&item.spec, table.live_nodes()) || state.is_dry(moment.now) {
            return None;
        }
        // Who would be denied by what this node knows has nothing drawn for it: denials never ask (INV-3).
        if !state.has_room(&item, moment.now) {
            table.update(key, SharedState::hold_lease);
            return None;
        }
        let lease = Some(held.request(&item, &state, table.live_nodes(), moment.now));
        let counts = state.asking(&item.spec, item.regions, moment.now);
        let settled = pending.keys.entry(key).or_default().leaves();
        let wants = GrantRequest { lease, ..GrantRequest::default() };
        let mut sync = KeySync { key, epoch: state.epoch(), counts, request: wants, ended_holds: settled };
        pending.mark_sent(&mut sync);
        let confirmed = state.confirmed(&sync.counts, moment.now);
        Some((sync, Ticket { holds_key: true, confirmed, ..Ticket::default() }))
    }

    /// Renews a lease that a request found spent which asks about other keys too.
    pub(super) fn renew_beside(
        &self,
        pending: &mut Pending,
        table: &Table<SharedState>,
        key: KeyId,
        moment: Moment,
        route: Route<'_>,
        effects: &mut Effects,
    ) {
        let shard = route(key);
        if let Some(renewing) = self.renewing(pending, table, (key, shard), moment) {
            effects.send.push(self.outgoing(shard, Grant::Each, vec![renewing], moment.now));
        }
    }
}

impl Pending {
    /// Whether a key's lease is to be renewed, or its first is to be drawn.
    pub(super) fn is_to_be_leased(&self, table: &Table<SharedState>, key: KeyId) -> bool {
        let Some(held) = self.leases.0.get(&key) else { return false };
        let is_low = |state: SharedState| !state.is_leased() || state.publish() == PublishUrgency::Now;
        held.drawn.is_none() || table.state(key).is_some_and(is_low)
    }

    /// A key that is hot spends only what was granted, from the first that is heard of it on: what it first asked for
    /// may have been one of several limits, with which nothing is drawn.
    pub(super) fn hold_if_hot(&self, table: &Table<SharedState>, key: KeyId) {
        let is_leased = |held: &HotKeyLease| is_leasable(&held.limit.item.spec, table.live_nodes());
        if self.leases.0.get(&key).is_some_and(is_leased) {
            table.update(key, SharedState::hold_lease);
        }
    }

    /// Whether a hot key for which there is nothing to draw is better left alone: everything about it is known.
    pub(super) fn is_idle(&self, table: &Table<SharedState>, key: KeyId) -> bool {
        let is_owed = |entry: &PendingKey| entry.is_unpublished || !entry.settled.is_empty();
        if !self.leases.0.contains_key(&key) || self.keys.get(&key).is_some_and(is_owed) {
            return false;
        }
        let mut rests = false;
        table.update(key, |state| {
            rests = state.unsynced() == 0;
            if rests {
                state.unqueue();
            }
        });
        rests
    }
}

/// `units × part / whole`.
fn scaled(units: u64, part: Nanos, whole: Nanos) -> u64 {
    let units = u128::from(units) * u128::from(part.get()) / u128::from(whole.get().max(1));
    u64::try_from(units).unwrap_or(u64::MAX)
}
