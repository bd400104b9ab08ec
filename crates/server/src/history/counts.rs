//! What a node has counted, for its history: the sums since its start, and what came since the last look.

use crate::App;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use tidegate_node::histogram::HistogramSnapshot;
use tidegate_node::region::ShardHealth;
use tidegate_node::region_driver::BreakerState;
use tidegate_node::rule_counts::RuleLabels;

/// Of a histogram, each alone.
pub(super) const BUCKETS: usize = 16;
/// One in so many decisions that asked nobody is timed, and each that asked.
const TIMED_ONE_IN: u64 = 64;

/// Requests, or limits, that passed, that were denied, and that a shadow rule would have denied.
pub(super) type Outcomes = [u64; 3];

#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Counts {
    pub(super) admitted: u64,
    pub(super) denied: u64,
    /// How long decisions took.
    pub(super) latency: [u64; BUCKETS],
    /// How long the region's store took to answer.
    pub(super) store: [u64; BUCKETS],
    /// By how much of their limit keys were beyond it when somebody asked.
    pub(super) overshoot: [u64; BUCKETS],
    /// Why limits asked the store.
    pub(super) asks: BTreeMap<&'static str, u64>,
    pub(super) paths: BTreeMap<&'static str, Outcomes>,
    pub(super) rules: HashMap<RuleLabels, Outcomes>,
}

impl Counts {
    /// Everything since the node started.
    pub(super) fn of(app: &App) -> Self {
        let stats = app.engine.stats();
        let named = stats.counts_by_name();
        let count =
            |wanted: &str| named.iter().find(|(name, _)| *name == wanted).map_or(0, |(_, count)| *count);
        let mut counts = Counts {
            admitted: count("requests_admitted"),
            denied: count("requests_denied"),
            ..Counts::default()
        };
        for (measured, weight) in stats.durations().iter().zip([TIMED_ONE_IN, 1]) {
            add_buckets(&mut counts.latency, measured, weight);
        }
        for series in stats.rules() {
            let mut of_rule = Outcomes::default();
            for (outcome, path, count) in series.decisions {
                let column = match outcome {
                    "denied" => 1,
                    "would_deny" => 2,
                    "reported" => continue,
                    _ => 0,
                };
                of_rule[column] += count;
                counts.paths.entry(path).or_default()[column] += count;
            }
            counts.rules.insert(series.labels, of_rule);
        }
        if let Some(sharing) = app.engine.shared() {
            for figures in sharing.region.shard_figures() {
                add_buckets(&mut counts.store, &figures.answered, 1);
            }
            add_buckets(&mut counts.overshoot, &sharing.region.overshoot(), 1);
            counts.asks.extend(sharing.region.asks_by_reason());
        }
        counts
    }

    /// What came since an earlier look. A shard that left takes its counts with it: nothing is less than 0.
    pub(super) fn since(&self, before: &Self) -> Self {
        let buckets = |now: &[u64; BUCKETS], then: &[u64; BUCKETS]| {
            std::array::from_fn(|index| now[index].saturating_sub(then[index]))
        };
        let outcomes = |now: &Outcomes, then: Option<&Outcomes>| -> Outcomes {
            std::array::from_fn(|index| now[index].saturating_sub(then.map_or(0, |then| then[index])))
        };
        let asks = self.asks.iter().map(|(reason, count)| {
            (*reason, count.saturating_sub(before.asks.get(reason).copied().unwrap_or(0)))
        });
        let paths = self.paths.iter().map(|(path, now)| (*path, outcomes(now, before.paths.get(path))));
        let rules = self.rules.iter().map(|(labels, now)| (labels, outcomes(now, before.rules.get(labels))));
        Counts {
            admitted: self.admitted.saturating_sub(before.admitted),
            denied: self.denied.saturating_sub(before.denied),
            latency: buckets(&self.latency, &before.latency),
            store: buckets(&self.store, &before.store),
            overshoot: buckets(&self.overshoot, &before.overshoot),
            asks: asks.filter(|(_, count)| *count > 0).collect(),
            paths: paths.filter(|(_, outcomes)| *outcomes != [0; 3]).collect(),
            rules: rules
                .filter(|(_, outcomes)| *outcomes != [0; 3])
                .map(|(labels, outcomes)| (labels.clone(), outcomes))
                .collect(),
        }
    }

    pub(super) fn add(&mut self, more: &Self) {
        self.admitted += more.admitted;
        self.denied += more.denied;
        for (own, more) in [
            (&mut self.latency, &more.latency),
            (&mut self.store, &more.store),
            (&mut self.overshoot, &more.overshoot),
        ] {
            own.iter_mut().zip(more).for_each(|(own, more)| *own += more);
        }
        for (reason, count) in &more.asks {
            *self.asks.entry(reason).or_default() += count;
        }
        let add = |own: &mut Outcomes, more: &Outcomes| {
            own.iter_mut().zip(more).for_each(|(own, more)| *own += more);
        };
        for (path, outcomes) in &more.paths {
            add(self.paths.entry(path).or_default(), outcomes);
        }
        for (labels, outcomes) in &more.rules {
            match self.rules.get_mut(labels) {
                Some(own) => add(own, outcomes),
                None => drop(self.rules.insert(labels.clone(), *outcomes)),
            }
        }
    }
}

fn add_buckets(own: &mut [u64; BUCKETS], measured: &HistogramSnapshot, weight: u64) {
    own.iter_mut().zip(&measured.counts).for_each(|(own, count)| *own += count * weight);
}

/// Shards of the region's store that are away: a breaker is open, or heartbeats aren't answered. Nobody may have called
/// a quiet node, so that no breaker opens.
pub(super) fn shards_away(app: &App) -> u32 {
    let Some(sharing) = app.engine.shared() else { return 0 };
    let breakers = sharing.region.breakers();
    let open = breakers.iter().filter(|(_, state, _)| matches!(state, BreakerState::Open { .. }));
    let conditions = sharing.region.shard_conditions();
    let silent = conditions.iter().filter(|condition| condition.health == ShardHealth::Unavailable);
    let away: BTreeSet<_> =
        open.map(|(shard, ..)| *shard).chain(silent.map(|condition| condition.shard)).collect();
    u32::try_from(away.len()).unwrap_or(u32::MAX)
}

/// The 50th, 99th and 99.9th percentile; `None` where nothing was measured.
pub(super) fn percentiles(counts: &[u64; BUCKETS], bounds: &[f64]) -> Option<[f64; 3]> {
    let total: u64 = counts.iter().sum();
    (total > 0).then(|| [0.5, 0.99, 0.999].map(|part| percentile(counts, bounds, total, part)))
}

/// Within a bucket, values count as evenly spread; beyond the last bound, as at it.
fn percentile(counts: &[u64; BUCKETS], bounds: &[f64], total: u64, part: f64) -> f64 {
    let wanted = total as f64 * part;
    let (mut below, mut start) = (0.0, 0.0);
    for (count, end) in counts.iter().zip(bounds) {
        let inside = *count as f64;
        if inside > 0.0 && below + inside >= wanted {
            return start + (end - start) * ((wanted - below) / inside).clamp(0.0, 1.0);
        }
        (below, start) = (below + inside, *end);
    }
    start
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(rule: &str) -> RuleLabels {
        RuleLabels { tenant: "default".into(), namespace: "api".into(), rule: rule.into() }
    }

    #[test]
    fn what_came_since_and_what_was_before_are_all_of_it() {
        let mut before = Counts { admitted: 3, denied: 1, ..Counts::default() };
        before.latency[2] = 7;
        before.rules.insert(labels("a"), [3, 1, 0]);
        before.paths.insert("local", [3, 1, 0]);
        let mut now = before.clone();
        (now.admitted, now.latency[2], now.latency[5]) = (9, 8, 2);
        now.asks.insert("cold", 4);
        now.rules.insert(labels("b"), [6, 0, 0]);
        now.paths.insert("cold", [6, 0, 0]);
        let since = now.since(&before);
        assert_eq!((since.admitted, since.denied, since.rules.len(), since.paths.len()), (6, 0, 1, 1));
        before.add(&since);
        assert_eq!(before, now);
        assert_eq!(now.since(&now), Counts::default());
    }

    #[test]
    fn percentiles_lie_within_their_bucket() {
        let bounds: Vec<f64> = (1..BUCKETS).map(|bound| bound as f64).collect();
        let mut counts = [0; BUCKETS];
        assert_eq!(percentiles(&counts, &bounds), None);
        counts[0] = 990;
        counts[4] = 9;
        counts[BUCKETS - 1] = 1;
        let [half, most, nearly_all] = percentiles(&counts, &bounds).unwrap();
        assert!(half > 0.5 && half < 0.51, "{half}");
        assert!((0.99..=1.0).contains(&most), "{most}");
        assert!((4.99..=5.0).contains(&nearly_all), "{nearly_all}");
        let mut beyond = [0; BUCKETS];
        beyond[BUCKETS - 1] = 1;
        assert_eq!(percentiles(&beyond, &bounds), Some([15.0; 3]), "beyond the last bound");
    }
}
