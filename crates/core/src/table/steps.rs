//! The clock steps that a table was told of, by which older states are carried into the present.
//!
//! The id of a step has 8 bits, and the last 256 steps are kept. A state that is up to 128 steps behind the
//! present is carried over each of them. One that is 129 to 255 steps behind looks as if it were ahead
//! (`is_later`), so it is decided in its own, old time: `between` knows how far that is from the present. One
//! that is 256 or more steps behind misses 256 of them.

use crate::sync::Mutex;
use crate::time::{ClockStep, StepId};
use std::sync::atomic::{AtomicI64, Ordering};

/// How many of the latest steps are handed on over a restart. A restart may add one more, and a state that is
/// 127 steps behind is still carried.
pub const STEPS_HANDED_ON_MAX: usize = 126;

/// The last 256 clock steps, and by how much the clock was set in all after each.
#[derive(Debug)]
pub(super) struct Steps {
    total_ns: [AtomicI64; 256],
    steps: Mutex<(StepId, Vec<ClockStep>)>,
}

impl Default for Steps {
    fn default() -> Self {
        let steps = Mutex::new((StepId(0), vec![ClockStep::default(); 256]));
        Steps { total_ns: std::array::from_fn(|_| AtomicI64::new(0)), steps }
    }
}

impl Steps {
    pub(super) fn push(&self, step: ClockStep) -> StepId {
        let mut steps = self.steps.lock();
        let next = StepId(steps.0.0.wrapping_add(1));
        // Saturates: both ends of time are as far as a clock can be wrong.
        let total_ns = self.total_ns(steps.0).saturating_add(step.delta_ns);
        self.set_total_ns(next, total_ns);
        steps.1[usize::from(next.0)] = step;
        steps.0 = next;
        next
    }

    pub(super) fn step(&self, id: StepId) -> ClockStep {
        self.steps.lock().1[usize::from(id.0)]
    }

    fn total_ns(&self, step: StepId) -> i64 {
        self.total_ns[usize::from(step.0)].load(Ordering::Acquire)
    }

    fn set_total_ns(&self, step: StepId, total_ns: i64) {
        self.total_ns[usize::from(step.0)].store(total_ns, Ordering::Release);
    }

    pub(super) fn between(&self, from: StepId, to: StepId) -> i64 {
        self.total_ns(to).saturating_sub(self.total_ns(from))
    }

    /// The latest step, and the steps up to it, the latest first.
    pub(super) fn latest_first(&self) -> (StepId, Vec<ClockStep>) {
        let steps = self.steps.lock();
        let back = (0..=u8::MAX).map(|age| steps.1[usize::from(steps.0.aged(age).0)]);
        // What was never written is no step.
        let made = back.take_while(|step| *step != ClockStep::default()).take(STEPS_HANDED_ON_MAX);
        (steps.0, made.collect())
    }

    /// Puts steps before the present that were made before this table was.
    pub(super) fn take_over(&self, latest_first: &[ClockStep]) {
        let mut steps = self.steps.lock();
        let mut id = steps.0;
        for step in latest_first {
            steps.1[usize::from(id.0)] = *step;
            let before = id.aged(1);
            self.set_total_ns(before, self.total_ns(id).saturating_sub(step.delta_ns));
            id = before;
        }
    }
}

/// Whether `a` was made after `b`: ids count in a circle, so the one that is 1 to 127 ahead is the later.
pub(super) fn is_later(a: StepId, b: StepId) -> bool {
    a != b && a.0.wrapping_sub(b.0) < 128
}
