//! What a node knew of a key, tier by tier: to be shown beside a decision, never to decide by.
//!
//! Read after the decision, so others may have come in between; what it says is right for some moment near it.

use crate::decision::Decision;
use crate::limit::Spec;
use crate::local::LocalState;
use crate::shared::SharedState;
use crate::time::Nanos;
use crate::window::{WindowCounts, sliding_used};

/// Counts of the present window by where they were admitted, and the weighted count of the window before.
/// For a rate, `own` is the used part of its burst, and the other counts are 0.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct TierCounts {
    pub own: u64,
    /// The rest of the region.
    pub others: u64,
    /// The other regions.
    pub world: u64,
    /// The window before, times its weight.
    pub previous: u64,
}

impl TierCounts {
    pub fn total(&self) -> u64 {
        [self.others, self.world, self.previous].into_iter().fold(self.own, u64::saturating_add)
    }

    /// All that can be said where there is no state: what the limit lacks.
    pub fn of_decision(decision: &Decision) -> Self {
        TierCounts { own: decision.limit.saturating_sub(decision.remaining), ..TierCounts::default() }
    }

    pub fn of_local(state: &LocalState, spec: &Spec, decision: &Decision, now: Nanos) -> Self {
        let Some(counted) = state.window(spec) else { return TierCounts::of_decision(decision) };
        let (counted, previous) = weighted(counted, spec, now);
        TierCounts { own: counted.current, previous, ..TierCounts::default() }
    }

    pub fn of_shared(state: &SharedState, spec: &Spec, decision: &Decision, now: Nanos) -> Self {
        let Some((sequence, current, before)) = state.cells() else {
            return TierCounts::of_decision(decision);
        };
        let counted = WindowCounts { current: current.spent(), previous: before.effective(), sequence };
        let (rolled, previous) = weighted(counted, spec, now);
        if rolled.sequence != sequence {
            return TierCounts { previous, ..TierCounts::default() };
        }
        TierCounts { own: current.own, others: current.others, world: current.world, previous }
    }
}

/// The counts in the cell of `now`, and what those of the cell before weigh there.
fn weighted(counted: WindowCounts, spec: &Spec, now: Nanos) -> (WindowCounts, u64) {
    match *spec {
        Spec::Sliding { period, .. } => {
            let rolled = counted.rolled_to(period.cell_at(now).sequence);
            let used = sliding_used(rolled, period.cell(rolled.sequence), period, now);
            (rolled, used.saturating_sub(rolled.current))
        }
        Spec::Fixed { period, .. } => (counted.rolled_to(period.cell_at(now).sequence), 0),
        Spec::Calendar { cell, .. } => (counted.rolled_to(cell.sequence), 0),
        Spec::Gcra { .. } => (counted, 0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::item::Item;
    use crate::limit::{Cost, Limit};
    use crate::state::State;
    use crate::time::Period;
    use crate::{Burst, KeyId, Rate};

    fn decided(state: &mut LocalState, spec: Spec, cost: u64, now: Nanos) -> Decision {
        let item = Item::new(KeyId::from_hash(1), spec, Cost::new(cost).unwrap());
        state.decide(&item, 1, now).0
    }

    #[test]
    fn the_window_before_is_told_apart_from_the_present_one() {
        let period = Period::new(Nanos::from_secs(60)).unwrap();
        let spec = Spec::Sliding { limit: Limit::new(100).unwrap(), period };
        let mut state = LocalState::default();
        decided(&mut state, spec, 80, Nanos::from_secs(6000));
        let now = Nanos::from_secs(6075);
        decided(&mut state, spec, 30, now);
        let denied = decided(&mut state, spec, 20, now);
        assert!(!denied.is_admitted());
        let seen = TierCounts::of_local(&state, &spec, &denied, now);
        assert_eq!(
            seen,
            TierCounts { own: 30, previous: 60, ..TierCounts::default() },
            "80 weighed by three quarters"
        );
    }

    #[test]
    fn a_shared_key_shows_each_tier_and_the_cell_before() {
        let period = Period::new(Nanos::from_secs(60)).unwrap();
        let spec = Spec::Sliding { limit: Limit::new(100).unwrap(), period };
        let mut state = SharedState::default();
        let item = Item::new(KeyId::from_hash(1), spec, Cost::new(80).unwrap());
        let decision = state.decide(&item, 1, Nanos::from_secs(6000)).0;
        let seen = |seconds| TierCounts::of_shared(&state, &spec, &decision, Nanos::from_secs(seconds));
        assert_eq!(seen(6000), TierCounts { own: 80, ..TierCounts::default() });
        assert_eq!(
            seen(6075),
            TierCounts { previous: 60, ..TierCounts::default() },
            "80 weighed by three quarters"
        );
        assert_eq!(seen(6200), TierCounts::default());
        assert_eq!(TierCounts { own: 1, others: 20, world: 300, previous: 4000 }.total(), 4321);
    }

    #[test]
    fn of_a_rate_it_is_the_burst_in_use() {
        let spec =
            Spec::Gcra { rate: Rate::new(1, Nanos::from_secs(1)).unwrap(), burst: Burst::new(10).unwrap() };
        let mut state = LocalState::default();
        let now = Nanos::from_secs(6000);
        decided(&mut state, spec, 9, now);
        let denied = decided(&mut state, spec, 5, now);
        assert_eq!(TierCounts::of_local(&state, &spec, &denied, now).own, 9);
    }
}
