//! How much a region may admit before the other regions hear of it, as pure functions
//! (docs/design.md, "Counts between regions").
//!
//! The credit of a node once more (`ask.rs`), with regions instead of nodes: half of what is left of the limit, divided
//! by the regions, and never less than a fortieth of the limit, so that a limit that is nearly spent isn't
//! published with every request. Everything here rounds down alike, because the origin's script computes it too.

use crate::identity::KeyId;
use crate::limit::Spec;
use crate::time::{Nanos, Sequence};

/// Of the headroom, half may be spent unseen, over all regions together (δ = ½).
const HEADROOM_DIVISOR: u64 = 2;
/// Of the limit, 2.5 % may always be (ε).
const LIMIT_DIVISOR: u64 = 40;

/// Windows that are at least as long are kept by counts; shorter ones, and rates, by quotas.
const COUNTED_FROM: Nanos = Nanos::from_secs(60);

/// An ask that the limit admits and the world credit doesn't: about as long as it takes to publish.
pub const CREDIT_WAIT: Nanos = Nanos::from_millis(100);

/// One stretch of a window's time, of one key.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct CellId {
    pub key: KeyId,
    pub epoch: u16,
    pub sequence: Sequence,
}

/// When a region publishes a count.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum WorldPolicy {
    /// By the credit of what is left of a limit.
    #[default]
    Headroom,
    /// From this part of the limit on, whatever grew. R regions just below it spend `1 + (R − 1) × floor` limits.
    Floor { thousandths: u16 },
}

/// What all nodes of a region must know about the others.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct WorldView {
    /// Those that share limits, this one included.
    pub regions: u32,
    /// Rises with every change of the regions.
    pub version: u64,
    pub policy: WorldPolicy,
}

/// A cell as a region knows it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CellUsage {
    pub limit: u64,
    /// Of the limit, by all regions: what still weighs of the previous cell included.
    pub used: u64,
    /// The region's count.
    pub total: u64,
    /// How much of that the others know.
    pub published: u64,
}

impl CellUsage {
    fn growth(&self) -> u64 {
        self.total.saturating_sub(self.published)
    }
}

/// Whether a limit that is the world's is kept by counts, not by quotas.
#[inline]
pub fn is_counted(spec: &Spec) -> bool {
    match spec {
        Spec::Sliding { period, .. } | Spec::Fixed { period, .. } => period.length() >= COUNTED_FROM,
        // The shortest calendar unit is longer.
        Spec::Calendar { .. } => true,
        Spec::Gcra { .. } => false,
    }
}

/// The regions that may spend of a limit unseen: this one where it has told the others of the cell or of the one
/// before, and none of them counts in either; else all of them, and of an `abuse` limit always.
pub fn spenders(regions: u32, is_abuse: bool, is_alone: bool) -> u32 {
    if is_alone && !is_abuse { 1 } else { regions }
}

/// How much a region may admit before the others hear of it. Never 0: nothing could ever be admitted then.
pub fn world_credit(limit: u64, used: u64, regions: u32) -> u64 {
    let regions = u64::from(regions.max(1));
    let of_headroom = limit.saturating_sub(used) / (HEADROOM_DIVISOR * regions);
    of_headroom.max(limit / (LIMIT_DIVISOR * regions)).max(1)
}

/// Whether the others are to hear of it now: half of the credit is spent, or the floor is reached.
pub fn is_due(policy: WorldPolicy, cell: &CellUsage, regions: u32) -> bool {
    let growth = cell.growth();
    growth > 0
        && match policy {
            WorldPolicy::Headroom => growth.saturating_mul(2) >= world_credit(cell.limit, cell.used, regions),
            WorldPolicy::Floor { thousandths } => {
                u128::from(cell.total) * 1_000 >= u128::from(cell.limit) * u128::from(thousandths)
            }
        }
}

/// Whether a region may admit nothing more before the others hear of what it has.
pub fn is_spent(cell: &CellUsage, regions: u32) -> bool {
    cell.growth() >= world_credit(cell.limit, cell.used, regions)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cell(used: u64, total: u64, published: u64) -> CellUsage {
        CellUsage { limit: 1_000, used, total, published }
    }

    #[test]
    fn the_credit_shrinks_with_the_headroom_down_to_a_fortieth_of_the_limit() {
        assert_eq!(world_credit(1_000, 0, 1), 500);
        assert_eq!(world_credit(1_000, 400, 3), 100);
        assert_eq!(world_credit(1_000, 990, 3), 8);
        assert_eq!(world_credit(1_000, 2_000, 3), 8);
        assert_eq!(world_credit(3, 3, 10), 1);
    }

    #[test]
    fn half_of_the_credit_is_published_and_the_whole_of_it_stops() {
        let policy = WorldPolicy::Headroom;
        // 1,000 − 77 are left for three regions: half of that is 153 each.
        assert!(!is_due(policy, &cell(60, 60, 0), 3));
        assert!(is_due(policy, &cell(77, 77, 0), 3));
        assert!(!is_due(policy, &cell(77, 77, 77), 3), "nothing grew");
        assert!(!is_spent(&cell(142, 142, 0), 3));
        assert!(is_spent(&cell(143, 143, 0), 3));
    }

    #[test]
    fn windows_of_a_minute_and_more_are_counted() {
        use crate::limit::{Burst, Limit, Rate};
        use crate::time::Period;
        let limit = Limit::new(5).unwrap();
        let period = |secs| Period::new(Nanos::from_secs(secs)).unwrap();
        for (secs, counted) in [(59, false), (60, true), (61, true)] {
            assert_eq!(is_counted(&Spec::Sliding { limit, period: period(secs) }), counted);
            assert_eq!(is_counted(&Spec::Fixed { limit, period: period(secs) }), counted);
        }
        let rate = Rate::new(1, Nanos::from_secs(3600)).unwrap();
        assert!(!is_counted(&Spec::Gcra { rate, burst: Burst::new(5).unwrap() }));
    }

    #[test]
    fn a_limit_that_one_region_uses_is_its_own_unless_it_is_abuse() {
        let of = |is_abuse, is_alone| [1, 2, 10].map(|regions| spenders(regions, is_abuse, is_alone));
        assert_eq!(of(false, true), [1, 1, 1]);
        for (is_abuse, is_alone) in [(true, false), (false, false), (true, true)] {
            assert_eq!(of(is_abuse, is_alone), [1, 2, 10]);
        }
    }

    #[test]
    fn a_floor_publishes_whatever_grew_above_it() {
        let policy = WorldPolicy::Floor { thousandths: 500 };
        assert!(!is_due(policy, &cell(499, 499, 0), 3));
        assert!(is_due(policy, &cell(501, 501, 500), 3));
        assert!(!is_due(policy, &cell(501, 501, 501), 3));
    }

    #[test]
    fn everybody_at_the_credit_at_once_overshoots_by_half_at_most() {
        for regions in 1..=12 {
            let credit = world_credit(1_000, 0, regions);
            assert!(credit * u64::from(regions) <= 500, "{regions} regions");
        }
    }
}
