//! The one place that reads the time.
//!
//! Between samples the clock runs on the processor's steady counter; at each sample it is steered towards the time that
//! the node follows ([`discipline`]) by running a little faster or slower, so it never goes back. A time that is
//! suddenly elsewhere is believed only when several samples agree, and then followed in one step of which the counter
//! table is told first, so that no limit refills.

mod discipline;

pub use discipline::{ClockJump, ClockReading, Discipline, RegionSample};

use discipline::Line;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering, fence};
use std::time::{SystemTime, UNIX_EPOCH};
use tidegate_core::{Moment, Nanos, StepId};

/// How often [`Clock::sample`] wants to be called.
pub const SAMPLE_EVERY_MS: u64 = 250;

#[derive(Debug)]
pub struct Clock {
    source: Source,
    line: PublishedLine,
    discipline: std::sync::Mutex<Discipline>,
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
        let discipline = Discipline::new(source.read());
        let line = PublishedLine::default();
        line.store(discipline.line);
        Clock { source, line, discipline: std::sync::Mutex::new(discipline) }
    }

    /// The present. Goes back only over a step, but for the microseconds that a sample may take to be seen.
    #[inline]
    pub fn now(&self) -> Moment {
        let line = self.line.load();
        Moment { now: line.at(self.source.steady()), step: line.step }
    }

    /// Returns what the clocks beneath show, for a [`RegionSample`].
    pub fn reading(&self) -> ClockReading {
        self.source.read()
    }

    /// Compares with the time that this node follows, and steers towards it.
    pub fn sample(&self) -> Option<ClockJump> {
        let reading = self.source.read();
        self.steer(|discipline| discipline.sample(reading))
    }

    /// Follows the time of the region's store, from a new sample.
    pub fn receive_region_time(&self, sample: &RegionSample) -> Option<ClockJump> {
        self.steer(|discipline| discipline.receive_region_time(sample))
    }

    /// Returns how far the wall clock is ahead of the region's time; `None` for a node that has no region.
    pub fn wall_offset_ns(&self) -> Option<i64> {
        self.steer(|discipline| discipline.wall_offset_ns())
    }

    /// Whether the clock shows the time that it follows, and isn't about to step.
    pub fn is_right(&self) -> bool {
        let reading = self.source.read();
        self.steer(|discipline| discipline.is_right(reading))
    }

    /// Makes a step that the table was told of.
    pub fn follow(&self, step: ClockJump, id: StepId) {
        let steady = self.source.steady();
        self.steer(|discipline| discipline.follow(step, id, steady));
    }

    fn steer<T>(&self, how: impl FnOnce(&mut Discipline) -> T) -> T {
        let mut discipline = self.discipline.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let result = how(&mut discipline);
        self.line.store(discipline.line);
        result
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

impl Source {
    #[inline]
    fn steady(&self) -> u64 {
        match self {
            Source::System { clock, start } => clock.delta_as_nanos(*start, clock.raw()),
            Source::Manual(time) => time.steady.load(Ordering::Relaxed),
        }
    }

    /// Reads until both readings lie within 20 microseconds, or the best of five.
    fn read(&self) -> ClockReading {
        let mut best = (u64::MAX, ClockReading { steady: 0, wall: Nanos::ZERO });
        for _ in 0..5 {
            let before = self.steady();
            let wall = self.wall();
            let taken = self.steady().saturating_sub(before);
            if taken < best.0 {
                best = (taken, ClockReading { steady: before + taken / 2, wall });
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

#[cfg(test)]
mod tests {
    use super::*;

    const START: Nanos = Nanos::from_secs(1_800_000_000);

    fn sampled(clock: &Clock, time: &ManualTime, samples: u32) -> Option<ClockJump> {
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
        let error = wall.max(last).minus(wall.min(last));
        assert!(error < Nanos::new(50_000), "{error:?}");
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
