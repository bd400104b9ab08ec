//! The clock of a run: the only place of the load generator that reads it.

use std::time::{Duration, Instant};

/// Nanoseconds since a run's beginning, the same on all its threads.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stopwatch(Instant);

impl Stopwatch {
    #[expect(clippy::disallowed_methods, reason = "a load generator measures the time that passes")]
    pub(crate) fn start() -> Self {
        Stopwatch(Instant::now())
    }

    #[expect(clippy::disallowed_methods, reason = "a load generator measures the time that passes")]
    #[inline]
    pub(crate) fn nanos(self) -> u64 {
        nanos(self.0.elapsed())
    }
}

/// Five hundred years fit.
pub(crate) fn nanos(length: Duration) -> u64 {
    u64::try_from(length.as_nanos()).unwrap_or(u64::MAX)
}
