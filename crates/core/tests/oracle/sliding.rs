//! The sliding window of the oracle: every charge is kept with its cell, every answer is summed
//! from that log, and every wait is found by search.
//!
//! Why: the implementation solves an inequality with a floor in it for `retry_after` and `reset`;
//! here the inequality is only ever evaluated, at one instant after another.
//!
//! It must never look at or call the implementation, and never solve for a wait by algebra.

use super::{Charge, Verdict, clamp_to_u64, fits, saturating_sum, smallest_passing};

/// A charge, with the number of the cell it was made in.
struct LogEntry {
    cell: i128,
    cost: u64,
}

/// The oracle of one key of a sliding window.
pub struct SlidingOracle {
    period: u64,
    log: Vec<LogEntry>,
}

impl SlidingOracle {
    pub fn new(period_ns: u64) -> Self {
        assert!(period_ns > 0, "a period is at least one nanosecond");
        Self { period: period_ns, log: Vec::new() }
    }

    pub fn check(&mut self, limit: u64, cost: u64, charge: Charge, now_ns: u64) -> Verdict {
        let now = i128::from(now_ns);
        let allowed = fits(self.used_at(now), cost, limit);
        if charge.applies(allowed) {
            self.record(now, cost);
        }
        let retry_after_ns = if allowed {
            Some(0)
        } else if cost > limit {
            None
        } else {
            let passes = self.earliest(now, |used| fits(used, cost, limit));
            Some(clamp_to_u64(passes - now))
        };
        Verdict {
            allowed,
            limit,
            remaining: limit.saturating_sub(self.used_at(now)),
            reset_ns: clamp_to_u64(self.earliest(now, |used| used == 0)),
            retry_after_ns,
        }
    }

    /// What was used at the last instant of the old time becomes the only charge, at the first of the new.
    pub fn step(&mut self, delta_ns: i64, first_ns: u64) {
        let first = i128::from(first_ns);
        let carried = saturating_sum(std::iter::once(self.used_at(first - i128::from(delta_ns))));
        self.log.clear();
        self.record(first, carried);
    }

    fn record(&mut self, instant: i128, cost: u64) {
        if cost == 0 {
            return;
        }
        let (cell, _) = self.cell_and_elapsed(instant);
        self.log.push(LogEntry { cell, cost });
        // No check is ever made in a cell before this one again, so none looks further back
        // than the cell before this one.
        self.log.retain(|entry| entry.cell >= cell - 1);
    }

    fn cell_of(&self, instant: i128) -> i128 {
        instant.div_euclid(i128::from(self.period))
    }

    fn start_of(&self, cell: i128) -> i128 {
        cell * i128::from(self.period)
    }

    fn latest_charged_cell(&self) -> Option<i128> {
        self.log.iter().map(|entry| entry.cell).max()
    }

    /// The cell a check at `instant` is made in, and how much of it has elapsed for that check:
    /// 0 when the clock has gone back to before the latest charged cell.
    fn cell_and_elapsed(&self, instant: i128) -> (i128, u64) {
        let cell = self.cell_of(instant);
        match self.latest_charged_cell() {
            Some(latest) if latest > cell => (latest, 0),
            _ => (cell, clamp_to_u64(instant - self.start_of(cell))),
        }
    }

    fn charged_in(&self, cell: i128) -> u64 {
        saturating_sum(self.log.iter().filter(|entry| entry.cell == cell).map(|entry| entry.cost))
    }

    fn used_at(&self, instant: i128) -> u64 {
        let (cell, elapsed) = self.cell_and_elapsed(instant);
        self.used(self.charged_in(cell), self.charged_in(cell - 1), elapsed)
    }

    /// `current + floor(previous × (period − elapsed) / period)`
    fn used(&self, current: u64, previous: u64, elapsed: u64) -> u64 {
        let left = self.period - elapsed;
        let weighted = match previous.checked_mul(left) {
            Some(product) => product / self.period,
            None => {
                let weighted = u128::from(previous) * u128::from(left) / u128::from(self.period);
                u64::try_from(weighted).expect("not more than previous")
            }
        };
        current + weighted
    }

    /// The earliest instant, `now` or later, at which what is used is `accepted`, if nobody else
    /// came. `accepted` must accept everything below what it accepts, and 0.
    ///
    /// Goes from cell to cell; within one cell `used` never grows, so there a bisection finds the
    /// earliest, and it exists if the last instant of the cell is accepted.
    fn earliest(&self, now: i128, accepted: impl Fn(u64) -> bool) -> i128 {
        let mut instant = now;
        let found = loop {
            let (cell, elapsed) = self.cell_and_elapsed(instant);
            let (current, previous) = (self.charged_in(cell), self.charged_in(cell - 1));
            if instant < self.start_of(cell) {
                // The clock has gone back: until this cell starts, all instants are alike.
                if accepted(self.used(current, previous, 0)) {
                    break instant;
                }
                instant = self.start_of(cell);
                continue;
            }
            let until_last = self.period - 1 - elapsed;
            let passes = |wait: u64| accepted(self.used(current, previous, elapsed + wait));
            if let Some(wait) = smallest_passing(until_last, passes) {
                break instant + i128::from(wait);
            }
            instant = self.start_of(cell + 1);
        };
        assert!(accepted(self.used_at(found)));
        assert!(found == now || !accepted(self.used_at(found - 1)), "not the earliest");
        found
    }
}

#[cfg(test)]
#[path = "sliding_tests.rs"]
mod tests;
