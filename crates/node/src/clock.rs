//! The one place that reads the time.
//!
//! Between samples the clock runs on the processor's steady counter; at each sample it is steered towards
//! the wall clock by running a little faster or slower, so it never goes back. A wall clock that is suddenly
//! elsewhere is believed only when several samples agree, and then followed in one step of which the counter
//! table is told first, so that no limit refills.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering, fence};
use std::time::{SystemTime, UNIX_EPOCH};
use tidegate_core::{Moment, Nanos, StepId};

/// Errors up to this are slewed away; larger ones are suspected to be a step.
const STEP_FROM_NS: i64 = 250_000_000;
/// Samples that must agree before a step is believed, and how closely.
const STEP_SAMPLES: u32 = 3;
const STEP_AGREES_NS: u64 = 50_000_000;
/// An error is slewed away over ten seconds, at 500 parts per million at most.
const SLEW_OVER_NS: i64 = 10_000_000_000;
const SLEW_MAX: i64 = SLEW_ONE / 2000;
/// Slew rates are fractions of this.
const SLEW_ONE: i64 = 1 << 32;

/// How often [`Clock::sample`] wants to be called.
pub const SAMPLE_EVERY_MS: u64 = 250;

#[derive(Debug)]
pub struct Clock {
    source: Source,
    line: PublishedLine,
    discipline: std::sync::Mutex<Discipline>,
}

/// A wall clock that moved, as several samples agree. Tell the table, then [`Clock::follow`] it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub struct Step {
    pub delta_ns: i64,
}

impl Clock {
    pub fn system() -> Self {
        let clock = quanta::Clock::new();
        let start = clock.raw();
        Self::new(Source::System { clock, start })
    }

    /// A clock that stands still until it is told otherwise: for tests.
    pub fn manual(now: Nanos) -> (Self, ManualTime) {
        let time = ManualTime { steady: Arc::default(), wall: Arc::new(AtomicU64::new(now.get())) };
        (Self::new(Source::Manual(time.clone())), time)
    }

    fn new(source: Source) -> Self {
        let reading = source.read();
        let line = Line { steady: reading.steady, now: reading.wall, slew: 0, step: StepId(0) };
        let published = PublishedLine::default();
        published.store(line);
        Clock {
            source,
            line: published,
            discipline: std::sync::Mutex::new(Discipline { line, suspect: None }),
        }
    }

    /// The present. Goes back only over a step, but for the microseconds that a sample may take to be seen.
    #[inline]
    pub fn now(&self) -> Moment {
        let line = self.line.load();
        Moment { now: line.at(self.source.steady()), step: line.step }
    }

    /// Compares with the wall clock and steers towards it.
    pub fn sample(&self) -> Option<Step> {
        let reading = self.source.read();
        let mut discipline = self.discipline.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let step = discipline.sample(reading);
        self.line.store(discipline.line);
        step
    }

    /// Makes a step that the table was told of.
    pub fn follow(&self, step: Step, id: StepId) {
        let steady = self.source.steady();
        let mut discipline = self.discipline.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let now = discipline.line.at(steady).shifted(step.delta_ns);
        discipline.line = Line { steady, now, slew: 0, step: id };
        self.line.store(discipline.line);
    }
}

/// Sets a [`Clock::manual`].
#[derive(Debug, Clone)]
pub struct ManualTime {
    steady: Arc<AtomicU64>,
    wall: Arc<AtomicU64>,
}

impl ManualTime {
    /// Lets time pass.
    pub fn advance(&self, length: Nanos) {
        self.steady.fetch_add(length.get(), Ordering::Relaxed);
        self.wall.fetch_add(length.get(), Ordering::Relaxed);
    }

    /// Sets the wall clock ahead or back, as an administrator might.
    pub fn step_wall(&self, delta_ns: i64) {
        let wall = self.wall.load(Ordering::Relaxed);
        self.wall.store(wall.saturating_add_signed(delta_ns), Ordering::Relaxed);
    }
}

#[derive(Debug)]
enum Source {
    System { clock: quanta::Clock, start: u64 },
    Manual(ManualTime),
}

/// Both clocks, read together.
#[derive(Debug, Clone, Copy)]
struct Reading {
    steady: u64,
    wall: Nanos,
}

impl Source {
    #[inline]
    fn steady(&self) -> u64 {
        match self {
            Source::System { clock, start } => clock.delta_as_nanos(*start, clock.raw()),
            Source::Manual(time) => time.steady.load(Ordering::Relaxed),
        }
    }

    /// Reads until both readings lie within 20 microseconds, or the best of five.
    fn read(&self) -> Reading {
        let mut best = (u64::MAX, Reading { steady: 0, wall: Nanos::ZERO });
        for _ in 0..5 {
            let before = self.steady();
            let wall = self.wall();
            let taken = self.steady().saturating_sub(before);
            if taken < best.0 {
                best = (taken, Reading { steady: before + taken / 2, wall });
            }
            if taken < 20_000 {
                break;
            }
        }
        best.1
    }

    #[expect(clippy::disallowed_methods, reason = "this is the one module that reads the clock")]
    fn wall(&self) -> Nanos {
        match self {
            Source::System { .. } => {
                let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
                Nanos::new(u64::try_from(since_epoch.as_nanos()).unwrap_or(u64::MAX))
            }
            Source::Manual(time) => Nanos::new(time.wall.load(Ordering::Relaxed)),
        }
    }
}

/// Time as a straight line through one point: `now + (steady − steady₀) × (1 + slew)`.
#[derive(Debug, Clone, Copy)]
struct Line {
    steady: u64,
    now: Nanos,
    slew: i64,
    step: StepId,
}

impl Line {
    #[inline]
    fn at(&self, steady: u64) -> Nanos {
        let passed = steady.saturating_sub(self.steady);
        // Below 2^63 for 290 years.
        let passed_signed = i64::try_from(passed).unwrap_or(i64::MAX);
        let slewed = (i128::from(passed_signed) * i128::from(self.slew)) >> 32;
        self.now.plus(Nanos::new(passed)).shifted(i64::try_from(slewed).unwrap_or(0))
    }
}

/// The line, readable without a lock: a sequence lock over four words.
#[derive(Debug, Default)]
struct PublishedLine {
    version: AtomicU64,
    steady: AtomicU64,
    now: AtomicU64,
    slew: AtomicI64,
    step: AtomicU64,
}

impl PublishedLine {
    /// Only one thread stores at a time: the discipline's lock is held, or the clock is being made.
    fn store(&self, line: Line) {
        let version = self.version.load(Ordering::Relaxed);
        self.version.store(version + 1, Ordering::Relaxed);
        fence(Ordering::Release);
        self.steady.store(line.steady, Ordering::Relaxed);
        self.now.store(line.now.get(), Ordering::Relaxed);
        self.slew.store(line.slew, Ordering::Relaxed);
        self.step.store(u64::from(line.step.0), Ordering::Relaxed);
        self.version.store(version + 2, Ordering::Release);
    }

    #[inline]
    fn load(&self) -> Line {
        loop {
            let before = self.version.load(Ordering::Acquire);
            let line = Line {
                steady: self.steady.load(Ordering::Relaxed),
                now: Nanos::new(self.now.load(Ordering::Relaxed)),
                slew: self.slew.load(Ordering::Relaxed),
                step: StepId(u8::try_from(self.step.load(Ordering::Relaxed)).unwrap_or(0)),
            };
            fence(Ordering::Acquire);
            if before.is_multiple_of(2) && self.version.load(Ordering::Relaxed) == before {
                return line;
            }
            std::hint::spin_loop();
        }
    }
}

/// Steers the line by samples of the wall clock. Pure: readings come in, a line comes out.
#[derive(Debug)]
struct Discipline {
    line: Line,
    /// An error that may be a step, and how many samples have agreed on it.
    suspect: Option<(i64, u32)>,
}

impl Discipline {
    fn sample(&mut self, reading: Reading) -> Option<Step> {
        let now = self.line.at(reading.steady);
        let error_ns = difference(reading.wall, now);
        self.line = Line { steady: reading.steady, now, slew: 0, step: self.line.step };
        if error_ns.abs() <= STEP_FROM_NS {
            self.suspect = None;
            let slew = i128::from(error_ns) * i128::from(SLEW_ONE) / i128::from(SLEW_OVER_NS);
            self.line.slew = i64::try_from(slew).unwrap_or(0).clamp(-SLEW_MAX, SLEW_MAX);
            return None;
        }
        let agreed = match self.suspect {
            Some((suspected, count)) if error_ns.abs_diff(suspected) <= STEP_AGREES_NS => count + 1,
            _ => 1,
        };
        self.suspect = Some((error_ns, agreed));
        (agreed >= STEP_SAMPLES).then(|| {
            self.suspect = None;
            Step { delta_ns: error_ns }
        })
    }
}

/// `a − b`. Saturates: an error of centuries is one.
fn difference(a: Nanos, b: Nanos) -> i64 {
    let ahead = i64::try_from(a.minus(b).get()).unwrap_or(i64::MAX);
    let behind = i64::try_from(b.minus(a).get()).unwrap_or(i64::MAX);
    ahead - behind
}

#[cfg(test)]
mod tests {
    use super::*;

    const START: Nanos = Nanos::from_secs(1_800_000_000);

    fn sampled(clock: &Clock, time: &ManualTime, samples: u32) -> Option<Step> {
        (0..samples).find_map(|_| {
            time.advance(Nanos::from_millis(SAMPLE_EVERY_MS));
            clock.sample()
        })
    }

    #[test]
    fn a_small_error_is_slewed_away_without_ever_going_back() {
        let (clock, time) = Clock::manual(START);
        time.step_wall(-2_000_000);
        let mut last = clock.now().now;
        for _ in 0..400 {
            time.advance(Nanos::from_millis(SAMPLE_EVERY_MS));
            assert_eq!(clock.sample(), None);
            let now = clock.now().now;
            assert!(now > last, "time went back");
            last = now;
        }
        let wall = Nanos::new(time.wall.load(Ordering::Relaxed));
        assert!(difference(wall, last).abs() < 50_000, "{}", difference(wall, last));
    }

    #[test]
    fn a_step_is_followed_only_when_samples_agree() {
        let (clock, time) = Clock::manual(START);
        time.step_wall(3_600_000_000_000);
        assert_eq!(sampled(&clock, &time, 2), None);
        let before = clock.now();
        assert!(before.now < START.plus(Nanos::from_secs(1)), "not followed yet");
        let step = sampled(&clock, &time, 1).expect("three samples agree");
        assert_eq!(step.delta_ns, 3_600_000_000_000);
        clock.follow(step, StepId(1));
        let after = clock.now();
        assert_eq!(after.step, StepId(1));
        assert!(after.now >= START.plus(Nanos::from_secs(3600)));
    }

    #[test]
    fn a_wall_clock_that_jumps_back_again_is_never_followed() {
        let (clock, time) = Clock::manual(START);
        for _ in 0..10 {
            time.step_wall(-60_000_000_000);
            assert_eq!(sampled(&clock, &time, 2), None);
            time.step_wall(60_000_000_000);
            assert_eq!(sampled(&clock, &time, 2), None);
        }
        assert_eq!(clock.now().step, StepId(0));
    }

    #[test]
    fn the_systems_clock_agrees_with_itself() {
        let clock = Clock::system();
        let first = clock.now().now;
        let second = clock.now().now;
        assert!(first <= second && first > Nanos::from_secs(1_700_000_000));
    }
}
