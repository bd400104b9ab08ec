//! One node: a real engine, its clock, and what it waits for.

use crate::line::Line;
use crate::queue::DeadlineId;
use crate::scenario::SECRET;
use crate::simulation::{QuotaWork, UnheardByKey};
use crate::truth::{Cell, ComponentView};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, LazyLock, Mutex, PoisonError};
use tidegate_core::counts::Counts;
use tidegate_core::exchange::{CountSync, WindowSync};
use tidegate_core::origin_cell::NodeId;
use tidegate_core::{KeyId, Moment, Nanos, Sequence};
use tidegate_node::clock::{ClockJump, ClockReading, Discipline, RegionSample};
use tidegate_node::engine::VersionedRules;
use tidegate_node::region::{AskId, AskOutcomes, OutgoingExchange, RegionOptions, Wake};
use tidegate_node::sharing::Sharing;
use tidegate_node::world::{WorkerOptions, WorldWorker};
use tidegate_node::{Engine, EngineOptions, PendingDecision};
use tidegate_origin::{Acceptance, BreakerState, ShardId};
use tidegate_rules::RuleSet;

/// How long a reply keeps a view fresh: the default.
pub(crate) const VIEW_TTL: Nanos = Nanos::from_secs(5);

/// A clock that is off by less needs no step to follow the store's time.
const SLEWED_NS: i64 = 50_000_000;
/// A node's clock that follows the store's differs from it by no more.
pub(crate) const CLOCKS_DIFFER: Nanos = Nanos::from_millis(60);
/// A node follows the store's time for so long after it was told it.
const TIME_USED_FOR: Nanos = Nanos::from_secs(4);
/// A clock that is far off has followed by then: three samples that agree.
const FOLLOWED_WITHIN: Nanos = Nanos::from_secs(2);
/// An answer that takes longer may be half of it off.
const TIME_ROUND_TRIP: Nanos = Nanos::from_millis(100);
/// As in `crates/tidegate/src/node.rs`.
const CLOCK_SYNC_TIMEOUT: Nanos = Nanos::from_millis(100);

/// Limits are given in the requests, so all nodes have the same rules: none.
pub(crate) static RULES: LazyLock<VersionedRules> =
    LazyLock::new(|| VersionedRules { set: RuleSet::empty(), version: 1 });

/// What names a request that waits, or a call in flight, in the whole run.
pub(crate) type Ticket = u64;

#[derive(Debug)]
pub(crate) struct SimulatedNode {
    pub(crate) id: NodeId,
    /// How often it was started: what was meant for an earlier process isn't for this one.
    pub(crate) incarnation: u32,
    pub(crate) engine: Engine,
    clock: NodeClock,
    pub(crate) is_up: bool,
    /// It takes no more requests.
    pub(crate) is_leaving: bool,
    /// It is gone for good.
    pub(crate) has_left: bool,
    /// The store belongs to another fleet: nothing is sent there but heartbeats.
    pub(crate) is_refused: bool,
    /// The store has answered it since it started.
    pub(crate) has_heard: bool,
    /// How many nodes lived when it, or the process before it, last heard of them: as in a file.
    pub(crate) known_nodes: Option<u32>,
    /// What it admitted of `free` limits before that.
    pub(crate) unheard: UnheardByKey,
    /// How many of the control plane's orders it has carried out.
    pub(crate) orders_done: usize,
    pub(crate) paused_until: Nanos,
    /// It stood still for longer than 20 s since it last read resets.
    pub(crate) has_slept: bool,
    /// How the store has answered its heartbeats.
    pub(crate) acceptance: Acceptance,
    /// How often another server had taken a shard's place when it was last called.
    pub(crate) generations: BTreeMap<ShardId, u64>,
    /// Its next flush, and whether that is queued.
    pub(crate) flushes_at: Nanos,
    pub(crate) is_flushing: bool,
    pub(crate) waiting: BTreeMap<Ticket, WaitingRequest>,
    pub(crate) calls: BTreeMap<Ticket, Call>,
    /// Connections that were in trouble.
    pub(crate) lines: BTreeMap<ShardId, Line>,
    /// What it does for the region among others.
    pub(crate) world: Option<WorldWork>,
    woken: Arc<Mutex<Vec<(Ticket, AskOutcomes)>>>,
}

/// The worker that every node has, whether it leads or not, and the calls of both.
#[derive(Debug)]
pub(crate) struct WorldWork {
    pub(crate) worker: WorldWorker,
    pub(crate) quotas: QuotaWork,
    /// Which origin this is, as far as the node knows, and how often that origin didn't say.
    pub(crate) origin: Option<u64>,
    pub(crate) silence: u32,
    pub(crate) led_until: Nanos,
    /// When it next looks for something to do; never when there is nothing to wait for.
    pub(crate) works_at: Nanos,
    pub(crate) is_mailing: bool,
    /// Calls that weren't answered yet.
    pub(crate) calls: BTreeSet<Ticket>,
}

impl WorldWork {
    pub(crate) fn new(options: WorkerOptions, quotas: QuotaWork, now: Nanos) -> Self {
        WorldWork {
            worker: WorldWorker::new(options, now),
            quotas,
            origin: None,
            silence: 0,
            led_until: Nanos::ZERO,
            works_at: Nanos::MAX,
            is_mailing: false,
            calls: BTreeSet::new(),
        }
    }
}

/// The clocks of a node's machine, and how the node follows the time of its region by them.
#[derive(Debug)]
pub(crate) struct NodeClock {
    drift: Drift,
    /// How far the wall clock is ahead of the truth.
    wall_offset_ns: i64,
    /// It isn't the store's time that it shows.
    is_off: bool,
    discipline: Discipline,
    /// Since when the store has told its time regularly, and when it did last.
    told: Option<(Nanos, Nanos)>,
}

impl NodeClock {
    pub(crate) fn new(wall_offset_ns: i64, store_offset_ns: i64, drift: Drift, now: Nanos) -> Self {
        let is_off = (wall_offset_ns - store_offset_ns).abs() > SLEWED_NS;
        let reading = reading(drift, wall_offset_ns, now);
        NodeClock { drift, wall_offset_ns, is_off, discipline: Discipline::new(reading), told: None }
    }

    fn reading(&self, now: Nanos) -> ClockReading {
        reading(self.drift, self.wall_offset_ns, now)
    }

    fn moment(&self, now: Nanos) -> Moment {
        self.discipline.now(self.drift.of(now).get())
    }
}

fn reading(drift: Drift, wall_offset_ns: i64, now: Nanos) -> ClockReading {
    let steady = drift.of(now);
    ClockReading { steady: steady.get(), wall: steady.shifted(wall_offset_ns) }
}

/// A clock that runs too fast or too slow.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Drift {
    pub(crate) since: Nanos,
    pub(crate) ppm: i64,
    /// For so long it didn't drift.
    pub(crate) kept_for: Nanos,
}

impl Drift {
    fn of(self, now: Nanos) -> Nanos {
        if self.ppm == 0 {
            return now;
        }
        let passed = i128::from(now.minus(self.since).minus(self.kept_for).get());
        now.shifted(i64::try_from(passed * i128::from(self.ppm) / 1_000_000).unwrap_or(0))
    }
}

/// An exchange that wasn't answered yet.
#[derive(Debug)]
pub(crate) struct Call {
    pub(crate) outgoing: OutgoingExchange,
    /// When it has failed.
    pub(crate) deadline: Option<DeadlineId>,
}

/// A request that waits for its region.
#[derive(Debug)]
pub(crate) struct WaitingRequest {
    pub(crate) asking: Box<PendingDecision<'static>>,
    pub(crate) id: AskId,
    pub(crate) template: usize,
    pub(crate) gives_up_at: Nanos,
    pub(crate) deadline: Option<DeadlineId>,
    /// What it was told, when it was woken already.
    pub(crate) outcomes: Option<AskOutcomes>,
}

/// What a node would publish about a key, and what it knows of its cells.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct KeyView {
    /// How often the key was reset, as far as the node knows.
    pub(crate) epoch: u16,
    pub(crate) counts: Option<CountSync>,
    cells: Option<(Sequence, Counts, Counts)>,
}

impl KeyView {
    /// The window's cell and the one before, with what the node knows of them.
    pub(crate) fn cells(&self) -> impl Iterator<Item = (Sequence, Counts)> {
        let cells = self.cells.map(|(sequence, current, previous)| {
            [(sequence, current), (Sequence(sequence.0.wrapping_sub(1)), previous)]
        });
        cells.into_iter().flatten()
    }
}

impl SimulatedNode {
    pub(crate) fn boot(
        id: NodeId,
        incarnation: u32,
        keys_max: usize,
        clock: NodeClock,
        world: Option<WorldWork>,
    ) -> Self {
        let region = RegionOptions { node: id, fresh_for: VIEW_TTL, seed: id.0 };
        let options = EngineOptions { secret: SECRET, keys_max };
        SimulatedNode {
            id,
            incarnation,
            engine: match world {
                Some(_) => Engine::sharing_with_world(options, region, RuleSet::empty()),
                None => Engine::sharing(options, region, RuleSet::empty()),
            },
            clock,
            is_up: true,
            is_leaving: false,
            has_left: false,
            is_refused: false,
            has_heard: false,
            known_nodes: None,
            unheard: UnheardByKey::new(),
            orders_done: 0,
            paused_until: Nanos::ZERO,
            has_slept: false,
            acceptance: Acceptance::default(),
            generations: BTreeMap::new(),
            flushes_at: Nanos::ZERO,
            is_flushing: true,
            waiting: BTreeMap::new(),
            calls: BTreeMap::new(),
            lines: BTreeMap::new(),
            world,
            woken: Arc::default(),
        }
    }

    /// The present by the node's clock.
    pub(crate) fn moment(&self, now: Nanos) -> Moment {
        self.clock.moment(now)
    }

    /// What the node's clocks show.
    pub(crate) fn reading(&self, now: Nanos) -> ClockReading {
        self.clock.reading(now)
    }

    /// Whether requests are answered: a node that starts waits a moment for the store to tell its time.
    pub(crate) fn listens(&self, now: Nanos) -> bool {
        self.knows_time() || now.minus(self.clock.drift.since) >= CLOCK_SYNC_TIMEOUT
    }

    /// Whether the store has told its time. A node whose clock is right already goes on by it: waiting for the store's time
    /// changes nothing.
    pub(crate) fn knows_time(&self) -> bool {
        !self.clock.is_off || self.clock.discipline.wall_offset_ns().is_some()
    }

    /// Whether the node counts by the store's time, or had to: the store has told it regularly for a while.
    pub(crate) fn follows_store(&self, now: Nanos, store_now: Nanos) -> bool {
        let is_near = self.moment(now).now.ahead_of_ns(store_now).unsigned_abs() <= CLOCKS_DIFFER.get();
        let is_told = self.clock.told.is_some_and(|(since, last)| {
            now.minus(last) <= TIME_USED_FOR && last.minus(since) >= FOLLOWED_WITHIN
        });
        is_near || is_told
    }

    /// Whether the clock shows the time that it follows.
    pub(crate) fn clock_is_right(&self, now: Nanos) -> bool {
        self.clock.discipline.is_right(self.clock.reading(now))
    }

    /// The machine is suspended: whoever wakes it sets its clocks, which don't drift meanwhile.
    pub(crate) fn clock_is_kept_for(&mut self, length: Nanos) {
        self.clock.drift.kept_for = self.clock.drift.kept_for.plus(length);
    }

    /// The clock of its machine is set.
    pub(crate) fn set_wall_clock(&mut self, delta_ns: i64) {
        self.clock.wall_offset_ns += delta_ns;
        self.clock.is_off |= delta_ns.abs() > SLEWED_NS;
    }

    /// The wall clock is set, and followed at once.
    pub(crate) fn step_clock(&mut self, delta_ns: i64, now: Nanos) {
        self.set_wall_clock(delta_ns);
        self.follow_step(ClockJump { delta_ns }, now);
    }

    /// Compares the clock with the time that the node follows, as `crates/node/src/driver.rs` does.
    pub(crate) fn sample_clock(&mut self, now: Nanos) {
        let reading = self.clock.reading(now);
        if let Some(step) = self.clock.discipline.sample(reading) {
            self.follow_step(step, now);
        }
    }

    /// The store told its time, in answer to what left at `sent`.
    pub(crate) fn receive_time(&mut self, sent: ClockReading, store: Nanos, now: Nanos) {
        let sample = RegionSample { sent, received: self.clock.reading(now), store };
        if sample.received.steady.saturating_sub(sample.sent.steady) < TIME_ROUND_TRIP.get() {
            let since = self.clock.told.filter(|(_, last)| now.minus(*last) <= TIME_USED_FOR);
            self.clock.told = Some((since.map_or(now, |(since, _)| since), now));
        }
        if let Some(step) = self.clock.discipline.receive_region_time(&sample) {
            self.follow_step(step, now);
        }
    }

    fn follow_step(&mut self, step: ClockJump, now: Nanos) {
        let lands_at = self.moment(now).now.shifted(step.delta_ns);
        let id = self.engine.clock_stepped(step.delta_ns, lands_at);
        let steady = self.clock.reading(now).steady;
        self.clock.discipline.follow(step, id, steady);
    }

    pub(crate) fn sharing(&self) -> &Sharing {
        self.engine.shared().expect("simulated nodes share their counts")
    }

    /// Whether flushing would do nothing, until something else happens.
    pub(crate) fn has_nothing_to_flush(&self) -> bool {
        let region = &self.sharing().region;
        let is_closed = |state: &BreakerState| *state == BreakerState::Closed;
        region.is_idle() && region.breakers().iter().all(|(_, state, _)| is_closed(state))
    }

    pub(crate) fn wake_for(&self, ticket: Ticket) -> Wake {
        let woken = self.woken.clone();
        Box::new(move |outcomes| {
            woken.lock().unwrap_or_else(PoisonError::into_inner).push((ticket, outcomes));
        })
    }

    /// Hands out to the requests that wait what they were told; says which were.
    pub(crate) fn take_woken(&mut self) -> Vec<Ticket> {
        let woken = std::mem::take(&mut *self.woken.lock().unwrap_or_else(PoisonError::into_inner));
        let mut tickets = Vec::with_capacity(woken.len());
        for (ticket, outcomes) in woken {
            if let Some(waiting) = self.waiting.get_mut(&ticket) {
                waiting.outcomes = Some(outcomes);
                tickets.push(ticket);
            }
        }
        tickets
    }

    /// Whether a server can be called.
    pub(crate) fn has_line(&self, shard: ShardId) -> bool {
        self.lines.get(&shard).is_none_or(Line::is_up)
    }

    pub(crate) fn view(&self, key: KeyId) -> KeyView {
        let state = self.sharing().table.state(key);
        // An entry in which nothing was ever counted says as much as none.
        let is_empty = |counts: &Counts| *counts == Counts::default();
        let cells = |cells: &(Sequence, Counts, Counts)| !is_empty(&cells.1) || !is_empty(&cells.2);
        let counted = |counts: &CountSync| match counts {
            CountSync::Gcra { sync, .. } => sync.cumulative > 0 || sync.busy.tat > Nanos::ZERO,
            CountSync::Window(_) => true,
        };
        state.map_or(KeyView::default(), |state| KeyView {
            epoch: state.epoch(),
            counts: state.publishing().filter(counted),
            cells: state.cells().filter(cells),
        })
    }

    /// What the node knows of its own part of a cell; `None` when it has left that cell behind.
    pub(crate) fn known(&self, key: KeyId, (epoch, sequence): Cell) -> Option<ComponentView> {
        let view = self.view(key);
        let hears_more = !self.calls.is_empty();
        if view.epoch > epoch {
            return None;
        }
        if view.epoch < epoch || view.cells().all(|(number, _)| number < sequence) {
            return Some(ComponentView { component: 0, is_cold: true, hears_more });
        }
        let (_, counts) = view.cells().find(|(number, _)| *number == sequence)?;
        let publishes = |window: WindowSync| window.current.component > 0 || window.current.claim > 0;
        let is_cold = !matches!(view.counts, Some(CountSync::Window(window)) if publishes(window));
        Some(ComponentView { component: counts.component(), is_cold, hears_more })
    }
}
