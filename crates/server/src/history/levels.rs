//! The last day in four rings: the last quarter of an hour second by second, more of it in coarser steps. Each has a
//! fixed number of places, and each place room for a fixed number of rules.

use super::counts::{BUCKETS, Counts, Outcomes, percentiles};
use std::cmp::Reverse;
use std::collections::{HashMap, VecDeque};
use tidegate_core::Nanos;
use tidegate_node::histogram::{DURATIONS, RATIOS};
use tidegate_node::rule_counts::RuleLabels;

/// The busiest of a step; the rest are counted together.
const RULES_MAX: usize = 8;
/// In the place of a rule: all others of a step.
pub(super) const OTHERS: u32 = u32::MAX;

/// How much of the past a ring has, and how finely.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Range {
    pub(super) name: &'static str,
    pub(super) step_s: u32,
    places: usize,
}

pub(super) const RANGES: [Range; 4] = [
    Range { name: "15m", step_s: 1, places: 900 },
    Range { name: "1h", step_s: 5, places: 720 },
    Range { name: "6h", step_s: 30, places: 720 },
    Range { name: "24h", step_s: 120, places: 720 },
];

/// What happened during one step.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Step {
    /// When it ended.
    pub(super) at: Nanos,
    /// How long it is, or how much of it is over.
    pub(super) seconds: u32,
    pub(super) admitted: u64,
    pub(super) denied: u64,
    /// The most at any time of it.
    pub(super) open_breakers: u32,
    /// The 50th, 99th and 99.9th percentile, in seconds.
    pub(super) latency: Option<[f64; 3]>,
    pub(super) store: Option<[f64; 3]>,
    /// The same of the part of a limit.
    pub(super) overshoot: Option<[f64; 3]>,
    pub(super) asks: Box<[(&'static str, u64)]>,
    pub(super) paths: Box<[(&'static str, Outcomes)]>,
    /// By their places in [`Names`].
    pub(super) rules: Box<[(u32, Outcomes)]>,
}

/// The rules that were among the busiest once. As many as the node counts by name, at most.
#[derive(Debug, Default)]
pub(super) struct Names {
    places: HashMap<RuleLabels, u32>,
    labels: Vec<RuleLabels>,
}

impl Names {
    fn place(&mut self, labels: &RuleLabels) -> u32 {
        if let Some(place) = self.places.get(labels) {
            return *place;
        }
        let place = u32::try_from(self.labels.len()).unwrap_or(OTHERS);
        self.labels.push(labels.clone());
        self.places.insert(labels.clone(), place);
        place
    }

    pub(super) fn get(&self, place: u32) -> Option<&RuleLabels> {
        self.labels.get(usize::try_from(place).ok()?)
    }
}

#[derive(Debug)]
pub(super) struct Ring {
    pub(super) range: Range,
    steps: VecDeque<Step>,
    /// Of the step that hasn't ended.
    filling: Counts,
    open_breakers: u32,
    seconds: u32,
    last: Nanos,
}

impl Ring {
    pub(super) fn new(range: Range) -> Self {
        let filling = Counts::default();
        Ring { range, steps: VecDeque::new(), filling, open_breakers: 0, seconds: 0, last: Nanos::ZERO }
    }

    /// Records a second that ended at `at`.
    pub(super) fn record(&mut self, at: Nanos, counts: &Counts, open_breakers: u32, names: &mut Names) {
        // A clock that was set back: what follows must not stand among what was before.
        while self.steps.back().is_some_and(|step| step.at >= at) {
            self.steps.pop_back();
        }
        self.filling.add(counts);
        self.open_breakers = self.open_breakers.max(open_breakers);
        (self.seconds, self.last) = (self.seconds + 1, at);
        if self.seconds < self.range.step_s {
            return;
        }
        if self.steps.len() >= self.range.places {
            self.steps.pop_front();
        }
        let counts = std::mem::take(&mut self.filling);
        self.steps.push_back(step_of(at, self.seconds, &counts, self.open_breakers, names));
        (self.seconds, self.open_breakers) = (0, 0);
    }

    /// What came after an instant, the step that hasn't ended last.
    pub(super) fn after(&self, after: Nanos, names: &mut Names) -> (Vec<Step>, Option<Step>) {
        let from = self.steps.partition_point(|step| step.at <= after);
        let steps = self.steps.range(from..).cloned().collect();
        let filling = (self.seconds > 0)
            .then(|| step_of(self.last, self.seconds, &self.filling, self.open_breakers, names));
        (steps, filling)
    }

    #[cfg(test)]
    pub(super) fn room(&self) -> (usize, usize) {
        (self.steps.len(), self.steps.capacity())
    }
}

fn step_of(at: Nanos, seconds: u32, counts: &Counts, open_breakers: u32, names: &mut Names) -> Step {
    let durations = |buckets: &[u64; BUCKETS]| percentiles(buckets, DURATIONS.bounds());
    Step {
        at,
        seconds,
        admitted: counts.admitted,
        denied: counts.denied,
        open_breakers,
        latency: durations(&counts.latency),
        store: durations(&counts.store),
        overshoot: percentiles(&counts.overshoot, RATIOS.bounds()),
        asks: counts.asks.iter().map(|(reason, count)| (*reason, *count)).collect(),
        paths: counts.paths.iter().map(|(path, outcomes)| (*path, *outcomes)).collect(),
        rules: busiest(counts, names),
    }
}

fn busiest(counts: &Counts, names: &mut Names) -> Box<[(u32, Outcomes)]> {
    let mut rules: Vec<(&RuleLabels, &Outcomes)> = counts.rules.iter().collect();
    rules.sort_unstable_by_key(|(labels, outcomes)| (Reverse(outcomes.iter().sum::<u64>()), *labels));
    let (first, rest) = rules.split_at(rules.len().min(RULES_MAX));
    let mut busiest: Vec<(u32, Outcomes)> =
        first.iter().map(|(labels, outcomes)| (names.place(labels), **outcomes)).collect();
    let mut others = Outcomes::default();
    for (_, outcomes) in rest {
        others.iter_mut().zip(*outcomes).for_each(|(sum, more)| *sum += more);
    }
    if others != [0; 3] {
        busiest.push((OTHERS, others));
    }
    busiest.into()
}
