//! What the table keeps for a key, as the table sees it: something that decides, ages and can be moved.
//!
//! Two implementations: `local.rs` for a node that is alone (32 bytes) and `shared.rs` for one that shares
//! its counts (96 bytes). The table and the batches are the same code for both.

use crate::ask::AskReason;
use crate::decision::{ChargeMode, Decision};
use crate::item::Item;
use crate::limit::{Cost, Spec};
use crate::packed::{payload_of, step_of, tag_with_step, window_expires, window_tag};
use crate::time::{ClockStep, Nanos, Sequence, StepId};
use crate::window::{self, WindowCounts, sliding_used};

pub trait State: Copy + Default + PartialEq + Send + Sync + std::fmt::Debug + 'static {
    /// Whether other nodes know of these counts: then an admission may have to ask, a charge is to be
    /// published, and a live state may be dropped, because somebody else knows what is in it.
    const SHARED: bool;

    /// Decides one check in place; says also why it must first ask the region, if it must. A default state
    /// has never been charged.
    fn decide(&mut self, item: &Item, live_nodes: u32, now: Nanos) -> (Decision, Option<AskReason>);

    /// A state for a key that has none. `remembers_all`: no key's was ever dropped before it was over.
    fn begun(step: StepId, remembers_all: bool) -> Self {
        let _ = remembers_all;
        Self::default().with_step(step)
    }

    /// The clock step that this state was last written under.
    fn step(&self) -> StepId;

    #[must_use]
    fn with_step(self, step: StepId) -> Self;

    /// Carries the state over a clock step: what was used at its last instant of the old time is used at its
    /// first of the new.
    #[must_use]
    fn carried(self, spec: &Spec, step: ClockStep) -> Self;

    /// The same for a state whose contents are instants: it needs no limit for that. `None` for cells, which stay where they
    /// are until somebody decides about them.
    fn carried_instants(self, step: ClockStep) -> Option<Self> {
        let _ = step;
        None
    }

    /// From when on this state says no more than a default one.
    fn expires(&self) -> Nanos;

    /// Whether it may be dropped before it expires, because everything in it is known elsewhere.
    fn is_evictable(&self) -> bool;

    /// How soon what was charged must be published.
    fn publish(&self) -> PublishUrgency;
}

/// How soon a state's charges are to be published.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
#[repr(u8)]
pub enum PublishUrgency {
    /// Everything is known to the origin.
    #[default]
    Nothing,
    /// With the next periodic flush.
    Soon,
    /// At once: half of the credit is spent.
    Now,
}

/// What a window's counts amount to, to be carried over a clock step.
pub(crate) fn used_before_step(counted: WindowCounts, expires: Nanos, spec: &Spec, old_now: Nanos) -> u64 {
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

/// The cell in which a step lands. A calendar's spec knows only the cell of the check: `None` when the step
/// landed in an earlier one, which is over.
pub(crate) fn landing_cell(spec: &Spec, step: ClockStep) -> Option<Sequence> {
    match *spec {
        Spec::Sliding { period, .. } | Spec::Fixed { period, .. } => {
            Some(period.cell_at(step.lands_at).sequence)
        }
        Spec::Calendar { cell, .. } => (step.lands_at >= cell.start).then_some(cell.sequence),
        Spec::Gcra { .. } => None,
    }
}

/// Where a window's counts stop mattering: a sliding window's cell is weighed for one more period.
#[inline]
pub(crate) fn window_expiry(spec: &Spec, sequence: Sequence, before: Nanos) -> Nanos {
    match *spec {
        Spec::Sliding { period, .. } => period.cell(sequence).end.plus(period.length()),
        Spec::Fixed { period, .. } => period.cell(sequence).end,
        // After a clock that went back, the state's own cell is the later one, and it knows its end.
        Spec::Calendar { cell, .. } if cell.sequence < sequence => before,
        Spec::Calendar { cell, .. } => cell.end,
        Spec::Gcra { .. } => Nanos::ZERO,
    }
}

/// The cell of `now`, without dividing when that is still `likely`.
#[inline]
pub(crate) fn sequence_of(spec: &Spec, now: Nanos, likely: Sequence) -> Sequence {
    match *spec {
        Spec::Sliding { period, .. } | Spec::Fixed { period, .. } => {
            period.cell_at_after(now, likely).sequence
        }
        Spec::Calendar { cell, .. } => cell.sequence,
        Spec::Gcra { .. } => Sequence(0),
    }
}

/// Decides a check of a window: the part that both states share.
#[inline(always)]
pub(crate) fn decide_window(
    counted: WindowCounts,
    tag: u64,
    spec: &Spec,
    cost: Cost,
    charge: ChargeMode,
    now: Nanos,
) -> (Decision, WindowCounts) {
    match *spec {
        Spec::Sliding { limit, period } => {
            let counted = counted.rolled_to(period.cell_at_after(now, counted.sequence).sequence);
            window::decide_sliding(counted, limit, period, cost, charge, now)
        }
        Spec::Fixed { limit, period } => {
            let counted = counted.rolled_to(period.cell_at_after(now, counted.sequence).sequence);
            let cell_end = period.cell(counted.sequence).end;
            window::decide_fixed(counted, limit, cell_end, cost, charge, now)
        }
        Spec::Calendar { limit, cell, .. } => {
            let counted = counted.rolled_to(cell.sequence);
            let cell_end = window_expiry(spec, counted.sequence, window_expires(tag));
            window::decide_fixed(counted, limit, cell_end, cost, charge, now)
        }
        Spec::Gcra { .. } => unreachable!("a window's spec was asked for"),
    }
}

/// The tag of a window's state after a charge: the same while it stays in its cell.
#[inline]
pub(crate) fn window_tag_after(tag: u64, spec: &Spec, before: Sequence, after: Sequence) -> u64 {
    if before == after && payload_of(tag) != 0 {
        return tag;
    }
    tag_with_step(window_tag(window_expiry(spec, after, window_expires(tag))), step_of(tag))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::calendar::CalendarUnit;
    use crate::limit::Limit;
    use crate::time::{Cell, Period};

    const MINUTE: Nanos = Nanos::from_secs(60);

    fn period() -> Period {
        Period::new(MINUTE).unwrap()
    }

    fn limit() -> Limit {
        Limit::new(10).unwrap()
    }

    /// A calendar's check in the cell of this number; its cells are of a minute each.
    fn calendar(sequence: u64) -> Spec {
        let cell: Cell = period().cell(Sequence(sequence));
        Spec::Calendar { limit: limit(), unit: CalendarUnit::Hour, cell }
    }

    #[test]
    fn a_step_carries_what_is_in_use_and_nothing_of_a_cell_that_is_over() {
        let counted = WindowCounts { current: 6, previous: 4, sequence: Sequence(7) };
        let (start, end) = (period().cell(Sequence(7)).start, period().cell(Sequence(7)).end);
        let (middle, before_end) = (start.plus(Nanos::from_secs(30)), end.minus(Nanos::new(1)));
        let used = |spec: &Spec, old_now: Nanos| used_before_step(counted, end, spec, old_now);
        let sliding = Spec::Sliding { limit: limit(), period: period() };
        assert_eq!((used(&sliding, start), used(&sliding, middle), used(&sliding, end)), (10, 8, 6));
        assert_eq!(used(&sliding, end.plus(MINUTE)), 0);
        for spec in [Spec::Fixed { limit: limit(), period: period() }, calendar(7)] {
            assert_eq!((used(&spec, start), used(&spec, before_end)), (6, 6), "{spec:?}");
            assert_eq!((used(&spec, end), used(&spec, end.plus(MINUTE))), (0, 0), "{spec:?}");
        }
    }

    #[test]
    fn a_step_into_a_calendars_cell_lands_there_and_one_before_it_nowhere() {
        let start = period().cell(Sequence(7)).start;
        let landing = |lands_at: Nanos| landing_cell(&calendar(7), ClockStep { delta_ns: 1, lands_at });
        assert_eq!(landing(start), Some(Sequence(7)));
        assert_eq!(landing(start.minus(Nanos::new(1))), None);
    }

    #[test]
    fn after_a_clock_that_went_back_a_calendars_later_cell_keeps_its_own_end() {
        let (own_end, check) = (Nanos::from_secs(12_345), calendar(7));
        let check_end = period().cell(Sequence(7)).end;
        assert_eq!(window_expiry(&check, Sequence(8), own_end), own_end);
        assert_eq!(window_expiry(&check, Sequence(7), own_end), check_end);
        assert_eq!(window_expiry(&check, Sequence(6), own_end), check_end);
    }

    #[test]
    fn a_charge_sets_the_expiry_of_its_cell_also_in_the_first_of_all() {
        let spec = Spec::Sliding { limit: limit(), period: period() };
        let expires = |tag: u64, before: u64, after: u64| {
            let after = window_tag_after(tag, &spec, Sequence(before), Sequence(after));
            assert_eq!(step_of(after), step_of(tag), "the step is lost");
            window_expires(after)
        };
        let tag = tag_with_step(window_tag(Nanos::from_secs(9 * 60)), StepId(3));
        assert_eq!(expires(tag, 7, 7), Nanos::from_secs(9 * 60), "it stays in its cell");
        assert_eq!(expires(tag, 7, 8), Nanos::from_secs(10 * 60), "it moved on");
        let never_charged = tag_with_step(0, StepId(3));
        assert_eq!(expires(never_charged, 0, 7), Nanos::from_secs(9 * 60));
        assert_eq!(expires(never_charged, 0, 0), Nanos::from_secs(2 * 60), "in 1970");
    }
}
