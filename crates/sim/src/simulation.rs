//! The run: takes one event after the other and does with real engines what the driver does with tokio.
//!
//! Decides nothing and knows nothing of limits. What every step must satisfy is in `checks.rs`.

use crate::checks::Auditor;
use crate::fault::Fault;
use crate::fired::Fired;
use crate::ledger::KeyLedger;
use crate::load::RegionLoad;
use crate::network::Network;
use crate::node::{Drift, NodeClock, SimulatedNode, Ticket, WorldWork};
use crate::origin::SimulatedOrigin;
use crate::queue::Queue;
use crate::random::Random;
use crate::scenario::{Arrival, Audit, NodeFlaw, Scenario};
use crate::trace::{AnswerPath, Trace, TraceEvent};
use carrying::Message;
use deadlines::Deadline;
use driving::{BEAT_EVERY, FLUSH_EVERY, SWEEP_EVERY};
use smallvec::SmallVec;
use std::collections::{BTreeMap, BTreeSet};
use tidegate_core::origin_cell::NodeId;
use tidegate_core::{CellId, KeyId, Nanos};
use tidegate_node::clock::ClockReading;
use tidegate_node::world::WorkerOptions;
use tidegate_origin::record::{Pulse, PulseReply};
use tidegate_origin::{Acceptance, DoneReset, ExchangeReply, HeartbeatReply, OriginError, ResetLog, ShardId};

mod carrying;
mod coming;
mod deadlines;
mod driving;
mod failing;
mod free_share;
mod in_world;
mod observing;
mod slicing;
mod working;

pub(crate) use free_share::UnheardByKey;
pub(crate) use observing::Situation;
pub(crate) use slicing::{LEADER_LEASE_TTL, QuotaDone, QuotaStep, QuotaWork};
pub(crate) use working::{
    Admitted, CellView, Denied, StoreCall, StoreDone, StoreStep, WorkerGrant, WorkerReply, WorldNote,
};

#[derive(Debug)]
pub(crate) enum Event {
    Arrives(Arrival),
    OfNode {
        node: usize,
        incarnation: u32,
        what: NodeEvent,
    },
    AtOrigin(Box<Message>),
    Fault(Fault),
    /// A node of another fleet says that it lives.
    ForeignBeat,
    /// A node learns of a changed limit. Only where situations are counted: nodes look it up when they need it.
    RuleIsHeard {
        node: usize,
        change: usize,
    },
}

#[derive(Debug)]
pub(crate) enum NodeEvent {
    /// A request was woken, or has waited long enough.
    Resume(Ticket),
    /// Keys that requests asked about, in one turn of a thread.
    SendAsked(SmallVec<[KeyId; 4]>),
    Flush,
    Beat,
    Sweep {
        shard: usize,
    },
    Ends(Ticket, Result<ExchangeReply, OriginError>),
    /// Time to connect to a server again.
    Dial(ShardId),
    Dialed {
        shard: ShardId,
        attempt: u32,
        is_up: bool,
    },
    Alive(HeartbeatReply, ClockReading),
    /// The store belongs to a fleet with another secret.
    Refused,
    /// Time to carry out what the control plane ordered.
    CarryOut,
    /// The store has reset a key.
    WasReset {
        done: DoneReset,
    },
    /// The store tells which keys were reset lately.
    ResetsRead(ResetLog),
    /// A shard has answered a pulse.
    Pulsed(ShardId, Pulse, PulseReply),
    /// A shard was told of a reset again.
    Restored(ShardId, DoneReset),
    /// The node publishes what is left, and is gone then.
    Leaves {
        gives_up_at: Nanos,
    },
    /// Time to take the lead, or to keep it.
    Lead,
    /// Time to look at all keys that are the world's.
    Look,
    /// Time to name cells in the publish queue.
    Mail,
    Work,
    /// Time to report what is asked for of quotas.
    Report,
    /// Time for a round with the world store about them.
    Slice,
    /// Time to reconcile.
    Pass,
    Told(Ticket, WorkerReply),
}

/// So much never happens at one instant, unless something goes round in circles.
const EVENTS_AT_ONCE_MAX: u64 = 100_000;

/// What became of a request.
#[derive(Clone, Copy, Debug)]
pub struct RequestResult {
    pub at: Nanos,
    pub node: usize,
    pub template: usize,
    pub allowed: bool,
    pub path: AnswerPath,
    /// How long a caller who was denied is told to wait; `None` when no wait helps.
    pub retry_after: Option<Nanos>,
}

/// An exchange that a node sent.
#[derive(Clone, Copy, Debug)]
pub struct ExchangeNote {
    pub at: Nanos,
    pub node: usize,
    pub syncs: usize,
    pub asks: usize,
}

#[derive(Debug)]
pub struct Simulation {
    now: Nanos,
    scenario: Scenario,
    next_arrival: usize,
    queue: Queue<Event, Deadline>,
    nodes: Vec<SimulatedNode>,
    origin: SimulatedOrigin,
    network: Network,
    random: Random,
    auditor: Auditor,
    trace: Trace,
    exchanges: Vec<ExchangeNote>,
    next_ticket: Ticket,
    events_at_once: u64,
    /// What is on its way to the world store.
    pub(crate) outbox: Vec<StoreCall>,
    /// What was heard of other regions.
    pub(crate) notes: Vec<WorldNote>,
    /// What the worker reads of the region's counts includes the others': the mistake that INV-2 is about.
    pub(crate) republishes: Option<BTreeMap<CellId, u64>>,
    /// A node heard which slices there are.
    has_sliced: bool,
    held: slicing::LatestHeld,
    /// Tells everything as it happens: one seed is being replayed.
    is_told: bool,
    /// What was answered since somebody last took it, where somebody does.
    pub(crate) answers: Option<Vec<RequestResult>>,
    /// How often each kind of thing went wrong.
    pub(crate) fired: Fired,
    pub(crate) load: RegionLoad,
    /// The keys that are hot in the region.
    hot: Vec<KeyId>,
    /// The keys that the control plane ordered to be reset, in order.
    reset_ids: Vec<(Nanos, usize)>,
    /// A node of another fleet sends heartbeats to this store.
    has_foreign_node: bool,
    /// The store belongs to another fleet: that came while no node of this one lived that the store had accepted. Nobody
    /// could have told it from a new fleet's store.
    is_anothers: bool,
    /// Nothing goes wrong any more.
    is_calm: bool,
    /// Something goes wrong in this run.
    has_faults: bool,
    /// A node's clock is set in it.
    sets_clocks: bool,
    /// How the store answered it.
    foreign_acceptance: Acceptance,
    /// How often the store lost data.
    losses: u64,
    /// Keys that were hot once.
    was_hot: BTreeSet<usize>,
    /// Keys whose duration changed, and what they became.
    successors: BTreeMap<usize, usize>,
    /// Counts which situations the run meets, where somebody asked for that.
    observer: Option<Box<observing::Observer>>,
}

impl Simulation {
    pub fn new(mut scenario: Scenario) -> Self {
        let mut random = Random::new(scenario.seed);
        let network = Network::new(scenario.network, scenario.nodes, random.fork());
        let mut simulation = Simulation {
            now: scenario.boots_at,
            next_arrival: 0,
            queue: Queue::default(),
            nodes: Vec::new(),
            origin: SimulatedOrigin::new(scenario.shards, scenario.audit == Audit::EveryStep),
            network,
            auditor: Auditor::new(&scenario),
            trace: Trace::new(scenario.boots_at),
            exchanges: Vec::new(),
            next_ticket: 0,
            events_at_once: 0,
            outbox: Vec::new(),
            notes: Vec::new(),
            republishes: None,
            has_sliced: false,
            held: slicing::LatestHeld::default(),
            is_told: crate::seeds::only_seed().is_some(),
            answers: None,
            fired: Fired::default(),
            load: RegionLoad::new(scenario.shards),
            hot: scenario.hot_keys(),
            reset_ids: Vec::new(),
            has_foreign_node: false,
            is_anothers: false,
            is_calm: false,
            has_faults: !scenario.faults.is_empty(),
            sets_clocks: scenario.faults.iter().any(|(_, fault)| fault.sets_clock()),
            foreign_acceptance: Acceptance::default(),
            losses: 0,
            was_hot: BTreeSet::new(),
            successors: BTreeMap::new(),
            observer: None,
            random,
            scenario: {
                scenario.arrivals.sort_by_key(|arrival| arrival.at);
                scenario
            },
        };
        simulation.origin.keeps_debts = simulation.scenario.node_flaw == Some(NodeFlaw::StoreKeepsDebts);
        for index in 0..simulation.scenario.nodes {
            let mut node = simulation.boot(index, 0);
            node.is_up = !simulation.scenario.absent.contains(&index);
            simulation.nodes.push(node);
            if !simulation.nodes[index].is_up {
                continue;
            }
            let after = Nanos::new(simulation.random.below(BEAT_EVERY.get()));
            simulation.begin(index, after);
        }
        simulation.record_problems();
        for (at, fault) in std::mem::take(&mut simulation.scenario.faults) {
            // A region that joins late is hit when it is there.
            simulation.inject(at, fault);
        }
        simulation
    }

    fn boot(&mut self, index: usize, incarnation: u32) -> SimulatedNode {
        let offset_ns = self.scenario.clock_offsets_ns.get(index).copied().unwrap_or(0);
        let id = NodeId(self.random.next_u64());
        let present = self.now.shifted(offset_ns);
        let world = self.scenario.world.clone().map(|place| {
            let options = WorkerOptions {
                region: place.region,
                fingerprint: crate::scenario::SECRET.fingerprint(),
                policy: place.policy,
                is_alone: false,
                seed: self.random.next_u64(),
            };
            let quotas = QuotaWork::new(self.random.next_u64(), self.scenario.flaw);
            WorldWork::new(options, quotas, present)
        });
        let ppm = self.scenario.clock_drifts_ppm.get(index).copied().unwrap_or(0);
        let drift = Drift { since: self.now, ppm, kept_for: Nanos::ZERO };
        let clock = NodeClock::new(offset_ns, self.scenario.origin_offset_ns, drift, self.now);
        let mut node = SimulatedNode::boot(id, incarnation, self.scenario.keys_max, clock, world);
        node.sharing().region.set_hot(self.hot.iter().copied());
        node.known_nodes = self.nodes.get(index).and_then(|before| before.known_nodes);
        if self.scenario.node_flaw != Some(NodeFlaw::AssumesToBeAlone) {
            node.sharing().assume_nodes(node.known_nodes);
        }
        node
    }

    /// Starts a node's timers, out of step with the others'.
    fn begin(&mut self, index: usize, after: Nanos) {
        self.receive_resets(index);
        let flush_at = self.now.plus(Nanos::new(self.random.below(FLUSH_EVERY.get())));
        self.push_of(index, self.now.plus(after), NodeEvent::Beat);
        self.push_of(index, flush_at, NodeEvent::Flush);
        self.push_of(index, self.now.plus(SWEEP_EVERY), NodeEvent::Sweep { shard: 0 });
        self.begin_world_work(index);
    }

    fn push_of(&mut self, node: usize, at: Nanos, what: NodeEvent) {
        let incarnation = self.nodes[node].incarnation;
        self.queue.push(at, Event::OfNode { node, incarnation, what });
    }

    fn new_ticket(&mut self) -> Ticket {
        self.next_ticket += 1;
        self.next_ticket
    }

    /// Runs to the end of the scenario.
    pub fn run(&mut self) {
        self.run_until(self.scenario.ends_at);
    }

    pub fn run_until(&mut self, until: Nanos) {
        while self.next_at() <= until {
            self.step();
        }
        self.now = self.now.max(until);
    }

    /// A request comes now.
    pub(crate) fn arrives_now(&mut self, arrival: Arrival) {
        self.now = self.now.max(arrival.at);
        self.arrives(arrival);
    }

    /// How often each kind of thing went wrong.
    pub fn fired(&self) -> Fired {
        let mut fired = self.fired.clone();
        fired.add_all(&self.network.fired);
        fired
    }

    /// When something happens next.
    pub(crate) fn next_at(&self) -> Nanos {
        let arrival = self.scenario.arrivals.get(self.next_arrival);
        let arrives = arrival.map_or(Nanos::MAX, |arrival| arrival.at);
        arrives.min(self.queue.next_at().unwrap_or(Nanos::MAX))
    }

    /// Lets the next thing happen.
    pub(crate) fn step(&mut self) {
        let queued = self.queue.next_at().unwrap_or(Nanos::MAX);
        match self.scenario.arrivals.get(self.next_arrival).copied() {
            Some(arrival) if arrival.at < queued => {
                self.next_arrival += 1;
                self.now = self.now.max(arrival.at);
                self.arrives(arrival);
            }
            _ => self.next_event(),
        }
    }

    fn next_event(&mut self) {
        let Some((at, event)) = self.queue.pop() else { return };
        self.events_at_once = if at == self.now { self.events_at_once + 1 } else { 0 };
        if self.events_at_once > EVENTS_AT_ONCE_MAX {
            self.fail("nothing comes to an end: too many events at one instant");
        }
        if at < self.now {
            self.fail(&format!("time goes back by {} ns: {event:?}", self.now.minus(at).get()));
        }
        self.now = at;
        match event {
            Event::Arrives(arrival) => self.arrives(arrival),
            Event::OfNode { node, incarnation, what } => self.of_node(node, incarnation, what),
            Event::AtOrigin(message) => self.at_origin(message),
            Event::Fault(fault) => self.go_wrong(fault),
            Event::ForeignBeat => self.foreign_beat(),
            Event::RuleIsHeard { node, change } => self.observe_rule(node, change),
        }
    }

    fn of_node(&mut self, node: usize, incarnation: u32, what: NodeEvent) {
        let state = &self.nodes[node];
        if !state.is_up || state.incarnation != incarnation {
            return;
        }
        if state.paused_until > self.now {
            let later = state.paused_until;
            self.queue.push(later, Event::OfNode { node, incarnation, what });
            return;
        }
        match what {
            NodeEvent::Resume(ticket) => self.resume(node, ticket),
            NodeEvent::SendAsked(keys) => self.send_asked(node, &keys),
            NodeEvent::Flush => self.flush(node),
            NodeEvent::Beat => self.beat(node),
            NodeEvent::Sweep { shard } => self.sweep(node, shard),
            NodeEvent::Ends(call, result) => self.ends(node, call, result),
            NodeEvent::Dial(shard) => self.dial(node, shard),
            NodeEvent::Dialed { shard, attempt, is_up } => self.dialed(node, shard, attempt, is_up),
            NodeEvent::Refused => {
                self.nodes[node].is_refused = true;
                self.nodes[node].acceptance = self.nodes[node].acceptance.and_refused();
            }
            NodeEvent::CarryOut => self.carry_out(node),
            NodeEvent::WasReset { done } => self.was_reset(node, done),
            NodeEvent::ResetsRead(log) => self.resets_read(node, log),
            NodeEvent::Pulsed(shard, pulse, pulsed) => self.pulsed(node, shard, pulse, pulsed),
            NodeEvent::Restored(shard, done) => {
                self.nodes[node].sharing().region.restored(shard, &done, true);
            }
            NodeEvent::Leaves { gives_up_at } => self.leaves(node, gives_up_at),
            NodeEvent::Alive(alive, sent) => {
                self.receive_time(node, sent, alive.now);
                self.nodes[node].is_refused = false;
                self.is_anothers = false;
                self.nodes[node].has_heard = true;
                self.nodes[node].acceptance = self.nodes[node].acceptance.and_taken();
                self.nodes[node].known_nodes = Some(alive.nodes);
                self.nodes[node].sharing().set_live_nodes(alive.nodes);
                if let (Some(world), Some(view)) = (self.nodes[node].engine.world(), alive.world) {
                    world.receive_view(view);
                }
                self.trace.record(self.now, node, TraceEvent::Alive { nodes: alive.nodes });
            }
            NodeEvent::Lead => self.lead(node),
            NodeEvent::Look => self.scan(node),
            NodeEvent::Mail => self.enqueue(node),
            NodeEvent::Work => self.wake_worker(node),
            NodeEvent::Report => self.report_quotas(node),
            NodeEvent::Slice => self.slice(node),
            NodeEvent::Pass => self.pass(node),
            NodeEvent::Told(call, answer) => self.coordination_replied(node, call, answer),
        }
    }

    fn check(&mut self, checked: Result<(), String>) {
        if let Err(violation) = checked {
            self.fail(&violation);
        }
    }

    /// Says what a trace has no room for.
    fn trace_event(&self, node: usize, what: impl FnOnce() -> String) {
        if self.is_told {
            let micros = self.now.minus(self.scenario.boots_at).get() / 1000;
            eprintln!("{:>9}.{:03} ms n{node:2} {}", micros / 1000, micros % 1000, what());
        }
    }

    fn fail(&mut self, violation: &str) -> ! {
        let seed = self.scenario.seed;
        panic!("seed {seed}: {violation}\nthe last events:\n{}", self.trace.text());
    }

    pub(crate) fn keys(&self) -> &[crate::KeyPlan] {
        &self.scenario.keys
    }

    pub(crate) fn node_count(&self) -> usize {
        self.nodes.len()
    }

    pub fn ledger(&self, key: usize) -> &KeyLedger {
        &self.auditor.ledgers[key]
    }

    /// Every exchange that was sent, in order.
    pub fn exchanges(&self) -> &[ExchangeNote] {
        &self.exchanges
    }

    /// How many nodes a node believes to live.
    pub fn live_nodes(&self, node: usize) -> u32 {
        self.nodes[node].sharing().table.live_nodes()
    }

    /// The present by the origin's clock.
    fn origin_now(&self) -> Nanos {
        self.now.shifted(self.scenario.origin_offset_ns)
    }

    /// Equal for equal runs.
    pub fn trace_hash(&self) -> u64 {
        self.trace.hash()
    }
    pub fn now(&self) -> Nanos {
        self.now
    }
}

/// Keys are spread over the store's servers by their place.
pub(crate) fn shard_of(key: KeyId, shards: u32) -> ShardId {
    ShardId(key.place() % shards)
}
