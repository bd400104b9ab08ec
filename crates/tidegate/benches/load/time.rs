//! Time that passes: the only place of this benchmark where the clock is read and anybody waits.

use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// What a run's times are measured from.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stopwatch(Instant);

impl Stopwatch {
    #[expect(clippy::disallowed_methods, reason = "a benchmark measures the time that passes")]
    pub(crate) fn start() -> Self {
        Stopwatch(Instant::now())
    }

    #[expect(clippy::disallowed_methods, reason = "a benchmark measures the time that passes")]
    pub(crate) fn elapsed(self) -> Duration {
        self.0.elapsed()
    }

    /// Returns at once when that is over.
    pub(crate) fn wait_until(self, offset: Duration) {
        pause(offset.saturating_sub(self.elapsed()));
    }
}

#[expect(clippy::disallowed_methods, reason = "other processes can't be given a clock")]
pub(crate) fn pause(length: Duration) {
    thread::sleep(length);
}

/// Since 1970: what the cells of windows are counted from.
#[expect(clippy::disallowed_methods, reason = "cells begin by the wall clock")]
pub(crate) fn wall_clock() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}

/// What is left of the present cell of windows that are as long.
pub(crate) fn left_of_cell(period: Duration) -> Duration {
    let into_cell = wall_clock().as_nanos() % period.as_nanos();
    period - Duration::from_nanos(u64::try_from(into_cell).unwrap_or(0))
}

/// Waits for the beginning of the next cell, and starts a stopwatch there.
pub(crate) fn at_next_cell(period: Duration) -> Stopwatch {
    pause(left_of_cell(period));
    Stopwatch::start()
}

/// Waits into the next cell when less than `needed` is left of this one.
pub(crate) fn with_room_in_cell(period: Duration, needed: Duration) {
    let left = left_of_cell(period);
    if left < needed {
        pause(left);
    }
}

/// Asks every few milliseconds until there is an answer; says what was missed when there is none in time.
pub(crate) fn poll<T>(
    what: &str,
    within: Duration,
    mut look: impl FnMut() -> Option<T>,
) -> Result<T, String> {
    let stopwatch = Stopwatch::start();
    loop {
        if let Some(found) = look() {
            return Ok(found);
        }
        if stopwatch.elapsed() > within {
            return Err(format!("{what}: not within {within:?}"));
        }
        pause(Duration::from_millis(2));
    }
}
