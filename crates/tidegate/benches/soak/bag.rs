//! Which trouble comes next: a bag holds every kind, one is drawn at a time in an order that the seed decides, and when
//! it is empty it is filled again.
//!
//! Four of a cycle's five troubles happen to processes and their data, one to the network.

use crate::plan::Random;
use crate::scene::{NODES_PER_REGION, REGIONS};
use crate::subject::WINDOW_LIMITS;
use crate::trouble::{Kind, Trouble, WAYS};
use std::time::Duration;
use tidegate_testkit::ProxyFault;

const SHORTEST: Duration = Duration::from_secs(2);
const MORE_MS: usize = 2000;
/// Heartbeats announce a reset for 20 s.
const PAUSED_FOR: Duration = Duration::from_secs(25);
/// Nearly a cell of the ten-second windows.
const SKEWED_FOR: Duration = Duration::from_secs(7);
/// Three cells of the ten-second windows.
const SKEW_MS: i64 = -30_000;
/// A long trouble begins no later in its cycle.
const LAST_LONG_SLOT: u32 = 2;

/// What happens to one of the processes, or to its data; the bag has each of them once.
const TO_PROCESSES: [Kind; 19] = [
    Kind::NodeKilled,
    Kind::NodeStopped,
    Kind::NodePaused,
    Kind::RedisStopped,
    Kind::RedisReplaced,
    Kind::RedisFlushed,
    Kind::KeysEvicted,
    Kind::ReplicaPromoted,
    Kind::KeyReset,
    Kind::ResetDuringPause,
    Kind::ResetThenFlushed,
    Kind::DeadOwnerFlushed,
    Kind::ClockSkewed { offset_ms: SKEW_MS },
    Kind::DatabaseKilled,
    Kind::DatabaseStopped,
    Kind::DatabaseRestored,
    Kind::ControlKilled,
    Kind::BrokerKilled,
    Kind::RulesPushed,
];

#[derive(Debug)]
pub(crate) struct Bag {
    random: Random,
    processes: Vec<Kind>,
    networks: Vec<Kind>,
    /// Which of `Window`'s limits the next push puts in force.
    next_limit: usize,
}

impl Bag {
    pub(crate) fn new(seed: u64) -> Self {
        Bag { random: Random(seed), processes: Vec::new(), networks: Vec::new(), next_limit: 1 }
    }

    /// Draws the trouble of a slot.
    pub(crate) fn draw(&mut self, slot: u32, is_last: bool) -> Trouble {
        let kind = if is_last { self.draw_network() } else { self.draw_process(slot) };
        let region = self.random.below(REGIONS);
        let node = NODES_PER_REGION * region + self.random.below(NODES_PER_REGION);
        let more = u64::try_from(self.random.below(MORE_MS)).unwrap_or(0);
        let length = match kind {
            kind if kind.is_long() => PAUSED_FOR,
            Kind::ClockSkewed { .. } => SKEWED_FOR,
            _ => SHORTEST + Duration::from_millis(more),
        };
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

    fn draw_process(&mut self, slot: u32) -> Kind {
        if self.processes.is_empty() {
            self.processes.extend(TO_PROCESSES);
        }
        let fits = |kind: &Kind| slot <= LAST_LONG_SLOT || !kind.is_long();
        let fitting: Vec<usize> = (0..self.processes.len()).filter(|at| fits(&self.processes[*at])).collect();
        if fitting.is_empty() {
            return Kind::RulesPushed;
        }
        let drawn = fitting[self.random.below(fitting.len())];
        self.processes.swap_remove(drawn)
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

    fn faults(&mut self) -> [ProxyFault; 8] {
        let latency = 10 + 10 * u64::try_from(self.random.below(40)).unwrap_or(0);
        [
            ProxyFault::Latency(Duration::from_millis(latency)),
            ProxyFault::Blackhole,
            ProxyFault::DropToUpstream,
            ProxyFault::DropToClient,
            ProxyFault::Reset,
            ProxyFault::Refuse,
            ProxyFault::Bandwidth { bytes_per_second: 4000 },
            ProxyFault::Garbage { seed: latency },
        ]
    }
}
