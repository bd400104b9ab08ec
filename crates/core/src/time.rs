//! Instants, periods and cells. Units live in types, so that a millisecond never meets a nanosecond.
//!
//! Nothing here reads a clock: an instant is always an argument.

use crate::limit::OutOfRange;
use std::fmt;
use std::num::NonZeroU64;

/// Nanoseconds: an instant since the Unix epoch, or a length of time. Lasts until the year 2554.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Nanos(u64);

impl Nanos {
    pub const ZERO: Nanos = Nanos(0);
    pub const MAX: Nanos = Nanos(u64::MAX);
    pub const PER_SECOND: u64 = 1_000_000_000;
    pub const PER_MILLI: u64 = 1_000_000;

    pub const fn new(nanos: u64) -> Self {
        Nanos(nanos)
    }

    /// Saturates: an instant past the year 2554 is as good as the end of time.
    pub const fn from_millis(millis: u64) -> Self {
        Nanos(millis.saturating_mul(Self::PER_MILLI))
    }

    /// Saturates, as `from_millis` does.
    pub const fn from_secs(secs: u64) -> Self {
        Nanos(secs.saturating_mul(Self::PER_SECOND))
    }

    pub const fn get(self) -> u64 {
        self.0
    }

    /// Rounds up: a caller who waits this many milliseconds has waited long enough.
    pub const fn as_millis_ceil(self) -> u64 {
        self.0.div_ceil(Self::PER_MILLI)
    }

    /// Saturates: both callers of time, the present and a horizon, mean "as late as can be" by overflow.
    #[must_use]
    pub const fn plus(self, length: Nanos) -> Nanos {
        Nanos(self.0.saturating_add(length.0))
    }

    /// Saturates at 0: what lies in the past needs no waiting.
    #[must_use]
    pub const fn minus(self, earlier: Nanos) -> Nanos {
        Nanos(self.0.saturating_sub(earlier.0))
    }

    /// Returns by how much an instant is later than another; negative where it is earlier. Saturates at 292 years.
    #[must_use]
    pub fn ahead_of_ns(self, other: Nanos) -> i64 {
        let ahead = i64::try_from(self.minus(other).0).unwrap_or(i64::MAX);
        let behind = i64::try_from(other.minus(self).0).unwrap_or(i64::MAX);
        ahead - behind
    }

    /// Moves an instant by a clock step. Saturates at both ends of time.
    #[must_use]
    pub const fn shifted(self, delta_ns: i64) -> Nanos {
        Nanos(self.0.saturating_add_signed(delta_ns))
    }
}

impl fmt::Debug for Nanos {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}ns", self.0)
    }
}

/// How often the clock has been corrected by a step, modulo 256. See [`Moment`].
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct StepId(pub u8);

impl StepId {
    /// The step that was made so many steps before this one.
    #[must_use]
    pub const fn aged(self, steps: u8) -> StepId {
        StepId(self.0.wrapping_sub(steps))
    }

    /// How many steps were made from this one to `later`.
    pub const fn age_at(self, later: StepId) -> u8 {
        later.0.wrapping_sub(self.0)
    }
}

/// The present, and the clock steps that it already includes.
///
/// A state written before a step carries an older `StepId`, and is moved by the step when it is next read,
/// so that a corrected clock never refills a limit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Moment {
    pub now: Nanos,
    pub step: StepId,
}

impl Moment {
    /// A moment of a clock that never stepped.
    pub const fn at(now: Nanos) -> Self {
        Moment { now, step: StepId(0) }
    }
}

/// A clock that was set: by how much, and the first instant of the new time.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ClockStep {
    pub delta_ns: i64,
    pub lands_at: Nanos,
}

impl ClockStep {
    /// The last instant of the old time.
    pub(crate) const fn left_at(self) -> Nanos {
        self.lands_at.shifted(self.delta_ns.saturating_neg())
    }
}

/// The length of a window: 1 second to 366 days.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Period(NonZeroU64);

impl Period {
    pub const MIN: Nanos = Nanos::from_secs(1);
    pub const MAX: Nanos = Nanos::from_secs(366 * 86_400);

    pub fn new(length: Nanos) -> Result<Self, OutOfRange> {
        if length < Self::MIN || length > Self::MAX {
            return Err(OutOfRange::Period);
        }
        NonZeroU64::new(length.get()).map(Period).ok_or(OutOfRange::Period)
    }

    /// The period that comes nearest to a length.
    pub fn nearest(length: Nanos) -> Self {
        let length = length.clamp(Self::MIN, Self::MAX);
        Period(NonZeroU64::new(length.get()).unwrap_or(NonZeroU64::MIN))
    }

    pub const fn get(self) -> u64 {
        self.0.get()
    }

    pub const fn length(self) -> Nanos {
        Nanos(self.0.get())
    }

    /// The cell that holds `now`: `floor(now / period)`.
    pub const fn cell_at(self, now: Nanos) -> Cell {
        self.cell(Sequence(now.0 / self.0.get()))
    }

    /// The same, without dividing when `now` is still in the cell `likely`.
    #[inline]
    pub const fn cell_at_after(self, now: Nanos, likely: Sequence) -> Cell {
        let cell = self.cell(likely);
        if cell.start.0 <= now.0 && now.0 < cell.end.0 { cell } else { self.cell_at(now) }
    }

    /// Saturates: a cell at the end of time has no end.
    #[inline]
    pub const fn cell(self, sequence: Sequence) -> Cell {
        let start = sequence.0.saturating_mul(self.0.get());
        Cell { sequence, start: Nanos(start), end: Nanos(start.saturating_add(self.0.get())) }
    }
}

/// The number of a cell, counted from the Unix epoch; the same on every node.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Sequence(pub u64);

/// One stretch of time over which a window counts: `[start, end)`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Cell {
    pub sequence: Sequence,
    pub start: Nanos,
    pub end: Nanos,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_guess_about_the_cell_changes_nothing() {
        let period = Period::new(Nanos::from_secs(10)).unwrap();
        for now in [99, 100, 105, 109, 110].map(Nanos::from_secs) {
            for likely in [0, 9, 10, 11, 12].map(Sequence) {
                assert_eq!(period.cell_at_after(now, likely), period.cell_at(now), "{now:?}, {likely:?}");
            }
        }
    }

    #[test]
    fn steps_are_counted_around_their_turn() {
        for (step, later, age) in [(3, 3, 0), (3, 7, 4), (250, 4, 10)] {
            assert_eq!(StepId(step).age_at(StepId(later)), age);
            assert_eq!(StepId(later).aged(age), StepId(step));
        }
    }
}
