//! What is held back for requests that ask several shards at once.
//!
//! A hold is no count: it is in no total, only granting sees it, and it lapses by itself.

use std::collections::BTreeMap;
use tidegate_core::Nanos;
use tidegate_core::exchange::{HOLD_TTL, HoldId, KeySync};
use tidegate_core::limit::NUMBER_MAX;

/// The unexpired holds of one cell.
#[derive(Clone, Debug, Default)]
pub(super) struct Holds(BTreeMap<HoldId, Hold>);

/// Units that are held for one request, until it confirms or releases them, or the hold expires.
#[derive(Clone, Copy, Debug)]
struct Hold {
    amount: u64,
    expires: Nanos,
}

impl Hold {
    /// One that ends later than it can was made before the store's clock was set back.
    fn is_live(&self, present: Nanos) -> bool {
        let left = self.expires.minus(present);
        left > Nanos::ZERO && left <= HOLD_TTL
    }
}

impl Holds {
    /// Drops the holds that a sync ends or replaces, and those that expired.
    pub(super) fn end_holds(&mut self, sync: &KeySync, present: Nanos) {
        let is_over = |id: &HoldId| sync.ended_holds.contains(id) || sync.request.hold == Some(*id);
        self.0.retain(|id, held| held.is_live(present) && !is_over(id));
    }

    pub(super) fn hold(&mut self, id: HoldId, amount: u64, present: Nanos) {
        self.0.insert(id, Hold { amount, expires: present.plus(HOLD_TTL) });
    }

    /// How much is held back.
    pub(super) fn amount(&self, present: Nanos) -> u64 {
        self.live(present).fold(0, |sum: u64, held| sum.saturating_add(held.amount).min(NUMBER_MAX))
    }

    /// How long until the first of them lapses.
    pub(super) fn earliest(&self, present: Nanos) -> Option<Nanos> {
        self.live(present).map(|held| held.expires.minus(present)).min()
    }

    fn live(&self, present: Nanos) -> impl Iterator<Item = &Hold> {
        self.0.values().filter(move |held| held.is_live(present))
    }
}
