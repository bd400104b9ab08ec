//! A tick that no two regions make together: ± a fifth, around targets that don't drift.

use tidegate_core::Nanos;

#[derive(Debug)]
pub(super) struct Pace {
    interval: Nanos,
    /// Where the tick would be without jitter.
    target: Nanos,
    due: Nanos,
    random: u64,
}

impl Pace {
    pub(super) fn new(interval: Nanos, seed: u64, now: Nanos) -> Self {
        Pace { interval, target: now, due: now, random: seed | 1 }
    }

    pub(super) fn set_interval(&mut self, interval: Nanos) {
        self.interval = interval;
    }

    pub(super) fn due(&self) -> Nanos {
        self.due
    }

    /// Whether it ticks; if so, the next one is set. Ticks that were missed are not made up for.
    pub(super) fn ticks(&mut self, now: Nanos) -> bool {
        // A clock that was set back must not stop it.
        let is_far = self.due.minus(now) > self.interval.plus(self.interval);
        if now < self.due && !is_far {
            return false;
        }
        let next = self.target.plus(self.interval);
        self.target = if is_far || next <= now { now.plus(self.interval) } else { next };
        self.due = self.jittered(self.target);
        true
    }

    fn jittered(&mut self, target: Nanos) -> Nanos {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        let fifth = (self.interval.get() / 5).max(1);
        target.minus(Nanos::new(fifth)).plus(Nanos::new(self.random % (2 * fifth + 1)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_jittered_by_a_fifth_and_do_not_drift() {
        let second = Nanos::from_secs(1);
        let start = Nanos::from_secs(1_000);
        let mut pace = Pace::new(second, 7, start);
        let mut ticks = Vec::new();
        for step in 0..1_000_000 {
            let now = start.plus(Nanos::from_millis(step));
            if pace.ticks(now) {
                ticks.push(now);
            }
        }
        assert!((999..=1_001).contains(&ticks.len()), "{}", ticks.len());
        for (number, tick) in (0..).zip(&ticks) {
            let target = start.plus(Nanos::from_secs(number));
            let off = tick.minus(target).max(target.minus(*tick));
            assert!(off <= Nanos::from_millis(201), "{number}: {off:?}");
        }
        let distinct: std::collections::BTreeSet<_> =
            ticks.windows(2).map(|two| two[1].minus(two[0])).collect();
        assert!(distinct.len() > 100, "they differ");
    }

    #[test]
    fn a_pause_is_not_made_up_for() {
        let mut pace = Pace::new(Nanos::from_secs(1), 7, Nanos::from_secs(10));
        assert!(pace.ticks(Nanos::from_secs(10)));
        assert!(pace.ticks(Nanos::from_secs(100)));
        assert!(!pace.ticks(Nanos::from_secs(100)));
        assert!(pace.due() <= Nanos::from_millis(101_200));
    }
}
