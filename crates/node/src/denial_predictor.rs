//! Which limit of a request to look at first: the one that has denied most of those that were like it.
//!
//! Requests are alike when the same rules apply to them, in the same order. What they were answered is learned from
//! the sample behind `tidegate top`, so that a request writes nothing here; it reads one byte, and only while somebody
//! is denied. A limit is suspected when it denies more than three eighths of the sample: below that, looking at it
//! first costs those who pass more (600 instructions of 2,850) than it spares those who don't (1,100 of 4,700). Wrong guesses, and requests that share a place here by
//! chance, cost a look; what is answered never depends on them.

use crate::plan::Plan;
use parking_lot::Mutex;
use std::sync::atomic::{AtomicU8, AtomicUsize, Ordering};

/// Kinds of requests that are told apart.
const KINDS: usize = 256;
const KIND_BITS: u32 = KINDS.trailing_zeros();
/// Limits of a request that can be suspected: the first so many.
const LIMITS_MAX: usize = 16;
/// A guess is made anew after so many requests of the sample.
const SAMPLES_PER_PREDICTION: u8 = 32;
/// Of as many, one is suspected when it denies more than this.
const PREDICT_DENIALS_MIN: u8 = SAMPLES_PER_PREDICTION / 8 * 3;
const NOBODY: u8 = u8::MAX;

/// Predicts which limit of a request denies it, from a sample of the requests that were like it.
#[derive(Debug)]
pub(crate) struct DenialPredictor {
    /// For each kind, the limit that is suspected.
    published: [AtomicU8; KINDS],
    /// How many kinds have one.
    predictions: AtomicUsize,
    learning: Mutex<Box<[DenialSample; KINDS]>>,
}

/// What was seen of a kind since the last guess.
#[derive(Clone, Copy, Debug)]
struct DenialSample {
    seen: u8,
    denials: [u8; LIMITS_MAX],
}

impl DenialSample {
    const NOTHING: DenialSample = DenialSample { seen: 0, denials: [0; LIMITS_MAX] };

    /// Counts a request by which of its limits denied it; says who is suspected once there are enough.
    fn count(&mut self, denied: impl Iterator<Item = bool>) -> Option<u8> {
        self.seen += 1;
        for (denials, is_denied) in self.denials.iter_mut().zip(denied) {
            *denials += u8::from(is_denied);
        }
        if self.seen < SAMPLES_PER_PREDICTION {
            return None;
        }
        let mut suspect = (PREDICT_DENIALS_MIN, NOBODY);
        for (index, denials) in (0..).zip(self.denials) {
            // Of two that deny as many, the first.
            if denials > suspect.0 {
                suspect = (denials, index);
            }
        }
        *self = DenialSample::NOTHING;
        Some(suspect.1)
    }
}

impl Default for DenialPredictor {
    fn default() -> Self {
        DenialPredictor {
            published: [const { AtomicU8::new(NOBODY) }; KINDS],
            predictions: AtomicUsize::new(0),
            learning: Mutex::new(Box::new([DenialSample::NOTHING; KINDS])),
        }
    }
}

impl DenialPredictor {
    /// The limit to look at first, if any is likely to deny.
    #[inline]
    pub(crate) fn of(&self, plan: &Plan<'_>) -> Option<usize> {
        if self.predictions.load(Ordering::Relaxed) == 0 || plan.items.len() < 2 {
            return None;
        }
        match self.published[kind(plan)].load(Ordering::Relaxed) {
            NOBODY => None,
            suspect => Some(usize::from(suspect)),
        }
    }

    /// Learns from a decided request of the sample.
    #[cold]
    pub(crate) fn observe(&self, plan: &Plan<'_>) {
        if plan.items.len() < 2 {
            return;
        }
        let Some(mut learning) = self.learning.try_lock() else { return };
        let kind = kind(plan);
        let denied = plan.targets.iter().map(|target| !plan.answer_of(target).is_allowed());
        let Some(suspect) = learning[kind].count(denied) else { return };
        let before = self.published[kind].swap(suspect, Ordering::Relaxed);
        // Under the lock: nobody else counts.
        match (before, suspect) {
            (NOBODY, NOBODY) => {}
            (NOBODY, _) => _ = self.predictions.fetch_add(1, Ordering::Relaxed),
            (_, NOBODY) => _ = self.predictions.fetch_sub(1, Ordering::Relaxed),
            _ => {}
        }
    }
}

/// By which rules a request is decided: each one's own key, which other callers of it share.
fn kind(plan: &Plan<'_>) -> usize {
    const ODD: u64 = 0x9e37_79b9_7f4a_7c15;
    let mixed = plan.targets.iter().fold(0_u64, |mixed, target| {
        (mixed ^ u64::try_from(target.overflow_key.get() >> 64).unwrap_or(0)).wrapping_mul(ODD)
    });
    usize::try_from(mixed >> (u64::BITS - KIND_BITS)).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::request::{GivenLimit, GivenPolicy};
    use crate::world::Reach;
    use tidegate_core::{
        Accuracy, Class, Cost, Decision, Decisions, FleetSecret, Limit, Nanos, Period, Verdict,
    };

    fn after(requests: impl Iterator<Item = [bool; 5]>) -> Option<u8> {
        let mut learning = DenialSample::NOTHING;
        requests.filter_map(|denied| learning.count(denied.into_iter())).last()
    }

    fn denied_by(index: usize) -> [bool; 5] {
        std::array::from_fn(|limit| limit == index)
    }

    #[test]
    fn who_denies_most_is_suspected() {
        let mixed = (0..32).map(|request| denied_by(if request % 3 == 0 { 1 } else { 4 }));
        assert_eq!(after(mixed), Some(4));
        assert_eq!(after((0..32).map(|_| [false, true, false, true, false])), Some(1), "of equals the first");
    }

    #[test]
    fn nobody_is_suspected_who_denies_seldom() {
        assert_eq!(after((0..32).map(|request| denied_by(if request < 12 { 2 } else { 5 }))), Some(NOBODY));
        assert_eq!(after((0..32).map(|request| denied_by(if request < 13 { 2 } else { 5 }))), Some(2));
        assert_eq!(after((0..31).map(|_| denied_by(0))), None, "too few to tell");
    }

    #[test]
    fn a_suspicion_ends_with_the_denials() {
        let ended = (0..64).map(|request| denied_by(if request < 32 { 3 } else { 5 }));
        assert_eq!(after(ended), Some(NOBODY));
    }

    /// Five limits of one caller, of which one may have denied it.
    fn plan(caller: &str, denied: Option<usize>) -> Plan<'static> {
        let mut plan = Plan::new(Reach::REGION);
        for (index, namespace) in ["user", "key", "endpoint", "org", "global"].into_iter().enumerate() {
            let policy = GivenPolicy::Sliding {
                limit: Limit::new(10).unwrap(),
                period: Period::new(Nanos::from_secs(60)).unwrap(),
            };
            let (class, accuracy) = (Class::Paid, Accuracy::Bounded);
            let given = GivenLimit {
                namespace,
                identifier: caller,
                policy,
                cost: Cost::ONE,
                class,
                accuracy,
                scope: None,
            };
            plan.push_given(&FleetSecret::BUILT_IN, "default", index, &given);
        }
        let decision = |index| {
            let is_denied = denied == Some(index);
            let verdict = if is_denied { Verdict::Deny { retry_after: None } } else { Verdict::Admit };
            Decision { verdict, limit: 10, remaining: 0, reset: Nanos::ZERO }
        };
        let decisions: Decisions = (0..5).map(decision).collect();
        plan.write(&decisions);
        plan
    }

    #[test]
    fn callers_of_the_same_rules_are_of_one_kind_and_learned_from_together() {
        let suspects = DenialPredictor::default();
        assert_eq!(suspects.of(&plan("mallory", None)), None);
        (0..32).for_each(|number| suspects.observe(&plan(&format!("caller {number}"), Some(4))));
        assert_eq!(suspects.of(&plan("mallory", None)), Some(4));
        (0..32).for_each(|_| suspects.observe(&plan("mallory", None)));
        assert_eq!(suspects.of(&plan("mallory", None)), None);
        assert_eq!(suspects.predictions.load(Ordering::Relaxed), 0);
    }
}
