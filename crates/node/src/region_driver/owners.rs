//! Folds crowded cells, one step after the other, slowly: nothing waits for it.

use super::RegionDriver;
use crate::driver::calm_interval;
use crate::sharing::Sharing;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use tidegate_core::Nanos;
use tidegate_origin::record::PULSE_RETENTION;
use tidegate_origin::{CrowdedCell, FoldStep, OriginError, RememberedNodes, ShardId};

const POLL_EVERY: Duration = Duration::from_secs(1);
/// Between two steps, for each live node: all nodes together make a hundred steps a second at most.
const STEP_EVERY: Duration = Duration::from_millis(10);
/// How long what a shard remembers of nodes is used. Short against [`PULSE_RETENTION`]: nobody is forgotten meanwhile who lives.
const REMEMBERED_NODES_TTL: Nanos = Nanos::from_secs(60);
const _: () = assert!(REMEMBERED_NODES_TTL.get() * 10 < PULSE_RETENTION.get(), "else live nodes are folded");

/// What each shard remembered, and when it said so.
type Remembered = BTreeMap<ShardId, (Nanos, RememberedNodes)>;

impl RegionDriver {
    /// Folds the cells that replies showed to be crowded.
    pub(super) async fn run_folding(self: &Arc<Self>) {
        let mut tick = calm_interval(POLL_EVERY);
        let mut remembered = Remembered::new();
        loop {
            tick.tick().await;
            while let Some(cell) = self.shared().region.take_crowded() {
                if let Err(error) = self.fold(cell, &mut remembered).await {
                    tracing::debug!(%error, "the owners of a cell can't be folded now");
                    break;
                }
            }
        }
    }

    async fn fold(&self, cell: CrowdedCell, remembered: &mut Remembered) -> Result<(), OriginError> {
        let origin = self.origin();
        let Sharing { table, region, .. } = self.shared();
        let shard = origin.shard_of(cell.key);
        let now = self.clock.now().now;
        let is_current = |(at, _): &(Nanos, RememberedNodes)| now.minus(*at) < REMEMBERED_NODES_TTL;
        if !remembered.get(&shard).is_some_and(is_current) {
            remembered.insert(shard, (now, origin.remembered_nodes(shard).await?));
        }
        let Some((_, RememberedNodes { live, nodes })) = remembered.get(&shard) else { return Ok(()) };
        // Nodes of a release that sends no pulses can't be told from those that are gone.
        if *live < table.live_nodes() {
            remembered.remove(&shard);
            return Ok(());
        }
        let mut step = FoldStep { cell, cursor: 0, stays: nodes };
        let mut folded = 0;
        while region.is_healthy(shard) {
            let done = origin.fold_owners(shard, step).await?;
            folded += done.folded;
            step.cursor = done.next;
            if done.next == 0 {
                tracing::debug!(folded, left = done.owners, "folded the owners of a cell");
                break;
            }
            tokio::time::sleep(STEP_EVERY * table.live_nodes()).await;
        }
        Ok(())
    }
}
