//! The store's log, brought into its table of counts by the first of the regions.
//!
//! What others read all day is in the log; the table is for people, and for who comes from nothing. So it can wait,
//! and where many cells grow it waits longer: what grew many times meanwhile is written once.

use super::{Step, WorkerTask, WorldWorker};
use crate::world::WorldCounters;
use tidegate_core::Nanos;
use tidegate_world::{MERGED_MAX, MergeReport, WorldError};

/// How soon the log is merged again: so long for each row that was written, within these bounds.
const QUIET_PER_ROW: Nanos = Nanos::from_millis(4);
const QUIET_MIN: Nanos = Nanos::from_secs(5);
const QUIET_MAX: Nanos = Nanos::from_secs(120);

impl WorldWorker {
    pub(super) fn merge_step(&mut self, now: Nanos) -> Option<Step> {
        // A clock that was set back makes it no longer.
        let waits = self.merge_at > now && self.merge_at.minus(now) <= QUIET_MAX;
        // Nobody waits for it: it is no probe of a sick store, and keeps nobody else from being one.
        let may = !waits && self.status.is_first() && self.breaker.admits();
        (may && self.busy.insert(WorkerTask::Merge)).then_some(Step::Merge)
    }

    pub(super) fn merged(
        &mut self,
        merged: Result<MergeReport, WorldError>,
        now: Nanos,
        counters: &WorldCounters,
    ) {
        let MergeReport { rows, refused } = match merged {
            Ok(merged) => merged,
            Err(error) => {
                self.status.failed("merging the log", &error);
                self.merge_at = now.plus(QUIET_MIN);
                return;
            }
        };
        counters.rows_merged.add(rows as u64);
        counters.rows_refused.add(refused.len() as u64);
        if let Some(reason) = refused.first() {
            let rows = refused.len();
            tracing::warn!(
                rows,
                reason,
                "the world store's table refuses counts; its log has them for some minutes"
            );
        }
        self.merge_at = now.plus(quiet_after(rows));
    }
}

fn quiet_after(rows: usize) -> Nanos {
    if rows >= MERGED_MAX {
        return Nanos::ZERO;
    }
    Nanos::new(QUIET_PER_ROW.get().saturating_mul(rows as u64)).clamp(QUIET_MIN, QUIET_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_more_is_merged_the_longer_it_waits_unless_more_is_left() {
        assert_eq!([0, 1_250, 10_000].map(quiet_after), [5, 5, 40].map(Nanos::from_secs));
        assert_eq!([30_000, MERGED_MAX - 1].map(quiet_after), [QUIET_MAX; 2]);
        assert_eq!(quiet_after(MERGED_MAX), Nanos::ZERO);
    }
}
