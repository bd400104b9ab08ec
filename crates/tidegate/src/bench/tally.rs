//! What came of a run's requests: counts, and how long each took from when it should have begun.

use super::answer::Outcome;
use super::histogram::Histogram;

#[derive(Clone, Debug, Default)]
pub(crate) struct Tally {
    pub(crate) latencies: Histogram,
    pub(crate) allowed: u64,
    pub(crate) denied: u64,
    pub(crate) errors: Errors,
    /// Were due and never sent: the target, or this generator, didn't keep up.
    pub(crate) unsent: u64,
}

/// What went wrong, by what a reader does about it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Errors {
    /// Answered with an error, or with a status that isn't a decision.
    pub(crate) refused: u64,
    /// Without an answer in time.
    pub(crate) timeouts: u64,
    /// Lost with their connection.
    pub(crate) lost: u64,
    /// Connections that could not be made.
    pub(crate) connects: u64,
}

impl Errors {
    pub(crate) fn all(self) -> u64 {
        self.refused + self.timeouts + self.lost + self.connects
    }

    /// Each with its name.
    pub(crate) fn named(self) -> [(&'static str, u64); 4] {
        [
            ("refused", self.refused),
            ("timeouts", self.timeouts),
            ("lost", self.lost),
            ("connects", self.connects),
        ]
    }
}

impl Tally {
    #[inline]
    pub(crate) fn record(&mut self, outcome: Outcome, nanos: u64) {
        self.latencies.record(nanos);
        match outcome {
            Outcome::Allowed => self.allowed += 1,
            Outcome::Denied => self.denied += 1,
            Outcome::Refused => self.errors.refused += 1,
        }
    }

    pub(crate) fn answered(&self) -> u64 {
        self.allowed + self.denied + self.errors.refused
    }

    pub(crate) fn add(&mut self, other: &Tally) {
        self.latencies.add(&other.latencies);
        self.allowed += other.allowed;
        self.denied += other.denied;
        self.unsent += other.unsent;
        self.errors.refused += other.errors.refused;
        self.errors.timeouts += other.errors.timeouts;
        self.errors.lost += other.errors.lost;
        self.errors.connects += other.errors.connects;
    }
}
