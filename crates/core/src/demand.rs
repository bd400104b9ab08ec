//! What callers ask for, averaged: cost a second over the recent past, in whole numbers.
//!
//! Offered cost counts, admitted or not: a region that is denied most of what it asks for is the one that needs
//! more. The average halves in a half-life; it is rounded to the nearest thousandth, so that it doesn't drift.

use crate::time::Nanos;

/// Exponents are counted in these parts of a halving: 2^-16 apart.
const BITS: usize = 16;
/// One, in the unit of factors.
const ONE: u64 = 1 << 32;
/// The factors of 1/2, 1/4, 1/8 … of a halving: each the square root of the one before.
const ROOTS: [u64; BITS] = {
    let mut roots = [0; BITS];
    let (mut factor, mut index) = (ONE / 2, 0);
    while index < BITS {
        factor = (factor << 32).isqrt();
        roots[index] = factor;
        index += 1;
    }
    roots
};

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Average {
    /// What came since the last folding.
    pending: u64,
    milli_per_second: u64,
    as_of: Nanos,
}

impl Average {
    /// Nothing was asked for before `now`.
    pub fn new(now: Nanos) -> Self {
        Average { as_of: now, ..Average::default() }
    }

    #[inline]
    pub fn add(&mut self, cost: u64) {
        self.pending = self.pending.saturating_add(cost);
    }

    /// Takes what came since into the average. A clock that stands still or goes back leaves it for later.
    pub fn fold(&mut self, now: Nanos, half_life: Nanos) {
        let length = now.minus(self.as_of);
        if length == Nanos::ZERO {
            return;
        }
        let kept = u128::from(retained(length, half_life));
        let recent =
            u128::from(self.pending) * 1_000 * u128::from(Nanos::PER_SECOND) / u128::from(length.get());
        let recent = recent.min(u128::from(u64::MAX));
        let one = u128::from(ONE);
        let sum = u128::from(self.milli_per_second) * kept + recent * (one - kept) + one / 2;
        self.milli_per_second = u64::try_from(sum / one).unwrap_or(u64::MAX);
        (self.pending, self.as_of) = (0, now);
    }

    pub fn milli_per_second(&self) -> u64 {
        self.milli_per_second
    }

    /// The clock was set: the present is another one, and nothing came meanwhile.
    pub fn stepped(&mut self, delta_ns: i64) {
        self.as_of = self.as_of.shifted(delta_ns);
    }
}

/// How much of an average is left after `length`: `2^(−length / half_life)`, in parts of [`ONE`].
fn retained(length: Nanos, half_life: Nanos) -> u64 {
    let halvings = (u128::from(length.get()) << BITS) / u128::from(half_life.get().max(1));
    let whole = halvings >> BITS;
    if whole >= 32 {
        return 0;
    }
    let mut factor = ONE;
    for (index, root) in ROOTS.iter().enumerate() {
        if halvings >> (BITS - 1 - index) & 1 == 1 {
            factor = (factor * root) >> 32;
        }
    }
    factor >> whole
}

#[cfg(test)]
mod tests {
    use super::*;

    const HALF_LIFE: Nanos = Nanos::from_secs(2);

    fn after(millis: u64) -> f64 {
        retained(Nanos::from_millis(millis), HALF_LIFE) as f64 / ONE as f64
    }

    #[test]
    fn it_halves_in_a_half_life_and_between() {
        for millis in [0, 1, 100, 500, 1_000, 1_999, 2_000, 3_700, 10_000, 40_000] {
            let exact = 2_f64.powf(-(millis as f64) / 2_000.0);
            assert!((after(millis) - exact).abs() < 2e-5, "{millis} ms: {} for {exact}", after(millis));
        }
        assert_eq!(retained(Nanos::MAX, HALF_LIFE), 0);
        assert_eq!(retained(Nanos::from_secs(1), Nanos::ZERO), 0);
    }

    #[test]
    fn a_steady_demand_is_found_and_stays_for_a_day() {
        let mut average = Average::new(Nanos::ZERO);
        for tick in 1..=170_000_u64 {
            average.add(37);
            average.fold(Nanos::from_millis(tick * 500), HALF_LIFE);
            if tick > 60 {
                assert!(average.milli_per_second().abs_diff(74_000) <= 4, "{average:?} at tick {tick}");
            }
        }
        for tick in 170_001..=170_200_u64 {
            average.fold(Nanos::from_millis(tick * 500), HALF_LIFE);
        }
        assert!(average.milli_per_second() <= 4, "{average:?}");
    }

    #[test]
    fn a_clock_that_is_set_leaves_the_average_as_it_was() {
        let mut average = Average::new(Nanos::from_secs(10));
        average.add(10);
        average.fold(Nanos::from_secs(12), HALF_LIFE);
        let mut stepped = average;
        stepped.stepped(-5_000_000_000);
        stepped.add(4);
        stepped.fold(Nanos::from_secs(9), HALF_LIFE);
        average.add(4);
        average.fold(Nanos::from_secs(14), HALF_LIFE);
        assert_eq!(stepped.milli_per_second(), average.milli_per_second());
        assert_eq!(average.milli_per_second(), 2_250, "half of 2.5 and half of 2");
    }

    #[test]
    fn nothing_is_lost_when_the_clock_stands_still_and_nothing_overflows() {
        let mut average = Average::new(Nanos::from_secs(5));
        average.add(10);
        average.fold(Nanos::from_secs(5), HALF_LIFE);
        average.fold(Nanos::from_secs(3), HALF_LIFE);
        assert_eq!((average.pending, average.milli_per_second()), (10, 0));
        average.fold(Nanos::from_secs(7), HALF_LIFE);
        assert_eq!(average.milli_per_second(), 2_500, "half of 5 a second");
        average.add(u64::MAX);
        average.add(u64::MAX);
        average.fold(Nanos::from_secs(8), HALF_LIFE);
        average.fold(Nanos::from_secs(9), HALF_LIFE);
        assert!(average.milli_per_second() > 1 << 60);
    }
}
