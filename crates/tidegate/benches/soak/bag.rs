//! Which trouble comes next: a bag holds every kind, one is drawn at a time in an order that the seed decides, and when
//! it is empty it is filled again.
//!
//! Four of a cycle's five troubles happen to processes and their data, one to the network.

use crate::known_failures::{Combination, LeftOut};
use crate::plan::Random;
use crate::scene::{NODES_PER_REGION, REGIONS};
use crate::subject::WINDOW_LIMITS;
use crate::trouble::{Kind, Trouble, WAYS};
use std::time::Duration;
use tidegate_testkit::Fault;

const SHORTEST: Duration = Duration::from_secs(2);
const MORE_MS: usize = 2000;
/// Heartbeats announce a reset for 20 s.
const PAUSED_FOR: Duration = Duration::from_secs(25);
/// Nearly a cell of the ten-second windows.
const SKEWED_FOR: Duration = Duration::from_secs(7);
/// Within what nodes and Redis tolerate.
const SMALL_SKEW_MS: i64 = 40;
const LARGE_SKEW_MS: i64 = -30_000;
/// A long trouble begins no later in its cycle.
const LAST_LONG_SLOT: u32 = 2;

/// What happens to one of the processes, or to its data; the bag has each of them once.
const TO_PROCESSES: [Kind; 14] = [
    Kind::NodeKilled,
    Kind::NodeStopped,
    Kind::NodePaused,
    Kind::RedisStopped,
    Kind::RedisReplaced,
    Kind::RedisFlushed,
    Kind::KeysEvicted,
    Kind::ReplicaPromoted,
    Kind::KeyReset,
    Kind::DatabaseKilled,
    Kind::DatabaseStopped,
    Kind::ControlKilled,
    Kind::BrokerKilled,
    Kind::RulesPushed,
];
/// What only known failures need, and the combination that leaves it out.
const KNOWN_TO_FAIL: [(Kind, Combination); 4] = [
    (Kind::ResetDuringPause, Combination::ResetDuringPause),
    (Kind::ResetThenFlushed, Combination::DataLossAfterReset),
    (Kind::DeadOwnerFlushed, Combination::DataLossWithDeadOwner),
    (Kind::DatabaseRestored, Combination::DatabaseRestored),
];

#[derive(Debug)]
pub(crate) struct Bag {
    random: Random,
    left_out: LeftOut,
    processes: Vec<Kind>,
    networks: Vec<Kind>,
    /// Regions where a node died in this cycle.
    mourning: [bool; REGIONS],
    /// Which of `Window`'s limits the next push puts in force.
    next_limit: usize,
}

impl Bag {
    pub(crate) fn new(seed: u64, left_out: LeftOut) -> Self {
        Bag {
            random: Random(seed),
            left_out,
            processes: Vec::new(),
            networks: Vec::new(),
            mourning: [false; REGIONS],
            next_limit: 1,
        }
    }

    /// A cycle has keys of its own, in which nobody has died yet.
    pub(crate) fn begin_cycle(&mut self) {
        self.mourning = [false; REGIONS];
    }

    /// Draws the trouble of a slot.
    pub(crate) fn draw(&mut self, slot: u32, is_last: bool) -> Trouble {
        let kind = if is_last { self.draw_network() } else { self.draw_process(slot) };
        let region = self.region_for(kind);
        let node = NODES_PER_REGION * region + self.random.below(NODES_PER_REGION);
        let more = u64::try_from(self.random.below(MORE_MS)).unwrap_or(0);
        let length = match kind {
            kind if kind.is_long() => PAUSED_FOR,
            Kind::ClockSkewed { .. } => SKEWED_FOR,
            _ => SHORTEST + Duration::from_millis(more),
        };
        self.mourning[region] |= kind.kills();
        Trouble { kind, region, node, length }
    }

    fn draw_network(&mut self) -> Kind {
        if self.networks.is_empty() {
            self.networks = self.faults().map(|fault| Kind::Network(WAYS[0], fault)).to_vec();
        }
        let drawn = self.random.below(self.networks.len());
        let way = WAYS[self.random.below(WAYS.len())];
        match self.networks.swap_remove(drawn) {
            Kind::Network(_, fault) => Kind::Network(way, fault),
            kind => kind,
        }
    }

    /// Known failures come first, so that a short run with them shows them.
    fn draw_process(&mut self, slot: u32) -> Kind {
        if self.processes.is_empty() {
            self.fill();
        }
        let fits = |kind: &Kind| {
            (slot <= LAST_LONG_SLOT || !kind.is_long())
                && (!self.needs_the_living(*kind) || self.has_living())
        };
        let fitting: Vec<usize> = (0..self.processes.len()).filter(|at| fits(&self.processes[*at])).collect();
        let first = fitting.iter().copied().find(|at| self.is_known_to_fail(self.processes[*at]));
        let drawn = match first {
            Some(first) => first,
            None if fitting.is_empty() => return Kind::RulesPushed,
            None => fitting[self.random.below(fitting.len())],
        };
        self.processes.swap_remove(drawn)
    }

    /// Whether it shows a known failure in this run.
    fn is_known_to_fail(&self, kind: Kind) -> bool {
        let needs_it = KNOWN_TO_FAIL.iter().any(|(known, _)| *known == kind);
        let shows_it = matches!(kind, Kind::ClockSkewed { .. } | Kind::RedisFlushed | Kind::KeyReset);
        self.left_out.includes_known_failures && (needs_it || shows_it)
    }

    /// Whether it may only happen where no node died in this cycle.
    fn needs_the_living(&self, kind: Kind) -> bool {
        kind.loses_data() && self.left_out.leaves_out(Combination::DataLossWithDeadOwner)
    }

    fn has_living(&self) -> bool {
        self.mourning.iter().any(|mourns| !mourns)
    }

    fn region_for(&mut self, kind: Kind) -> usize {
        let region = self.random.below(REGIONS);
        let living =
            (0..REGIONS).map(|more| (region + more) % REGIONS).find(|region| !self.mourning[*region]);
        if self.needs_the_living(kind) { living.unwrap_or(region) } else { region }
    }

    /// How long after the beginning of its slot a trouble begins.
    pub(crate) fn delay(&mut self) -> Duration {
        Duration::from_millis(200 + u64::try_from(self.random.below(400)).unwrap_or(0))
    }

    /// The limit of the next push.
    pub(crate) fn limit(&mut self) -> u64 {
        let limit = WINDOW_LIMITS[self.next_limit];
        self.next_limit = 1 - self.next_limit;
        limit
    }

    fn fill(&mut self) {
        self.processes.extend(TO_PROCESSES);
        let is_small = self.left_out.leaves_out(Combination::SkewedClock);
        let offset_ms = if is_small { SMALL_SKEW_MS } else { LARGE_SKEW_MS };
        self.processes.push(Kind::ClockSkewed { offset_ms });
        let included =
            KNOWN_TO_FAIL.iter().filter(|(_, combination)| !self.left_out.leaves_out(*combination));
        self.processes.extend(included.map(|(kind, _)| *kind));
    }

    fn faults(&mut self) -> [Fault; 8] {
        let latency = 10 + 10 * u64::try_from(self.random.below(40)).unwrap_or(0);
        [
            Fault::Latency(Duration::from_millis(latency)),
            Fault::Blackhole,
            Fault::DropToUpstream,
            Fault::DropToClient,
            Fault::Reset,
            Fault::Refuse,
            Fault::Bandwidth { bytes_per_second: 4000 },
            Fault::Garbage { seed: latency },
        ]
    }
}
