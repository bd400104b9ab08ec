//! The region's work in the world tier, done by one of its nodes: carry counts to the store, bring back the others'.
//!
//! Sans-IO: [`WorldWorker::steps`] says what is to be begun, [`WorldWorker::done`] takes what came of it, and the driver, or
//! the simulator, does the steps. One step of each kind is under way at a time. A worker that isn't the leader
//! forgets everything; one that becomes it reads everything. Two at once do no harm: every number is absolute and
//! merged by max.

mod import;
mod loss;
mod merge;
mod publish;
mod region_status;
mod step;

pub use import::{ROWS_PER_TURN, next_turn};
pub use region_status::{RegionLag, WorkState};
pub use step::{Step, StepResult, WorkerTask};

use super::WorldCounters;
use super::cells::Cells;
use super::pace::Pace;
use loss::LossCheck;
use publish::PublishState;
use region_status::RegionStatus;
use std::collections::BTreeSet;
use tidegate_core::{CellId, Nanos};
use tidegate_origin::{
    Breaker, BreakerState, KeyError, LeaderStatus, OriginError, OriginId, PublishRequest, Reset, WorldCell,
};
use tidegate_world::{Cursor, JoinRequest, Membership, OwnerId, PublishPolicy};

/// How often the publish queue is looked into.
const DEQUEUE_EVERY: Nanos = Nanos::from_millis(20);
/// How often it says that the region is here: while somebody waits to share limits, and for some time after who takes
/// part has changed; and when all is settled, where it's a statement that writes and brings nothing new.
const JOIN_EVERY: Nanos = Nanos::from_secs(1);
const JOIN_STEADY_EVERY: Nanos = Nanos::from_secs(4);
const STEADY_AFTER: Nanos = Nanos::from_secs(30);
/// How often changes are asked for.
const IMPORT_EVERY: Nanos = Nanos::from_millis(250);
/// A cursor knows which changes it hasn't seen. Every so often an import goes back all the same, by so much.
const OVERLAP: Nanos = Nanos::from_secs(10);
const OVERLAP_EVERY: Nanos = Nanos::from_secs(60);
/// What failed is tried again after this.
const RETRY_AFTER: Nanos = Nanos::from_millis(200);
/// The most publish requests and cells of one call to the origin.
const PUBLISH_REQUESTS_MAX: u16 = 1_000;
const CELLS_PER_CALL: usize = 2_000;
/// And the fewest: an origin that can't answer so many in time is asked for half as many.
const CELLS_PER_CALL_MIN: usize = 64;
/// The most resets that wait to be told: what is beyond them is heard of with the keys' next syncs.
const RESETS_MAX: usize = 500;
/// Cells that are remembered.
const CELLS_MAX: usize = 500_000;
/// Every so many ticks the origin has been told everything again: one of its servers may have forgotten.
const TICKS_PER_ROUND: usize = 12;
/// Of few cells all with every tick: a server that failed over to an old replica doesn't say so.
const CELLS_PER_TICK_MIN: usize = 64;

#[derive(Clone, Debug)]
pub struct WorkerOptions {
    pub region: String,
    pub fingerprint: u64,
    /// As it is set here; the recorded one is gone by.
    pub policy: PublishPolicy,
    /// The origin dies with this process: it is nobody's namesake, and leaves when the process does.
    pub is_alone: bool,
    pub seed: u64,
}

/// Exchanges counts between the region's origin and the world store. Sans-IO.
#[derive(Debug)]
pub struct WorldWorker {
    options: WorkerOptions,
    /// The origin's name while this node leads.
    origin: Option<OriginId>,
    applied_by_all: u64,
    /// The membership that all nodes divide quotas by.
    quotas_by: u64,
    status: RegionStatus,
    breaker: Breaker,
    busy: BTreeSet<WorkerTask>,
    /// Of those, the ones that an earlier lead began: what comes of them is ignored.
    stale: BTreeSet<WorkerTask>,
    pace: Pace,
    join_at: Nanos,
    dequeue_at: Nanos,
    import_at: Nanos,
    /// The origin failed: it is left alone until then.
    origin_at: Nanos,
    /// How many cells it is asked about at once.
    cells_per_call: usize,
    cursor: Cursor,
    /// The next import begins behind the last page, not at an overlap.
    has_more: bool,
    overlap_at: Nanos,
    publishing: PublishState,
    cells: Cells,
    loss: LossCheck,
    /// Cells that the origin is to be told of, and those that it is being told of.
    unwritten: BTreeSet<CellId>,
    writing: Vec<WorldCell>,
    /// Keys that were reset elsewhere, which the nodes haven't been told of.
    resets: Vec<Reset>,
    round: Option<CellId>,
    view_at: Nanos,
    merge_at: Nanos,
    delete_at: Nanos,
}

impl WorldWorker {
    pub fn new(options: WorkerOptions, now: Nanos) -> Self {
        WorldWorker {
            origin: None,
            applied_by_all: 0,
            quotas_by: 0,
            status: RegionStatus::default(),
            breaker: Breaker::new(options.seed),
            busy: BTreeSet::new(),
            stale: BTreeSet::new(),
            pace: Pace::new(options.policy.interval, options.seed, now),
            join_at: now,
            dequeue_at: now,
            import_at: now,
            origin_at: now,
            cells_per_call: CELLS_PER_CALL / 4,
            cursor: Cursor::default(),
            has_more: false,
            overlap_at: now,
            publishing: PublishState::default(),
            cells: Cells::new(CELLS_MAX),
            loss: LossCheck::default(),
            unwritten: BTreeSet::new(),
            writing: Vec::new(),
            resets: Vec::new(),
            round: None,
            view_at: Nanos::MAX,
            merge_at: now,
            delete_at: Nanos::MAX,
            options,
        }
    }

    pub fn is_leader(&self) -> bool {
        self.origin.is_some()
    }

    /// The election's outcome; `None` when the lease may have run out.
    pub fn led(&mut self, leading: Option<LeaderStatus>, now: Nanos) {
        let led = leading.filter(|leading| leading.is_leader).and_then(|led| Some((led.origin?, led)));
        let Some((origin, leading)) = led else {
            if self.is_leader() {
                self.reset_state(now);
            }
            return;
        };
        if self.origin.is_some_and(|before| before.id != origin.id) {
            // Another store: another owner in the world tier. What is under way was begun as the former one: its
            // rows would be taken for this one's.
            self.reset_state(now);
        }
        self.applied_by_all = leading.applied_by_all;
        match self.origin.replace(origin) {
            Some(before) if before.incarnation == origin.incarnation => {}
            // A store that has forgotten everything, or the first that is heard of it.
            _ => self.rewrite_everything(now),
        }
    }

    /// Nobody, as at the start; what comes of the steps that are under way is ignored.
    fn reset_state(&mut self, now: Nanos) {
        let busy = std::mem::take(&mut self.busy);
        *self = WorldWorker { stale: busy.clone(), busy, ..WorldWorker::new(self.options.clone(), now) };
    }

    /// What is to be begun now.
    pub fn steps(&mut self, now: Nanos, counters: &WorldCounters) -> Vec<Step> {
        let mut steps = Vec::new();
        let Some(origin) = self.origin else { return steps };
        if self.status.joined.is_some() && self.pace.ticks(now) {
            self.tick(now, counters);
        }
        // A clock that was set back makes it no longer.
        let waits = self.join_at > now && self.join_at.minus(now) <= JOIN_STEADY_EVERY;
        if !waits && self.begin_at_store(WorkerTask::Join, now) {
            steps.push(Step::Join(self.joining(origin, false)));
        }
        if self.status.joined.is_none() {
            return steps;
        }
        if now >= self.dequeue_at
            && self.publishing.has_room()
            && self.begin_at_origin(WorkerTask::Dequeue, now)
        {
            steps.push(Step::DequeuePublishRequests { most: PUBLISH_REQUESTS_MAX });
        }
        steps.extend(self.publish_step(now));
        if now >= self.import_at && self.begin_at_store(WorkerTask::Import, now) {
            // What happens meanwhile may ask for the next one.
            self.import_at = Nanos::MAX;
            steps.push(Step::Import(self.since(now)));
        }
        if !self.unwritten.is_empty() && self.begin_at_origin(WorkerTask::Write, now) {
            steps.push(Step::Write(self.untold_cells()));
        }
        if now >= self.view_at && self.begin_at_origin(WorkerTask::PublishView, now) {
            self.view_at = Nanos::MAX;
            steps.extend(self.status.view().map(Step::PublishView));
        }
        if !self.resets.is_empty() && self.begin_at_origin(WorkerTask::Resets, now) {
            steps.push(Step::PublishResets(std::mem::take(&mut self.resets)));
        }
        steps.extend(self.check_step(now));
        steps.extend(self.merge_step(now));
        if now >= self.delete_at && self.status.is_first() && self.begin_at_store(WorkerTask::Delete, now) {
            steps.push(Step::Delete);
        }
        steps
    }

    /// Where an import begins.
    fn since(&mut self, now: Nanos) -> Cursor {
        if self.has_more {
            return self.cursor;
        }
        if now < self.overlap_at {
            return self.cursor;
        }
        self.overlap_at = now.plus(OVERLAP_EVERY);
        self.cursor.back(OVERLAP)
    }

    /// When there may be something to begin, if nothing happens before.
    pub fn wakes_at(&self, now: Nanos) -> Nanos {
        if !self.is_leader() {
            return Nanos::MAX;
        }
        let mut at = self.pace.due().min(self.join_at);
        if self.status.joined.is_some() {
            at = at.min(self.dequeue_at).min(self.import_at);
        }
        at.clamp(now.plus(Nanos::from_millis(1)), now.plus(DEQUEUE_EVERY))
    }

    /// A step is over.
    pub fn done(&mut self, done: StepResult, now: Nanos, counters: &WorldCounters) {
        self.busy.remove(&done.task());
        if self.stale.remove(&done.task()) || !self.is_leader() {
            return;
        }
        match done {
            StepResult::Joined(joined) => self.joined(joined, now),
            StepResult::PublishRequests(requests) => self.receive_publish_requests(requests, now, counters),
            StepResult::Totals(totals) => self.totals(totals, now),
            StepResult::Published(published) => self.published(published, now, counters),
            StepResult::Imported(imported) => self.imported(imported, now, counters),
            StepResult::Written(written) => self.written(&written, now),
            StepResult::PublishedView(told) => {
                if !self.record_origin_reply(&told, now) {
                    self.view_at = now;
                }
            }
            // Who isn't told hears of it with the key's next sync.
            StepResult::PublishedResets(told) => drop(self.record_origin_reply(&told, now)),
            StepResult::Checked(checked) => self.checked(checked, now, counters),
            StepResult::Merged(merged) => self.merged(merged, now, counters),
            StepResult::Deleted(deleted) => {
                self.record_store_reply(deleted.is_ok(), now);
                let count = deleted.unwrap_or(0);
                counters.rows_deleted.add(count);
                let is_more = usize::try_from(count).is_ok_and(|count| count >= tidegate_world::DELETED_MAX);
                self.delete_at = if is_more { now.plus(IMPORT_EVERY) } else { Nanos::MAX };
            }
        }
    }

    /// Takes publish requests past the publish queue: of a node that stops.
    pub fn take_publish_requests(
        &mut self,
        requests: Vec<PublishRequest>,
        now: Nanos,
        counters: &WorldCounters,
    ) {
        if self.is_leader() {
            self.receive_publish_requests(Ok(requests), now, counters);
        }
    }

    /// Nothing is left to carry to the store.
    pub fn is_settled(&self) -> bool {
        self.publishing.is_empty() && self.unwritten.is_empty() && !self.busy.contains(&WorkerTask::Publish)
    }

    /// What says that the region is gone for good; `None` when its counts outlive this process.
    pub fn leaving(&self) -> Option<JoinRequest> {
        let origin = self.origin.filter(|_| self.options.is_alone)?;
        Some(self.joining(origin, true))
    }

    /// As whom the region takes part, and who else does; `None` when this node doesn't work for it.
    pub fn membership(&self) -> Option<(OwnerId, Membership)> {
        let joined = self.status.joined.as_ref().filter(|_| self.is_leader())?;
        Some((joined.me, joined.membership.clone()))
    }

    /// The membership that all nodes divided quotas by when they were last asked.
    pub fn quotas_known(&self) -> u64 {
        self.quotas_by
    }

    /// All nodes divide quotas by this membership.
    pub fn quotas_divide_by(&mut self, version: u64) {
        self.quotas_by = version;
    }

    fn joining(&self, origin: OriginId, leaves: bool) -> JoinRequest {
        let version = self.status.joined.as_ref().map_or(0, |joined| joined.membership.version);
        JoinRequest {
            region: self.options.region.clone(),
            origin: origin.id,
            fingerprint: self.options.fingerprint,
            policy: self.options.policy,
            applied: self.applied_by_all.min(self.quotas_by).min(version),
            known: self.applied_by_all.max(version),
            leaves,
        }
    }

    /// Once in an interval: reads further back, and tells the origin a part of everything.
    fn tick(&mut self, now: Nanos, counters: &WorldCounters) {
        (self.import_at, self.delete_at) = (now, now);
        self.loss.tick();
        self.cells.expire(now);
        counters.cells_dropped.add(self.cells.shrink());
        let part = self.cells.len().div_ceil(TICKS_PER_ROUND).max(CELLS_PER_TICK_MIN);
        let cells = self.cells.after(self.round, part);
        self.round = cells.last().copied().filter(|_| cells.len() == part);
        self.unwritten.extend(cells);
    }

    /// The origin knows nothing of what it was told.
    fn rewrite_everything(&mut self, now: Nanos) {
        let everything = self.cells.after(None, CELLS_MAX);
        self.unwritten.extend(everything);
        self.view_at = now;
    }

    fn untold_cells(&mut self) -> Vec<WorldCell> {
        let mut cells = Vec::new();
        while cells.len() < self.cells_per_call
            && let Some(cell) = self.unwritten.pop_first()
        {
            cells.extend(self.cells.world_cell(&cell));
        }
        self.writing.clone_from(&cells);
        cells
    }

    fn written(&mut self, written: &Result<Vec<Result<u64, KeyError>>, OriginError>, now: Nanos) {
        let telling = std::mem::take(&mut self.writing);
        self.record_origin_reply(written, now);
        let Ok(written) = written else {
            // They come again with the next round, too.
            self.unwritten.extend(telling.into_iter().map(|told| told.cell));
            return;
        };
        // Only now: who syncs from here on hears what the others have used; who did before is in the total.
        for (index, WorldCell { cell, own, .. }) in telling.into_iter().enumerate() {
            self.reevaluate(cell, now);
            if own > 0 {
                self.receive_row(cell, now);
            }
            if let Some(Ok(published)) = written.get(index) {
                self.make_true(cell, *published, now);
            }
        }
    }

    /// Begins something at the world store, if that isn't sick and nothing of it is under way.
    fn begin_at_store(&mut self, task: WorkerTask, now: Nanos) -> bool {
        if self.busy.contains(&task) {
            return false;
        }
        let is_idle = ![WorkerTask::Join, WorkerTask::Publish, WorkerTask::Import, WorkerTask::Delete]
            .iter()
            .any(|task| self.busy.contains(task));
        let begins = self.breaker.admits() || (is_idle && self.breaker.probe_due(now));
        begins && self.busy.insert(task)
    }

    fn begin_at_origin(&mut self, task: WorkerTask, now: Nanos) -> bool {
        now >= self.origin_at && self.busy.insert(task)
    }

    fn record_store_reply(&mut self, is_good: bool, now: Nanos) {
        if is_good { self.breaker.on_success(now) } else { self.breaker.on_failure(now) }
    }

    /// Says whether it answered.
    fn record_origin_reply<T>(&mut self, answer: &Result<T, OriginError>, now: Nanos) -> bool {
        if answer.is_err() {
            self.origin_at = now.plus(RETRY_AFTER);
            self.cells_per_call = (self.cells_per_call / 2).max(CELLS_PER_CALL_MIN);
        } else {
            self.cells_per_call = (self.cells_per_call + CELLS_PER_CALL_MIN).min(CELLS_PER_CALL);
        }
        answer.is_ok()
    }

    /// How the work stands, to be shown.
    pub fn state(&self) -> WorkState {
        let is_open = matches!(self.breaker.state(), BreakerState::Open { .. });
        let waiting = self.publishing.len();
        self.status.shown(self.is_leader(), is_open, self.breaker.opens(), waiting, self.cells.len())
    }
}
