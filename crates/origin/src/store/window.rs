//! Windows in the store: cells of grow-only counts, and how an ask is weighed against two of them.
//!
//! Everything in whole microseconds and exact: `used = current + floor(previous × rest / period)`. Nothing is
//! created for a key that only looks back at a cell that was never counted in.

use super::grant_request::Allotment;
use super::holds::Holds;
use super::resolution::{FadingMicros, from_micros, micros_floor, sequence_before};
use super::{Occasion, OriginStore};
use tidegate_core::exchange::{CellSync, CountReply, DRAW_AHEAD, KeySync, WindowSync};
use tidegate_core::limit::NUMBER_MAX;
use tidegate_core::origin_cell::{NodeId, OriginCell};
use tidegate_core::world::{CREDIT_WAIT, world_credit};
use tidegate_core::{CellId, KeyId, Nanos};

#[derive(Clone, Debug, Default)]
pub(super) struct WindowCell {
    pub(super) cell: OriginCell,
    pub(super) holds: Holds,
}

/// The counts that an ask is compared with.
#[derive(Clone, Copy, Debug)]
struct Evaluation {
    limit: u64,
    current: u64,
    previous: u64,
    fading: Option<FadingMicros>,
    now_us: u64,
    held: u64,
    /// Regions that share the world credit; 1: none is looked at.
    regions: u32,
    /// What the other regions haven't heard of.
    unpublished: u64,
}

impl Evaluation {
    fn fits(&self, units: u64, ahead: u64) -> bool {
        let used = self.current.saturating_add(self.faded()).min(NUMBER_MAX);
        let limit = self.limit.saturating_add(ahead).min(NUMBER_MAX);
        used.saturating_add(self.held).saturating_add(units) <= limit
    }

    /// Whether so many more fit beside what the other regions haven't heard of. What costs more than the credit
    /// passes when nothing is unpublished, or it never would: `first` is the first ask.
    fn keeps_to_credit(&self, units: u64, first: u64) -> bool {
        if self.regions <= 1 {
            return true;
        }
        let used = self.current.saturating_add(self.faded()).min(NUMBER_MAX);
        let credit = world_credit(self.limit, used, self.regions);
        match self.unpublished.saturating_add(self.held) {
            0 => units <= credit.max(first),
            unpublished => units <= credit.saturating_sub(unpublished),
        }
    }

    /// What the previous cell still weighs.
    fn faded(&self) -> u64 {
        self.fading.map_or(0, |fading| {
            let rest_us = fading.end_us.saturating_sub(self.now_us).min(fading.period_us);
            scaled(self.previous, rest_us, fading.period_us)
        })
    }

    /// What fades in [`DRAW_AHEAD`].
    fn ahead(&self) -> u64 {
        self.fading.map_or(0, |fading| scaled(self.previous, micros_floor(DRAW_AHEAD), fading.period_us))
    }

    /// How long until so much has faded that `ask` fits beside the counts. `None` when it never does, or when
    /// nothing fades: the node knows better when its cell ends.
    fn wait_us(&self, ask: u64) -> Option<u64> {
        let room = self.limit.checked_sub(ask)?;
        let FadingMicros { end_us, period_us } = self.fading?;
        let passes_at_us = match room.checked_sub(self.current) {
            Some(beside) => end_us.saturating_sub(largest_rest_us(self.previous, beside, period_us)),
            // The current cell must itself become the previous one, and fade.
            None => (end_us + period_us).saturating_sub(largest_rest_us(self.current, room, period_us)),
        };
        Some(passes_at_us.saturating_sub(self.now_us))
    }
}

impl OriginStore {
    pub(super) fn publish_window(&mut self, sync: &KeySync, window: &WindowSync, occasion: Occasion) {
        let [current_id, previous_id] = ids(sync.key, sync.epoch, window);
        if self.only_reads(sync, occasion.node) {
            self.publish_beside(current_id, &window.current, occasion);
        } else {
            self.windows.entry(current_id).cell.publish(occasion.node, window.current.published());
            self.windows.store_until(current_id, occasion.stored_until(window.current.expires));
        }
        if self.windows.get(&current_id).is_some() {
            self.windows.entry(current_id).holds.end_holds(sync, occasion.present);
        }
        if let Some(previous) = &window.previous {
            self.publish_beside(previous_id, previous, occasion);
        }
    }

    /// Publishes to a cell of which the node becomes an owner only by counting something in it.
    fn publish_beside(&mut self, id: CellId, sent: &CellSync, occasion: Occasion) {
        let has_news = sent.component > 0 || sent.claim > 0;
        if !has_news && self.windows.get(&id).is_none() {
            return;
        }
        let cell = &mut self.windows.entry(id).cell;
        if sent.component > 0 {
            cell.publish(occasion.node, sent.published());
        } else {
            cell.claim(sent.claim);
        }
        self.windows.store_until(id, occasion.stored_until(sent.expires));
    }

    pub(super) fn evaluate_window(
        &self,
        sync: &KeySync,
        window: &WindowSync,
        occasion: Occasion,
    ) -> Allotment {
        let weighed = self.evaluation(sync, window, occasion);
        let first = sync.request.asks.first().map_or(0, |ask| (*ask).min(NUMBER_MAX));
        Allotment::of(&sync.request, weighed.ahead(), |units, ahead| {
            weighed.fits(units, ahead) && weighed.keeps_to_credit(units, first)
        })
    }

    pub(super) fn grant_window(
        &mut self,
        sync: &KeySync,
        window: &WindowSync,
        allotted: &Allotment,
        occasion: Occasion,
    ) {
        let [current_id, _] = ids(sync.key, sync.epoch, window);
        let current = self.windows.entry(current_id);
        let taken = allotted.taken(&sync.request);
        if taken > 0 {
            current.cell.grant(occasion.node, taken);
        }
        if let Some(id) = sync.request.hold.filter(|_| allotted.spent > 0) {
            current.holds.hold(id, allotted.spent, occasion.present);
        }
        if sync.epoch > 0 {
            let expires = self.windows.expires(&current_id).unwrap_or_default();
            self.store_epoch(sync.key, sync.epoch, expires);
        }
    }

    pub(super) fn window_wait(
        &self,
        sync: &KeySync,
        window: &WindowSync,
        ask: u64,
        occasion: Occasion,
    ) -> Option<Nanos> {
        let weighed = self.evaluation(sync, window, occasion);
        if weighed.fits(ask, 0) {
            return Some(if weighed.keeps_to_credit(ask, ask) { Nanos::ZERO } else { CREDIT_WAIT });
        }
        if (Evaluation { held: 0, ..weighed }).fits(ask, 0) {
            let [current_id, _] = ids(sync.key, sync.epoch, window);
            return self.windows.get(&current_id)?.holds.earliest(occasion.present);
        }
        weighed.wait_us(ask).map(from_micros)
    }

    pub(super) fn read_window(
        &self,
        key: KeyId,
        epoch: u16,
        window: &WindowSync,
        node: NodeId,
    ) -> CountReply {
        let [current_id, previous_id] = ids(key, epoch, window);
        let read = |id| self.windows.get(&id).map_or(OriginCell::default().read(node), |w| w.cell.read(node));
        let owners = self.windows.get(&current_id).map_or(0, |current| current.cell.owners());
        CountReply::Window {
            current: read(current_id),
            previous: window.previous.map(|_| read(previous_id)),
            owners: u32::try_from(owners).unwrap_or(u32::MAX),
        }
    }

    fn evaluation(&self, sync: &KeySync, window: &WindowSync, occasion: Occasion) -> Evaluation {
        let [current_id, previous_id] = ids(sync.key, sync.epoch, window);
        let current = self.windows.get(&current_id);
        let previous = self.windows.get(&previous_id).filter(|_| window.previous.is_some());
        Evaluation {
            limit: window.limit.min(NUMBER_MAX),
            current: current.map_or(0, |current| current.cell.in_use()),
            previous: previous.map_or(0, |previous| previous.cell.in_use()),
            fading: window.fading.map(FadingMicros::from),
            now_us: micros_floor(occasion.now),
            held: current.map_or(0, |current| current.holds.amount(occasion.present)),
            regions: window.regions,
            unpublished: current.map_or(0, |current| current.cell.unpublished()),
        }
    }
}

/// The current cell and the one before.
fn ids(key: KeyId, epoch: u16, window: &WindowSync) -> [CellId; 2] {
    let current = CellId { key, epoch, sequence: window.sequence };
    [current, CellId { sequence: sequence_before(window.sequence), ..current }]
}

/// `floor(count × part / whole)`, with `part ≤ whole`.
fn scaled(count: u64, part: u64, whole: u64) -> u64 {
    let product = u128::from(count) * u128::from(part);
    u64::try_from(product / u128::from(whole.max(1))).unwrap_or(count)
}

/// The largest rest of a period at which at most `room` is left of the count.
fn largest_rest_us(count: u64, room: u64, period_us: u64) -> u64 {
    if count <= room {
        return period_us;
    }
    // count × rest < (room + 1) × period; the quotient is below the period, since count ≥ room + 1.
    let bound = (u128::from(room) + 1) * u128::from(period_us) - 1;
    u64::try_from(bound / u128::from(count)).unwrap_or(period_us)
}
