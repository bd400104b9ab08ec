//! What goes wrong, where, and how it is made and mended.
//!
//! A bag holds every kind of trouble; one is drawn at a time, in an order that the seed decides, and when it is empty
//! it is filled again. Every trouble is over when `mend` returns.

use crate::plan::Random;
use crate::running::push;
use crate::scene::{NODES_PER_REGION, REGIONS, Scene, locked};
use crate::subject::{WINDOW_LIMITS, rules};
use std::time::Duration;
use tidegate_testkit::{Fault, FaultProxy};

const SHORTEST: Duration = Duration::from_secs(2);
const LONGEST_MS: usize = 3000;

/// A way that may misbehave.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Way {
    NodeToRedis,
    RegionToRedis,
    RegionToDatabase,
    AllToDatabase,
    NodesToBroker,
    BrokerToControl,
    ControlToDatabase,
}

const WAYS: [Way; 7] = [
    Way::NodeToRedis,
    Way::RegionToRedis,
    Way::RegionToDatabase,
    Way::AllToDatabase,
    Way::NodesToBroker,
    Way::BrokerToControl,
    Way::ControlToDatabase,
];

/// What happens.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    Network(Way, Fault),
    NodeKilled,
    NodeStopped,
    RedisStopped,
    /// Killed, and started again without its counts.
    RedisReplaced,
    RedisFlushed,
    DatabaseKilled,
    DatabaseStopped,
    ControlKilled,
    BrokerKilled,
    RulesPushed,
}

/// What happens to one of the processes; the bag has each of them once.
const TO_PROCESSES: [Kind; 10] = [
    Kind::NodeKilled,
    Kind::NodeStopped,
    Kind::RedisStopped,
    Kind::RedisReplaced,
    Kind::RedisFlushed,
    Kind::DatabaseKilled,
    Kind::DatabaseStopped,
    Kind::ControlKilled,
    Kind::BrokerKilled,
    Kind::RulesPushed,
];
/// And so many troubles of each kind on ways drawn at random.
const NETWORK_ROUNDS: usize = 2;

#[derive(Clone, Copy, Debug)]
pub(crate) struct Trouble {
    pub(crate) kind: Kind,
    /// Where, if it is in one region.
    pub(crate) region: usize,
    /// Which of all nodes, if it is one.
    pub(crate) node: usize,
    /// Until it is mended.
    pub(crate) length: Duration,
}

#[derive(Debug)]
pub(crate) struct Bag {
    random: Random,
    kinds: Vec<Kind>,
    /// Which of `Window`'s limits the next push puts in force.
    next_limit: usize,
}

impl Bag {
    pub(crate) fn new(seed: u64) -> Self {
        Bag { random: Random(seed), kinds: Vec::new(), next_limit: 1 }
    }

    pub(crate) fn draw(&mut self) -> Trouble {
        if self.kinds.is_empty() {
            self.fill();
        }
        let drawn = self.random.below(self.kinds.len());
        let kind = self.kinds.swap_remove(drawn);
        let region = self.random.below(REGIONS);
        let node = NODES_PER_REGION * region + self.random.below(NODES_PER_REGION);
        let more = u64::try_from(self.random.below(LONGEST_MS)).unwrap_or(0);
        Trouble { kind, region, node, length: SHORTEST + Duration::from_millis(more) }
    }

    /// How long after the beginning of its slot a trouble begins.
    pub(crate) fn delay(&mut self) -> Duration {
        Duration::from_millis(200 + u64::try_from(self.random.below(800)).unwrap_or(0))
    }

    /// The limit of the next push.
    pub(crate) fn limit(&mut self) -> u64 {
        let limit = WINDOW_LIMITS[self.next_limit];
        self.next_limit = 1 - self.next_limit;
        limit
    }

    fn fill(&mut self) {
        self.kinds.extend(TO_PROCESSES);
        for _ in 0..NETWORK_ROUNDS {
            for fault in self.faults() {
                let way = WAYS[self.random.below(WAYS.len())];
                self.kinds.push(Kind::Network(way, fault));
            }
        }
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

impl Trouble {
    /// What the report counts.
    pub(crate) fn name(&self) -> String {
        match self.kind {
            Kind::Network(way, fault) => format!("{}, {}", way.name(), fault_name(fault)),
            Kind::NodeKilled => "a node: SIGKILL, started again".to_owned(),
            Kind::NodeStopped => "a node: SIGSTOP, SIGCONT".to_owned(),
            Kind::RedisStopped => "Redis: SIGSTOP, SIGCONT".to_owned(),
            Kind::RedisReplaced => "Redis: SIGKILL, started again empty".to_owned(),
            Kind::RedisFlushed => "Redis: FLUSHALL".to_owned(),
            Kind::DatabaseKilled => "MariaDB: SIGKILL, started again".to_owned(),
            Kind::DatabaseStopped => "MariaDB: SIGSTOP, SIGCONT".to_owned(),
            Kind::ControlKilled => "control plane: SIGKILL, started again".to_owned(),
            Kind::BrokerKilled => "a broker: SIGKILL, started again".to_owned(),
            Kind::RulesPushed => "rules pushed".to_owned(),
        }
    }

    /// Returns when it is in force.
    pub(crate) fn make(&self, scene: &Scene, limit: u64) -> Result<(), String> {
        let region = &scene.regions[self.region];
        match self.kind {
            Kind::Network(way, fault) => self.ways(scene, way).iter().for_each(|way| way.set(fault)),
            Kind::NodeKilled => scene.node(self.node).kill(),
            Kind::NodeStopped => scene.node(self.node).stop(),
            Kind::RedisStopped => region.redis.stop(),
            Kind::RedisReplaced => region.redis.kill(),
            Kind::RedisFlushed => drop(scene.wait_for(region.redis.demand(&["FLUSHALL"]))),
            Kind::DatabaseKilled => scene.database.kill(),
            Kind::DatabaseStopped => scene.database.stop(),
            Kind::ControlKilled => locked(&scene.control).kill(),
            Kind::BrokerKilled => locked(&region.broker).kill(),
            Kind::RulesPushed => {
                push(&locked(&scene.control), &rules(limit))?;
            }
        }
        Ok(())
    }

    /// Returns when everything runs again.
    pub(crate) fn mend(&self, scene: &Scene) -> Result<(), String> {
        let region = &scene.regions[self.region];
        match self.kind {
            Kind::Network(way, _) => self.ways(scene, way).iter().for_each(|way| way.set(Fault::None)),
            Kind::NodeKilled => scene.node(self.node).start()?,
            Kind::NodeStopped => scene.node(self.node).resume(),
            Kind::RedisStopped => region.redis.resume(),
            Kind::RedisReplaced => scene.wait_for(region.redis.restart()),
            Kind::DatabaseKilled => scene.wait_for(scene.database.restart()),
            Kind::DatabaseStopped => scene.database.resume(),
            Kind::ControlKilled => locked(&scene.control).start()?,
            Kind::BrokerKilled => locked(&region.broker).start()?,
            Kind::RedisFlushed | Kind::RulesPushed => {}
        }
        Ok(())
    }

    /// Over as soon as it has happened.
    pub(crate) fn is_instant(&self) -> bool {
        matches!(self.kind, Kind::RedisFlushed | Kind::RulesPushed)
    }

    /// Whether counts may pass between that region and the others later than they should.
    pub(crate) fn parts_world(&self, region: usize) -> bool {
        match self.kind {
            Kind::DatabaseKilled | Kind::DatabaseStopped | Kind::Network(Way::AllToDatabase, _) => true,
            Kind::Network(Way::NodesToBroker | Way::BrokerToControl | Way::ControlToDatabase, _)
            | Kind::ControlKilled
            | Kind::BrokerKilled
            | Kind::RulesPushed => false,
            _ => self.region == region,
        }
    }

    /// That node can't answer.
    pub(crate) fn silences(&self, node: usize) -> bool {
        matches!(self.kind, Kind::NodeKilled | Kind::NodeStopped) && self.node == node
    }

    /// That region's store knows less afterwards than it did.
    pub(crate) fn empties(&self, region: usize) -> bool {
        matches!(self.kind, Kind::RedisReplaced | Kind::RedisFlushed) && self.region == region
    }

    fn ways<'a>(&self, scene: &'a Scene, way: Way) -> Vec<&'a FaultProxy> {
        let region = &scene.regions[self.region];
        match way {
            Way::NodeToRedis => vec![&region.to_redis[self.node % NODES_PER_REGION]],
            Way::RegionToRedis => region.to_redis.iter().collect(),
            Way::RegionToDatabase => vec![&region.to_database],
            Way::AllToDatabase => scene.regions.iter().map(|region| &region.to_database).collect(),
            Way::NodesToBroker => vec![&region.to_broker],
            Way::BrokerToControl => vec![&region.to_control],
            Way::ControlToDatabase => vec![&scene.control_to_database],
        }
    }
}

impl Way {
    fn name(self) -> &'static str {
        match self {
            Way::NodeToRedis => "a node to its Redis",
            Way::RegionToRedis => "a region's nodes to their Redis",
            Way::RegionToDatabase => "a region to MariaDB",
            Way::AllToDatabase => "all regions to MariaDB",
            Way::NodesToBroker => "a region's nodes to their broker",
            Way::BrokerToControl => "a broker to the control plane",
            Way::ControlToDatabase => "the control plane to MariaDB",
        }
    }
}

fn fault_name(fault: Fault) -> &'static str {
    match fault {
        Fault::None => "nothing",
        Fault::Latency(_) => "slow",
        Fault::Blackhole => "everything lost",
        Fault::DropToUpstream => "requests lost",
        Fault::DropToClient => "answers lost",
        Fault::Reset => "reset",
        Fault::Refuse => "refused",
        Fault::Bandwidth { .. } => "narrow",
        Fault::Garbage { .. } => "garbled",
    }
}
