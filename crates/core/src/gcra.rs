//! GCRA: one theoretical arrival time, kept as an exact fraction of a nanosecond.
//!
//! With the interval `numerator / denominator` nanoseconds, everything is counted in *ticks* of
//! `1 / denominator` nanosecond: one unit of cost is `numerator` ticks, one nanosecond is `denominator`
//! ticks. So any rate is exact, from 1 per year to 10^9 per second, and nothing is ever rounded in a
//! caller's favour.
//!
//! Ranges: numerator < 2^55, denominator ≤ 2^53, cost and burst ≤ 2^53, instants < 2^64. So a backlog is
//! below 2^117 ticks and a cost below 2^108: sums and comparisons in 128 bits never overflow.

use crate::decision::{ChargeMode, Decision, Verdict};
use crate::limit::{Burst, Cost, Rate};
use crate::time::Nanos;

/// The theoretical arrival time: `whole + ticks / rate.denominator` nanoseconds.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Tat {
    pub whole: Nanos,
    pub ticks: u64,
    /// Post-paid costs have taken more than a full burst: a debt that is paid back, never forgiven.
    pub overdrawn: bool,
}

/// A debt beyond a full burst that isn't overdrawn is forgiven only past this: threads that share a key read clocks that differ
/// by microseconds, and that must never refill anything.
const FORGIVEN_BEYOND: Nanos = Nanos::from_secs(1);

impl Tat {
    /// The first whole nanosecond at which the debt is gone.
    pub fn whole_ceil(self) -> Nanos {
        self.whole.plus(Nanos::new(u64::from(self.ticks > 0)))
    }

    /// How far `tat` lies ahead of `now`, in ticks of `rate`; 0 when it has passed.
    #[inline]
    pub fn backlog(self, rate: Rate, now: Nanos) -> u128 {
        if self.whole < now {
            return 0;
        }
        wide(self.whole.minus(now).get()) * wide(rate.interval_denominator()) + wide(self.ticks)
    }

    /// The instant that lies `backlog` ticks after `now`. Saturates at the end of time: a debt of
    /// centuries stays one.
    #[inline]
    pub fn after(now: Nanos, backlog: u128, rate: Rate) -> Tat {
        let (whole, ticks) = divide(backlog, rate.interval_denominator());
        match u64::try_from(whole).ok().and_then(|whole| now.get().checked_add(whole)) {
            Some(whole) => Tat { whole: Nanos::new(whole), ticks, overdrawn: false },
            None => Tat { whole: Nanos::MAX, ticks: 0, overdrawn: false },
        }
    }

    /// The arrival time of somebody who owes `units` at `now`, exactly.
    pub fn owing(now: Nanos, units: u64, rate: Rate) -> Tat {
        Tat::after(now, wide(units) * wide(rate.interval_numerator_ns()), rate)
    }

    /// The same debt at another rate: what was spent stays spent. Rounds up by less than a tick.
    #[must_use]
    #[cold]
    pub fn rescaled(self, from: Rate, to: Rate, now: Nanos) -> Tat {
        let backlog = self.backlog(from, now);
        if backlog == 0 {
            return Tat { whole: self.whole_ceil(), ticks: 0, overdrawn: false };
        }
        // `count ≤ period` in nanoseconds bounds the whole units by 2^64, so the products stay below 2^120.
        let unit_from = wide(from.interval_numerator_ns());
        let unit_to = wide(to.interval_numerator_ns());
        let (units, part) = (backlog / unit_from, backlog % unit_from);
        let backlog = units * unit_to + (part * unit_to).div_ceil(unit_from);
        Tat { overdrawn: self.overdrawn, ..Tat::after(now, backlog, to) }
    }
}

/// Decides one check. `tat` is in ticks of `rate`.
#[inline]
pub fn decide(
    tat: Tat,
    rate: Rate,
    burst: Burst,
    cost: Cost,
    settle: ChargeMode,
    now: Nanos,
) -> (Decision, Tat) {
    let unit = wide(rate.interval_numerator_ns());
    let full = wide(burst.get()) * unit;
    let mut backlog = tat.backlog(rate, now);
    let mut tat = Tat { overdrawn: tat.overdrawn && backlog > full, ..tat };
    let forgiven_beyond = full + wide(FORGIVEN_BEYOND.get()) * wide(rate.interval_denominator());
    if backlog > forgiven_beyond && settle != ChargeMode::Always && !tat.overdrawn {
        // A lowered burst costs a caller one empty bucket, not a debt of the old size.
        backlog = full;
        tat = Tat::after(now, backlog, rate);
    }
    let asked = backlog + wide(cost.get()) * unit;
    let admitted = asked <= full;
    if settle.charges(admitted) && cost.get() > 0 {
        backlog = asked;
        tat = Tat { overdrawn: backlog > full, ..Tat::after(now, backlog, rate) };
    }
    let verdict = if admitted {
        Verdict::Admit
    } else {
        Verdict::Deny { retry_after: wait(backlog, unit, full, rate, cost) }
    };
    let remaining = narrow(divide(full.saturating_sub(backlog), rate.interval_numerator_ns()).0);
    let reset = now.plus(whole_nanos_ceil(backlog, rate));
    (Decision { verdict, limit: burst.get(), remaining, reset }, tat)
}

/// Until the backlog has drained so far that `cost` fits under a full burst.
#[cold]
fn wait(backlog: u128, unit: u128, full: u128, rate: Rate, cost: Cost) -> Option<Nanos> {
    let room = full.checked_sub(wide(cost.get()) * unit)?;
    Some(whole_nanos_ceil(backlog.saturating_sub(room), rate))
}

#[inline]
fn whole_nanos_ceil(ticks: u128, rate: Rate) -> Nanos {
    let (whole, rest) = divide(ticks, rate.interval_denominator());
    Nanos::new(narrow(whole).saturating_add(u64::from(rest > 0)))
}

/// Quotient and remainder; the usual small dividend takes one 64-bit division instead of a 128-bit one.
#[inline]
fn divide(dividend: u128, divisor: u64) -> (u128, u64) {
    if divisor == 1 {
        return (dividend, 0);
    }
    match u64::try_from(dividend) {
        Ok(dividend) => (wide(dividend / divisor), dividend % divisor),
        Err(_) => (dividend / wide(divisor), narrow(dividend % wide(divisor))),
    }
}

const fn wide(number: u64) -> u128 {
    number as u128
}

/// Saturates: only an instant past the end of time is that large.
fn narrow(number: u128) -> u64 {
    u64::try_from(number).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rate(count: u64, period: Nanos) -> Rate {
        Rate::new(count, period).unwrap()
    }

    fn admitted_at_once(tat: Tat, rate: Rate, burst: u64, now: Nanos) -> (u64, Tat) {
        let mut state = tat;
        for admitted in 0..=1000 {
            let (decision, next) =
                decide(state, rate, Burst::new(burst).unwrap(), Cost::ONE, ChargeMode::IfAdmitted, now);
            if !decision.is_admitted() {
                return (admitted, state);
            }
            state = next;
        }
        panic!("there is no end to it");
    }

    #[test]
    fn a_burst_of_ten_is_ten_after_any_idle_time() {
        let rate = rate(1, Nanos::from_secs(1));
        let mut tat = Tat::default();
        let mut now = Nanos::from_secs(1_000_000);
        for idle_ms in [0, 10_000, 10_500, 18_500, 1_000_000_000] {
            now = now.plus(Nanos::from_millis(idle_ms));
            if idle_ms > 0 {
                assert_eq!(admitted_at_once(tat, rate, 10, now).0, 10, "after {idle_ms} ms");
            }
            tat = admitted_at_once(tat, rate, 10, now).1;
        }
    }

    #[test]
    fn thirds_of_a_second_add_up_exactly() {
        let third = rate(3, Nanos::from_secs(1));
        let now = Nanos::from_secs(50);
        let (_, tat) = admitted_at_once(Tat::default(), third, 3, now);
        assert_eq!(tat, Tat { whole: Nanos::from_secs(51), ticks: 0, overdrawn: false });
    }

    #[test]
    fn an_overdraft_is_paid_back_in_full_and_a_lowered_burst_is_not() {
        let slow = rate(1, Nanos::from_secs(2));
        let now = Nanos::from_secs(50);
        let check = |tat, burst, cost, settle| {
            decide(tat, slow, Burst::new(burst).unwrap(), Cost::new(cost).unwrap(), settle, now)
        };
        let wait = |decision: Decision| match decision.verdict {
            Verdict::Deny { retry_after } => retry_after,
            Verdict::Admit => Some(Nanos::ZERO),
        };
        let (_, overdrawn) = check(Tat::default(), 3, 5, ChargeMode::Always);
        assert_eq!(wait(check(overdrawn, 3, 1, ChargeMode::IfAdmitted).0), Some(Nanos::from_secs(6)));
        let (_, full) = check(Tat::default(), 5, 5, ChargeMode::IfAdmitted);
        assert_eq!(wait(check(full, 3, 1, ChargeMode::IfAdmitted).0), Some(Nanos::from_secs(2)));
    }

    /// How long one unit waits in a bucket whose burst was lowered, in units.
    fn wait_after_lowering(rate: Rate, tat: Tat, burst: u64, now: Nanos) -> u64 {
        let (decision, _) =
            decide(tat, rate, Burst::new(burst).unwrap(), Cost::ONE, ChargeMode::IfAdmitted, now);
        let Verdict::Deny { retry_after: Some(wait) } = decision.verdict else { panic!("{decision:?}") };
        (0..100).find(|units| after_units(rate, now, *units).whole_ceil().minus(now) >= wait).unwrap()
    }

    fn after_units(rate: Rate, now: Nanos, units: u64) -> Tat {
        Tat::after(now, u128::from(units) * u128::from(rate.interval_numerator_ns()), rate)
    }

    #[test]
    fn a_debt_is_forgiven_from_a_second_beyond_a_full_burst_on_at_any_rate() {
        let now = Nanos::from_secs(50);
        let (whole, sevenths) = (rate(1, Nanos::from_secs(1)), rate(7, Nanos::from_secs(1)));
        let wait = |rate, owed, burst| wait_after_lowering(rate, after_units(rate, now, owed), burst, now);
        assert_eq!(wait(sevenths, 10, 5), 6, "five sevenths of a second beyond");
        assert_eq!(wait(sevenths, 13, 5), 1, "eight sevenths");
        assert_eq!(wait(whole, 5, 4), 2, "a second to the nanosecond");
        assert_eq!(wait(whole, 6, 4), 1);
    }

    #[test]
    fn an_overdraft_that_was_paid_back_to_a_full_burst_is_none_any_more() {
        let slow = rate(1, Nanos::from_secs(2));
        let (start, five) = (Nanos::from_secs(50), Burst::new(5).unwrap());
        let look = |tat, now| decide(tat, slow, five, Cost::ONE, ChargeMode::IfAdmitted, now).1;
        let overdrawn =
            decide(Tat::default(), slow, five, Cost::new(6).unwrap(), ChargeMode::Always, start).1;
        let paid = start.plus(Nanos::from_secs(2));
        assert_eq!(wait_after_lowering(slow, look(overdrawn, paid), 1, paid), 1);
        let before = paid.minus(Nanos::new(1));
        assert_eq!(wait_after_lowering(slow, look(overdrawn, before), 1, before), 6, "a nanosecond before");
    }

    #[test]
    fn a_look_leaves_the_state_as_it_was() {
        let (third, now) = (rate(3, Nanos::from_secs(1)), Nanos::from_secs(50));
        for tat in [Tat::default(), after_units(third, now, 2), after_units(third, now, 4)] {
            let looked_at =
                decide(tat, third, Burst::new(3).unwrap(), Cost::PEEK, ChargeMode::IfAdmitted, now);
            assert_eq!(looked_at.1, tat);
        }
    }

    #[test]
    fn a_debt_ends_with_the_nanosecond_in_which_it_is_paid() {
        let third = rate(3, Nanos::from_secs(1));
        let (now, next) = (Nanos::from_secs(50), Nanos::from_secs(50).plus(Nanos::new(1)));
        let part = Tat { whole: now, ticks: 2, overdrawn: false };
        assert_eq!((part.whole_ceil(), Tat { ticks: 0, ..part }.whole_ceil()), (next, now));
        assert_eq!((part.backlog(third, now), part.backlog(third, next)), (2, 0));
    }

    #[test]
    fn a_changed_rate_keeps_parts_of_a_unit_and_overdrafts() {
        let now = Nanos::from_secs(50);
        let (fast, slow) = (rate(1, Nanos::from_secs(1)), rate(1, Nanos::from_secs(2)));
        let debt = Tat { whole: now.plus(Nanos::from_millis(1_500)), ticks: 0, overdrawn: true };
        let rescaled = debt.rescaled(fast, slow, now);
        assert_eq!(rescaled, Tat { whole: now.plus(Nanos::from_secs(3)), ..debt });
        assert_eq!(rescaled.rescaled(slow, fast, now), debt);
        let odd = Tat { whole: now.plus(Nanos::new(1)), ..debt };
        let sevenths = rate(7, Nanos::from_secs(3));
        assert!(odd.rescaled(fast, sevenths, now).backlog(sevenths, now) > 0, "rounded up");
    }

    #[test]
    fn a_changed_rate_keeps_what_was_spent() {
        let now = Nanos::from_secs(50);
        let fast = rate(100, Nanos::from_secs(1));
        let slow = rate(1, Nanos::from_secs(1));
        let (_, tat) = admitted_at_once(Tat::default(), fast, 10, now);
        assert_eq!(tat.rescaled(fast, slow, now).whole, now.plus(Nanos::from_secs(10)));
    }

    #[test]
    fn a_debt_at_the_end_of_time_neither_wraps_nor_panics() {
        let yearly = rate(1, Nanos::from_secs(366 * 86_400));
        let huge = Cost::new(1 << 53).unwrap();
        let (decision, tat) = decide(
            Tat::default(),
            yearly,
            Burst::new(1).unwrap(),
            huge,
            ChargeMode::Always,
            Nanos::from_secs(1),
        );
        assert!(!decision.is_admitted());
        assert_eq!(tat.whole, Nanos::MAX);
        let again =
            decide(tat, yearly, Burst::new(1).unwrap(), huge, ChargeMode::Always, Nanos::from_secs(2));
        assert_eq!(again.1.whole, Nanos::MAX);
    }
}
