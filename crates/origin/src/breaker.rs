//! A circuit breaker, one for each shard: while a shard fails, requests don't pay for asking it.
//!
//! Pure: time and the seed of its jitter come from outside, so the simulator can replay it. It only counts and
//! advises; it never holds a call back itself. One shard's breaker must never see another shard's failures.

use tidegate_core::Nanos;

/// Opens at so many failures in a row, whatever went before.
const FAILURES_IN_A_ROW: u32 = 5;
/// Opens when, within the last second, at least 100 calls ended, at least 5 of them and 1 % failed.
const CALLS_MIN: u64 = 100;
const FAILURES_MIN: u64 = 5;
const CALLS_PER_FAILURE: u64 = 100;
/// The last second is counted in these parts.
const SLOTS: usize = 10;
const SLOT: Nanos = Nanos::from_millis(100);
/// The first probe comes after this, each further one after twice as long.
const PROBE_AFTER: Nanos = Nanos::from_millis(100);
/// One small call: often enough that a shard that is back is noticed before callers could tell.
const PROBE_AFTER_MAX: Nanos = Nanos::from_millis(500);
/// Waits are spread by ±20 %, so that nodes don't probe in step.
const JITTER_PERCENT: u64 = 20;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum BreakerState {
    /// Calls pass.
    Closed,
    /// Only probes pass.
    Open {
        since: Nanos,
        next_probe: Nanos,
        /// In a row, those that opened it included.
        failures: u32,
    },
}

#[derive(Clone, Debug)]
pub struct Breaker {
    state: BreakerState,
    failures_in_a_row: u32,
    recent: Recent,
    probe_after: Nanos,
    jitter: Jitter,
    opens: u64,
}

impl Breaker {
    pub fn new(seed: u64) -> Self {
        Breaker {
            state: BreakerState::Closed,
            failures_in_a_row: 0,
            recent: Recent::default(),
            probe_after: PROBE_AFTER,
            jitter: Jitter(seed),
            opens: 0,
        }
    }

    /// Whether calls pass. When not, only a probe does.
    pub fn admits(&self) -> bool {
        self.state == BreakerState::Closed
    }

    pub fn state(&self) -> BreakerState {
        self.state
    }

    /// How often it opened.
    pub fn opens(&self) -> u64 {
        self.opens
    }

    /// Whether to send a probe now: true once at each probe's time.
    pub fn probe_due(&mut self, now: Nanos) -> bool {
        let BreakerState::Open { next_probe, .. } = &mut self.state else { return false };
        // One that is further away than any is made was made before the clock was set back.
        if now < *next_probe && next_probe.minus(now) <= longest(PROBE_AFTER_MAX) {
            return false;
        }
        self.probe_after = self.probe_after.plus(self.probe_after).min(PROBE_AFTER_MAX);
        *next_probe = now.plus(self.jitter.spread(self.probe_after));
        true
    }

    /// A call was answered. While open, that closes it: the shard is back.
    pub fn on_success(&mut self, now: Nanos) {
        self.failures_in_a_row = 0;
        if self.admits() {
            self.recent.add(now, false);
            return;
        }
        self.state = BreakerState::Closed;
        self.recent = Recent::default();
        self.probe_after = PROBE_AFTER;
    }

    pub fn on_failure(&mut self, now: Nanos) {
        self.failures_in_a_row = self.failures_in_a_row.saturating_add(1);
        if let BreakerState::Open { failures, .. } = &mut self.state {
            *failures = self.failures_in_a_row;
            return;
        }
        self.recent.add(now, true);
        if self.failures_in_a_row >= FAILURES_IN_A_ROW || self.recent.fails() {
            self.open(now);
        }
    }

    fn open(&mut self, now: Nanos) {
        let next_probe = now.plus(self.jitter.spread(PROBE_AFTER));
        self.state = BreakerState::Open { since: now, next_probe, failures: self.failures_in_a_row };
        self.opens += 1;
    }
}

/// How the calls of the last second ended, in a ring of its tenths.
#[derive(Clone, Copy, Debug, Default)]
struct Recent {
    slots: [Slot; SLOTS],
    /// The latest tenth since the Unix epoch that anything was counted in.
    latest: u64,
}

#[derive(Clone, Copy, Debug, Default)]
struct Slot {
    calls: u64,
    failures: u64,
}

impl Recent {
    /// A clock that goes back a little counts into the latest tenth; one that was set back begins anew.
    fn add(&mut self, now: Nanos, failed: bool) {
        let shown = now.get() / SLOT.get();
        if self.latest > shown + SLOTS as u64 {
            *self = Recent::default();
        }
        let tenth = shown.max(self.latest);
        let passed = usize::try_from(tenth - self.latest).unwrap_or(SLOTS).min(SLOTS);
        for step in 0..passed {
            self.slots[position(tenth - step as u64)] = Slot::default();
        }
        self.latest = tenth;
        let slot = &mut self.slots[position(tenth)];
        slot.calls += 1;
        slot.failures += u64::from(failed);
    }

    fn fails(&self) -> bool {
        let sum = |part: fn(&Slot) -> u64| self.slots.iter().map(part).sum::<u64>();
        let (calls, failures) = (sum(|slot| slot.calls), sum(|slot| slot.failures));
        calls >= CALLS_MIN && failures >= FAILURES_MIN && failures * CALLS_PER_FAILURE >= calls
    }
}

fn position(tenth: u64) -> usize {
    // Below SLOTS, so it fits.
    usize::try_from(tenth % SLOTS as u64).unwrap_or(0)
}

/// The longest that [`Jitter::spread`] makes of a length.
fn longest(length: Nanos) -> Nanos {
    Nanos::new(length.get() / 100 * (100 + JITTER_PERCENT))
}

/// SplitMix64: all that jitter needs.
#[derive(Clone, Debug)]
struct Jitter(u64);

impl Jitter {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// `length` ± [`JITTER_PERCENT`].
    fn spread(&mut self, length: Nanos) -> Nanos {
        let width = length.get() / 100 * (2 * JITTER_PERCENT);
        length.minus(Nanos::new(width / 2)).plus(Nanos::new(self.next() % (width + 1)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Nanos {
        Nanos::from_secs(1_000).plus(Nanos::from_millis(millis))
    }

    fn opened() -> Breaker {
        let mut breaker = Breaker::new(7);
        for _ in 0..5 {
            breaker.on_failure(at(0));
        }
        breaker
    }

    #[test]
    fn five_failures_in_a_row_open_it_and_a_success_between_does_not() {
        let mut breaker = Breaker::new(1);
        for _ in 0..4 {
            breaker.on_failure(at(0));
        }
        breaker.on_success(at(0));
        for _ in 0..4 {
            breaker.on_failure(at(0));
        }
        assert!(breaker.admits());
        breaker.on_failure(at(1));
        assert!(!breaker.admits());
        assert!(matches!(breaker.state(), BreakerState::Open { since, failures: 5, .. } if since == at(1)));
        assert_eq!(breaker.opens(), 1);
    }

    #[test]
    fn one_percent_and_five_of_a_hundred_in_a_second_open_it() {
        let opens_at = |successes: u64, span_ms: u64| {
            let mut breaker = Breaker::new(1);
            let mut failures = 0;
            for call in 0..successes {
                let now = at(call * span_ms / successes);
                breaker.on_success(now);
                if call % (successes / 10) == 0 {
                    failures += 1;
                    breaker.on_failure(now);
                }
                if !breaker.admits() {
                    return Some(failures);
                }
            }
            None
        };
        assert_eq!(opens_at(200, 900), Some(6), "more than 100 calls by then");
        assert_eq!(opens_at(80, 900), None, "too few calls to tell");
        assert_eq!(opens_at(2_000, 900), None, "10 of 2000 are under 1 %");
        assert_eq!(opens_at(200, 9_000), None, "spread over nine seconds, never 5 in one");
    }

    #[test]
    fn failures_older_than_a_second_are_forgotten() {
        let mut breaker = Breaker::new(1);
        for call in 0..4 {
            breaker.on_failure(at(call));
            breaker.on_success(at(call));
        }
        for _ in 0..100 {
            breaker.on_success(at(1_050));
        }
        breaker.on_failure(at(1_050));
        assert!(breaker.admits());
        breaker.on_failure(at(500));
        assert!(breaker.admits(), "a clock that went back brings nothing back");
    }

    #[test]
    fn probes_are_due_once_each_and_back_off_to_half_a_second() {
        let mut breaker = opened();
        let mut now = at(0);
        for expected_ms in [100, 200, 400, 500, 500, 500, 500] {
            let BreakerState::Open { next_probe, .. } = breaker.state() else { panic!("closed") };
            let wait = next_probe.minus(now).get() / Nanos::PER_MILLI;
            assert!((expected_ms * 8 / 10..=expected_ms * 12 / 10).contains(&wait), "{wait} ms");
            assert!(!breaker.probe_due(next_probe.minus(Nanos::new(1))));
            assert!(breaker.probe_due(next_probe));
            assert!(!breaker.probe_due(next_probe), "once");
            breaker.on_failure(next_probe);
            now = next_probe;
        }
        assert!(matches!(breaker.state(), BreakerState::Open { since, failures: 12, .. } if since == at(0)));
    }

    #[test]
    fn a_clock_that_is_set_back_holds_up_no_probe_and_brings_no_failure_back() {
        let mut breaker = opened();
        let earlier = Nanos::from_secs(500);
        assert!(breaker.probe_due(earlier), "none is ever so far away");
        assert!(!breaker.probe_due(earlier), "once");
        let BreakerState::Open { next_probe, .. } = breaker.state() else { panic!("closed") };
        assert!(next_probe.minus(earlier) <= Nanos::from_millis(240) && breaker.probe_due(next_probe));
        let mut breaker = Breaker::new(1);
        (0..4).for_each(|_| breaker.on_failure(at(0)));
        for _ in 0..100 {
            breaker.on_success(earlier);
        }
        breaker.on_failure(earlier.plus(Nanos::from_secs(2)));
        assert!(breaker.admits(), "one failure of a hundred");
    }

    #[test]
    fn a_success_closes_it_and_the_next_outage_starts_anew() {
        let mut breaker = opened();
        for _ in 0..4 {
            let BreakerState::Open { next_probe, .. } = breaker.state() else { panic!("closed") };
            assert!(breaker.probe_due(next_probe));
        }
        breaker.on_success(at(5_000));
        assert!(breaker.admits() && !breaker.probe_due(at(9_000)));
        for _ in 0..5 {
            breaker.on_failure(at(6_000));
        }
        let BreakerState::Open { next_probe, .. } = breaker.state() else { panic!("closed") };
        assert!(next_probe <= at(6_120), "back-off was reset");
        assert_eq!(breaker.opens(), 2);
    }

    #[test]
    fn the_seed_alone_decides_the_jitter() {
        let next = |seed| {
            let mut breaker = Breaker::new(seed);
            (0..5).for_each(|_| breaker.on_failure(at(0)));
            breaker.state()
        };
        assert_eq!(next(3), next(3));
        assert_ne!(next(3), next(4));
    }
}
