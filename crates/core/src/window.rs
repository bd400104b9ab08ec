//! Sliding and fixed windows over cells, as pure functions of two counts and `now`.
//!
//! Exact integer arithmetic: a product of a count (below 2^64) and a length (below 2^55) is taken in
//! 128 bits, so nothing here can overflow and nothing is rounded but by the definition's `floor`.

use crate::decision::{ChargeMode, Decision, Verdict};
use crate::limit::{Cost, Limit};
use crate::time::{Cell, Nanos, Period, Sequence};

/// Counts stop here, far above any limit: a saturated count denies, it never wraps.
pub const COUNT_MAX: u64 = (1 << 63) - 1;

/// What was charged in a key's cell and in the one before it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct WindowCounts {
    pub current: u64,
    pub previous: u64,
    pub sequence: Sequence,
}

impl WindowCounts {
    /// Rolls over to the cell `sequence`. A clock that went back doesn't reopen an earlier cell.
    #[must_use]
    #[inline]
    pub fn rolled_to(self, sequence: Sequence) -> WindowCounts {
        if sequence <= self.sequence {
            return self;
        }
        let previous = if sequence.0 - self.sequence.0 == 1 { self.current } else { 0 };
        WindowCounts { current: 0, previous, sequence }
    }

    /// Saturates at [`COUNT_MAX`]: an overdrawn count stays overdrawn.
    #[must_use]
    #[inline]
    fn charged(self, cost: Cost) -> WindowCounts {
        WindowCounts { current: add_count(self.current, cost.get()), ..self }
    }
}

/// Saturates at [`COUNT_MAX`].
#[inline]
pub fn add_count(count: u64, more: u64) -> u64 {
    count.saturating_add(more).min(COUNT_MAX)
}

/// What of the window is in use at `now`: `current + floor(previous × (period − elapsed) / period)`.
#[inline]
pub fn sliding_used(counted: WindowCounts, cell: Cell, period: Period, now: Nanos) -> u64 {
    let rest = cell.end.minus(now.max(cell.start)).get();
    counted.current.saturating_add(weighted(counted.previous, rest, period.get()))
}

/// `floor(count × rest / period)`, with `rest ≤ period`.
#[inline]
fn weighted(count: u64, rest: u64, period: u64) -> u64 {
    if count == 0 {
        return 0;
    }
    let product = u128::from(count) * u128::from(rest);
    match u64::try_from(product) {
        Ok(product) => product / period,
        // At most `count`, since `rest ≤ period`.
        Err(_) => u64::try_from(product / u128::from(period)).unwrap_or(count),
    }
}

/// Decides one check of a sliding window. `counted` was rolled to the cell of `now`.
#[inline]
pub fn decide_sliding(
    counted: WindowCounts,
    limit: Limit,
    period: Period,
    cost: Cost,
    charge: ChargeMode,
    now: Nanos,
) -> (Decision, WindowCounts) {
    let cell = period.cell(counted.sequence);
    let used = sliding_used(counted, cell, period, now);
    let admitted = used.saturating_add(cost.get()) <= limit.get();
    let (counted, used) = if charge.charges(admitted) {
        (counted.charged(cost), used.saturating_add(cost.get()))
    } else {
        (counted, used)
    };
    let verdict = if admitted {
        Verdict::Admit
    } else {
        Verdict::Deny { retry_after: sliding_wait(counted, cell, limit, period, cost, now) }
    };
    let reset = sliding_reset(counted, cell, period, used, now);
    (Decision { verdict, limit: limit.get(), remaining: limit.get().saturating_sub(used), reset }, counted)
}

/// The smallest wait until `cost` passes. `used + cost ≤ limit` first holds when the weighted cell has at
/// most `rest` left, the largest `rest` with `floor(count × rest / period) ≤ room`.
#[cold]
fn sliding_wait(
    counted: WindowCounts,
    cell: Cell,
    limit: Limit,
    period: Period,
    cost: Cost,
    now: Nanos,
) -> Option<Nanos> {
    let room = limit.get().checked_sub(cost.get())?;
    let passes_at = match room.checked_sub(counted.current) {
        // Room beside the current cell: the previous one must fade.
        Some(room) => cell.end.minus(largest_rest(counted.previous, room, period)),
        // None: the current cell must itself become the previous one, and fade.
        None => cell.end.plus(period.length()).minus(largest_rest(counted.current, room, period)),
    };
    Some(passes_at.minus(now))
}

/// The largest `rest ≤ period` with `floor(count × rest / period) ≤ room`.
fn largest_rest(count: u64, room: u64, period: Period) -> Nanos {
    if count <= room {
        return period.length();
    }
    // count × rest < (room + 1) × period; room is at most 2^53, so this is below 2^109.
    let bound = (u128::from(room) + 1) * u128::from(period.get()) - 1;
    // count ≥ room + 1, so the quotient is below `period`.
    Nanos::new(u64::try_from(bound / u128::from(count)).unwrap_or(period.get()))
}

/// When nothing of the window would be in use any more.
#[inline]
fn sliding_reset(counted: WindowCounts, cell: Cell, period: Period, used: u64, now: Nanos) -> Nanos {
    // `largest_rest` with room 0 in one 64-bit division: the usual case on the hot path.
    let faded = |count: u64, end: Nanos| end.minus(Nanos::new((period.get() - 1) / count));
    if used == 0 {
        now
    } else if counted.current > 0 {
        faded(counted.current, cell.end.plus(period.length()))
    } else {
        faded(counted.previous, cell.end)
    }
}

/// Decides one check of a fixed window or calendar cell; `cell` is the one that `counted` belongs to.
#[inline]
pub fn decide_fixed(
    counted: WindowCounts,
    limit: Limit,
    cell_end: Nanos,
    cost: Cost,
    settle: ChargeMode,
    now: Nanos,
) -> (Decision, WindowCounts) {
    let admitted = counted.current.saturating_add(cost.get()) <= limit.get();
    let counted = if settle.charges(admitted) { counted.charged(cost) } else { counted };
    let verdict = if admitted {
        Verdict::Admit
    } else {
        Verdict::Deny { retry_after: (cost.get() <= limit.get()).then(|| cell_end.minus(now)) }
    };
    let remaining = limit.get().saturating_sub(counted.current);
    (Decision { verdict, limit: limit.get(), remaining, reset: cell_end }, counted)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decide(current: u64, previous: u64, elapsed_percent: u64, cost: u64, limit: u64) -> Decision {
        let period = Period::new(Nanos::from_secs(100)).unwrap();
        let counted = WindowCounts { current, previous, sequence: Sequence(7) };
        let now = period.cell(Sequence(7)).start.plus(Nanos::from_secs(elapsed_percent));
        let limit = Limit::new(limit).unwrap();
        decide_sliding(counted, limit, period, Cost::new(cost).unwrap(), ChargeMode::IfAdmitted, now).0
    }

    #[test]
    fn the_decision_table_of_the_peers_holds() {
        let pass = |d: Decision| (d.is_admitted(), d.remaining);
        assert_eq!(pass(decide(9, 0, 0, 1, 10)), (true, 0));
        assert_eq!(pass(decide(10, 0, 0, 0, 10)), (true, 0));
        assert_eq!(pass(decide(10, 0, 0, 1, 10)), (false, 0));
        assert_eq!(pass(decide(5, 10, 50, 1, 10)), (false, 0));
        assert_eq!(pass(decide(5, 10, 99, 1, 10)), (true, 4));
        assert_eq!(decide(0, 0, 0, 100, 10).verdict, Verdict::Deny { retry_after: None });
    }

    #[test]
    fn a_count_fits_into_the_signed_integers_of_a_store() {
        assert_eq!(i64::try_from(add_count(COUNT_MAX, u64::MAX)), Ok(i64::MAX));
        assert_eq!(add_count(COUNT_MAX - 1, 1), COUNT_MAX);
    }

    #[test]
    fn a_large_count_fades_as_a_small_one_does() {
        let half = |count: u64| weighted(count, 50 * Nanos::PER_SECOND, 100 * Nanos::PER_SECOND);
        assert_eq!((half(10), half(11), half(1 << 53), half(COUNT_MAX)), (5, 5, 1 << 52, COUNT_MAX / 2));
    }

    #[test]
    fn a_saturated_count_denies_and_never_wraps() {
        let decision = decide(COUNT_MAX, COUNT_MAX, 0, 1 << 53, 1 << 53);
        assert!(!decision.is_admitted());
        let counted = WindowCounts { current: COUNT_MAX, previous: 0, sequence: Sequence(1) };
        assert_eq!(counted.charged(Cost::new(1 << 53).unwrap()).current, COUNT_MAX);
    }

    #[test]
    fn a_window_is_in_use_until_its_reset_and_not_from_then_on() {
        let period = Period::new(Nanos::from_secs(100)).unwrap();
        let used_at = |counted: WindowCounts, now: Nanos| {
            let rolled = counted.rolled_to(period.cell_at(now).sequence);
            sliding_used(rolled, period.cell(rolled.sequence), period, now)
        };
        // Counts that divide the period and counts that don't.
        for (current, previous) in [(10, 0), (0, 10), (3, 10), (7, 7), (0, 7), (1, 0)] {
            let counted = WindowCounts { current, previous, sequence: Sequence(7) };
            let reset = decide(current, previous, 20, 0, 10).reset;
            assert!(used_at(counted, reset.minus(Nanos::new(1))) > 0, "{counted:?} resets too late");
            assert_eq!(used_at(counted, reset), 0, "{counted:?} resets too early");
        }
        let now = period.cell(Sequence(7)).start.plus(Nanos::from_secs(20));
        assert_eq!(decide(0, 0, 20, 0, 10).reset, now, "nothing is in use");
    }

    #[test]
    fn a_fixed_window_admits_up_to_its_limit_and_then_says_when_the_next_begins() {
        let (limit, end, now) = (Limit::new(10).unwrap(), Nanos::from_secs(100), Nanos::from_secs(30));
        let decide = |current: u64, cost: u64, settle: ChargeMode| {
            let counted = WindowCounts { current, previous: 0, sequence: Sequence(0) };
            let (decision, after) = decide_fixed(counted, limit, end, Cost::new(cost).unwrap(), settle, now);
            assert_eq!((decision.limit, decision.reset), (10, end));
            (decision.verdict, decision.remaining, after.current)
        };
        let wait = Verdict::Deny { retry_after: Some(Nanos::from_secs(70)) };
        let never = Verdict::Deny { retry_after: None };
        assert_eq!(decide(6, 4, ChargeMode::IfAdmitted), (Verdict::Admit, 0, 10));
        assert_eq!(decide(6, 5, ChargeMode::IfAdmitted), (wait, 4, 6));
        assert_eq!(decide(6, 10, ChargeMode::IfAdmitted), (wait, 4, 6));
        assert_eq!(decide(6, 11, ChargeMode::IfAdmitted), (never, 4, 6), "it would deny as well when empty");
    }
}
