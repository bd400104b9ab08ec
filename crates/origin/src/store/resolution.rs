//! What a store can tell apart: microseconds for fading and its own time, 2^53 for counts. The in-process
//! store and the script's arguments are cut down by the same functions, so that the two agree to the last unit.

use tidegate_core::exchange::{DRAW_AHEAD, Fading};
use tidegate_core::limit::NUMBER_MAX;
use tidegate_core::{Nanos, Rate, Sequence};

pub(crate) const MICRO: u64 = 1_000;
/// The script divides by periods below 2^45 µs exactly; the longest that there is, 366 days, is shorter.
const PERIOD_US_MAX: u64 = (1 << 45) - 1;

pub(crate) const fn micros_floor(time: Nanos) -> u64 {
    time.get() / MICRO
}

pub(crate) const fn micros_ceil(time: Nanos) -> u64 {
    time.get().div_ceil(MICRO)
}

pub(crate) const fn from_micros(micros: u64) -> Nanos {
    Nanos::new(micros.saturating_mul(MICRO))
}

/// The cell before; cell 0 has one too, which is nobody's.
pub(crate) const fn sequence_before(sequence: Sequence) -> Sequence {
    Sequence(sequence.0.wrapping_sub(1))
}

/// [`Fading`] in whole microseconds, never faster than the truth.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct FadingMicros {
    pub(crate) end_us: u64,
    pub(crate) period_us: u64,
}

impl From<Fading> for FadingMicros {
    fn from(fading: Fading) -> Self {
        FadingMicros {
            end_us: micros_ceil(fading.end).min(NUMBER_MAX),
            period_us: micros_floor(fading.period).clamp(1, PERIOD_US_MAX),
        }
    }
}

/// How many units a rate refills in [`DRAW_AHEAD`].
pub(crate) fn units_ahead(rate: Rate) -> u64 {
    let ticks = u128::from(DRAW_AHEAD.get()) * u128::from(rate.interval_denominator());
    u64::try_from(ticks / u128::from(rate.interval_numerator_ns())).unwrap_or(NUMBER_MAX).min(NUMBER_MAX)
}
