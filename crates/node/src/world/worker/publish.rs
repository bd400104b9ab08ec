//! From the publish queue to the world store: publish requests, then the region's totals, then rows.
//!
//! A cell waits here until the store has accepted its count, or nobody needs it any more. A row that the store
//! refuses is tried again later, alone in its fate; when the whole call fails, all of it is.

use super::{DEQUEUE_EVERY, RETRY_AFTER, Step, WorkerTask, WorldWorker};
use crate::world::{WorldCounters, key_name};
use std::collections::BTreeMap;
use std::sync::Arc;
use tidegate_core::world::{CellUsage, is_due};
use tidegate_core::{CellId, Nanos, WorldPolicy};
use tidegate_origin::{CellTotal, KeyError, OriginError, PublishRequest};
use tidegate_world::{Component, PublishReply, Row, WorldError};

/// Cells that wait to be published; publish requests beyond that are named again by the nodes' next look.
const WAITING_MAX: usize = 100_000;
/// A cell waits so long for others to go with it.
const COALESCE: Nanos = Nanos::from_millis(5);
/// After a publish there is quiet for so long for each of its rows, so that where many grow many go together: a
/// statement costs a database as much as a hundred cells in it.
const QUIET_PER_ROW: Nanos = Nanos::from_millis(4);
const QUIET_MAX: Nanos = Nanos::from_millis(400);
/// How long a refused row waits before it is tried again: doubled each time, up to a minute.
const REFUSED_ROW_RETRY_AFTER: Nanos = Nanos::from_secs(1);
const REFUSALS_MAX: u32 = 6;

#[derive(Debug, Default)]
pub(super) struct PublishState {
    waiting: BTreeMap<CellId, WaitingCell>,
    /// Being read from the origin, or being written to the store.
    reading: Vec<(CellId, WaitingCell)>,
    rows: Vec<Row>,
    /// Published though no node had named them: nodes that didn't sync since don't know that there is a row, and
    /// wouldn't bring it to its last unit.
    unasked: BTreeMap<CellId, WaitingCell>,
    quiet_until: Nanos,
}

#[derive(Clone, Debug)]
struct WaitingCell {
    limit: u64,
    expires: Nanos,
    name: Arc<str>,
    not_before: Nanos,
    refusals: u32,
    /// A node said that the others should hear of it; else that is still to be found out.
    is_named: bool,
}

impl PublishState {
    pub(super) fn has_room(&self) -> bool {
        self.waiting.len() < WAITING_MAX
    }

    pub(super) fn len(&self) -> usize {
        self.waiting.len() + self.reading.len()
    }

    /// How long nothing is published, at most.
    pub(super) fn quiet_for(&self, now: Nanos) -> Nanos {
        self.quiet_until.minus(now).min(QUIET_MAX)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn wait(&mut self, cell: CellId, waiting: WaitingCell) -> bool {
        let has_room = self.has_room();
        match self.waiting.get_mut(&cell) {
            Some(known) => {
                known.limit = known.limit.max(waiting.limit);
                known.is_named |= waiting.is_named;
            }
            None if has_room => drop(self.waiting.insert(cell, waiting)),
            None => return false,
        }
        true
    }

    /// The cells whose time has come, in the order of their keys.
    fn take_ready(&mut self, most: usize, now: Nanos) -> Vec<CellId> {
        // A clock that was set back makes it no longer.
        if self.quiet_until > now && self.quiet_until.minus(now) <= QUIET_MAX {
            return Vec::new();
        }
        self.waiting.retain(|_, waiting| waiting.expires > now);
        let ready = self.waiting.iter().filter(|(_, waiting)| waiting.not_before <= now);
        let ready: Vec<CellId> = ready.take(most).map(|(cell, _)| *cell).collect();
        for cell in &ready {
            if let Some(waiting) = self.waiting.remove(cell) {
                self.reading.push((*cell, waiting));
            }
        }
        ready
    }

    /// Nothing came of it: all of it is tried again.
    fn try_again(&mut self, now: Nanos) {
        self.rows.clear();
        for (cell, waiting) in std::mem::take(&mut self.reading) {
            self.wait(cell, WaitingCell { not_before: now.plus(RETRY_AFTER), ..waiting });
        }
    }
}

impl WorldWorker {
    pub(super) fn receive_publish_requests(
        &mut self,
        requests: Result<Vec<PublishRequest>, OriginError>,
        now: Nanos,
        counters: &WorldCounters,
    ) {
        self.dequeue_at = now.plus(DEQUEUE_EVERY);
        self.record_origin_reply(&requests, now);
        let requests = requests.unwrap_or_default();
        if requests.len() >= usize::from(super::PUBLISH_REQUESTS_MAX) {
            self.dequeue_at = now;
        }
        for PublishRequest { cell, limit, expires, name } in requests {
            let not_before = now.plus(COALESCE);
            let waiting = WaitingCell { limit, expires, name, not_before, refusals: 0, is_named: true };
            if !self.publishing.wait(cell, waiting) {
                counters.publish_requests_dropped.add(1);
            }
        }
    }

    /// The region may have counted more than its row says.
    pub(super) fn recheck_row(&mut self, row: &Component, now: Nanos) {
        let Component { cell, limit, expires, .. } = *row;
        let (name, not_before) = (Arc::from(""), now.plus(COALESCE));
        self.publishing
            .wait(cell, WaitingCell { limit, expires, name, not_before, refusals: 0, is_named: true });
    }

    /// The store lost the region's row of a cell.
    pub(super) fn publish_again(&mut self, cell: CellId, now: Nanos) {
        let Some((limit, expires)) = self.cells.limit(&cell) else { return };
        let (name, not_before) = (Arc::from(""), now.plus(COALESCE));
        // Without room for it the next check finds it again.
        self.publishing
            .wait(cell, WaitingCell { limit, expires, name, not_before, refusals: 0, is_named: true });
    }

    /// Nodes hear of the region's row from now on. What they counted without knowing of it is in the total by now.
    pub(super) fn receive_row(&mut self, cell: CellId, now: Nanos) {
        if let Some(waiting) = self.publishing.unasked.remove(&cell) {
            let not_before = now.plus(COALESCE);
            self.publishing.wait(cell, WaitingCell { not_before, is_named: true, ..waiting });
        }
    }

    /// The others use more of a cell's limit: of the own count less may stay unheard of than when nodes last looked,
    /// and those that rest don't look.
    pub(super) fn reevaluate(&mut self, cell: CellId, now: Nanos) {
        let is_by_headroom = self.status.view().is_some_and(|view| view.policy == WorldPolicy::Headroom);
        let Some((limit, expires)) = self.cells.is_worth_weighing(&cell).filter(|_| is_by_headroom) else {
            return;
        };
        let (name, not_before) = (Arc::from(""), now.plus(COALESCE));
        let waiting = WaitingCell { limit, expires, name, not_before, refusals: 0, is_named: false };
        // Without room for it the next publish request says it.
        self.publishing.wait(cell, waiting);
    }

    /// Nodes take so much of a cell for published, and name nothing below it. When that is more than the region's row,
    /// a worker that was too late told them the row of the owner that the region was before its store forgot that: the
    /// own row is raised, since what was told can't be taken back.
    pub(super) fn make_true(&mut self, cell: CellId, published: u64, now: Nanos) {
        // Until all is read, the row may be there already.
        if published <= self.cells.stored(&cell) || !self.status.has_read_all() {
            return;
        }
        let Some((limit, expires)) = self.cells.limit(&cell) else { return };
        let (name, not_before) = (Arc::from(""), now.plus(COALESCE));
        self.publishing
            .wait(cell, WaitingCell { limit, expires, name, not_before, refusals: 0, is_named: true });
    }

    fn is_due(&self, cell: &CellId, limit: u64, total: u64) -> bool {
        let (published, used) = (self.cells.stored(cell), self.cells.used(cell, total));
        let unpublished = CellUsage { limit, used, total, published };
        self.status.view().is_some_and(|view| is_due(view.policy, &unpublished, view.regions))
    }

    /// Reads totals, or writes the rows that were made of them.
    pub(super) fn publish_step(&mut self, now: Nanos) -> Option<Step> {
        if !self.publishing.rows.is_empty() {
            let owner = self.status.me()?;
            let begins = self.begin_at_store(WorkerTask::Publish, now);
            return begins.then(|| Step::Publish(owner, self.publishing.rows.clone()));
        }
        // What can't be written needn't be read.
        if !self.breaker.admits() || !self.begin_at_origin(WorkerTask::Publish, now) {
            return None;
        }
        let ready = self.publishing.take_ready(self.cells_per_call, now);
        if ready.is_empty() {
            self.busy.remove(&WorkerTask::Publish);
            return None;
        }
        Some(Step::Totals(ready))
    }

    pub(super) fn totals(
        &mut self,
        totals: Result<Vec<Result<CellTotal, KeyError>>, OriginError>,
        now: Nanos,
    ) {
        self.record_origin_reply(&totals, now);
        let Ok(totals) = totals else { return self.publishing.try_again(now) };
        let reading = std::mem::take(&mut self.publishing.reading);
        let mut totals = totals.into_iter();
        for (cell, waiting) in reading {
            match totals.next() {
                Some(Ok(CellTotal { total, published })) => {
                    if !waiting.is_named && !self.is_due(&cell, waiting.limit, total) {
                        continue;
                    }
                    // A new epoch is told though nothing was counted in it yet.
                    let is_new_epoch = cell.epoch > 0 && !self.cells.knows(&cell);
                    let stored = self.cells.stored(&cell);
                    // Never less than the store had: the origin may have lost data, too.
                    let count = total.max(self.cells.own(&cell));
                    if count > stored || is_new_epoch {
                        let WaitingCell { limit, expires, ref name, .. } = waiting;
                        // A row that is there has its name.
                        let name = if stored == 0 { key_name(name) } else { None };
                        self.publishing.rows.push(Row { cell, count, limit, expires, name });
                        self.publishing.reading.push((cell, waiting));
                    } else if total > published {
                        // The store has it, and the origin forgot that.
                        self.unwritten.insert(cell);
                    }
                }
                // That cell's counts can't be read: its own trouble.
                Some(Err(_)) | None => {
                    let not_before = now.plus(REFUSED_ROW_RETRY_AFTER);
                    self.publishing.wait(cell, WaitingCell { not_before, ..waiting });
                }
            }
        }
    }

    pub(super) fn published(
        &mut self,
        published: Result<PublishReply, WorldError>,
        now: Nanos,
        counters: &WorldCounters,
    ) {
        self.record_store_reply(published.is_ok(), now);
        let refused = match published {
            Ok(PublishReply { refused }) => refused,
            Err(error) => {
                counters.publish_errors.add(1);
                self.status.failed("publishing", &error);
                return self.publishing.try_again(now);
            }
        };
        let refused: BTreeMap<usize, String> = refused.into_iter().collect();
        let rows = std::mem::take(&mut self.publishing.rows);
        let reading = std::mem::take(&mut self.publishing.reading);
        let quiet = Nanos::new(QUIET_PER_ROW.get().saturating_mul(rows.len() as u64)).min(QUIET_MAX);
        self.publishing.quiet_until = now.plus(quiet);
        counters.rows_published.add(u64::try_from(rows.len() - refused.len().min(rows.len())).unwrap_or(0));
        for (index, (cell, waiting)) in reading.into_iter().enumerate() {
            if let Some(reason) = refused.get(&index) {
                counters.rows_refused.add(1);
                tracing::warn!(?cell, reason, "the world store refuses a count; it is tried again later");
                let length = REFUSED_ROW_RETRY_AFTER.get() << waiting.refusals.min(REFUSALS_MAX);
                let refusals = waiting.refusals.saturating_add(1);
                let not_before = now.plus(Nanos::new(length));
                self.publishing.wait(cell, WaitingCell { not_before, refusals, ..waiting });
            } else if !waiting.is_named {
                self.publishing.unasked.insert(cell, waiting);
            }
        }
        self.publishing.unasked.retain(|_, waiting| waiting.expires > now);
        self.status.published(now);
        // The origin hears that a row is published when it is read back, with what the others have published
        // meanwhile: told before, the region would go on by what it knew of them when it stopped.
        self.import_at = now;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tidegate_core::{KeyId, Sequence};

    #[test]
    fn after_a_publish_cells_wait_for_each_other_unless_the_clock_was_set_back() {
        let now = Nanos::from_secs(100);
        let cell = CellId { key: KeyId::from_hash(1), epoch: 0, sequence: Sequence(1) };
        let waiting = WaitingCell {
            limit: 10,
            expires: Nanos::from_secs(200),
            name: Arc::from(""),
            not_before: Nanos::ZERO,
            refusals: 0,
            is_named: true,
        };
        let ready_at = |quiet_until: Nanos| {
            let mut publishing = PublishState { quiet_until, ..PublishState::default() };
            assert!(publishing.wait(cell, waiting.clone()));
            publishing.take_ready(10, now).len()
        };
        assert_eq!(ready_at(now), 1);
        assert_eq!(ready_at(now.plus(QUIET_MAX)), 0);
        assert_eq!(ready_at(now.plus(Nanos::from_secs(5))), 1);
    }
}
