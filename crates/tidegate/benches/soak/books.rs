//! What was sent and what came of it, as a caller saw it: the truth that stores and answers are held against.
//!
//! Nothing is ever taken back: an attempt without an answer may have been admitted, and counts as that wherever more
//! is worse.

use crate::samples::Verdict;
use crate::scene::region_of;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// A node may decide what its caller has long given up: it stood still meanwhile.
const DECIDED_WITHIN: Duration = Duration::from_secs(30);
/// How far a node's clock may be from ours, at the edges of cells.
pub(crate) const SKEW: Duration = Duration::from_millis(100);

/// One request to one node.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Attempt {
    /// When it was due, since the start of the run.
    pub(crate) at: Duration,
    /// When its answer came, or when it was given up; `None` while it is waited for.
    pub(crate) answered: Option<Duration>,
    pub(crate) node: u8,
    pub(crate) verdict: Verdict,
    pub(crate) unverified: bool,
}

impl Attempt {
    pub(crate) fn region(&self) -> usize {
        region_of(usize::from(self.node))
    }

    pub(crate) fn is_admitted(&self) -> bool {
        self.answered.is_some() && self.verdict == Verdict::Admitted
    }

    pub(crate) fn is_denied(&self) -> bool {
        self.answered.is_some() && self.verdict == Verdict::Denied
    }

    /// How much of it a store may have counted.
    pub(crate) fn weight(&self) -> u64 {
        u64::from(!self.is_denied()) + u64::from(self.unverified)
    }

    /// The latest that it can have been decided.
    pub(crate) fn decided_by(&self) -> Duration {
        match (self.answered, self.verdict) {
            (Some(at), Verdict::Admitted | Verdict::Denied) => at,
            _ => self.at + DECIDED_WITHIN,
        }
    }

    /// Certainly decided in that time.
    pub(crate) fn is_within(&self, from: Duration, to: Duration) -> bool {
        self.at >= from + SKEW && self.decided_by() + SKEW <= to
    }

    /// Perhaps decided in that time.
    pub(crate) fn may_be_within(&self, from: Duration, to: Duration) -> bool {
        self.at <= to + SKEW && self.decided_by() + SKEW >= from
    }
}

/// Numbers that are told while a run goes on.
#[derive(Default, Debug)]
pub(crate) struct Tally {
    pub(crate) admitted: AtomicU64,
    pub(crate) denied: AtomicU64,
    /// Requests whose every attempt failed, and answers that are no decision.
    pub(crate) errors: AtomicU64,
    /// First attempts: what callers asked.
    pub(crate) requests: AtomicU64,
}

#[derive(Debug)]
pub(crate) struct Books {
    /// By subject, in the order of sending.
    attempts: Vec<Mutex<Vec<Attempt>>>,
    pub(crate) tally: Tally,
    /// The cycle whose ledger keys are sent about; none while they rest.
    ledgers: AtomicUsize,
}

const RESTING: usize = usize::MAX;

impl Books {
    pub(crate) fn new(subjects: usize) -> Self {
        let attempts = (0..subjects).map(|_| Mutex::default()).collect();
        Books { attempts, tally: Tally::default(), ledgers: AtomicUsize::new(RESTING) }
    }

    /// Ledger keys of a cycle are sent about from now on.
    pub(crate) fn begin_ledgers(&self, cycle: usize) {
        self.ledgers.store(cycle, Ordering::Relaxed);
    }

    pub(crate) fn rest_ledgers(&self) {
        self.ledgers.store(RESTING, Ordering::Relaxed);
    }

    pub(crate) fn cycle_of_ledgers(&self) -> Option<usize> {
        Some(self.ledgers.load(Ordering::Relaxed)).filter(|cycle| *cycle != RESTING)
    }

    /// Its place among the subject's attempts.
    pub(crate) fn sent(&self, subject: usize, node: usize, at: Duration) -> usize {
        let mut attempts = self.of(subject);
        let node = u8::try_from(node).unwrap_or(u8::MAX);
        attempts.push(Attempt { at, answered: None, node, verdict: Verdict::Error, unverified: false });
        attempts.len() - 1
    }

    pub(crate) fn answered(
        &self,
        subject: usize,
        index: usize,
        at: Duration,
        (verdict, unverified): (Verdict, bool),
    ) {
        let counter = match verdict {
            Verdict::Admitted => Some(&self.tally.admitted),
            Verdict::Denied => Some(&self.tally.denied),
            Verdict::Error => None,
        };
        counter.map(|counter| counter.fetch_add(1, Ordering::Relaxed));
        if let Some(attempt) = self.of(subject).get_mut(index) {
            (attempt.answered, attempt.verdict, attempt.unverified) = (Some(at), verdict, unverified);
        }
    }

    pub(crate) fn of(&self, subject: usize) -> MutexGuard<'_, Vec<Attempt>> {
        self.attempts[subject].lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The most that a region can have counted of a key between two instants. What was decided unverified had asked, and
    /// its ask may have been granted, too late or with its answer lost: what is granted counts, spent or not.
    pub(crate) fn most(&self, subject: usize, region: Option<usize>, from: Duration, to: Duration) -> u64 {
        let attempts = self.of(subject);
        let first = attempts.partition_point(|attempt| attempt.at + 2 * DECIDED_WITHIN < from);
        let counted = attempts[first..].iter().filter(|attempt| {
            region.is_none_or(|region| attempt.region() == region) && attempt.may_be_within(from, to)
        });
        counted.map(Attempt::weight).sum()
    }

    /// Everything that was sent after that, of all subjects.
    pub(crate) fn since(&self, from: Duration) -> Vec<Attempt> {
        let recent = (0..self.attempts.len()).flat_map(|subject| {
            let attempts = self.of(subject);
            let first = attempts.partition_point(|attempt| attempt.at < from);
            attempts[first..].to_vec()
        });
        recent.collect()
    }
}
