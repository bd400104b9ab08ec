//! What nodes say to each other about hot keys, kept until the others come by.

use super::OriginStore;
use crate::{HotKeysReply, HotNews, HotReport};
use std::collections::BTreeMap;
use tidegate_core::Nanos;
use tidegate_core::origin_cell::NodeId;

#[derive(Clone, Debug, Default)]
pub(super) struct HotKeyTable {
    /// What each node said last, and when.
    reports: BTreeMap<NodeId, (Nanos, HotReport)>,
    news: Option<HotNews>,
}

impl OriginStore {
    /// Keeps what comes often to a node, and says what is hot in the region.
    pub fn report_hot(&mut self, report: &HotReport, now: Nanos) -> HotKeysReply {
        let now = self.wake(now);
        self.hot.reports.insert(report.node, (now, report.clone()));
        let news = self.hot.news.clone().filter(|news| news.stamp > report.applied);
        HotKeysReply { now, news }
    }

    /// What came often to every node lately.
    pub fn gather_hot(&mut self, silent_for: Nanos, now: Nanos) -> Vec<HotReport> {
        let now = self.wake(now);
        self.hot.reports.retain(|_, (said, _)| said.plus(silent_for) >= now);
        self.hot.reports.values().map(|(_, report)| report.clone()).collect()
    }

    /// Stores the region's hot keys for all nodes.
    pub fn publish_hot_keys(&mut self, news: &HotNews) {
        if self.hot.news.as_ref().is_none_or(|told| told.stamp < news.stamp) {
            self.hot.news = Some(news.clone());
        }
    }
}
