//! A node that stops: it publishes what is left, and tells the region and its shards that nobody need wait for it.

use super::RegionDriver;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use tokio::time::timeout;

/// How long it tries to publish what is left.
const LEAVE_TIMEOUT: Duration = Duration::from_secs(2);

impl RegionDriver {
    /// Publishes what is left, and leaves. Calls of the threads that served are gone with them.
    pub async fn leave(self: Arc<Self>) {
        if self.is_held() {
            return;
        }
        self.shared().region.abandon_calls();
        let everything_published = async {
            // A store that has just lost its data is given back what this node knows.
            let pulses: Vec<_> = self
                .origin()
                .shards()
                .into_iter()
                .map(|shard| tokio::spawn(self.clone().pulse(shard)))
                .collect();
            for pulse in pulses {
                let _ = pulse.await;
            }
            // An answer may leave something to publish.
            while self.flush() || !self.shared().region.is_idle() {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        if timeout(LEAVE_TIMEOUT, everything_published).await.is_err() {
            tracing::warn!("the origin can't be reached: what was admitted last stays unpublished");
        }
        self.is_leaving.store(true, Ordering::Relaxed);
        // Whoever can't be told finds out by itself.
        self.leave_shards().await;
        let _ = self.origin().beat(self.heartbeat(true)).await;
    }
}
