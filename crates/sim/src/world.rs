//! Many regions in one thread, with the world store between them.
//!
//! Each region is a [`Simulation`] of its own with its nodes, its origin and its checks; this lets them happen
//! in the order of time, carries their workers' calls to the store and back, and compares what regions hear of
//! each other with what is true. Decides nothing.

mod ahead;
pub mod chaos;
mod conservation;
mod epilogue;
mod healing;
mod ledger;
mod oracle;
pub mod quota_chaos;
pub mod scenario;
mod store;

use crate::Fault;
use crate::coverage::{Coverage, EventKind};
use crate::fired::{FaultKind, Fired};
use crate::load::WorldLoad;
use crate::network::{Network, Odds, Way};
use crate::queue::Queue;
use crate::random::Random;
use crate::scenario::{Arrival, Audit};
use crate::simulation::{
    QuotaDone, QuotaStep, RequestResult, Simulation, Situation, StoreCall, StoreDone, StoreStep, WorldNote,
};
use ledger::WorldLedger;
use oracle::{Truth, WorldOracle};
use scenario::{WorldFault, WorldFlaw, WorldScenario};
use std::collections::{BTreeMap, VecDeque};
use store::SimulatedStore;
use tidegate_core::{CellId, Nanos};
use tidegate_node::world::{Step, StepResult};
use tidegate_world::{OwnerId, WorldError};

/// So many of the world's own events are kept to be shown.
const SHOWN_EVENTS: usize = 40;
/// How often is looked at which parts of limits are in force, beside whenever that changes.
const PROBE_EVERY: Nanos = Nanos::from_millis(20);

#[derive(Debug)]
enum Event {
    AtStore(Box<StoreMessage>),
    /// It is written from now on; nothing comes of it when the store was started anew meanwhile.
    Commits {
        sent: Box<StoreMessage>,
        incarnation: u32,
    },
    Fault(WorldFault),
    /// Time to look at which parts are in force.
    Probe,
    /// A region joined. Only where situations are counted.
    RegionIsThere,
}

#[derive(Debug, Clone)]
struct StoreMessage {
    region: usize,
    call: StoreCall,
}

#[derive(Debug)]
pub struct WorldSimulation {
    now: Nanos,
    scenario: WorldScenario,
    regions: Vec<Simulation>,
    networks: Vec<Network>,
    queue: Queue<Event>,
    store: SimulatedStore,
    ledger: WorldLedger,
    oracle: WorldOracle,
    random: Random,
    /// Regions whose worker dies when its rows are next written, and after how long it comes back.
    dying: BTreeMap<usize, Nanos>,
    last: VecDeque<String>,
    is_told: bool,
    is_audited: bool,
    has_faults: bool,
    fired: Fired,
    load: WorldLoad,
}

impl WorldSimulation {
    pub fn new(mut scenario: WorldScenario) -> Self {
        let mut random = Random::new(scenario.seed ^ 0x7769_6465);
        let networks =
            scenario.networks.iter().map(|options| Network::new(*options, 1, random.fork())).collect();
        let scenario_is_audited = scenario.regions.iter().all(|region| region.audit == Audit::EveryStep);
        let mut regions: Vec<Simulation> =
            std::mem::take(&mut scenario.regions).into_iter().map(Simulation::new).collect();
        if scenario.flaw == Some(WorldFlaw::RepublishesImports) {
            regions.iter_mut().for_each(|region| region.republishes = Some(BTreeMap::new()));
        }
        let mut queue = Queue::default();
        let has_faults = !scenario.faults.is_empty();
        for (at, fault) in std::mem::take(&mut scenario.faults) {
            queue.push(at, Event::Fault(fault));
        }
        let is_audited = scenario_is_audited;
        let begins = regions.iter().map(Simulation::now).min().unwrap_or(Nanos::ZERO);
        let has_quotas = regions.iter().any(|region| region.keys().iter().any(crate::KeyPlan::is_quota));
        if has_quotas && is_audited {
            queue.push(begins, Event::Probe);
        }
        let mut fired = Fired::default();
        for _ in regions.iter().filter(|region| region.now() > begins) {
            fired.count(FaultKind::JoinedLate);
        }
        WorldSimulation {
            now: Nanos::ZERO,
            store: SimulatedStore::new(scenario.store_offset_ns, scenario.page_rows, scenario.flaw),
            scenario,
            regions,
            networks,
            queue,
            ledger: WorldLedger::default(),
            oracle: WorldOracle::default(),
            random,
            dying: BTreeMap::new(),
            last: VecDeque::new(),
            is_told: crate::seeds::only_seed().is_some(),
            is_audited,
            has_faults,
            fired,
            load: WorldLoad::default(),
        }
    }

    /// Counts from now on which situations the regions meet.
    pub(crate) fn observe_from_now(&mut self) {
        let begins = self.regions.iter().map(Simulation::now).min().unwrap_or(Nanos::ZERO);
        for region in &mut self.regions {
            region.observe_from_now();
            if region.now() > begins {
                self.queue.push(region.now(), Event::RegionIsThere);
            }
        }
    }

    /// What the regions met so far.
    pub(crate) fn take_coverage(&mut self) -> Coverage {
        let mut coverage = Coverage::default();
        self.regions.iter_mut().for_each(|region| coverage.add_all(&region.take_coverage()));
        coverage
    }

    fn observe(&mut self, fault: WorldFault) {
        let event = match fault {
            WorldFault::RowsAreLost
            | WorldFault::RowsOfKeyAreLost { .. }
            | WorldFault::RowsOfRegionAreLost { .. }
            | WorldFault::StoreIsRestored => EventKind::WorldRowsLost,
            WorldFault::RegionLeaves { .. } => EventKind::RegionLeave,
            WorldFault::RegionIsRenamed { .. } => EventKind::RegionRename,
            _ => return,
        };
        self.observe_everywhere(event);
    }

    fn observe_everywhere(&mut self, event: EventKind) {
        self.regions.iter_mut().for_each(|region| region.observe_everywhere(event));
    }

    /// From now on what is answered is kept until it is taken.
    pub fn watch(&mut self) {
        self.regions.iter_mut().for_each(|region| region.answers = Some(Vec::new()));
    }

    /// What a region answered since this was last asked.
    pub fn take_answers(&mut self, region: usize) -> Vec<RequestResult> {
        self.regions[region].answers.as_mut().map(std::mem::take).unwrap_or_default()
    }

    /// A request comes, after everything that happens before it did.
    pub fn arrive(&mut self, region: usize, arrival: Arrival) {
        self.run_until(Nanos::new(arrival.at.get() - 1));
        self.now = arrival.at;
        self.regions[region].arrives_now(arrival);
        self.after_step(region);
    }

    /// What the world store had to do.
    pub fn load(&self) -> &WorldLoad {
        &self.load
    }

    /// How often each kind of thing went wrong.
    pub fn fired(&self) -> Fired {
        let mut fired = self.fired.clone();
        self.networks.iter().for_each(|network| fired.add_all(&network.fired));
        self.regions.iter().for_each(|region| fired.add_all(&region.fired()));
        fired
    }

    /// Equal for equal runs, as far as regions go.
    pub fn trace_hash(&self) -> u64 {
        self.regions.iter().fold(0, |hash, region| hash.rotate_left(7) ^ region.trace_hash())
    }

    /// Runs to the end of the scenario.
    pub fn run(&mut self) {
        self.run_until(self.scenario.ends_at);
        let checked = self.ledger.all_there(&self.store.store);
        self.check(checked);
    }

    pub fn run_until(&mut self, until: Nanos) {
        loop {
            let (at, region) = self.next_region();
            let own = self.queue.next_at().unwrap_or(Nanos::MAX);
            if at.min(own) > until {
                break;
            }
            self.now = at.min(own);
            if own <= at {
                self.next_event();
            } else {
                self.regions[region].step();
                self.after_step(region);
            }
        }
        self.now = until;
    }

    /// Runs until the first region is in a situation, as [`Simulation::run_until_met`] does.
    pub(crate) fn run_until_met(&mut self, situation: Situation, from: Nanos, until: Nanos) -> Option<Nanos> {
        loop {
            let next = self.next_region().0.min(self.queue.next_at().unwrap_or(Nanos::MAX));
            if next > until {
                return None;
            }
            self.run_until(next);
            if next >= from && self.regions[0].is_met(situation) {
                return Some(next);
            }
        }
    }

    /// The region where something happens next, and when.
    fn next_region(&self) -> (Nanos, usize) {
        let next = self.regions.iter().enumerate().map(|(index, region)| (region.next_at(), index));
        next.min().unwrap_or((Nanos::MAX, 0))
    }

    /// Takes what a region said and heard.
    fn after_step(&mut self, region: usize) {
        for note in std::mem::take(&mut self.regions[region].notes) {
            let checked = self.check_note(region, note);
            self.check(checked);
        }
        if self.regions[region].take_sliced() && self.is_audited {
            let checked = self.ledger.parts_fit(&self.regions, self.now);
            self.check(checked);
        }
        for call in std::mem::take(&mut self.regions[region].outbox) {
            self.trace_event(|| format!("region {region} node {} sends {:?}", call.node, call.step));
            self.send(&StoreMessage { region, call });
        }
    }

    /// Compares what a region noted with what is true.
    fn check_note(&mut self, region: usize, note: WorldNote) -> Result<(), String> {
        let WorldSimulation { regions, store, ledger: books, oracle, .. } = self;
        let truth = Truth { regions, store: &store.store, books };
        match note {
            WorldNote::Granted(granted) => oracle.granted(region, &granted, truth),
            WorldNote::Admitted(unit) => oracle.admitted(region, &unit, truth),
            WorldNote::Denied(denied) => oracle.denied(region, &denied, truth),
            WorldNote::Told(_) | WorldNote::Believed { .. } => books.check_note(region, note, regions),
        }
    }

    fn send(&mut self, sent: &StoreMessage) {
        for after in self.networks[sent.region].carry(0, Way::Out, self.now).into_iter().flatten() {
            self.queue.push(self.now.plus(after), Event::AtStore(Box::new(sent.clone())));
        }
    }

    fn next_event(&mut self) {
        let Some((_, event)) = self.queue.pop() else { return };
        match event {
            Event::AtStore(sent) => self.at_store(sent),
            Event::Commits { sent, incarnation } => {
                if incarnation == self.store.life {
                    self.commits(&sent);
                }
            }
            Event::Fault(fault) => self.go_wrong(fault),
            Event::Probe => self.probe(),
            Event::RegionIsThere => self.observe_everywhere(EventKind::RegionJoin),
        }
    }

    /// Leases end between events too.
    fn probe(&mut self) {
        self.queue.push(self.now.plus(PROBE_EVERY), Event::Probe);
        let checked = self.ledger.parts_fit(&self.regions, self.now);
        self.check(checked);
    }

    fn at_store(&mut self, sent: Box<StoreMessage>) {
        if self.store.is_down {
            let error = WorldError::Unreachable { cause: "connection refused".to_owned() };
            return self.answer(&sent, sent.call.step.failed(&error));
        }
        if self.store.paused_until > self.now {
            self.queue.push(self.store.paused_until, Event::AtStore(sent));
            return;
        }
        let is_publish = matches!(sent.call.step, StoreStep::Work(Step::Publish(..)));
        let after = if is_publish && self.random.one_in(2) {
            Nanos::new(self.random.below(self.scenario.commits_within.get() + 1))
        } else {
            Nanos::ZERO
        };
        if after == Nanos::ZERO {
            return self.commits(&sent);
        }
        let incarnation = self.store.life;
        self.queue.push(self.now.plus(after), Event::Commits { sent, incarnation });
    }

    fn commits(&mut self, sent: &StoreMessage) {
        let StoreMessage { region, call, .. } = sent;
        let done = self.store.execute(&call.step, self.store.present(self.now));
        self.trace_event(|| format!("region {region} {:?}\n        {done:?}", call.step));
        self.ledger.joined(*region, &call.step, &done);
        let (written, read) = rows_of(&call.step, &done);
        self.load.asked(self.now, written, read);
        if self.is_audited {
            let checked = self.ledger.written(&call.step, &self.store.store, &self.regions);
            self.check(checked);
        }
        if matches!(call.step, StoreStep::Work(Step::Publish(..)))
            && let Some(comes_back_after) = self.dying.remove(region)
        {
            let node = call.node;
            self.trace_event(|| format!("the worker of region {region} dies: node {node}"));
            self.regions[*region].inject(self.now, Fault::Crash { node });
            self.regions[*region].inject(self.now.plus(comes_back_after), Fault::Start { node });
        }
        self.answer(sent, done);
    }

    fn answer(&mut self, sent: &StoreMessage, done: StoreDone) {
        let StoreMessage { region, call, .. } = sent;
        let [Some(after), _] = self.networks[*region].carry(0, Way::Back, self.now) else { return };
        self.store.receive(&call.step);
        self.regions[*region].answer(call, done, self.now.plus(after));
    }

    fn go_wrong(&mut self, fault: WorldFault) {
        self.observe(fault);
        self.trace_event(|| format!("{fault:?}"));
        if let Some(kind) = fault.kind() {
            self.fired.count(kind);
        }
        match fault {
            WorldFault::StoreGoesDown => {
                self.store.is_down = true;
                self.store.life += 1;
            }
            WorldFault::StoreComesBack => self.store.is_down = false,
            WorldFault::StorePauses { length } => {
                self.store.paused_until = self.store.paused_until.max(self.now.plus(length));
            }
            WorldFault::Cut { region, way } => self.networks[region].set_partitioned(0, way, true),
            WorldFault::Mend { region, way } => self.networks[region].set_partitioned(0, way, false),
            WorldFault::AnswersLost { of_10_000 } => {
                self.networks.iter_mut().for_each(|network| network.options.lost_back = Odds(of_10_000));
            }
            WorldFault::WorkerDiesInMidPublish { region, comes_back_after } => {
                self.dying.insert(region, comes_back_after);
            }
            WorldFault::WorkerPauses { region, length } => {
                if let Some(node) = self.regions[region].world_worker() {
                    self.regions[region].inject(self.now, Fault::Pause { node, length });
                }
            }
            WorldFault::RowsAreLost => self.lose_rows(|_, _| true),
            WorldFault::RowsOfKeyAreLost { key } => {
                let lost = self.regions[0].keys()[key].id();
                self.lose_rows(|cell, _| cell.key == lost);
            }
            WorldFault::RowsOfRegionAreLost { region } => {
                let lost = self.ledger.owner_of(region);
                self.lose_rows(|_, owner| Some(owner) == lost);
            }
            WorldFault::StoreIsCopied => self.store.copy(),
            WorldFault::StoreIsRestored => {
                self.store.restore();
                let networks = &self.networks;
                self.ledger.was_restored(&self.store.store, |region| networks[region].is_partitioned(0));
            }
            WorldFault::RegionLeaves { region } => self.regions[region].abandon(self.now),
            WorldFault::RegionIsRenamed { region } => {
                let name = format!("region-{region}-renamed");
                self.regions[region].rename(name, self.now);
            }
            WorldFault::Inside { region, fault } => self.regions[region].inject(self.now, fault),
            WorldFault::Calm => self.calm(),
        }
    }

    fn lose_rows(&mut self, is_lost: impl Fn(&CellId, OwnerId) -> bool) {
        self.store.store.lose_rows(is_lost);
        self.ledger.rows_were_lost(&self.store.store);
    }

    fn calm(&mut self) {
        self.dying.clear();
        for network in &mut self.networks {
            network.options.latency.spikes = Odds::NEVER;
            [network.options.lost_out, network.options.lost_back, network.options.doubled] = [Odds::NEVER; 3];
        }
        self.scenario.commits_within = Nanos::ZERO;
        self.regions.iter_mut().for_each(|region| region.calm(self.now));
    }

    /// Keeps what happened, to be shown when something is violated.
    fn trace_event(&mut self, what: impl FnOnce() -> String) {
        if !self.is_audited {
            return;
        }
        let micros = self.now.minus(crate::START.minus(crate::BOOTED_BEFORE)).get() / 1000;
        let line = format!("{:>9}.{:03} ms world {}", micros / 1000, micros % 1000, what());
        if self.is_told {
            eprintln!("{line}");
        }
        if self.last.len() == SHOWN_EVENTS {
            self.last.pop_front();
        }
        self.last.push_back(line);
    }

    fn check(&self, checked: Result<(), String>) {
        if let Err(violation) = checked {
            let events: Vec<&str> = self.last.iter().map(String::as_str).collect();
            panic!(
                "seed {}: {violation}\nthe world's last events:\n{}",
                self.scenario.seed,
                events.join("\n")
            );
        }
    }

    pub fn now(&self) -> Nanos {
        self.now
    }

    pub fn region(&self, region: usize) -> &Simulation {
        &self.regions[region]
    }

    pub fn region_count(&self) -> usize {
        self.regions.len()
    }

    /// The cost of everything that all regions admitted of a key.
    pub fn admitted(&self, key: usize) -> u64 {
        self.regions.iter().map(|region| region.ledger(key).admitted()).sum()
    }

    /// The cost of what all regions admitted of a key from `from` on and before `until`.
    pub fn admitted_between(&self, key: usize, from: Nanos, until: Nanos) -> u64 {
        self.regions.iter().map(|region| region.ledger(key).admitted_between(from, until)).sum()
    }
}

/// How many rows a statement wrote, and how many it read.
fn rows_of(step: &StoreStep, done: &StoreDone) -> (usize, usize) {
    let written = match step {
        StoreStep::Work(Step::Publish(_, rows)) => rows.len(),
        StoreStep::Quota(QuotaStep::Report(_, demands)) => demands.len(),
        StoreStep::Quota(QuotaStep::Acknowledge(_, said)) => said.slices.len(),
        StoreStep::Quota(QuotaStep::Grant(_, granted)) => granted.slices.len(),
        _ => 0,
    };
    let read = match done {
        StoreDone::Work(StepResult::Imported(Ok(imported))) => imported.components.len(),
        StoreDone::Quota(QuotaDone::Slices(Some(slices))) => slices.slices.len(),
        StoreDone::Quota(QuotaDone::Surveyed(Some(survey))) => survey.demands.len() + survey.slices.len(),
        _ => 0,
    };
    (written, read)
}
