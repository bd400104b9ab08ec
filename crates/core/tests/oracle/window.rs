//! The windows of the oracle whose counts start anew with each cell: the log, the sums, and the
//! fixed window. (The calendar's cells are in `calendar.rs`.)
//!
//! Why: an implementation keeps one count and one cell; here every charge stays in a log and the
//! count is summed anew for each question, and a wait is found by walking from cell to cell.
//!
//! It must never look at or call the implementation.

use super::{Charge, Verdict, clamp_to_u64, fits, saturating_sum};

/// One cell: from `start` up to but without `end`. A cell is known by its start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cell {
    pub start: i128,
    pub end: i128,
}

/// How time is cut into cells.
pub trait Cells {
    fn cell_of(&self, instant: i128) -> Cell;
}

/// A charge, with the cell it was made in.
struct LogEntry {
    cell: Cell,
    cost: u64,
}

/// A log of charges in cells, and the answers computed from it.
pub struct WindowLog<C: Cells> {
    cells: C,
    log: Vec<LogEntry>,
}

impl<C: Cells> WindowLog<C> {
    pub fn new(cells: C) -> Self {
        Self { cells, log: Vec::new() }
    }

    pub fn check(&mut self, limit: u64, cost: u64, charge: Charge, now_ns: u64) -> Verdict {
        let now = i128::from(now_ns);
        let cell = self.effective_cell(now);
        let allowed = fits(self.charged_in(cell), cost, limit);
        if charge.applies(allowed) {
            self.record(cell, cost);
        }
        let retry_after_ns = if allowed {
            Some(0)
        } else if cost > limit {
            None
        } else {
            Some(clamp_to_u64(self.earliest_after(cell, cost, limit) - now))
        };
        Verdict {
            allowed,
            limit,
            remaining: limit.saturating_sub(self.charged_in(cell)),
            reset_ns: clamp_to_u64(cell.end),
            retry_after_ns,
        }
    }

    /// What was used at the last instant of the old time becomes the only charge, at the first of the new.
    pub fn step(&mut self, delta_ns: i64, first_ns: u64) {
        let first = i128::from(first_ns);
        let carried = self.charged_in(self.effective_cell(first - i128::from(delta_ns)));
        self.log.clear();
        self.record(self.cells.cell_of(first), carried);
    }

    fn record(&mut self, cell: Cell, cost: u64) {
        if cost == 0 {
            return;
        }
        self.log.push(LogEntry { cell, cost });
        // No check is ever made in a cell before this one again.
        self.log.retain(|entry| entry.cell.start >= cell.start);
    }

    /// The cell a check at `instant` is made in: its own, or the latest one in which something
    /// was charged, when the clock has gone back to before that.
    fn effective_cell(&self, instant: i128) -> Cell {
        let own = self.cells.cell_of(instant);
        let latest = self.log.iter().map(|entry| entry.cell).max_by_key(|cell| cell.start);
        latest.filter(|latest| latest.start > own.start).unwrap_or(own)
    }

    fn charged_in(&self, cell: Cell) -> u64 {
        let in_cell = self.log.iter().filter(|entry| entry.cell.start == cell.start);
        saturating_sum(in_cell.map(|entry| entry.cost))
    }

    /// The end of the first cell, from `cell` on, after which the cost fits.
    fn earliest_after(&self, mut cell: Cell, cost: u64, limit: u64) -> i128 {
        loop {
            let end = cell.end;
            let next = self.effective_cell(end);
            assert!(!fits(self.charged_in(cell), cost, limit), "fits before the end of the cell");
            assert!(next.start > cell.start, "the next cell is a later one");
            if fits(self.charged_in(next), cost, limit) {
                return end;
            }
            cell = next;
        }
    }
}

/// Cells of equal length, counted from the epoch.
struct EqualCells {
    period: i128,
}

impl Cells for EqualCells {
    fn cell_of(&self, instant: i128) -> Cell {
        let start = instant.div_euclid(self.period) * self.period;
        Cell { start, end: start + self.period }
    }
}

/// The oracle of one key of a fixed window.
pub struct FixedOracle(WindowLog<EqualCells>);

impl FixedOracle {
    pub fn new(period_ns: u64) -> Self {
        assert!(period_ns > 0, "a period is at least one nanosecond");
        Self(WindowLog::new(EqualCells { period: i128::from(period_ns) }))
    }

    pub fn check(&mut self, limit: u64, cost: u64, charge: Charge, now_ns: u64) -> Verdict {
        self.0.check(limit, cost, charge, now_ns)
    }

    pub fn step(&mut self, delta_ns: i64, first_ns: u64) {
        self.0.step(delta_ns, first_ns);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Charge::{Always, IfAllowed};

    fn verdict(allowed: bool, remaining: u64, reset: u64, retry: Option<u64>) -> Verdict {
        Verdict { allowed, limit: 10, remaining, reset_ns: reset, retry_after_ns: retry }
    }

    #[test]
    fn counts_and_starts_anew() {
        let mut oracle = FixedOracle::new(100);
        assert_eq!(oracle.check(10, 9, IfAllowed, 1_000), verdict(true, 1, 1_100, Some(0)));
        assert_eq!(oracle.check(10, 2, IfAllowed, 1_030), verdict(false, 1, 1_100, Some(70)));
        assert_eq!(oracle.check(10, 1, IfAllowed, 1_099), verdict(true, 0, 1_100, Some(0)));
        assert_eq!(oracle.check(10, 0, IfAllowed, 1_099), verdict(true, 0, 1_100, Some(0)));
        assert_eq!(oracle.check(10, 1, IfAllowed, 1_099), verdict(false, 0, 1_100, Some(1)));
        assert_eq!(oracle.check(10, 11, IfAllowed, 1_100), verdict(false, 10, 1_200, None));
        assert_eq!(oracle.check(10, 10, IfAllowed, 1_100), verdict(true, 0, 1_200, Some(0)));
    }

    #[test]
    fn charge_always_denies_even_a_peek() {
        let mut oracle = FixedOracle::new(100);
        assert_eq!(oracle.check(10, 11, Always, 1_000), verdict(false, 0, 1_100, None));
        assert_eq!(oracle.check(10, 0, IfAllowed, 1_000), verdict(false, 0, 1_100, Some(100)));
    }

    #[test]
    fn clock_gone_back_is_held_at_the_latest_cell() {
        let mut oracle = FixedOracle::new(100);
        oracle.check(10, 4, IfAllowed, 1_050);
        assert_eq!(oracle.check(10, 5, IfAllowed, 320), verdict(true, 1, 1_100, Some(0)));
        assert_eq!(oracle.check(10, 2, IfAllowed, 320), verdict(false, 1, 1_100, Some(780)));
        assert_eq!(oracle.check(10, 1, IfAllowed, 1_000), verdict(true, 0, 1_100, Some(0)));
    }

    #[test]
    fn steps_carry_what_was_used() {
        let mut oracle = FixedOracle::new(100);
        oracle.check(10, 4, IfAllowed, 1_050);
        oracle.step(-500, 555);
        assert_eq!(oracle.check(10, 0, IfAllowed, 560), verdict(true, 6, 600, Some(0)));
        // At 1_199 − 99 = 1_100 in the old time, nothing was used any more.
        let mut oracle = FixedOracle::new(100);
        oracle.check(10, 4, IfAllowed, 1_050);
        oracle.step(99, 1_199);
        assert_eq!(oracle.check(10, 0, IfAllowed, 1_199), verdict(true, 10, 1_200, Some(0)));
        // Nothing carried also means nothing left behind in the old cells.
        oracle.check(10, 4, IfAllowed, 1_199);
        oracle.step(-100, 1_110);
        assert_eq!(oracle.check(10, 0, IfAllowed, 1_150), verdict(true, 10, 1_200, Some(0)));
        // What is carried is forgotten with the cell in which it landed.
        let mut oracle = FixedOracle::new(100);
        oracle.check(10, 4, IfAllowed, 1_050);
        oracle.step(500, 1_560);
        assert_eq!(oracle.check(10, 0, IfAllowed, 1_570), verdict(true, 6, 1_600, Some(0)));
        assert_eq!(oracle.check(10, 0, IfAllowed, 1_600), verdict(true, 10, 1_700, Some(0)));
    }

    #[test]
    fn counts_saturate() {
        let mut oracle = FixedOracle::new(100);
        for _ in 0..3_000 {
            oracle.check(10, (1 << 53) - 1, Always, 5);
        }
        let cell = oracle.0.effective_cell(5);
        assert_eq!(oracle.0.charged_in(cell), (1 << 63) - 1);
    }
}
