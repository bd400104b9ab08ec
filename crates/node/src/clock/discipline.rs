//! How the clock is steered: readings come in, a line comes out. Pure: the simulator steers its nodes' clocks with it.
//!
//! A node that is alone follows its wall clock. Nodes of a region follow the time of the region's store, so that all of
//! them count in the same cells, whatever their wall clocks say. While the store can't be reached, a node follows its wall
//! clock at the distance that it had from the store's time.

use tidegate_core::{Moment, Nanos, StepId};

/// Errors up to this are slewed away; larger ones are suspected to be a step. Nodes of a region must agree on the cell that
/// they count in, so they tolerate less; and the first time that the store tells is followed without a second sample.
const STEP_FROM_NS: i64 = 250_000_000;
const REGION_STEP_FROM_NS: i64 = 50_000_000;
/// Samples that must agree before a step is believed, and how closely.
const STEP_SAMPLES: u32 = 3;
const STEP_AGREES_NS: u64 = 50_000_000;
/// An error is slewed away over ten seconds, at 500 parts per million at most.
const SLEW_OVER_NS: i64 = 10_000_000_000;
const SLEW_MAX: i64 = SLEW_ONE / 2000;
/// Slew rates are fractions of this.
const SLEW_ONE: i64 = 1 << 32;
/// The sample with the shortest round trip is used for so long. Without a newer one, the wall clock is followed.
const SAMPLE_USED_FOR_NS: u64 = 4_000_000_000;
/// An answer that took longer says too little: the store told its time at any instant of it.
const ROUND_TRIP_MAX_NS: u64 = 1_000_000_000;
/// Two samples disagree when they differ by more than their round trips explain, and this.
const SAMPLES_AGREE_NS: u64 = 1_000_000;

/// A step of the clock that is made at once. Tell the table first, then follow it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub struct ClockJump {
    pub delta_ns: i64,
}

/// The steady counter and the wall clock, read together.
#[derive(Debug, Clone, Copy)]
pub struct ClockReading {
    pub steady: u64,
    pub wall: Nanos,
}

/// A question about the region's time, and its answer.
#[derive(Debug, Clone, Copy)]
pub struct RegionSample {
    pub sent: ClockReading,
    pub received: ClockReading,
    /// The store's time, somewhere between.
    pub store: Nanos,
}

/// Time as a straight line through one point: `now + (steady − steady₀) × (1 + slew)`.
#[derive(Debug, Clone, Copy)]
pub(super) struct Line {
    pub(super) steady: u64,
    pub(super) now: Nanos,
    pub(super) slew: i64,
    pub(super) step: StepId,
}

impl Line {
    #[inline]
    pub(super) fn at(&self, steady: u64) -> Nanos {
        let passed = steady.saturating_sub(self.steady);
        // A process that stood still has missed its samples: the error is slewed away by then, and not for as long as it
        // stood still. At most 2^34 × 2^21.
        let slewed_for = i64::try_from(passed).unwrap_or(i64::MAX).min(SLEW_OVER_NS);
        let slewed = (slewed_for * self.slew) >> 32;
        self.now.plus(Nanos::new(passed)).shifted(slewed)
    }
}

/// The region's time at one reading of the node's clocks.
#[derive(Debug, Clone, Copy)]
struct RegionTime {
    at: ClockReading,
    region: Nanos,
    round_trip_ns: u64,
}

impl RegionTime {
    fn of(sample: &RegionSample) -> Self {
        let round_trip_ns = sample.received.steady.saturating_sub(sample.sent.steady);
        let back_ns = round_trip_ns / 2;
        let steady = sample.received.steady - back_ns;
        let wall = sample.received.wall.minus(Nanos::new(back_ns));
        RegionTime { at: ClockReading { steady, wall }, region: sample.store, round_trip_ns }
    }

    fn passed_ns(&self, reading: ClockReading) -> u64 {
        reading.steady.saturating_sub(self.at.steady)
    }

    /// Returns the region's time at a reading: by the steady counter while the sample is young, by the wall clock later.
    /// A wall clock that is set meanwhile changes nothing.
    fn at(&self, reading: ClockReading) -> Nanos {
        let passed_ns = self.passed_ns(reading);
        if passed_ns <= SAMPLE_USED_FOR_NS {
            return self.region.plus(Nanos::new(passed_ns));
        }
        self.region.shifted(reading.wall.ahead_of_ns(self.at.wall))
    }

    /// Whether this sample is better than a newer one.
    fn is_better_than(&self, newer: &RegionTime) -> bool {
        let expected = self.at(newer.at);
        let tolerated_ns = (self.round_trip_ns + newer.round_trip_ns) / 2 + SAMPLES_AGREE_NS;
        self.round_trip_ns < newer.round_trip_ns
            && self.passed_ns(newer.at) <= SAMPLE_USED_FOR_NS
            && expected.ahead_of_ns(newer.region).unsigned_abs() <= tolerated_ns
    }
}

/// Steers a clock by samples of the wall clock and of the region's time.
#[derive(Debug)]
pub struct Discipline {
    pub(super) line: Line,
    /// An error that may be a step, and how many samples have agreed on it.
    suspected_offset: Option<(i64, u32)>,
    region: Option<RegionTime>,
}

impl Discipline {
    /// A clock that starts at the wall clock's time.
    pub fn new(reading: ClockReading) -> Self {
        let line = Line { steady: reading.steady, now: reading.wall, slew: 0, step: StepId(0) };
        Discipline { line, suspected_offset: None, region: None }
    }

    /// Returns the present.
    pub fn now(&self, steady: u64) -> Moment {
        Moment { now: self.line.at(steady), step: self.line.step }
    }

    /// Returns how far the node's wall clock was ahead of the region's time at the last sample; `None` before the first.
    pub fn wall_offset_ns(&self) -> Option<i64> {
        self.region.map(|region| region.at.wall.ahead_of_ns(region.region))
    }

    /// Whether the clock shows the time that it follows, and isn't about to step.
    pub fn is_right(&self, reading: ClockReading) -> bool {
        let apart_ns = self.followed(reading).ahead_of_ns(self.line.at(reading.steady));
        beyond(apart_ns, self.region).abs() <= self.step_from_ns()
    }

    /// Compares with the clock that the node follows, and steers towards it. A step is returned when several samples agree
    /// on it.
    pub fn sample(&mut self, reading: ClockReading) -> Option<ClockJump> {
        let now = self.line.at(reading.steady);
        let apart_ns = self.followed(reading).ahead_of_ns(now);
        let error_ns = beyond(apart_ns, self.region);
        self.line = Line { steady: reading.steady, now, slew: 0, step: self.line.step };
        if error_ns.abs() <= self.step_from_ns() {
            self.suspected_offset = None;
            let slew = i128::from(error_ns) * i128::from(SLEW_ONE) / i128::from(SLEW_OVER_NS);
            self.line.slew = i64::try_from(slew).unwrap_or(0).clamp(-SLEW_MAX, SLEW_MAX);
            return None;
        }
        let agreed = match self.suspected_offset {
            Some((suspected, count)) if apart_ns.abs_diff(suspected) <= STEP_AGREES_NS => count + 1,
            _ => 1,
        };
        self.suspected_offset = Some((apart_ns, agreed));
        (agreed >= STEP_SAMPLES).then(|| {
            self.suspected_offset = None;
            ClockJump { delta_ns: apart_ns }
        })
    }

    /// Follows the time of the region's store. The first sample may make a step: nothing was agreed with other nodes yet.
    pub fn receive_region_time(&mut self, sample: &RegionSample) -> Option<ClockJump> {
        let newer = RegionTime::of(sample);
        if newer.round_trip_ns > ROUND_TRIP_MAX_NS {
            return None;
        }
        let is_first = self.region.is_none();
        if self.region.is_none_or(|region| !region.is_better_than(&newer)) {
            self.region = Some(newer);
        }
        let now = self.line.at(sample.received.steady);
        let delta_ns = newer.at(sample.received).ahead_of_ns(now);
        let is_far = beyond(delta_ns, self.region).abs() > REGION_STEP_FROM_NS;
        (is_first && is_far).then_some(ClockJump { delta_ns })
    }

    /// Makes a step that the table was told of.
    pub fn follow(&mut self, step: ClockJump, id: StepId, steady: u64) {
        let now = self.line.at(steady).shifted(step.delta_ns);
        self.line = Line { steady, now, slew: 0, step: id };
    }

    fn step_from_ns(&self) -> i64 {
        if self.region.is_some() { REGION_STEP_FROM_NS } else { STEP_FROM_NS }
    }

    /// What the clock should show.
    fn followed(&self, reading: ClockReading) -> Nanos {
        self.region.map_or(reading.wall, |region| region.at(reading))
    }
}

/// The part of a distance to the region's time that the sample's round trip doesn't explain: the store told its time at any
/// instant of it. So an answer that comes late moves no clock.
fn beyond(apart_ns: i64, region: Option<RegionTime>) -> i64 {
    let explained_ns = region.map_or(0, |region| region.round_trip_ns / 2);
    let left_ns = apart_ns.unsigned_abs().saturating_sub(explained_ns);
    i64::try_from(left_ns).unwrap_or(i64::MAX) * apart_ns.signum()
}

#[cfg(test)]
mod tests {
    use super::*;

    const WALL: Nanos = Nanos::from_secs(1_800_000_000);

    /// Clocks `seconds` later, the wall clock off by `off_ms` more than at the start.
    fn reading(millis: u64, off_ms: i64) -> ClockReading {
        let passed = Nanos::from_millis(millis);
        ClockReading { steady: passed.get(), wall: WALL.plus(passed).shifted(off_ms * 1_000_000) }
    }

    /// A sample of a store that is `ahead_ms` ahead of the wall clock at the start.
    fn sample(millis: u64, ahead_ms: i64, round_trip_ms: u64, off_ms: i64) -> RegionSample {
        let (sent, received) = (reading(millis, off_ms), reading(millis + round_trip_ms, off_ms));
        let middle = reading(millis, 0).wall.plus(Nanos::new(round_trip_ms * 500_000));
        RegionSample { sent, received, store: middle.shifted(ahead_ms * 1_000_000) }
    }

    fn distance_ms(discipline: &Discipline, millis: u64, ahead_ms: i64) -> i64 {
        let expected = reading(millis, 0).wall.shifted(ahead_ms * 1_000_000);
        discipline.now(reading(millis, 0).steady).now.ahead_of_ns(expected) / 1_000_000
    }

    fn followed(discipline: &mut Discipline, sample: &RegionSample) -> Option<ClockJump> {
        let step = discipline.receive_region_time(sample)?;
        discipline.follow(step, StepId(1), sample.received.steady);
        Some(step)
    }

    #[test]
    fn the_first_time_of_the_region_is_followed_at_once() {
        let mut discipline = Discipline::new(reading(0, 0));
        assert!(followed(&mut discipline, &sample(1, -180_000, 2, 0)).is_some());
        assert_eq!(distance_ms(&discipline, 10, -180_000), 0);
        assert_eq!(discipline.wall_offset_ns(), Some(180_000_000_000));
        let mut close = Discipline::new(reading(0, 0));
        assert_eq!(close.receive_region_time(&sample(1, 40, 2, 0)), None, "slewed");
        assert!(close.is_right(reading(10, 0)) && close.sample(reading(10, 0)).is_none());
    }

    #[test]
    fn an_answer_that_took_hours_tells_nothing() {
        let mut discipline = Discipline::new(reading(0, 0));
        let five_hours_ms = 18_000_000;
        assert_eq!(followed(&mut discipline, &sample(1, 0, five_hours_ms, 0)), None);
        assert_eq!(discipline.wall_offset_ns(), None, "the region's time isn't known yet");
        assert!(followed(&mut discipline, &sample(five_hours_ms + 10, 700, 2, 0)).is_some());
        assert_eq!(distance_ms(&discipline, five_hours_ms + 20, 700), 0);
    }

    #[test]
    fn a_process_that_stood_still_is_not_slewed_all_the_while() {
        let mut discipline = Discipline::new(reading(0, 0));
        assert_eq!(discipline.receive_region_time(&sample(0, 40, 1, 0)), None);
        assert_eq!(discipline.sample(reading(10, 0)), None);
        let day_ms = 86_400_000;
        assert!((-40..0).contains(&distance_ms(&discipline, day_ms, 40)));
    }

    #[test]
    fn a_wall_clock_that_is_set_changes_nothing_while_the_store_answers() {
        let mut discipline = Discipline::new(reading(0, 0));
        assert_eq!(discipline.receive_region_time(&sample(0, 0, 1, 0)), None);
        for beat in 1..100 {
            let at = beat * 400;
            assert_eq!(discipline.receive_region_time(&sample(at, 0, 1, 3_600_000)), None);
            assert_eq!(discipline.sample(reading(at + 100, 3_600_000)), None);
            assert_eq!(distance_ms(&discipline, at + 100, 0), 0);
        }
    }

    #[test]
    fn a_node_that_cannot_reach_the_store_keeps_its_distance_to_it() {
        let mut discipline = Discipline::new(reading(0, 0));
        followed(&mut discipline, &sample(0, 30_000, 1, 0));
        for tick in 0..4_000 {
            assert_eq!(discipline.sample(reading(tick * 250, 0)), None);
        }
        assert_eq!(distance_ms(&discipline, 1_000_000, 30_000), 0);
        // And a wall clock that is set then is followed, when samples agree.
        let mut steps = (4_001..4_010).filter_map(|tick| discipline.sample(reading(tick * 250, 60_000)));
        let step = steps.next().expect("three samples agree");
        assert!(step.delta_ns.abs_diff(60_000_000_000) < 1_000_000, "{step:?}");
    }

    #[test]
    fn a_store_whose_clock_is_set_is_followed_when_samples_agree() {
        let mut discipline = Discipline::new(reading(0, 0));
        assert_eq!(discipline.receive_region_time(&sample(0, 0, 1, 0)), None);
        assert_eq!(discipline.receive_region_time(&sample(400, 60_000, 1, 0)), None);
        let agreed: Vec<_> = [500, 750, 1_000].map(|at| discipline.sample(reading(at, 0))).into();
        assert_eq!(agreed, [None, None, Some(ClockJump { delta_ns: 60_000_000_000 })]);
    }

    #[test]
    fn the_shortest_round_trip_counts_for_four_seconds() {
        let mut discipline = Discipline::new(reading(0, 0));
        assert_eq!(discipline.receive_region_time(&sample(0, 0, 2, 0)), None);
        // An answer that took a second, nearly all of it on the way back, seems to be half a second old.
        let mut late = sample(400, -490, 1_000, 0);
        assert_eq!(discipline.receive_region_time(&late), None);
        for at in [1_500, 1_750, 2_000] {
            assert_eq!(discipline.sample(reading(at, 0)), None);
        }
        assert_eq!(distance_ms(&discipline, 2_000, 0), 0);
        // Nothing better is left, and what the round trip explains isn't an error.
        late = sample(4_100, -490, 1_000, 0);
        assert_eq!(discipline.receive_region_time(&late), None);
        for at in [5_200, 5_450, 5_700, 20_000] {
            assert_eq!(discipline.sample(reading(at, 0)), None);
            assert_eq!(distance_ms(&discipline, at, 0), 0);
        }
    }
}
