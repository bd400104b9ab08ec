//! What the table keeps for a key, as the table sees it: something that decides, ages and can be moved.
//!
//! Two implementations: `local.rs` for a node that is alone (32 bytes) and `shared.rs` for one that shares
//! its counts (96 bytes). The table and the batches are the same code for both.

use crate::decision::{Decision, Settle};
use crate::limit::{Cost, Spec};
use crate::time::{Nanos, StepId};
use crate::window::{Counted, sliding_used};

pub trait State: Copy + Default + PartialEq + Send + Sync + std::fmt::Debug + 'static {
    /// Whether a live state can ever be dropped, because somebody else may know what is in it.
    const MAY_BE_EVICTED: bool;

    /// Decides one check, and says what the state is after it. A default state has never been charged.
    fn decide(self, spec: &Spec, cost: Cost, settle: Settle, now: Nanos) -> (Decision, Self);

    /// The clock step that this state was last written under.
    fn step(&self) -> StepId;

    #[must_use]
    fn with_step(self, step: StepId) -> Self;

    /// Carries the state over a clock step: what was used at `now − delta` of the old time is used at `now`.
    #[must_use]
    fn carried(self, spec: &Spec, delta_ns: i64, now: Nanos) -> Self;

    /// From when on this state says no more than a default one.
    fn expires(&self) -> Nanos;

    /// Whether it may be dropped before it expires, because everything in it is known elsewhere.
    fn is_evictable(&self) -> bool;
}

/// What a window's counts amount to, to be carried over a clock step.
pub(crate) fn used_before_step(counted: Counted, expires: Nanos, spec: &Spec, old_now: Nanos) -> u64 {
    match *spec {
        Spec::Sliding { period, .. } => {
            let rolled = counted.rolled_to(period.cell_at(old_now).sequence);
            sliding_used(rolled, period.cell(rolled.sequence), period, old_now)
        }
        Spec::Fixed { period, .. } => counted.rolled_to(period.cell_at(old_now).sequence).current,
        // A calendar's cells end at whole seconds, so the expiry in milliseconds is exact.
        Spec::Calendar { .. } if old_now < expires => counted.current,
        Spec::Calendar { .. } | Spec::Gcra { .. } => 0,
    }
}
