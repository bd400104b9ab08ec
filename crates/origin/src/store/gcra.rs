//! GCRA in the store: one arrival time for all nodes, charged by the scheme of `tidegate_core::gcra_sync`.

use super::grant_request::Allotment;
use super::holds::Holds;
use super::resolution::{micros_floor, units_ahead};
use super::{Occasion, OriginStore};
use std::collections::BTreeMap;
use tidegate_core::exchange::{CountReply, KeySync};
use tidegate_core::gcra_sync::{BurstMemory, BusyPeriod, GcraSync, OriginGcra};
use tidegate_core::limit::NUMBER_MAX;
use tidegate_core::origin_cell::NodeId;
use tidegate_core::{KeyId, Nanos, Rate};

/// A state outlives its arrival time by so much, and is set to live a little longer than that, so that its
/// expiry needn't move with every charge.
const GCRA_STATE_TTL: Nanos = Nanos::from_secs(60);
const GCRA_STATE_MARGIN: Nanos = Nanos::from_secs(15);

#[derive(Clone, Debug, Default)]
pub(super) struct GcraState {
    pub(super) busy: BusyPeriod,
    before: BusyPeriod,
    bursts: BurstMemory,
    /// The rate that `busy` was written with.
    rate: Option<Rate>,
    components: BTreeMap<NodeId, u64>,
    /// The sum of the components of owners that are gone.
    folded: u64,
    pub(super) holds: Holds,
    /// Its expiry is to be set again: somebody joined, or the rate changed.
    moved: bool,
}

impl GcraState {
    /// The state as one node has it.
    fn of(&self, node: NodeId) -> OriginGcra {
        let stored = self.components.get(&node).copied().unwrap_or(0);
        OriginGcra { busy: self.busy, before: self.before, stored }
    }

    pub(super) fn lose_burst(&mut self) {
        self.bursts = BurstMemory::default();
    }

    pub(super) fn registered(&self, node: NodeId) -> Option<u64> {
        self.components.get(&node).copied()
    }

    /// The owner's component as it is before a publish, as [`tidegate_core::origin_cell::OriginCell::component_before`].
    pub(super) fn component_before(&self, node: NodeId, sync: &GcraSync) -> Option<u64> {
        let taken = || self.folded.min(sync.acked).min(sync.cumulative);
        self.registered(node).or_else(|| Some(taken()).filter(|taken| *taken > 0))
    }

    /// Adds the component of an owner that is gone to the folded ones.
    pub(super) fn fold(&mut self, node: NodeId) {
        let component = self.components.remove(&node).unwrap_or(0);
        self.folded = self.folded.saturating_add(component).min(NUMBER_MAX);
    }

    pub(super) fn nodes(&self) -> impl Iterator<Item = NodeId> + '_ {
        self.components.keys().copied()
    }

    fn put(&mut self, node: NodeId, origin: OriginGcra) {
        (self.busy, self.before) = (origin.busy, origin.before);
        self.components.insert(node, origin.stored);
    }
}

impl OriginStore {
    pub(super) fn publish_gcra(&mut self, sync: &KeySync, gcra: &GcraSync, burst: u64, occasion: Occasion) {
        let state = self.gcras.entry((sync.key, sync.epoch));
        let mut origin = state.of(occasion.node);
        if !state.components.contains_key(&occasion.node) {
            origin.stored = state.component_before(occasion.node, gcra).unwrap_or(0);
            state.folded -= origin.stored;
        }
        if let Some(before) = state.rate {
            origin.rescale(before, gcra.rate, occasion.now);
        }
        let sent = GcraSync {
            cumulative: gcra.cumulative.min(NUMBER_MAX),
            acked: gcra.acked.min(NUMBER_MAX),
            sent: gcra.sent.min(NUMBER_MAX),
            ..*gcra
        };
        origin.merge(&sent);
        state.bursts.apply(&mut origin, gcra.rate, burst.min(NUMBER_MAX), occasion.now);
        state.moved = state.rate != Some(gcra.rate) || !state.components.contains_key(&occasion.node);
        state.rate = Some(gcra.rate);
        state.put(occasion.node, origin);
        state.holds.end_holds(sync, occasion.present);
    }

    pub(super) fn evaluate_gcra(
        &self,
        sync: &KeySync,
        rate: Rate,
        burst: u64,
        occasion: Occasion,
    ) -> Allotment {
        let Some(state) = self.gcras.get(&(sync.key, sync.epoch)) else {
            return Allotment::nothing(&sync.request);
        };
        let (origin, burst) = (state.of(occasion.node), burst.min(NUMBER_MAX));
        let reserved = state.holds.amount(occasion.present);
        Allotment::of(&sync.request, units_ahead(rate), |units, ahead| {
            let limit = burst.saturating_add(ahead).min(NUMBER_MAX);
            origin.fits(rate, limit, units.saturating_add(reserved), occasion.now)
        })
    }

    pub(super) fn grant_gcra(
        &mut self,
        sync: &KeySync,
        rate: Rate,
        allotted: &Allotment,
        occasion: Occasion,
    ) {
        let id = (sync.key, sync.epoch);
        let state = self.gcras.entry(id);
        let taken = allotted.taken(&sync.request);
        if taken > 0 {
            let mut origin = state.of(occasion.node);
            origin.take(rate, taken, occasion.now);
            state.put(occasion.node, origin);
        }
        if let Some(hold) = sync.request.hold.filter(|_| allotted.spent > 0) {
            state.holds.hold(hold, allotted.spent, occasion.present);
        }
        let moved = std::mem::take(&mut state.moved);
        let idle_from = occasion.stored_until(idle_from(state.busy.tat, occasion.now));
        let expires = self.gcras.expires(&id).unwrap_or_default();
        if moved || expires < idle_from.plus(GCRA_STATE_TTL) {
            self.gcras.set_expiry(id, idle_from.plus(GCRA_STATE_TTL).plus(GCRA_STATE_MARGIN));
        }
        if sync.epoch > 0 {
            let expires = self.gcras.expires(&id).unwrap_or_default();
            self.store_epoch(sync.key, sync.epoch, expires);
        }
    }

    pub(super) fn gcra_wait(
        &self,
        sync: &KeySync,
        rate: Rate,
        burst: u64,
        ask: u64,
        occasion: Occasion,
    ) -> Option<Nanos> {
        let state = self.gcras.get(&(sync.key, sync.epoch))?;
        let (origin, burst) = (state.of(occasion.node), burst.min(NUMBER_MAX));
        let wait = origin.wait(rate, burst, ask, occasion.now)?;
        let reserved = state.holds.amount(occasion.present);
        let fits = origin.fits(rate, burst, ask.saturating_add(reserved), occasion.now);
        match state.holds.earliest(occasion.present) {
            Some(earliest) if wait == Nanos::ZERO && !fits => Some(earliest),
            _ => Some(wait),
        }
    }

    pub(super) fn read_gcra(&self, key: KeyId, epoch: u16, node: NodeId) -> CountReply {
        let Some(state) = self.gcras.get(&(key, epoch)) else {
            return CountReply::Gcra { busy: BusyPeriod::default(), stored: 0, owners: 0 };
        };
        let OriginGcra { busy, stored, .. } = state.of(node);
        let owners = u32::try_from(state.components.len()).unwrap_or(u32::MAX);
        CountReply::Gcra { busy, stored, owners }
    }
}

/// From when on nothing is owed, in whole milliseconds.
fn idle_from(tat: Nanos, now: Nanos) -> Nanos {
    let now_ms = micros_floor(now).div_ceil(1_000);
    Nanos::from_millis(tat.as_millis_ceil().max(now_ms))
}
