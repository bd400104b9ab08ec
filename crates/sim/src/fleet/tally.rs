//! What a scheme answered: second by second, and key by key in each stretch of time that somebody asks about.

use crate::load::{add, second_of};
use crate::scenario::LimitUse;
use crate::trace::AnswerPath;
use tidegate_core::Nanos;

/// From an instant on and before another.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Stretch {
    pub(crate) from: Nanos,
    pub(crate) until: Nanos,
}

impl Stretch {
    pub(crate) fn contains(self, at: Nanos) -> bool {
        self.from <= at && at < self.until
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Tally {
    stretches: Vec<Stretch>,
    /// For each stretch and key.
    by_key: Vec<Vec<u32>>,
    /// For each stretch.
    paths: Vec<Paths>,
    pub(crate) admitted: Vec<u64>,
    pub(crate) denied: Vec<u64>,
}

/// How requests were decided.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Paths {
    pub(crate) all: u64,
    pub(crate) waited: u64,
    pub(crate) unverified: u64,
}

impl Tally {
    pub(crate) fn new(stretches: &[Stretch], keys: usize) -> Self {
        Tally {
            stretches: stretches.to_vec(),
            by_key: vec![vec![0; keys]; stretches.len()],
            paths: vec![Paths::default(); stretches.len()],
            admitted: Vec::new(),
            denied: Vec::new(),
        }
    }

    pub(crate) fn record(&mut self, at: Nanos, limits: &[LimitUse], allowed: bool, path: AnswerPath) {
        let Some(second) = second_of(at) else { return };
        add(if allowed { &mut self.admitted } else { &mut self.denied }, second, 1);
        for (index, _) in self.stretches.iter().enumerate().filter(|(_, stretch)| stretch.contains(at)) {
            let paths = &mut self.paths[index];
            paths.all += 1;
            paths.waited += u64::from(path != AnswerPath::Local);
            paths.unverified += u64::from(path == AnswerPath::Unverified);
            for limit in limits.iter().filter(|_| allowed) {
                self.by_key[index][limit.key] += 1;
            }
        }
    }

    pub(crate) fn keys(&self, stretch: usize) -> &[u32] {
        &self.by_key[stretch]
    }

    pub(crate) fn paths(&self, stretch: usize) -> Paths {
        self.paths[stretch]
    }
}
