//! How far a simulation is: a line that is written over on a terminal, one every ten seconds elsewhere. On stderr,
//! so that the result stands alone.

use crate::bench::Stopwatch;
use crate::output::grouped;
use std::io::{self, IsTerminal, Write};
use tidegate_sim::fleet;

pub(crate) struct Progress {
    clock: Stopwatch,
    is_terminal: bool,
    shown_at: u64,
}

impl Progress {
    pub(crate) fn new() -> Self {
        Progress { clock: Stopwatch::start(), is_terminal: io::stderr().is_terminal(), shown_at: 0 }
    }

    /// Seconds since the beginning.
    pub(crate) fn seconds(&self) -> f64 {
        self.clock.nanos() as f64 / 1e9
    }

    pub(crate) fn show_fleet(&mut self, at: fleet::Progress) {
        let requests = grouped(usize::try_from(at.requests).unwrap_or(usize::MAX));
        self.show(&format!("{} of {} simulated seconds, {requests} requests", at.second, at.seconds));
    }

    pub(crate) fn show(&mut self, line: &str) {
        let every = if self.is_terminal { 200_000_000 } else { 10_000_000_000 };
        let now = self.clock.nanos();
        if now < self.shown_at + every {
            return;
        }
        self.shown_at = now;
        let mut stderr = io::stderr().lock();
        // Nobody may be reading.
        let _ =
            if self.is_terminal { write!(stderr, "\r\u{1b}[K{line}") } else { writeln!(stderr, "{line}") };
        let _ = stderr.flush();
    }

    /// Takes the line away.
    pub(crate) fn clear(&self) {
        if self.is_terminal && self.shown_at > 0 {
            let _ = write!(io::stderr().lock(), "\r\u{1b}[K");
        }
    }
}
