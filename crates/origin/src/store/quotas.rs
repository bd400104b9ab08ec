//! What nodes and their world worker say to each other about quotas, kept until the other one comes by.

use crate::{QuotaNews, QuotaReply, QuotaReport, QuotaReports};
use std::collections::BTreeMap;
use std::sync::Arc;
use tidegate_core::Nanos;
use tidegate_core::origin_cell::NodeId;

#[derive(Clone, Debug, Default)]
pub(super) struct Quotas {
    /// What each node said last, and when.
    reports: BTreeMap<NodeId, (Nanos, QuotaReport)>,
    news: Option<Arc<QuotaNews>>,
    /// When something was missing that was there before; `None` until anybody reports.
    lost_data_at: Option<Nanos>,
}

impl Quotas {
    pub(super) fn report(&mut self, report: &QuotaReport, present: Nanos) -> QuotaReply {
        let told = self.news.as_ref().map_or(0, |news| news.stamp);
        let is_behind = report.applied > told;
        if report.leaves {
            self.reports.remove(&report.node);
        } else {
            let is_known = self.reports.insert(report.node, (present, report.clone())).is_some();
            // Who goes by news reported before; news are told where somebody did.
            let is_missed = report.applied > 0 && !is_known;
            if is_behind || is_missed || (self.lost_data_at.is_none() && told > 0) {
                self.lost_data_at = Some(present);
            }
            self.lost_data_at.get_or_insert(Nanos::ZERO);
        }
        let news = self.news.clone().filter(|news| news.stamp > report.applied);
        QuotaReply { now: present, news, is_behind }
    }

    pub(super) fn gather(&mut self, silent_for: Nanos, present: Nanos) -> QuotaReports {
        self.reports.retain(|_, (said, _)| said.plus(silent_for) >= present);
        let reports = self.reports.values().map(|(_, report)| report.clone()).collect();
        QuotaReports { now: present, lost_data_at: self.lost_data_at.unwrap_or(Nanos::ZERO), reports }
    }

    pub(super) fn publish(&mut self, news: &QuotaNews) {
        if self.news.as_ref().is_none_or(|told| told.stamp < news.stamp) {
            self.news = Some(Arc::new(news.clone()));
        }
    }
}
