//! Which keys are hot: by what this node sees, and by what its region says.
//!
//! A key that comes often here is leased here at once. Beside that, each node tells the origin once a second what
//! comes often, whoever finds that nobody added it up for two seconds does so, and all hear the result with their
//! next report: a key that is spread over many nodes is hot at each of them. Nobody leads; two who add up at once say
//! the same. Sans-IO.

use crate::region::{HOT_MAX, Region};
use crate::top::Top;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use tidegate_core::origin_cell::NodeId;
use tidegate_core::{Accuracy, KeyId, Nanos};
use tidegate_origin::{HotKey, HotNews, HotReport};

/// A key is hot that comes so often to the whole region.
const HOT_FROM: u64 = 8_000;
/// What comes less often to a node than this isn't worth a word.
const REPORTED_PER_SECOND_MIN: u64 = 100;
/// The same of an `exact` rule, of which otherwise each admission asks. Below it a lease would be of one or two.
const EXACT_REPORTED_PER_SECOND_MIN: u64 = 20;
/// So often the reports of all nodes are added up.
const MERGED_EVERY: Nanos = Nanos::from_secs(2);

/// What a node knows of hot keys.
#[derive(Debug, Default)]
pub struct HotKeys(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    /// What comes often here, to be told.
    often: Vec<HotKey>,
    /// Of the latest news that were heard.
    stamp: u64,
}

impl HotKeys {
    /// Whose last report is older isn't there any more.
    pub const REPORT_TTL: Nanos = Nanos::from_secs(3);

    /// Looks at what came lately. To be done a few times a second.
    pub fn watch(&self, top: &Top, region: &Region, live_nodes: u32, now: Nanos) {
        // Half of an even part: of a key that is hot in the region, some node sees as much.
        let part = HOT_FROM / (2 * u64::from(live_nodes.max(1)));
        let told_from = part.max(EXACT_REPORTED_PER_SECOND_MIN);
        let mut reported = Vec::new();
        for often in top.often(f64::from(u32::try_from(told_from).unwrap_or(u32::MAX)), now) {
            let is_exact = often.limit.item.accuracy == Accuracy::Exact;
            let told_from = if is_exact { told_from } else { part.max(REPORTED_PER_SECOND_MIN) };
            let per_second = whole(often.per_second);
            if often.is_hot || region.is_hot(often.limit.item.key) {
                region.heat(often.limit, per_second, now);
            }
            if per_second >= told_from {
                reported.push(HotKey { key: often.limit.item.key, per_second });
            }
        }
        self.0.lock().often = most_often(reported);
    }

    /// Returns the report for the region.
    pub fn report(&self, node: NodeId) -> HotReport {
        let state = self.0.lock();
        HotReport { node, applied: state.stamp, keys: state.often.clone() }
    }

    /// Applies the region's hot keys, if there are newer ones.
    pub fn receive(&self, news: Option<HotNews>, region: &Region) {
        let mut state = self.0.lock();
        if let Some(news) = news.filter(|news| news.stamp > state.stamp) {
            state.stamp = news.stamp;
            region.set_hot(news.keys.iter().map(|hot| hot.key));
        }
    }

    /// Nobody added up for a while, by the origin's time: it is this node's turn.
    pub fn is_to_be_merged(&self, present: Nanos) -> bool {
        micros(present) >= self.0.lock().stamp.saturating_add(micros(MERGED_EVERY))
    }

    /// What is hot by all nodes' reports.
    pub fn merged(reports: &[HotReport], present: Nanos) -> HotNews {
        let mut sums = BTreeMap::<KeyId, u64>::new();
        for hot in reports.iter().flat_map(|report| &report.keys) {
            let sum = sums.entry(hot.key).or_default();
            *sum = sum.saturating_add(hot.per_second);
        }
        let hot = sums.into_iter().filter(|(_, per_second)| *per_second >= HOT_FROM);
        let keys = most_often(hot.map(|(key, per_second)| HotKey { key, per_second }).collect());
        HotNews { stamp: micros(present), keys }
    }
}

fn most_often(mut keys: Vec<HotKey>) -> Vec<HotKey> {
    keys.sort_by_key(|hot| (std::cmp::Reverse(hot.per_second), hot.key));
    keys.truncate(HOT_MAX);
    keys
}

/// What Redis counts exactly.
fn micros(instant: Nanos) -> u64 {
    instant.get() / 1000
}

/// A rate in whole requests.
fn whole(per_second: f64) -> u64 {
    // From 0 to what a node can be asked: far below 2^53.
    std::time::Duration::try_from_secs_f64(per_second).map_or(0, |rate| rate.as_secs())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hot(key: u128, per_second: u64) -> HotKey {
        HotKey { key: KeyId::from_hash(key), per_second }
    }

    #[test]
    fn what_is_spread_over_nodes_is_hot_and_what_is_not_enough_is_not() {
        let report = |node, keys: &[HotKey]| HotReport { node: NodeId(node), applied: 0, keys: keys.into() };
        let reports =
            [report(1, &[hot(1, 4_000), hot(2, 3_000)]), report(2, &[hot(1, 4_000), hot(3, 9_000)])];
        let news = HotKeys::merged(&reports, Nanos::from_secs(5));
        assert_eq!(news.keys, [hot(3, 9_000), hot(1, 8_000)]);
        assert_eq!(news.stamp, 5_000_000);
    }

    #[test]
    fn the_set_is_bounded() {
        let keys: Vec<HotKey> =
            (0..5_000).map(|key| hot(key, 10_000 + u64::try_from(key).unwrap())).collect();
        let reports = [HotReport { node: NodeId(1), applied: 0, keys }];
        let news = HotKeys::merged(&reports, Nanos::ZERO);
        assert_eq!((news.keys.len(), news.keys[0].per_second), (HOT_MAX, 14_999));
    }
}
