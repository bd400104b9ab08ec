//! From the world store to the origin: what changed, as far as it can be believed.

use super::{IMPORT_EVERY, RESETS_MAX, RETRY_AFTER, WorkerTask, WorldWorker};
use crate::world::WorldCounters;
use crate::world::cells::ComponentChange;
use tidegate_core::{CellId, Nanos};
use tidegate_origin::Reset;
use tidegate_world::{Component, Cursor, ImportPage, OwnerId, WorldError};

/// How many rows are taken in one turn. A page of the store may have twenty thousand, which would keep what else has
/// its turns on the same thread, or waits for the worker's lock, from them for tens of milliseconds.
pub const ROWS_PER_TURN: usize = 1_000;

/// The first rows of a page that is too large for one turn, which are then no more in it.
pub fn next_turn(page: &mut ImportPage) -> Option<Vec<Component>> {
    (page.components.len() > ROWS_PER_TURN).then(|| page.components.drain(..ROWS_PER_TURN).collect())
}

impl WorldWorker {
    /// A publish begins, after which changes are asked for in any case: since when, if that can go with it.
    pub fn import_with_publish(&mut self, now: Nanos) -> Option<Cursor> {
        let may = self.is_leader() && !self.has_more && self.busy.contains(&WorkerTask::Publish);
        (may && self.begin_at_store(WorkerTask::Import, now)).then(|| {
            self.import_at = Nanos::MAX;
            self.since(now)
        })
    }

    /// A page begins: the store may not know the cursor any more. Before any of its rows is taken.
    pub fn page_begins(&mut self, page: &mut ImportPage) {
        let is_asked_for = self.is_leader() && !self.stale.contains(&WorkerTask::Import);
        if std::mem::take(&mut page.is_restart) && is_asked_for {
            self.store_restarted();
        }
    }

    /// Takes some rows of a page. The rest of it is still to be [`WorldWorker::done`].
    pub fn imported_some(&mut self, rows: &[Component], now: Nanos, counters: &WorldCounters) {
        let is_asked_for = self.is_leader() && !self.stale.contains(&WorkerTask::Import);
        if let Some(me) = self.status.me().filter(|_| is_asked_for) {
            self.take_rows(me, rows, now, counters);
            self.status.imported(now, rows.len(), true);
        }
    }

    pub(super) fn imported(
        &mut self,
        imported: Result<ImportPage, WorldError>,
        now: Nanos,
        counters: &WorldCounters,
    ) {
        self.record_store_reply(imported.is_ok(), now);
        let (mut imported, me) = match (imported, self.status.me()) {
            (Ok(imported), Some(me)) => (imported, me),
            (Ok(_), None) => {
                self.import_at = now;
                return;
            }
            (Err(error), _) => {
                counters.import_errors.add(1);
                self.status.failed("importing", &error);
                self.import_at = self.import_at.min(now.plus(RETRY_AFTER));
                return;
            }
        };
        self.page_begins(&mut imported);
        let ImportPage { components, next, has_more, .. } = imported;
        self.take_rows(me, &components, now, counters);
        self.status.imported(now, components.len(), has_more);
        if !has_more {
            self.everything_read(now, counters);
        }
        (self.cursor, self.has_more) = (next, has_more);
        // The next publish is followed by an import, which saves this one.
        let quiet = self.publishing.quiet_for(now);
        let next = if has_more { now } else { now.plus(quiet).plus(IMPORT_EVERY) };
        self.import_at = self.import_at.min(next);
    }

    fn take_rows(&mut self, me: OwnerId, rows: &[Component], now: Nanos, counters: &WorldCounters) {
        counters.rows_imported.add(u64::try_from(rows.len()).unwrap_or(u64::MAX));
        for component in rows {
            self.take(me, component, now, counters);
        }
        counters.cells_dropped.add(self.cells.shrink());
    }

    /// A cell of a later epoch: its key was reset in another region.
    fn record_reset(&mut self, component: &Component) {
        let CellId { key, epoch, .. } = component.cell;
        if epoch > 0 && self.resets.len() < RESETS_MAX {
            self.resets.push(Reset { key, epoch });
        }
    }

    fn take(&mut self, me: OwnerId, component: &Component, now: Nanos, counters: &WorldCounters) {
        if component.expires <= now {
            return;
        }
        if self.cells.is_implausible(me, component) {
            counters.implausible_rows.add(1);
            self.status.implausible(component);
        }
        match self.cells.take(me, component, now) {
            ComponentChange::Known => {}
            ComponentChange::Raised if component.owner == me => drop(self.unwritten.insert(component.cell)),
            ComponentChange::New if component.owner == me => {
                self.unwritten.insert(component.cell);
                // Of an earlier worker, which may have died with what it was about to publish.
                if !self.status.has_read_all() {
                    self.recheck_row(component, now);
                }
            }
            taken @ (ComponentChange::Raised | ComponentChange::New) => {
                if taken == ComponentChange::New {
                    counters.cells_imported.add(1);
                    self.record_reset(component);
                }
                self.unwritten.insert(component.cell);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::world::{Step, StepResult, WorkerOptions};
    use tidegate_core::{KeyId, Sequence};
    use tidegate_origin::{LeaderStatus, OriginId};
    use tidegate_world::{JoinReply, Member, Membership, PublishPolicy, PublishThreshold};

    const NOW: Nanos = Nanos::from_secs(1_000);

    fn page(rows: usize) -> ImportPage {
        let row = |number: usize| Component {
            owner: OwnerId(2),
            cell: CellId { key: KeyId::from_hash(number as u128), epoch: 0, sequence: Sequence(7) },
            count: 5,
            limit: 10,
            expires: NOW.plus(Nanos::from_secs(60)),
        };
        let components = (0..rows).map(row).collect();
        ImportPage { components, next: Cursor::default(), has_more: false, is_restart: false }
    }

    const POLICY: PublishPolicy =
        PublishPolicy { publish: PublishThreshold::Headroom, interval: Nanos::from_secs(5) };

    /// It leads in a region with this store.
    fn leads(worker: &mut WorldWorker, id: u64) {
        let origin = Some(OriginId { id, incarnation: 1 });
        worker.led(Some(LeaderStatus { is_leader: true, origin, applied_by_all: 0, now: NOW }), NOW);
    }

    fn joined(owner: u32) -> StepResult {
        let me = Member {
            owner: OwnerId(owner),
            region: "eu".to_owned(),
            is_active: true,
            applied: 1,
            seen: NOW,
            confirmed: NOW,
        };
        let membership = Membership { version: 1, members: vec![me] };
        StepResult::Joined(Ok(JoinReply {
            me: OwnerId(owner),
            policy: POLICY,
            membership,
            namesakes: 0,
            now: NOW,
        }))
    }

    /// A worker that says that the region is here.
    fn joining(counters: &WorldCounters) -> WorldWorker {
        let (region, policy) = ("eu".to_owned(), POLICY);
        let mut worker =
            WorldWorker::new(WorkerOptions { region, fingerprint: 1, policy, is_alone: false, seed: 1 }, NOW);
        leads(&mut worker, 1);
        assert!(matches!(worker.steps(NOW, counters)[..], [Step::Join(_)]));
        worker
    }

    /// A worker that has asked for changes.
    fn importing(counters: &WorldCounters) -> WorldWorker {
        let mut worker = joining(counters);
        worker.done(joined(1), NOW, counters);
        assert!(worker.steps(NOW, counters).iter().any(|step| matches!(step, Step::Import(_))));
        worker
    }

    #[test]
    fn no_turn_has_more_than_a_thousand_rows_and_all_of_them_are_taken() {
        let counters = WorldCounters::default();
        let mut worker = importing(&counters);
        let mut page = page(20_500);
        let mut turns = Vec::new();
        while let Some(rows) = next_turn(&mut page) {
            turns.push(rows.len());
            worker.imported_some(&rows, NOW, &counters);
            assert_eq!(worker.state().imported_at, None, "there is more");
        }
        turns.push(page.components.len());
        worker.done(StepResult::Imported(Ok(page)), NOW, &counters);
        assert!(turns.iter().all(|rows| *rows <= ROWS_PER_TURN), "{turns:?}");
        let state = worker.state();
        assert_eq!((state.cells_known, state.rows_in_last_import), (20_500, 20_500));
        assert_eq!((state.imported_at, counters.rows_imported.get()), (Some(NOW), 20_500));
    }

    #[test]
    fn changes_are_asked_for_along_with_a_publish_unless_that_is_under_way() {
        let counters = WorldCounters::default();
        let mut worker = importing(&counters);
        worker.busy.insert(WorkerTask::Publish);
        assert_eq!(worker.import_with_publish(NOW), None, "one is under way");
        worker.done(StepResult::Imported(Ok(page(1))), NOW, &counters);
        assert_eq!(worker.import_with_publish(NOW), Some(Cursor::default()));
        assert_eq!(worker.import_with_publish(NOW), None, "it is under way now");
        worker.done(StepResult::Imported(Ok(page(1))), NOW, &counters);
        worker.busy.remove(&WorkerTask::Publish);
        assert_eq!(worker.import_with_publish(NOW), None, "nothing is being published");
    }

    #[test]
    fn a_worker_that_hears_of_another_store_goes_by_nothing_that_it_began_for_the_former() {
        let counters = WorldCounters::default();
        let mut worker = joining(&counters);
        leads(&mut worker, 2);
        worker.done(joined(1), NOW, &counters);
        assert_eq!(worker.membership(), None, "that was the former one's owner");
        let steps = worker.steps(NOW, &counters);
        assert!(matches!(&steps[..], [Step::Join(joining)] if joining.origin == 2), "{steps:?}");
        worker.done(joined(2), NOW, &counters);
        assert_eq!(worker.membership().map(|(me, _)| me), Some(OwnerId(2)));
        let mut worker = importing(&counters);
        leads(&mut worker, 2);
        worker.done(StepResult::Imported(Ok(page(10))), NOW, &counters);
        assert_eq!((worker.state().cells_known, worker.state().imported_at), (0, None));
    }

    #[test]
    fn rows_that_an_earlier_lead_asked_for_are_ignored() {
        let counters = WorldCounters::default();
        let mut worker = importing(&counters);
        worker.led(None, NOW);
        worker.imported_some(&page(10).components, NOW, &counters);
        assert_eq!((worker.state().cells_known, counters.rows_imported.get()), (0, 0));
    }
}
