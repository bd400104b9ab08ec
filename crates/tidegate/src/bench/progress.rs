//! How a run goes, while it goes: a bar on a terminal, a line now and then elsewhere. On stderr, so that the
//! result stands alone.

use super::plan::Plan;
use super::time::{Stopwatch, nanos};
use super::worker::Live;
use crate::output::grouped;
use std::io::{self, IsTerminal, Write};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

const BAR_WIDTH: u64 = 30;

pub(crate) struct Progress {
    clock: Stopwatch,
    begun: u64,
    planned: u64,
    is_terminal: bool,
    /// Answers and when they were counted.
    last: (u64, u64),
    has_drawn: bool,
}

impl Progress {
    pub(crate) fn new(plan: &Plan, clock: Stopwatch) -> Self {
        let begun = clock.nanos();
        Progress {
            clock,
            begun,
            planned: nanos(plan.warm_up + plan.duration).max(1),
            is_terminal: io::stderr().is_terminal(),
            last: (0, begun),
            has_drawn: false,
        }
    }

    pub(crate) fn every(&self) -> Duration {
        if self.is_terminal { Duration::from_millis(250) } else { Duration::from_secs(5) }
    }

    pub(crate) fn show(&mut self, lives: &[Arc<Live>]) {
        let now = self.clock.nanos();
        let sum = |count: fn(&Live) -> u64| lives.iter().map(|live| count(live)).sum::<u64>();
        let answered = sum(|live| live.answered.load(Ordering::Relaxed));
        let errors = sum(|live| live.errors.load(Ordering::Relaxed));
        let (before, then) = std::mem::replace(&mut self.last, (answered, now));
        if now <= then || now - self.begun < 100_000_000 {
            return;
        }
        let rate = u128::from(answered - before) * 1_000_000_000 / u128::from(now - then);
        let line = line((now - self.begun).min(self.planned), self.planned, rate, errors, self.is_terminal);
        let mut stderr = io::stderr().lock();
        // Nobody may be reading.
        let _ =
            if self.is_terminal { write!(stderr, "\r\u{1b}[K{line}") } else { writeln!(stderr, "{line}") };
        let _ = stderr.flush();
        self.has_drawn = self.is_terminal;
    }

    /// Takes the bar away.
    pub(crate) fn clear(&self) {
        if self.has_drawn {
            let _ = write!(io::stderr().lock(), "\r\u{1b}[K");
        }
    }
}

fn line(ran: u64, planned: u64, rate: u128, errors: u64, has_bar: bool) -> String {
    let seconds = |nanos: u64| Duration::from_nanos(nanos).as_secs_f64();
    let rate = grouped(usize::try_from(rate).unwrap_or(usize::MAX));
    let errors = if errors == 0 { String::new() } else { format!(", {errors} errors") };
    let bar = if has_bar {
        let full =
            usize::try_from(u128::from(ran) * u128::from(BAR_WIDTH) / u128::from(planned)).unwrap_or(0);
        let empty = usize::try_from(BAR_WIDTH).unwrap_or(0).saturating_sub(full);
        format!("[{}{}] ", "█".repeat(full), "·".repeat(empty))
    } else {
        String::new()
    };
    format!("{bar}{:.1} of {:.1} s, {rate}/s{errors}", seconds(ran), seconds(planned))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bar_fills_and_errors_are_shown_once_there_are_any() {
        let half = line(5_000_000_000, 10_000_000_000, 1234, 0, true);
        assert_eq!(half, format!("[{}{}] 5.0 of 10.0 s, 1,234/s", "█".repeat(15), "·".repeat(15)));
        assert_eq!(line(1_000_000_000, 2_000_000_000, 5, 3, false), "1.0 of 2.0 s, 5/s, 3 errors");
    }
}
