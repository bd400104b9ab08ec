//! What a node does for its region among others: the election, the publish queue, and the worker's steps.
//!
//! Follows `crates/node/src/world_driver.rs`. What goes to the world store is left in the outbox for whoever
//! drives all regions; what goes to the origin takes the node's own network.

use super::carrying::{CALL_TIMEOUT, timed_out};
use super::slicing::{QuotaDone, QuotaStep};
use super::{NodeEvent, Simulation};
use crate::node::{SimulatedNode, Ticket};
use crate::oracle::How;
use crate::trace::AnswerPath;
use tidegate_core::origin_cell::NodeId;
use tidegate_core::{CellId, KeyId, Nanos, Sequence};
use tidegate_node::world::{Step, StepResult};
use tidegate_origin::ResetNews;
use tidegate_origin::{
    KeyError, LeaderCandidate, LeaderRequest, LeaderStatus, OriginError, OriginId, PublishRequest, QuotaNews,
    QuotaReply, QuotaReport, QuotaReports, WorldCell,
};
use tidegate_world::{MergeReport, SLICE_LEASE, WorldError};

/// As in `crates/node/src/world_driver.rs`.
const LEASE: Nanos = Nanos::from_secs(2);
const LEAD_EVERY: Nanos = Nanos::from_millis(500);
const SILENCE_MAX: u32 = 3;
const ENQUEUE_EVERY: Nanos = Nanos::from_millis(10);
const PUBLISH_REQUESTS_PER_CALL: usize = 1_000;
/// A statement's deadline, as in `crates/world/src/sql.rs`.
pub(crate) const STATEMENT_TIMEOUT: Nanos = Nanos::from_secs(2);

/// What is asked of the origin for the world's sake.
#[derive(Debug, Clone)]
pub(crate) enum WorkerCall {
    Lead {
        lead: LeaderCandidate,
        asked_at: Nanos,
    },
    EnqueuePublishRequests(Vec<PublishRequest>),
    /// With the node's present.
    Step(Step, Nanos),
    Report {
        report: QuotaReport,
        sent: Nanos,
    },
    Gather,
    PublishQuotas(QuotaNews),
}

/// What came of a call for the world's sake, to the origin or to the world store.
#[derive(Debug)]
pub(crate) enum WorkerReply {
    Led {
        leading: Option<LeaderStatus>,
        asked_at: Nanos,
    },
    /// `None` when the publish requests must be sent again: then they are these.
    Enqueued(Option<Vec<PublishRequest>>),
    Done(Box<StepResult>),
    Reported {
        reply: Option<QuotaReply>,
        sent: Nanos,
    },
    Gathered(Option<QuotaReports>),
    QuotasPublished,
    Quota(QuotaDone),
}

/// What is asked of the world store.
#[derive(Debug, Clone)]
pub(crate) enum StoreStep {
    Work(Step),
    Quota(QuotaStep),
}

/// What it answers.
#[derive(Debug)]
pub(crate) enum StoreDone {
    Work(StepResult),
    Quota(QuotaDone),
}

impl StoreStep {
    /// What a worker hears when the world store can't be asked.
    pub(crate) fn failed(&self, error: &WorldError) -> StoreDone {
        match self {
            StoreStep::Work(step) => StoreDone::Work(failed_at_store(step, error)),
            StoreStep::Quota(step) => StoreDone::Quota(step.failed()),
        }
    }
}

impl From<StoreDone> for WorkerReply {
    fn from(done: StoreDone) -> Self {
        match done {
            StoreDone::Work(done) => WorkerReply::Done(Box::new(done)),
            StoreDone::Quota(done) => WorkerReply::Quota(done),
        }
    }
}

/// A worker's call to the world store.
#[derive(Debug, Clone)]
pub(crate) struct StoreCall {
    /// When it was made.
    pub(crate) at: Nanos,
    pub(crate) node: usize,
    pub(crate) incarnation: u32,
    pub(crate) call: Ticket,
    pub(crate) step: StoreStep,
}

/// Something that a region heard of the world: whoever knows all regions can tell whether it is true.
#[derive(Debug, Clone, Copy)]
pub(crate) enum WorldNote {
    /// The origin was told.
    Told(WorldCell),
    /// A node believes in so much beyond its region.
    Believed {
        key: KeyId,
        sequence: Sequence,
        regional: u64,
        world: u64,
    },
    /// The region's store granted something.
    Granted(WorkerGrant),
    /// A request passed, or had passed already.
    Admitted(Admitted),
    Denied(Denied),
}

/// What somebody knows of a cell: the own region's count, and that of the others.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct CellView {
    pub(crate) regional: u64,
    pub(crate) world: u64,
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct WorkerGrant {
    pub(crate) key: KeyId,
    pub(crate) sequence: Sequence,
    /// By how many regions the world credit was divided; 1 where none is looked at.
    pub(crate) regions: u32,
    /// The first ask, which is granted whatever it costs while nothing is unpublished.
    pub(crate) first: u64,
    /// By the store's clock.
    pub(crate) now: Nanos,
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Admitted {
    pub(crate) key: usize,
    pub(crate) cost: u64,
    pub(crate) how: How,
    /// The cell that it was charged to.
    pub(crate) sequence: Sequence,
    /// By the node's clock.
    pub(crate) now: Nanos,
    /// What the node knows of that cell and of the one before.
    pub(crate) views: [CellView; 2],
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Denied {
    pub(crate) key: usize,
    pub(crate) cost: u64,
    pub(crate) path: AnswerPath,
    pub(crate) sequence: Sequence,
    /// By the node's clock.
    pub(crate) now: Nanos,
    pub(crate) retry_after: Option<Nanos>,
}

impl Simulation {
    /// Starts a node's timers for the world.
    pub(super) fn begin_world_work(&mut self, node: usize) {
        let Some(place) = &self.scenario.world else { return };
        let interval = place.policy.interval;
        let look_at = self.now.plus(Nanos::new(self.random.below(interval.get())));
        // Before it asks about any key: whoever knows the region's counts must know whose they are.
        self.push_of(node, self.now, NodeEvent::Lead);
        self.push_of(node, look_at, NodeEvent::Look);
        self.begin_quota_work(node);
    }

    pub(super) fn call_origin(&mut self, node: usize, what: WorkerCall) {
        let call = self.new_ticket();
        if let Some(world) = &mut self.nodes[node].world {
            world.calls.insert(call);
        }
        let timeout = NodeEvent::Told(call, what.failed(&timed_out()));
        self.push_of(node, self.now.plus(CALL_TIMEOUT), timeout);
        self.send_to_origin(node, call, what);
    }

    pub(super) fn lead(&mut self, node: usize) {
        let (new, life) = (self.random.next_u64(), self.random.next_u64());
        let state = &self.nodes[node];
        let (Some(world), asked_at) = (&state.world, state.moment(self.now).now) else { return };
        let id = world.origin.or_else(|| (world.silence >= SILENCE_MAX).then_some(new));
        let proposed = id.map(|id| OriginId { id, incarnation: life });
        let lead =
            LeaderCandidate { node: state.id, request: LeaderRequest::Lead { lease: LEASE }, proposed };
        self.call_origin(node, WorkerCall::Lead { lead, asked_at });
        self.push_of(node, self.now.plus(LEAD_EVERY), NodeEvent::Lead);
    }

    /// Lost publish requests are written again.
    pub(super) fn scan(&mut self, node: usize) {
        let Some(place) = &self.scenario.world else { return };
        let interval = place.policy.interval;
        let state = &self.nodes[node];
        let (Some(world), now) = (state.engine.world(), state.moment(self.now).now) else { return };
        for key in world.scan(now) {
            state.sharing().region.mark_unpublished(&state.sharing().table, key);
        }
        self.run_flush(node);
        self.run_enqueue(node);
        self.push_of(node, self.now.plus(interval), NodeEvent::Look);
    }

    /// Cells wait to be named: they are, together with what comes in the next moment.
    pub(super) fn run_enqueue(&mut self, node: usize) {
        let state = &mut self.nodes[node];
        let has_due = state.engine.world().is_some_and(tidegate_node::world::WorldNode::has_due);
        let Some(world) = state.world.as_mut().filter(|world| has_due && !world.is_mailing) else { return };
        world.is_mailing = true;
        self.push_of(node, self.now.plus(ENQUEUE_EVERY), NodeEvent::Mail);
    }

    pub(super) fn enqueue(&mut self, node: usize) {
        let Some(world) = self.nodes[node].engine.world() else { return };
        let requests = world.take_due(PUBLISH_REQUESTS_PER_CALL);
        self.call_origin(node, WorkerCall::EnqueuePublishRequests(requests));
    }

    /// Lets the worker begin what it has to, and sets its alarm.
    fn work(&mut self, node: usize) {
        let state = &mut self.nodes[node];
        let now = state.moment(self.now).now;
        let (Some(world), Some(logic)) = (&mut state.world, state.engine.world()) else { return };
        let steps = world.worker.steps(now, logic.counters());
        let wait = world.worker.wakes_at(now).minus(now);
        let wakes_at = if wait > LEAD_EVERY { Nanos::MAX } else { self.now.plus(wait) };
        let is_sooner = wakes_at < world.works_at || world.works_at <= self.now;
        if is_sooner {
            world.works_at = wakes_at;
            if wakes_at < Nanos::MAX {
                self.push_of(node, wakes_at, NodeEvent::Work);
            }
        }
        for step in steps {
            self.trace_event(node, || format!("worker: {step:?}"));
            self.perform(node, step);
        }
    }

    pub(super) fn wake_worker(&mut self, node: usize) {
        let Some(world) = &mut self.nodes[node].world else { return };
        if self.now >= world.works_at {
            world.works_at = Nanos::MAX;
            self.work(node);
        }
    }

    fn perform(&mut self, node: usize, step: Step) {
        if step.is_at_origin() {
            let now = self.nodes[node].moment(self.now).now;
            return self.call_origin(node, WorkerCall::Step(step, now));
        }
        if step == Step::Merge {
            return self.merge(node);
        }
        self.call_store(node, StoreStep::Work(step));
    }

    /// The simulated store has no log to be merged: nothing is sent.
    fn merge(&mut self, node: usize) {
        let state = &mut self.nodes[node];
        let now = state.moment(self.now).now;
        if let (Some(world), Some(logic)) = (&mut state.world, state.engine.world()) {
            world.worker.done(StepResult::Merged(Ok(MergeReport::default())), now, logic.counters());
        }
    }

    pub(super) fn call_store(&mut self, node: usize, step: StoreStep) {
        let call = self.new_ticket();
        let state = &mut self.nodes[node];
        if let Some(world) = &mut state.world {
            world.calls.insert(call);
        }
        let incarnation = state.incarnation;
        let waited_ms = STATEMENT_TIMEOUT.as_millis_ceil();
        let timeout = step.failed(&WorldError::Timeout { waited_ms });
        self.push_of(node, self.now.plus(STATEMENT_TIMEOUT), NodeEvent::Told(call, timeout.into()));
        self.outbox.push(StoreCall { at: self.now, node, incarnation, call, step });
    }

    /// The world store's answer is there at `at`.
    pub(crate) fn answer(&mut self, of: &StoreCall, done: StoreDone, at: Nanos) {
        let what = NodeEvent::Told(of.call, done.into());
        let (node, incarnation) = (of.node, of.incarnation);
        self.queue.push(at, super::Event::OfNode { node, incarnation, what });
    }

    pub(super) fn at_coordination(&mut self, what: WorkerCall) -> WorkerReply {
        if !self.origin.coordination_answers() {
            return what.failed(&timed_out());
        }
        let now = self.origin_now();
        match what {
            WorkerCall::Lead { lead, asked_at } => {
                WorkerReply::Led { leading: Some(self.origin.coordination().lead(&lead, now)), asked_at }
            }
            WorkerCall::EnqueuePublishRequests(requests) => {
                self.origin.coordination().enqueue_publish_requests(&requests, now);
                WorkerReply::Enqueued(None)
            }
            WorkerCall::Step(step, nodes_now) => {
                WorkerReply::Done(Box::new(self.step_at_origin(step, nodes_now, now)))
            }
            WorkerCall::Report { report, sent } => WorkerReply::Reported {
                reply: Some(self.origin.coordination().report_quotas(&report, now)),
                sent,
            },
            WorkerCall::Gather => {
                WorkerReply::Gathered(Some(self.origin.coordination().gather_quotas(SLICE_LEASE, now)))
            }
            WorkerCall::PublishQuotas(news) => {
                self.origin.coordination().publish_quotas(&news);
                WorkerReply::QuotasPublished
            }
        }
    }

    fn step_at_origin(&mut self, step: Step, nodes_now: Nanos, now: Nanos) -> StepResult {
        match step {
            Step::DequeuePublishRequests { most } => {
                StepResult::PublishRequests(Ok(self.origin.coordination().dequeue_publish_requests(most)))
            }
            Step::Totals(cells) => {
                let totals = cells.iter().map(|cell| {
                    let mut total = self.origin.cell_total(cell, now);
                    let others = self.republishes.as_ref().and_then(|told| told.get(cell));
                    total.total += others.copied().unwrap_or(0);
                    Ok::<_, KeyError>(total)
                });
                StepResult::Totals(Ok(totals.collect()))
            }
            Step::Write(cells) => {
                let imported = self.origin.import(&cells, nodes_now, now);
                let published = imported.as_ref().map_or(Vec::new(), Vec::clone);
                self.check(imported.map(drop));
                if let Some(told) = &mut self.republishes {
                    told.extend(cells.iter().map(|cell| (cell.cell, cell.others)));
                }
                if !self.auditor.is_off() {
                    self.notes.extend(cells.iter().map(|cell| WorldNote::Told(*cell)));
                }
                StepResult::Written(Ok(published.into_iter().map(Ok).collect()))
            }
            Step::PublishView(view) => {
                self.origin.coordination().publish_world_view(view, now);
                StepResult::PublishedView(Ok(()))
            }
            Step::PublishResets(resets) => {
                let news = ResetNews { resets, ..ResetNews::default() };
                self.origin.coordination().share_resets(&news);
                StepResult::PublishedResets(Ok(()))
            }
            other => unreachable!("{other:?} is for the world store"),
        }
    }

    /// A call for the world's sake came to its end.
    pub(super) fn coordination_replied(&mut self, node: usize, call: Ticket, answer: WorkerReply) {
        let state = &mut self.nodes[node];
        let now = state.moment(self.now).now;
        let (Some(world), Some(logic)) = (&mut state.world, state.engine.world()) else { return };
        if !world.calls.remove(&call) {
            return;
        }
        match answer {
            WorkerReply::Led { leading: Some(leading), asked_at } => {
                match leading.origin {
                    Some(known) => world.origin = Some(known.id),
                    None => world.silence += 1,
                }
                world.led_until = if leading.is_leader { asked_at.plus(LEASE) } else { Nanos::ZERO };
                world.worker.led(Some(leading), now);
            }
            WorkerReply::Led { leading: None, .. } if now < world.led_until => {}
            WorkerReply::Led { leading: None, .. } => world.worker.led(None, now),
            WorkerReply::Enqueued(requests) => {
                world.is_mailing = false;
                logic.put_back(requests.unwrap_or_default());
                return self.run_enqueue(node);
            }
            WorkerReply::Done(done) => world.worker.done(*done, now, logic.counters()),
            WorkerReply::Reported { reply, sent } => {
                return self.reported(node, reply.as_ref(), sent);
            }
            WorkerReply::Gathered(gathered) => return self.gathered(node, gathered.as_ref()),
            WorkerReply::QuotasPublished => return,
            WorkerReply::Quota(done) => return self.quota_done(node, done),
        }
        self.work(node);
    }

    /// The node that works for the region now, if one does: the first of two.
    pub(crate) fn world_worker(&self) -> Option<usize> {
        let leads = |node: &SimulatedNode| {
            node.is_up && node.world.as_ref().is_some_and(|world| world.worker.is_leader())
        };
        self.nodes.iter().position(leads)
    }

    /// Whether something was granted to a node that it hasn't spent yet: that may be spent whatever others did.
    pub(crate) fn has_prepaid(&self, node: usize, key: usize) -> bool {
        let view = self.nodes[node].view(self.scenario.keys[key].id());
        view.cells().any(|(_, counts)| counts.prepaid() > 0)
    }

    /// What was really spent of a cell here, where granted is spent.
    pub(crate) fn spent(&self, key: KeyId, sequence: Sequence) -> u64 {
        self.auditor.spent(key, sequence)
    }

    /// What the origin has counted in a cell.
    pub(crate) fn counted(&self, cell: &CellId) -> u64 {
        self.origin.total(cell)
    }

    /// Whether all who counted in a cell are there, and know of it. A store that has forgotten is told the whole again
    /// by who lives, and what is in it of the dead is nobody's then; what was granted by an answer that got lost was
    /// admitted by nobody, and is named when its node hears of it.
    pub(crate) fn is_counted_by_the_living(&self, cell: &CellId) -> bool {
        let knows =
            |node: &SimulatedNode| node.view(cell.key).cells().any(|(known, _)| known == cell.sequence);
        let lives =
            |counter: NodeId| self.nodes.iter().any(|node| node.is_up && node.id == counter && knows(node));
        let counted: u64 =
            self.origin.counters(cell).filter(|(node, _)| lives(*node)).map(|(_, count)| count).sum();
        counted == self.origin.total(cell)
    }

    /// What a node believes of some keys' cells since it heard of them.
    pub(super) fn record_views(&mut self, node: usize, keys: &[KeyId]) {
        if self.scenario.world.is_none() {
            return;
        }
        for key in keys.iter().filter(|_| !self.auditor.is_off()) {
            for (sequence, counts) in self.nodes[node].view(*key).cells() {
                let (regional, world) = (counts.regional(), counts.world);
                self.notes.push(WorldNote::Believed { key: *key, sequence, regional, world });
            }
        }
        self.run_enqueue(node);
    }
}

impl WorkerCall {
    /// What its sender hears when the origin can't be asked.
    fn failed(&self, error: &OriginError) -> WorkerReply {
        match self {
            WorkerCall::Lead { asked_at, .. } => WorkerReply::Led { leading: None, asked_at: *asked_at },
            WorkerCall::EnqueuePublishRequests(requests) => WorkerReply::Enqueued(Some(requests.clone())),
            WorkerCall::Step(step, _) => WorkerReply::Done(Box::new(failed_at_origin(step, error))),
            WorkerCall::Report { sent, .. } => WorkerReply::Reported { reply: None, sent: *sent },
            WorkerCall::Gather => WorkerReply::Gathered(None),
            WorkerCall::PublishQuotas(_) => WorkerReply::QuotasPublished,
        }
    }
}

fn failed_at_origin(step: &Step, error: &OriginError) -> StepResult {
    let error = error.clone();
    match step {
        Step::DequeuePublishRequests { .. } => StepResult::PublishRequests(Err(error)),
        Step::Totals(_) => StepResult::Totals(Err(error)),
        Step::Write(_) => StepResult::Written(Err(error)),
        Step::PublishView(_) => StepResult::PublishedView(Err(error)),
        Step::PublishResets(_) => StepResult::PublishedResets(Err(error)),
        other => unreachable!("{other:?} is for the world store"),
    }
}

/// What a worker hears when the world store can't be asked.
fn failed_at_store(step: &Step, error: &WorldError) -> StepResult {
    let error = error.clone();
    match step {
        Step::Join(_) => StepResult::Joined(Err(error)),
        Step::Publish(..) => StepResult::Published(Err(error)),
        Step::Import(_) => StepResult::Imported(Err(error)),
        Step::Check(..) => StepResult::Checked(Err(error)),
        Step::Delete => StepResult::Deleted(Err(error)),
        other => unreachable!("{other:?} is for the origin"),
    }
}
