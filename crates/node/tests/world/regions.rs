//! Some regions of one node each, one world store, and the time between them.

use std::sync::mpsc;
use tidegate_core::exchange::{CellSync, CountSync, GrantRequest, KeySync, WindowSync};
use tidegate_core::origin_cell::NodeId;
use tidegate_core::state::PublishUrgency;
use tidegate_core::{
    Accuracy, CellId, Class, Cost, FleetSecret, KeyId, KeyPrefix, Limit, Moment, Nanos, Period,
};
use tidegate_node::region::{Effects, OutgoingExchange, RegionOptions};
use tidegate_node::world::{Step, StepResult, WorkerOptions, WorldCounters, WorldWorker};
use tidegate_node::{
    DecideOutcome, Engine, EngineOptions, GivenLimit, GivenPolicy, Purpose, Request, Subject,
};
use tidegate_origin::{Acceptance, Expiry, ResetNews};
use tidegate_origin::{
    Exchange, Grant, Heartbeat, LeaderCandidate, LeaderRequest, OriginId, OriginStore, PublishRequest, Reset,
    ShardId,
};
use tidegate_rules::RuleSet;
use tidegate_world::{MergeReport, PublishPolicy, WorldError};

/// In the middle of a cell of five minutes.
pub(crate) const START: Nanos = Nanos::from_secs(1_800_000_060);
pub(crate) const PERIOD: Nanos = Nanos::from_secs(300);
/// What a call to the world store takes, there and back.
const STORE_TAKES: Nanos = Nanos::from_millis(100);
const STEP: Nanos = Nanos::from_millis(5);
const LEASE: Nanos = Nanos::from_secs(2);
const SHARD: ShardId = ShardId(1);

pub(crate) struct Regions {
    pub(crate) regions: Vec<Region>,
    pub(crate) store: tidegate_world::WorldStore,
    /// Whether the world store answers.
    pub(crate) is_up: bool,
    pub(crate) now: Nanos,
}

pub(crate) struct Region {
    pub(crate) engine: Engine,
    pub(crate) origin: OriginStore,
    pub(crate) worker: WorldWorker,
    node: NodeId,
    origin_id: OriginId,
    /// Steps on their way to the world store and back, by when they are.
    under_way: Vec<(Nanos, Step)>,
}

/// So many in five minutes, of one caller.
#[derive(Clone, Copy)]
pub(crate) struct Ask {
    pub(crate) identifier: &'static str,
    pub(crate) limit: u64,
    pub(crate) class: Class,
    pub(crate) accuracy: Accuracy,
    pub(crate) cost: u64,
}

impl Ask {
    pub(crate) fn new(identifier: &'static str, limit: u64) -> Self {
        Ask { identifier, limit, class: Class::Paid, accuracy: Accuracy::Bounded, cost: 1 }
    }

    pub(crate) fn class(self, class: Class) -> Self {
        Ask { class, ..self }
    }

    pub(crate) fn cost(self, cost: u64) -> Self {
        Ask { cost, ..self }
    }

    pub(crate) fn key(&self) -> KeyId {
        let shape = tidegate_core::identity::Shape::Sliding(Period::new(PERIOD).unwrap());
        KeyPrefix::new(&FleetSecret::BUILT_IN, "default", "given", "", shape).key(self.identifier)
    }

    pub(crate) fn cell(&self, now: Nanos) -> CellId {
        CellId { key: self.key(), epoch: 0, sequence: Period::new(PERIOD).unwrap().cell_at(now).sequence }
    }
}

impl Region {
    fn new(number: u64, name: &str, policy: PublishPolicy) -> Self {
        let secret = FleetSecret::BUILT_IN;
        let rules = RuleSet::parse(&[], &secret).unwrap_or_else(|errors| panic!("{errors}"));
        let region = RegionOptions { node: NodeId(number), fresh_for: Nanos::from_secs(5), seed: number };
        let options = WorkerOptions {
            region: name.to_owned(),
            fingerprint: secret.fingerprint(),
            policy,
            is_alone: false,
            seed: number,
        };
        Region {
            engine: Engine::sharing_with_world(EngineOptions { secret, keys_max: 1_000 }, region, rules),
            origin: OriginStore::default(),
            worker: WorldWorker::new(options, START),
            node: NodeId(number),
            origin_id: OriginId { id: number * 100, incarnation: 1 },
            under_way: Vec::new(),
        }
    }

    pub(crate) fn counters(&self) -> &WorldCounters {
        self.engine.world().unwrap().counters()
    }

    /// Whether a request passes.
    fn ask(&mut self, ask: &Ask, now: Nanos) -> bool {
        let rules = self.engine.rules();
        let policy = GivenPolicy::Sliding {
            limit: Limit::new(ask.limit).unwrap(),
            period: Period::new(PERIOD).unwrap(),
        };
        let limits = [GivenLimit {
            namespace: "given",
            identifier: ask.identifier,
            policy,
            cost: Cost::new(ask.cost).unwrap(),
            class: ask.class,
            accuracy: ask.accuracy,
            scope: None,
        }];
        let request =
            Request { tenant: "default", purpose: Purpose::Check, subject: Subject::Limits(&limits) };
        let moment = Moment::at(now);
        let asking = match self.engine.decide(&rules, &request, moment).unwrap() {
            DecideOutcome::Answer(answer) => return answer.allowed,
            DecideOutcome::Ask(asking) => asking,
        };
        let (applied, hear) = mpsc::channel();
        let wake = Box::new(move |outcomes| drop(applied.send(outcomes)));
        let sharing = self.engine.shared().unwrap();
        let (id, effects) = sharing.region.ask(&sharing.table, asking.asks(), moment, &|_| SHARD, wake);
        let effects = sharing.region.send_asks(&sharing.table, &effects.asked_keys, moment, &|_| SHARD);
        carry(&self.engine, &mut self.origin, effects, moment);
        let outcomes = hear.try_recv().expect("an answer");
        let answer = self.engine.resume(*asking, &outcomes, moment);
        self.engine.shared().unwrap().region.complete(id);
        answer.allowed
    }

    /// Counts something that no node of ours would.
    pub(crate) fn count(&mut self, cell: CellId, count: u64, now: Nanos) {
        let current =
            CellSync { component: count, acked: count, claim: count, expires: now.plus(PERIOD).plus(PERIOD) };
        let window = WindowSync {
            limit: 0,
            regions: 1,
            sequence: cell.sequence,
            current,
            previous: None,
            fading: None,
        };
        let (request, ended_holds) = (GrantRequest::default(), Default::default());
        let counts = CountSync::Window(window);
        let syncs = vec![KeySync { key: cell.key, epoch: cell.epoch, counts, request, ended_holds }];
        self.origin.exchange(
            &Exchange { node: NodeId(77), now, syncs, grant: Grant::Each, reads_record: false },
            now,
        );
    }

    /// The region's origin has forgotten everything.
    pub(crate) fn forget(&mut self) {
        self.origin.clear();
        self.origin_id.incarnation += 1;
    }

    /// Starts a key afresh, as an operator's request to one node of this region does.
    pub(crate) fn reset(&mut self, ask: &Ask, now: Nanos) {
        let forgotten_at = now.plus(PERIOD).plus(PERIOD).plus(Nanos::from_secs(60));
        let epoch = self.origin.reset(ask.key(), 0, Expiry { at: forgotten_at, now }, now);
        let resets = vec![Reset { key: ask.key(), epoch }];
        self.origin.share_resets(&ResetNews { resets, ..ResetNews::default() });
        self.engine.world().unwrap().reset(ask.key(), epoch, forgotten_at);
    }

    pub(crate) fn total(&self, ask: &Ask, now: Nanos) -> u64 {
        let CellId { key, epoch, sequence } = ask.cell(now);
        self.origin.total(key, epoch, sequence).unwrap_or(0)
    }

    /// Of the other regions, as this one's origin has it.
    pub(crate) fn world(&mut self, ask: &Ask, now: Nanos) -> u64 {
        let moment = Moment::at(now);
        let sharing = self.engine.shared().unwrap();
        sharing.table.requeue(ask.key(), PublishUrgency::Soon);
        carry(
            &self.engine,
            &mut self.origin,
            sharing.region.flush(&sharing.table, moment, &|_| SHARD),
            moment,
        );
        let state = sharing.table.state(ask.key());
        state.and_then(|state| state.cells()).map_or(0, |(_, current, _)| current.world)
    }

    /// What a driver does, once in [`STEP`].
    fn drive(&mut self, now: Nanos) {
        let moment = Moment::at(now);
        let elapsed_ms = now.minus(START).as_millis_ceil();
        let sharing = self.engine.shared().unwrap();
        let world = self.engine.world().unwrap();
        if elapsed_ms.is_multiple_of(50) {
            let effects = sharing.region.flush(&sharing.table, moment, &|_| SHARD);
            carry(&self.engine, &mut self.origin, effects, moment);
        }
        let effects = sharing.region.publish_urgent(&sharing.table, moment, &|_| SHARD);
        carry(&self.engine, &mut self.origin, effects, moment);
        if elapsed_ms.is_multiple_of(400) {
            let fingerprint = self.engine.secret().fingerprint();
            let (alive_for, applied) = (Nanos::from_millis(1_500), world.version());
            let (leaves, acceptance) = (false, Acceptance::Taken(2));
            let beat = Heartbeat { node: self.node, fingerprint, alive_for, leaves, applied, acceptance };
            let alive = self.origin.beat(&beat, now).unwrap();
            sharing.table.set_live_nodes(alive.nodes);
            alive.world.into_iter().for_each(|view| world.receive_view(view));
            let log = self.origin.share_resets(&sharing.region.reset_news(Vec::new()));
            sharing.region.take_resets(&sharing.table, &log, now);
        }
        if elapsed_ms.is_multiple_of(500) {
            let lead = LeaderCandidate {
                node: self.node,
                request: LeaderRequest::Lead { lease: LEASE },
                proposed: Some(self.origin_id),
            };
            self.worker.led(Some(self.origin.lead(&lead, now)), now);
        }
        if elapsed_ms.is_multiple_of(5_000) {
            world.scan(now).into_iter().for_each(|key| sharing.table.requeue(key, PublishUrgency::Soon));
        }
        let requests: Vec<PublishRequest> = world.take_due(1_000);
        self.origin.enqueue_publish_requests(&requests, now);
    }
}

/// Brings calls to the origin and their answers back; what they cause too.
fn carry(engine: &Engine, origin: &mut OriginStore, effects: Effects, moment: Moment) {
    let sharing = engine.shared().unwrap();
    let mut calls: Vec<OutgoingExchange> = wake(effects);
    while let Some(call) = calls.pop() {
        let answer = origin.exchange(&call.exchange, moment.now);
        calls.extend(wake(sharing.region.replied(&sharing.table, call, Ok(answer), moment, &|_| SHARD)));
    }
}

fn wake(effects: Effects) -> Vec<OutgoingExchange> {
    effects.finished.into_iter().for_each(|(wake, outcomes)| wake(outcomes));
    effects.send
}

impl Regions {
    pub(crate) fn new(count: u64, publish: tidegate_world::PublishThreshold) -> Self {
        let policy = PublishPolicy { publish, interval: Nanos::from_secs(5) };
        let regions = (1..=count).map(|number| Region::new(number, &format!("region-{number}"), policy));
        let mut regions = Regions {
            regions: regions.collect(),
            store: tidegate_world::WorldStore::default(),
            is_up: true,
            now: START,
        };
        // Until all have heard of all: the last one joins at once, the first hears of it with its next tick.
        regions.pass(Nanos::from_secs(12));
        regions
    }

    pub(crate) fn ask(&mut self, region: usize, ask: &Ask) -> bool {
        self.regions[region].ask(ask, self.now)
    }

    /// How many of so many requests pass, all at once.
    pub(crate) fn admitted(&mut self, region: usize, ask: &Ask, requests: u64) -> u64 {
        (0..requests).map(|_| u64::from(self.ask(region, ask))).sum()
    }

    /// The region's store has forgotten everything, and nobody is left who knows which one it was.
    pub(crate) fn new_store(&mut self, region: usize) {
        self.new_worker(region);
        let Region { origin, origin_id, .. } = &mut self.regions[region];
        origin.clear();
        origin_id.id += 1;
    }

    /// Another node of the region takes over, which knows nothing.
    pub(crate) fn new_worker(&mut self, region: usize) {
        let policy = PublishPolicy {
            publish: tidegate_world::PublishThreshold::Headroom,
            interval: Nanos::from_secs(5),
        };
        let number = u64::try_from(region).unwrap() + 1;
        self.regions[region].worker = Region::new(number, &format!("region-{number}"), policy).worker;
        self.regions[region].under_way.clear();
    }

    pub(crate) fn pass(&mut self, length: Nanos) {
        let end = self.now.plus(length);
        while self.now < end {
            self.now = self.now.plus(STEP);
            for index in 0..self.regions.len() {
                self.regions[index].drive(self.now);
                self.work(index);
            }
        }
    }

    fn work(&mut self, index: usize) {
        let now = self.now;
        let region = &mut self.regions[index];
        let counters = region.engine.world().unwrap().counters();
        for step in region.worker.steps(now, counters) {
            let takes = takes(&step);
            region.under_way.push((now.plus(takes), step));
        }
        let (there, under_way) =
            std::mem::take(&mut region.under_way).into_iter().partition(|(at, _)| *at <= now);
        region.under_way = under_way;
        for (_, step) in there {
            let done = perform(step, &mut region.origin, &mut self.store, self.is_up, now);
            region.worker.done(done, now, region.engine.world().unwrap().counters());
        }
    }
}

fn takes(step: &Step) -> Nanos {
    match step {
        Step::Join(_)
        | Step::Publish(..)
        | Step::Import(_)
        | Step::Check(..)
        | Step::Merge
        | Step::Delete => STORE_TAKES,
        // An origin that is slow now and then: what changes meanwhile must not be lost.
        Step::PublishView(_) => STORE_TAKES.plus(STORE_TAKES),
        Step::DequeuePublishRequests { .. } | Step::Totals(_) | Step::Write(_) | Step::PublishResets(_) => {
            Nanos::ZERO
        }
    }
}

fn perform(
    step: Step,
    origin: &mut OriginStore,
    store: &mut tidegate_world::WorldStore,
    is_up: bool,
    now: Nanos,
) -> StepResult {
    let gone = || WorldError::Timeout { waited_ms: 100 };
    match step {
        Step::Join(joining) => {
            StepResult::Joined(if is_up { store.join(&joining, now) } else { Err(gone()) })
        }
        Step::Publish(owner, rows) => {
            StepResult::Published(if is_up { Ok(store.publish(owner, &rows, now)) } else { Err(gone()) })
        }
        Step::Import(since) => {
            StepResult::Imported(if is_up { Ok(store.import(since, 3, now)) } else { Err(gone()) })
        }
        Step::Check(owner, cells) => {
            StepResult::Checked(if is_up { Ok(store.stored_counts(owner, &cells)) } else { Err(gone()) })
        }
        Step::Merge => StepResult::Merged(if is_up { Ok(MergeReport::default()) } else { Err(gone()) }),
        Step::Delete => StepResult::Deleted(if is_up { Ok(store.delete_expired(now)) } else { Err(gone()) }),
        Step::DequeuePublishRequests { most } => {
            StepResult::PublishRequests(Ok(origin.dequeue_publish_requests(most)))
        }
        Step::Totals(cells) => {
            StepResult::Totals(Ok(cells.iter().map(|cell| Ok(origin.cell_total(cell, now))).collect()))
        }
        Step::Write(cells) => {
            StepResult::Written(Ok(cells.iter().map(|cell| Ok(origin.import(cell, now, now))).collect()))
        }
        Step::PublishResets(resets) => {
            origin.share_resets(&ResetNews { resets, ..ResetNews::default() });
            StepResult::PublishedResets(Ok(()))
        }
        Step::PublishView(view) => {
            origin.publish_world_view(view, now);
            StepResult::PublishedView(Ok(()))
        }
    }
}
