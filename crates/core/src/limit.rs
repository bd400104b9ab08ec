//! The numbers of a limit. A value that exists is valid; nothing below the edge checks it again.
//!
//! Must never accept a number that some later product can't hold: the ranges here are what makes the
//! arithmetic of `window.rs` and `gcra.rs` exact.

use crate::calendar::CalendarUnit;
use crate::gcra_sync::interval_times;
use crate::slice::PARTS;
use crate::time::{Cell, Nanos, Period};
use std::num::NonZeroU64;

/// The largest cost, limit and burst: 2^53, the last integer up to which a double, and so Lua and
/// JavaScript, counts without gaps.
pub const NUMBER_MAX: u64 = 1 << 53;

/// Which number was out of its range; the message says what the range is.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum OutOfRange {
    #[error("a limit is a whole number from 0 to 2^53 (9007199254740992)")]
    Limit,
    #[error("a cost is a whole number from 0 to 2^53 (9007199254740992)")]
    Cost,
    #[error("a burst is a whole number from 0 to 2^53 (9007199254740992)")]
    Burst,
    #[error("a window's period is 1 second to 366 days")]
    Period,
    #[error("a rate is from 1 per 366 days to 1000000000 per second, over a period of 1 ms to 366 days")]
    Rate,
    #[error("a burst must refill within 100 years at its rate")]
    Refill,
}

/// How much a window admits. 0 blocks.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Limit(u64);

impl Limit {
    pub const BLOCKED: Limit = Limit(0);

    pub const fn new(limit: u64) -> Result<Self, OutOfRange> {
        if limit > NUMBER_MAX { Err(OutOfRange::Limit) } else { Ok(Limit(limit)) }
    }

    pub const fn get(self) -> u64 {
        self.0
    }
}

/// What a request weighs. 0 only peeks.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Cost(u64);

impl Cost {
    pub const PEEK: Cost = Cost(0);
    pub const ONE: Cost = Cost(1);
    pub const MAX: Cost = Cost(NUMBER_MAX);

    pub const fn new(cost: u64) -> Result<Self, OutOfRange> {
        if cost > NUMBER_MAX { Err(OutOfRange::Cost) } else { Ok(Cost(cost)) }
    }

    pub const fn get(self) -> u64 {
        self.0
    }
}

/// How much GCRA admits at once. 0 blocks.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Burst(u64);

impl Burst {
    pub const BLOCKED: Burst = Burst(0);

    pub const fn new(burst: u64) -> Result<Self, OutOfRange> {
        if burst > NUMBER_MAX { Err(OutOfRange::Burst) } else { Ok(Burst(burst)) }
    }

    pub const fn get(self) -> u64 {
        self.0
    }
}

/// `count` per `period`, kept as an exact fraction in lowest terms: the interval between two units of cost
/// is `interval_numerator / interval_denominator` nanoseconds, never rounded.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Rate {
    numerator_ns: NonZeroU64,
    denominator: NonZeroU64,
}

impl Rate {
    const PERIOD_MIN: Nanos = Nanos::from_millis(1);
    /// A hundred years.
    const REFILL_MAX: Nanos = Nanos::from_secs(100 * 365 * 86_400);

    pub fn new(count: u64, period: Nanos) -> Result<Self, OutOfRange> {
        if period < Self::PERIOD_MIN || period > Period::MAX || count > NUMBER_MAX || count > period.get() {
            return Err(OutOfRange::Rate);
        }
        let divisor = greatest_common_divisor(count, period.get());
        match (NonZeroU64::new(period.get() / divisor), NonZeroU64::new(count / divisor)) {
            (Some(numerator_ns), Some(denominator)) => Ok(Rate { numerator_ns, denominator }),
            _ => Err(OutOfRange::Rate),
        }
    }

    /// `count` per `length`, or what comes nearest to it within the range of a rate.
    pub fn nearest(count: u64, length: Nanos) -> Self {
        let length = length.get().clamp(Self::PERIOD_MIN.get(), Period::MAX.get());
        let count = NonZeroU64::new(count.min(NUMBER_MAX).min(length)).unwrap_or(NonZeroU64::MIN);
        let divisor = greatest_common_divisor(count.get(), length);
        // Both are at least 1, and so are their quotients by a common divisor.
        let part = |number: u64| NonZeroU64::new(number / divisor).unwrap_or(NonZeroU64::MIN);
        Rate { numerator_ns: part(length), denominator: part(count.get()) }
    }

    /// This rate times `part / whole`, as near as the range of a rate allows.
    #[must_use]
    pub fn scaled(self, part: u64, whole: u64) -> Self {
        let mut count = u128::from(self.denominator.get()) * u128::from(part);
        let mut length = u128::from(self.numerator_ns.get()) * u128::from(whole.max(1));
        while length < u128::from(Self::PERIOD_MIN.get()) {
            (count, length) = (count * 1000, length * 1000);
        }
        // Halving a small count would round it by a lot: then by the interval of one unit.
        while count > u128::from(NUMBER_MAX) || (length > u128::from(Period::MAX.get()) && count > 1 << 20) {
            (count, length) = (count.div_ceil(2), length.div_ceil(2));
        }
        if length > u128::from(Period::MAX.get()) {
            (count, length) = (1, length / count.max(1));
        }
        let narrow = |number| u64::try_from(number).unwrap_or(u64::MAX);
        Self::nearest(narrow(count), Nanos::new(narrow(length)))
    }

    /// This rate times `parts` billionths, never above that; `None` where there is no rate as slow.
    #[must_use]
    pub fn parted(self, parts: u32) -> Option<Self> {
        let mut count = u128::from(self.denominator.get()) * u128::from(parts);
        let mut length = u128::from(self.numerator_ns.get()) * u128::from(PARTS);
        // A billion times any interval is more than the shortest period.
        while count > u128::from(NUMBER_MAX) || length > u128::from(Period::MAX.get()) {
            (count, length) = (count / 2, length.div_ceil(2));
        }
        let narrow = |number| u64::try_from(number).unwrap_or(u64::MAX);
        (count > 0).then(|| Self::nearest(narrow(count), Nanos::new(narrow(length))))
    }

    /// Puts a rate together again from its two parts, as they were written to a file or a message.
    pub fn from_interval(numerator_ns: u64, denominator: u64) -> Result<Self, OutOfRange> {
        let in_range = (1..=numerator_ns.min(NUMBER_MAX)).contains(&denominator)
            && numerator_ns <= Period::MAX.get()
            && greatest_common_divisor(denominator, numerator_ns) == 1;
        if in_range {
            Self::from_lowest_terms(numerator_ns, denominator).ok_or(OutOfRange::Rate)
        } else {
            Err(OutOfRange::Rate)
        }
    }

    /// The same without a look at their range: for parts that [`Rate::from_interval`] took before. `None` when either
    /// is 0.
    pub fn from_lowest_terms(numerator_ns: u64, denominator: u64) -> Option<Self> {
        Some(Rate {
            numerator_ns: NonZeroU64::new(numerator_ns)?,
            denominator: NonZeroU64::new(denominator)?,
        })
    }

    /// At most 366 days, so below 2^55.
    pub const fn interval_numerator_ns(self) -> u64 {
        self.numerator_ns.get()
    }

    /// At most 2^53.
    pub const fn interval_denominator(self) -> u64 {
        self.denominator.get()
    }

    /// Refuses a burst that takes too long to come back: a bucket's debt is an instant in 64 bits of nanoseconds, and
    /// what would lie behind their end could be spent again and again.
    pub fn refills(self, burst: Burst) -> Result<(), OutOfRange> {
        let takes = u128::from(self.numerator_ns.get()) * u128::from(burst.get());
        let may_take = u128::from(self.denominator.get()) * u128::from(Self::REFILL_MAX.get());
        if takes > may_take { Err(OutOfRange::Refill) } else { Ok(()) }
    }

    /// What this rate admits in a second, rounded up: the default burst.
    pub fn one_second_of_burst(self) -> Burst {
        self.burst_over(Nanos::from_secs(1))
    }

    /// What this rate admits in so long, rounded up.
    pub fn burst_over(self, length: Nanos) -> Burst {
        let admitted = u128::from(self.denominator.get()) * u128::from(length.get());
        let burst = admitted.div_ceil(u128::from(self.numerator_ns.get()));
        Burst(u64::try_from(burst).unwrap_or(NUMBER_MAX).clamp(1, NUMBER_MAX))
    }
}

/// Euclid's. `gcd(0, b)` is `b`, so a count of 0 yields a zero denominator, which `Rate::new` refuses.
const fn greatest_common_divisor(mut a: u64, mut b: u64) -> u64 {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}

/// A limit with its algorithm: what one check is decided by.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Spec {
    Sliding {
        limit: Limit,
        period: Period,
    },
    Fixed {
        limit: Limit,
        period: Period,
    },
    /// `cell` is the calendar's cell of the moment of the check.
    Calendar {
        limit: Limit,
        unit: CalendarUnit,
        cell: Cell,
    },
    Gcra {
        rate: Rate,
        burst: Burst,
    },
}

impl Spec {
    /// How long what is admitted now can matter.
    pub fn longest_memory(&self) -> Nanos {
        match *self {
            Spec::Sliding { period, .. } => period.length().plus(period.length()),
            Spec::Fixed { period, .. } => period.length(),
            Spec::Calendar { cell, .. } => cell.end.minus(cell.start),
            Spec::Gcra { rate, burst } => interval_times(rate, burst.get()),
        }
    }

    /// In how long as much as [`Spec::shown_limit`] is admitted again.
    pub fn shown_period(&self) -> Nanos {
        match *self {
            Spec::Sliding { period, .. } | Spec::Fixed { period, .. } => period.length(),
            Spec::Calendar { cell, .. } => cell.end.minus(cell.start),
            Spec::Gcra { rate, burst } => interval_times(rate, burst.get()),
        }
    }

    /// The number to show: what is admitted at once.
    pub const fn shown_limit(&self) -> u64 {
        match self {
            Spec::Sliding { limit, .. } | Spec::Fixed { limit, .. } | Spec::Calendar { limit, .. } => {
                limit.get()
            }
            Spec::Gcra { burst, .. } => burst.get(),
        }
    }

    /// What is admitted over time, in thousandths a second: at least one.
    pub fn milli_per_second(&self) -> u64 {
        let (count, length) = match *self {
            Spec::Gcra { rate, .. } => (rate.interval_denominator(), rate.interval_numerator_ns()),
            _ => (self.shown_limit(), self.shown_period().get()),
        };
        // Below 2^53 · 10^12.
        let milli = u128::from(count) * 1_000 * u128::from(Nanos::PER_SECOND) / u128::from(length.max(1));
        u64::try_from(milli).unwrap_or(u64::MAX).max(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_up_to_2_to_the_53_are_valid_and_larger_ones_are_not() {
        assert_eq!(Limit::new(1 << 53).map(Limit::get), Ok(1 << 53));
        assert_eq!(Limit::new((1 << 53) + 1), Err(OutOfRange::Limit));
        assert_eq!(Cost::new(u64::MAX), Err(OutOfRange::Cost));
        assert_eq!(Burst::new((1 << 53) + 1), Err(OutOfRange::Burst));
    }

    #[test]
    fn a_rate_is_reduced_and_exact() {
        let rate = Rate::new(700_000, Nanos::from_secs(1)).unwrap();
        assert_eq!((rate.interval_numerator_ns(), rate.interval_denominator()), (10_000, 7));
        let yearly = Rate::new(1, Period::MAX).unwrap();
        assert_eq!(yearly.interval_numerator_ns(), Period::MAX.get());
        assert_eq!(Rate::new(0, Nanos::from_secs(1)), Err(OutOfRange::Rate));
        assert_eq!(Rate::new(1_000_000_001, Nanos::from_secs(1)), Err(OutOfRange::Rate));
    }

    #[test]
    fn a_scaled_rate_is_that_part_of_it() {
        let rate = |count, secs| Rate::new(count, Nanos::from_secs(secs)).unwrap();
        assert_eq!(rate(100, 10).scaled(3, 6), rate(50, 10));
        assert_eq!(rate(1, 60).scaled(1, 2), rate(1, 120));
        assert_eq!(rate(1_000_000_000, 1).scaled(1, 4), rate(250_000_000, 1));
        assert_eq!(Rate::nearest(0, Nanos::ZERO), Rate::new(1, Nanos::from_millis(1)).unwrap());
        let slowest = Rate::nearest(1, Period::MAX);
        assert_eq!(slowest.scaled(1, 9), slowest, "there is nothing slower");
        assert_eq!(slowest.scaled(5, 5), slowest);
        assert_eq!(rate(1, 86_400).scaled(3, 1000), rate(1, 28_800_000), "of a slow one as exactly");
    }

    /// In units a nanosecond.
    fn speed(rate: Rate) -> f64 {
        rate.interval_denominator() as f64 / rate.interval_numerator_ns() as f64
    }

    #[test]
    fn parts_of_a_rate_are_near_what_they_should_be_and_never_above() {
        let rates =
            [(1, Period::MAX.get()), (7, 86_400_000_000_000), (3, 1_000_000), (1_000_003, 7_000_000_001)];
        let fastest = [(1_000_000, 1_000_000), (999_983, 1_000_003), (1 << 53, (1 << 53) + 1)];
        for (count, period) in rates.into_iter().chain(fastest) {
            let rate = Rate::new(count, Nanos::new(period)).unwrap();
            for parts in [1, 7, 333_333_333, 500_000_000, 999_999_999, PARTS] {
                let exact = speed(rate) * f64::from(parts) / f64::from(PARTS);
                let Some(part) = rate.parted(parts) else {
                    assert!(exact < 1.01 / Period::MAX.get() as f64, "{parts} of {rate:?}");
                    continue;
                };
                assert!(part.interval_numerator_ns() <= Period::MAX.get(), "{parts} of {rate:?}: {part:?}");
                assert!(
                    Rate::from_interval(part.interval_numerator_ns(), part.interval_denominator()).is_ok()
                );
                let whole =
                    u128::from(part.interval_numerator_ns()) * u128::from(rate.interval_denominator());
                let ours = u128::from(part.interval_denominator()) * u128::from(rate.interval_numerator_ns());
                assert!(
                    ours / u128::from(parts) <= whole / u128::from(PARTS) + 1,
                    "{parts} of {rate:?} is {part:?}"
                );
                let is_coarse = part.interval_denominator() < 1 << 20;
                assert!(
                    speed(part) >= exact * if is_coarse { 0.5 } else { 0.999_99 },
                    "{parts} of {rate:?}: {part:?}"
                );
            }
            assert_eq!(rate.parted(0), None);
            for (part, whole) in [(5, 5), (1_000_000_007, 1_000_000_009)] {
                let scaled = rate.scaled(part, whole);
                assert!(
                    (speed(scaled) / speed(rate) - 1.0).abs() < 1e-5,
                    "{part} of {whole} of {rate:?}: {scaled:?}"
                );
                assert!(
                    Rate::from_interval(scaled.interval_numerator_ns(), scaled.interval_denominator())
                        .is_ok()
                );
            }
        }
        let second = |count| Rate::new(count, Nanos::from_secs(1)).unwrap();
        assert_eq!(second(1000).parted(PARTS / 4), Some(second(250)));
        assert_eq!(second(1_000_000_000).parted(PARTS / 4), Some(second(250_000_000)));
        assert_eq!(second(1_000_000_000).parted(PARTS), Some(second(1_000_000_000)));
    }

    #[test]
    fn a_rate_is_put_together_again_from_its_lowest_terms_only() {
        let in_range = |numerator, denominator| Rate::from_interval(numerator, denominator).is_ok();
        let rate = Rate::new(700_000, Nanos::from_secs(1)).unwrap();
        assert_eq!(Rate::from_interval(10_000, 7), Ok(rate));
        assert!(in_range(1, 1) && in_range(Period::MAX.get(), 1) && in_range(8, 7));
        assert!(!in_range(20_000, 14) && !in_range(2, 2), "not in lowest terms");
        assert!(!in_range(7, 8) && !in_range(Period::MAX.get() + 1, 1), "too fast, too slow");
        assert!(!in_range(0, 1) && !in_range(1, 0) && !in_range(0, 0));
        assert!(!in_range((1 << 53) + 2, (1 << 53) + 1), "more than counts go up to");
    }

    #[test]
    fn a_burst_comes_back_within_a_hundred_years() {
        let yearly = Rate::new(1, Nanos::from_secs(365 * 86_400)).unwrap();
        let refills = |rate: Rate, burst| rate.refills(Burst::new(burst).unwrap());
        assert_eq!((refills(yearly, 100), refills(yearly, 101)), (Ok(()), Err(OutOfRange::Refill)));
        let seven = Rate::new(7, Nanos::from_secs(365 * 86_400)).unwrap();
        assert_eq!((refills(seven, 700), refills(seven, 701)), (Ok(()), Err(OutOfRange::Refill)));
        assert_eq!(refills(Rate::new(1_000_000_000, Nanos::from_secs(1)).unwrap(), NUMBER_MAX), Ok(()));
    }

    #[test]
    fn a_spec_knows_how_long_it_remembers_and_in_how_long_it_admits_its_limit() {
        let (limit, period) = (Limit::new(5).unwrap(), Period::new(Nanos::from_secs(60)).unwrap());
        let cell =
            Cell { sequence: crate::Sequence(3), start: Nanos::from_secs(100), end: Nanos::from_secs(3_700) };
        let rate = Rate::new(2, Nanos::from_secs(1)).unwrap();
        for (spec, memory, shown) in [
            (Spec::Sliding { limit, period }, 120, 60),
            (Spec::Fixed { limit, period }, 60, 60),
            (Spec::Calendar { limit, unit: CalendarUnit::Hour, cell }, 3_600, 3_600),
            (Spec::Gcra { rate, burst: Burst::new(10).unwrap() }, 5, 5),
        ] {
            assert_eq!(spec.longest_memory(), Nanos::from_secs(memory), "{spec:?}");
            assert_eq!(spec.shown_period(), Nanos::from_secs(shown), "{spec:?}");
        }
    }

    #[test]
    fn the_default_burst_is_a_second_of_the_rate() {
        assert_eq!(Rate::new(100, Nanos::from_secs(1)).unwrap().one_second_of_burst().get(), 100);
        assert_eq!(Rate::new(1, Nanos::from_secs(60)).unwrap().one_second_of_burst().get(), 1);
        assert_eq!(Rate::new(90, Nanos::from_secs(60)).unwrap().one_second_of_burst().get(), 2);
        assert_eq!(Rate::new(100, Nanos::from_secs(1)).unwrap().burst_over(Nanos::from_millis(95)).get(), 10);
    }

    #[test]
    fn a_period_is_one_second_to_366_days() {
        assert!(Period::new(Nanos::from_secs(1)).is_ok());
        assert!(Period::new(Nanos::new(999_999_999)).is_err());
        assert!(Period::new(Nanos::from_secs(366 * 86_400)).is_ok());
        assert!(Period::new(Nanos::from_secs(366 * 86_400 + 1)).is_err());
        assert_eq!(Period::nearest(Nanos::from_secs(60)), Period::new(Nanos::from_secs(60)).unwrap());
        assert_eq!(Period::nearest(Nanos::ZERO).length(), Period::MIN);
        assert_eq!(Period::nearest(Nanos::MAX).length(), Period::MAX);
    }
}
