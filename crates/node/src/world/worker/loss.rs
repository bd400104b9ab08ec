//! What the world store lost of the region's own rows is published again.
//!
//! A cell that is spent, or idle, never grows: nothing else would bring its row back. Lost rows are found in two ways.
//! An import says when the store doesn't know the cursor any more; then everything is read, and what is missing in the
//! end is lost. And each tick asks for some of the region's rows in turn, which finds rows that were deleted one by one.

use super::{Step, TICKS_PER_ROUND, WorkerTask, WorldWorker};
use crate::world::WorldCounters;
use tidegate_core::{CellId, Nanos};
use tidegate_world::{StoredCounts, WorldError};

/// Of how many rows each tick asks: of few all of them, of many a part, and of very many no more than a statement holds.
const ROWS_PER_TICK_MIN: usize = 64;
const ROWS_PER_TICK_MAX: usize = 500;

/// Which rows were asked for, and how far the round is.
#[derive(Debug, Default)]
pub(super) struct LossCheck {
    is_due: bool,
    after: Option<CellId>,
    asked: Vec<CellId>,
    /// Everything is being read again, since the store didn't know the cursor.
    rereads: bool,
}

impl LossCheck {
    pub(super) fn tick(&mut self) {
        self.is_due = true;
    }
}

impl WorldWorker {
    /// The store may have lost anything: all of it is read again from here on.
    pub(super) fn store_restarted(&mut self) {
        self.cells.reset_stored();
        self.loss.rereads = true;
    }

    /// Everything was read: what isn't there is lost, if it was looked for.
    pub(super) fn everything_read(&mut self, now: Nanos, counters: &WorldCounters) {
        if !std::mem::take(&mut self.loss.rereads) {
            return;
        }
        let lost: Vec<CellId> = self.cells.lost().collect();
        self.publish_lost(&lost, now, counters);
    }

    /// Asks what the store has of the next of the region's rows.
    pub(super) fn check_step(&mut self, now: Nanos) -> Option<Step> {
        let owner = self.status.me()?;
        let may = self.loss.is_due && !self.loss.rereads && self.status.has_read_all();
        // Nobody waits for it: it is no probe of a sick store.
        if !may || !self.breaker.admits() || self.busy.contains(&WorkerTask::Check) {
            return None;
        }
        self.loss.is_due = false;
        let most = (self.cells.len() / TICKS_PER_ROUND).clamp(ROWS_PER_TICK_MIN, ROWS_PER_TICK_MAX);
        (self.loss.asked, self.loss.after) = self.cells.published_after(self.loss.after, most);
        if self.loss.asked.is_empty() || !self.begin_at_store(WorkerTask::Check, now) {
            return None;
        }
        Some(Step::Check(owner, self.loss.asked.clone()))
    }

    pub(super) fn checked(
        &mut self,
        checked: Result<StoredCounts, WorldError>,
        now: Nanos,
        counters: &WorldCounters,
    ) {
        let asked = std::mem::take(&mut self.loss.asked);
        let StoredCounts { counts, lag } = match checked {
            Ok(stored) => stored,
            Err(error) => return self.status.failed("checking the region's rows", &error),
        };
        let rows = asked.into_iter().zip(counts);
        let lost: Vec<CellId> = rows
            .filter(|(cell, stored)| self.cells.is_lost(cell, *stored, lag, now))
            .map(|(cell, _)| cell)
            .collect();
        self.publish_lost(&lost, now, counters);
    }

    fn publish_lost(&mut self, lost: &[CellId], now: Nanos, counters: &WorldCounters) {
        if lost.is_empty() {
            return;
        }
        counters.rows_lost.add(u64::try_from(lost.len()).unwrap_or(u64::MAX));
        tracing::warn!(
            rows = lost.len(),
            "the world store lost counts of this region: they are published again"
        );
        for cell in lost {
            self.publish_again(*cell, now);
        }
    }
}
