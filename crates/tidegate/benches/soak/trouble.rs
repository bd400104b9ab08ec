//! What goes wrong, where, and how it is made and mended.
//!
//! Every trouble is over when `mend` returns. `bag.rs` decides which one comes next.

use crate::running::push;
use crate::scene::{NODES_PER_REGION, Scene, clock_off_by, locked};
use crate::subject::rules;
use std::time::Duration;
use tidegate_testkit::{FaultProxy, ProxyFault};

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

pub(crate) const WAYS: [Way; 7] = [
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
    Network(Way, ProxyFault),
    NodeKilled,
    NodeStopped,
    /// For longer than a reset is announced.
    NodePaused,
    /// A node whose wall clock is off by so much.
    ClockSkewed {
        offset_ms: i64,
    },
    RedisStopped,
    /// Killed, and started again without its counts.
    RedisReplaced,
    RedisFlushed,
    /// The idle keys' cells are deleted.
    KeysEvicted,
    /// A replica that stopped following before the idle keys were used takes Redis's address.
    ReplicaPromoted,
    /// A spent key is reset.
    KeyReset,
    /// Known to fail: a node is paused, and misses a reset.
    ResetDuringPause,
    /// Known to fail: the epoch of a reset key is lost.
    ResetThenFlushed,
    /// Known to fail: data loss after a node died.
    DeadOwnerFlushed,
    /// Known to fail: the world database goes back to an older backup.
    DatabaseRestored,
    DatabaseKilled,
    DatabaseStopped,
    ControlKilled,
    BrokerKilled,
    RulesPushed,
}

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

/// What a trouble goes back to.
#[derive(Debug)]
pub(crate) enum Backup {
    None,
    Redis(Vec<u8>),
    /// In tables of its own.
    Database,
}

impl Kind {
    /// Whether a region's Redis knows less afterwards.
    pub(crate) fn loses_data(self) -> bool {
        matches!(
            self,
            Kind::RedisReplaced
                | Kind::RedisFlushed
                | Kind::KeysEvicted
                | Kind::ReplicaPromoted
                | Kind::ResetThenFlushed
                | Kind::DeadOwnerFlushed
        )
    }

    /// Whether a node ends without publishing its last counts.
    pub(crate) fn kills(self) -> bool {
        matches!(self, Kind::NodeKilled | Kind::ClockSkewed { .. } | Kind::DeadOwnerFlushed)
    }

    /// Whether it lasts for more than one slot.
    pub(crate) fn is_long(self) -> bool {
        matches!(self, Kind::NodePaused | Kind::ResetDuringPause)
    }
}

impl Trouble {
    /// What the report counts.
    pub(crate) fn name(&self) -> String {
        match self.kind {
            Kind::Network(way, fault) => format!("{}, {}", way.name(), fault_name(fault)),
            Kind::NodeKilled => "a node: SIGKILL, started again".to_owned(),
            Kind::NodeStopped => "a node: SIGSTOP, SIGCONT".to_owned(),
            Kind::NodePaused => "a node: SIGSTOP, SIGCONT after 25 s".to_owned(),
            Kind::ClockSkewed { offset_ms } => format!("a node's clock off by {offset_ms} ms"),
            Kind::KeysEvicted => "Redis: single keys deleted".to_owned(),
            Kind::ReplicaPromoted => "Redis: a lagging replica promoted".to_owned(),
            Kind::KeyReset => "a key reset".to_owned(),
            Kind::ResetDuringPause => "a key reset while a node is paused for 25 s".to_owned(),
            Kind::ResetThenFlushed => "a key reset, then FLUSHALL".to_owned(),
            Kind::DeadOwnerFlushed => "a node: SIGKILL, started again, then FLUSHALL".to_owned(),
            Kind::DatabaseRestored => "MariaDB: an older backup restored".to_owned(),
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
            Kind::NodeStopped | Kind::NodePaused | Kind::ResetDuringPause => scene.node(self.node).stop(),
            Kind::ClockSkewed { offset_ms } => {
                scene.node(self.node).restart_with(clock_off_by(offset_ms)?)?;
            }
            Kind::RedisStopped => region.redis.stop(),
            Kind::RedisReplaced => region.redis.kill(),
            // `idle.rs` does the first two, `mend` the others.
            Kind::KeysEvicted | Kind::KeyReset | Kind::ReplicaPromoted | Kind::DatabaseRestored => {}
            Kind::RedisFlushed | Kind::ResetThenFlushed | Kind::DeadOwnerFlushed => {
                drop(scene.wait_for(region.redis.demand(&["FLUSHALL"])));
            }
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

    /// Takes the backup that the trouble goes back to.
    pub(crate) fn back_up(&self, scene: &Scene) -> Result<Backup, String> {
        match self.kind {
            Kind::ReplicaPromoted => {
                let snapshot = scene.wait_for(scene.regions[self.region].redis.snapshot());
                snapshot.map(Backup::Redis).map_err(|error| format!("can't save Redis: {error}"))
            }
            Kind::DatabaseRestored => {
                scene.back_up_database();
                Ok(Backup::Database)
            }
            _ => Ok(Backup::None),
        }
    }

    /// Returns when everything runs again.
    pub(crate) fn mend(&self, scene: &Scene, backup: &Backup) -> Result<(), String> {
        let region = &scene.regions[self.region];
        match self.kind {
            Kind::Network(way, _) => self.ways(scene, way).iter().for_each(|way| way.set(ProxyFault::None)),
            Kind::NodeKilled => scene.node(self.node).start()?,
            Kind::NodeStopped | Kind::NodePaused | Kind::ResetDuringPause => scene.node(self.node).resume(),
            Kind::ClockSkewed { .. } => scene.node(self.node).restart_with(Vec::new())?,
            Kind::ReplicaPromoted => {
                let Backup::Redis(snapshot) = backup else { return Err("there is no snapshot".to_owned()) };
                let restored = scene.wait_for(region.redis.restart_from(snapshot));
                restored.map_err(|error| format!("can't start Redis again: {error}"))?;
            }
            Kind::DatabaseRestored => scene.restore_database(),
            Kind::RedisStopped => region.redis.resume(),
            Kind::RedisReplaced => scene.wait_for(region.redis.restart()),
            Kind::DatabaseKilled => scene.wait_for(scene.database.restart()),
            Kind::DatabaseStopped => scene.database.resume(),
            Kind::ControlKilled => locked(&scene.control).start()?,
            Kind::BrokerKilled => locked(&region.broker).start()?,
            Kind::RedisFlushed
            | Kind::RulesPushed
            | Kind::KeysEvicted
            | Kind::KeyReset
            | Kind::ResetThenFlushed
            | Kind::DeadOwnerFlushed => {}
        }
        Ok(())
    }

    /// Over as soon as it has happened.
    pub(crate) fn is_instant(&self) -> bool {
        matches!(
            self.kind,
            Kind::RedisFlushed
                | Kind::RulesPushed
                | Kind::KeysEvicted
                | Kind::KeyReset
                | Kind::ResetThenFlushed
                | Kind::DeadOwnerFlushed
        )
    }

    /// Whether counts may pass between that region and the others later than they should.
    pub(crate) fn parts_world(&self, region: usize) -> bool {
        match self.kind {
            Kind::DatabaseKilled
            | Kind::DatabaseStopped
            | Kind::DatabaseRestored
            | Kind::Network(Way::AllToDatabase, _) => true,
            Kind::Network(Way::NodesToBroker | Way::BrokerToControl | Way::ControlToDatabase, _)
            | Kind::ControlKilled
            | Kind::BrokerKilled
            | Kind::RulesPushed => false,
            _ => self.region == region,
        }
    }

    /// That node can't answer.
    pub(crate) fn silences(&self, node: usize) -> bool {
        let silences = matches!(self.kind, Kind::NodeStopped | Kind::NodePaused | Kind::ResetDuringPause);
        (silences || self.kind.kills()) && self.node == node
    }

    /// That region's store knows less afterwards than it did.
    pub(crate) fn empties(&self, region: usize) -> bool {
        self.kind.loses_data() && self.region == region
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

fn fault_name(fault: ProxyFault) -> &'static str {
    match fault {
        ProxyFault::None => "nothing",
        ProxyFault::Latency(_) => "slow",
        ProxyFault::Blackhole => "everything lost",
        ProxyFault::DropToUpstream => "requests lost",
        ProxyFault::DropToClient => "answers lost",
        ProxyFault::Reset => "reset",
        ProxyFault::Refuse => "refused",
        ProxyFault::Bandwidth { .. } => "narrow",
        ProxyFault::Garbage { .. } => "garbled",
    }
}
