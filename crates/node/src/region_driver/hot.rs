//! Carries what nodes tell each other of hot keys, and looks which keys are hot here.

use super::RegionDriver;
use crate::driver::calm_interval;
use crate::hot::HotKeys;
use crate::sharing::Sharing;
use std::sync::Arc;
use std::time::Duration;
use tidegate_origin::OriginError;

/// Twice, and a lease comes with the flush that follows: a key is leased within half a second of its first request.
const WATCH_EVERY: Duration = Duration::from_millis(200);
const PUBLISH_EVERY: Duration = Duration::from_secs(1);

impl RegionDriver {
    /// Looks again and again which keys are hot.
    pub(super) async fn run_hot_key_scan(self: &Arc<Self>) {
        let mut tick = calm_interval(WATCH_EVERY);
        loop {
            tick.tick().await;
            let Sharing { table, region, hot, .. } = self.shared();
            let now = self.clock.now().now;
            hot.watch(self.engine.top(), region, table.live_nodes(), now);
        }
    }

    /// Tells the region what comes often here, and hears what is hot in all of it.
    pub(super) async fn run_hot_key_reports(self: &Arc<Self>) {
        let mut tick = calm_interval(PUBLISH_EVERY);
        let mut is_ill = false;
        loop {
            tick.tick().await;
            let published = if self.is_foreign() { Ok(()) } else { self.publish_hot_keys().await };
            if let Err(error) = &published
                && !is_ill
            {
                tracing::debug!(%error, "the region can't be told which keys are hot");
            }
            is_ill = published.is_err();
        }
    }

    async fn publish_hot_keys(&self) -> Result<(), OriginError> {
        let Sharing { region, hot, .. } = self.shared();
        let origin = self.origin();
        let reply = origin.report_hot(&hot.report(region.node())).await?;
        hot.receive(reply.news, region);
        if hot.is_to_be_merged(reply.now) {
            let reports = origin.gather_hot(HotKeys::REPORT_TTL).await?;
            let news = HotKeys::merged(&reports, reply.now);
            origin.publish_hot_keys(&news).await?;
            hot.receive(Some(news), region);
        }
        Ok(())
    }
}
