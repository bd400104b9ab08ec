//! What nodes and their world worker say to each other about quotas, kept until the other one comes by.

use crate::{QuotaGathered, QuotaHeard, QuotaNews, QuotaReport};
use std::collections::BTreeMap;
use std::sync::Arc;
use tidegate_core::Nanos;
use tidegate_core::origin_cell::NodeId;

#[derive(Clone, Debug, Default)]
pub(super) struct Quotas {
    /// What each node said last, and when.
    reports: BTreeMap<NodeId, (Nanos, QuotaReport)>,
    news: Option<Arc<QuotaNews>>,
}

impl Quotas {
    pub(super) fn report(&mut self, report: &QuotaReport, present: Nanos) -> QuotaHeard {
        if report.leaves {
            self.reports.remove(&report.node);
        } else {
            self.reports.insert(report.node, (present, report.clone()));
        }
        let news = self.news.clone().filter(|news| news.stamp > report.applied);
        QuotaHeard { now: present, news }
    }

    pub(super) fn gather(&mut self, silent_for: Nanos, present: Nanos) -> QuotaGathered {
        self.reports.retain(|_, (said, _)| said.plus(silent_for) >= present);
        let reports = self.reports.values().map(|(_, report)| report.clone()).collect();
        QuotaGathered { now: present, reports }
    }

    pub(super) fn tell(&mut self, news: &QuotaNews) {
        if self.news.as_ref().is_none_or(|told| told.stamp < news.stamp) {
            self.news = Some(Arc::new(news.clone()));
        }
    }
}
