//! Three regions around one database, and the ways between them.
//!
//! Every way from a region to the database goes through a proxy, which also makes the region as far away as it
//! is. The database is in the first region.

use crate::Setting;
use crate::fleet::{Fleet, Node};
use crate::generator::{Generator, Width};
use crate::ledger::Ledger;
use crate::time::poll;
use std::net::SocketAddr;
use std::time::Duration;
use tidegate_testkit::{FaultProxy, MariaDb, Postgres, ProxyFault, Redis};

pub(crate) const REGIONS: usize = 3;
pub(crate) const NODES_PER_REGION: usize = 2;
/// A region's name, and how much later bytes arrive, in each direction: 0, 60 and 150 ms for both together.
const PLACES: [(&str, Duration); REGIONS] =
    [("near", Duration::ZERO), ("far", Duration::from_millis(30)), ("farthest", Duration::from_millis(75))];
const DATABASE: &str = "bars";
/// Regions join one after the other, and each waits for the others to know.
const JOINED_WITHIN: Duration = Duration::from_secs(60);

/// When a region publishes its counts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Policy {
    Headroom,
    Floor,
}

impl Policy {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Policy::Headroom => "headroom",
            Policy::Floor => "floor",
        }
    }
}

/// The database that all regions share.
#[derive(Debug)]
pub(crate) enum Database {
    MariaDb(MariaDb),
    Postgres(Postgres),
}

impl Database {
    fn start(setting: &Setting) -> Self {
        if setting.has_option("--postgres") {
            let server = setting.wait_for(Postgres::start());
            server.create_database(DATABASE);
            Database::Postgres(server)
        } else {
            let server = setting.wait_for(MariaDb::start());
            server.create_database(DATABASE);
            Database::MariaDb(server)
        }
    }

    fn address(&self) -> SocketAddr {
        match self {
            Database::MariaDb(server) => server.address(),
            Database::Postgres(server) => server.address(),
        }
    }

    pub(crate) fn url(&self) -> String {
        match self {
            Database::MariaDb(server) => server.url(DATABASE),
            Database::Postgres(server) => server.url(DATABASE),
        }
    }

    /// SIGKILL.
    pub(crate) fn kill(&self) {
        match self {
            Database::MariaDb(server) => server.kill(),
            Database::Postgres(server) => server.kill(),
        }
    }

    /// On the same port, with what it had written.
    pub(crate) fn restart(&self, setting: &Setting) {
        match self {
            Database::MariaDb(server) => setting.wait_for(server.restart()),
            Database::Postgres(server) => setting.wait_for(server.restart()),
        }
    }
}

/// A region: its nodes, their store, and their way to the database.
#[derive(Debug)]
pub(crate) struct Region {
    pub(crate) name: &'static str,
    pub(crate) redis: Redis,
    pub(crate) way: FaultProxy,
    pub(crate) fleet: Fleet,
    distance: ProxyFault,
    arguments: Vec<String>,
}

impl Region {
    fn start(setting: &Setting, place: usize, database: &Database, policy: Policy) -> Result<Self, String> {
        let (name, latency) = PLACES[place];
        let redis = setting.wait_for(Redis::start());
        let way = setting.wait_for(FaultProxy::start(database.address()));
        let distance = if latency.is_zero() { ProxyFault::None } else { ProxyFault::Latency(latency) };
        way.set(distance);
        let url = database.url().replace(&database.address().to_string(), &way.address().to_string());
        let arguments: Vec<String> = ["--region", name, "--world-url", &url, "--world-policy", policy.name()]
            .map(str::to_owned)
            .into();
        let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
        let fleet = Fleet::spawn(&redis.url(), NODES_PER_REGION, &words)?;
        Ok(Region { name, redis, way, fleet, distance, arguments })
    }

    /// As far away as it is, and nothing else.
    pub(crate) fn heal(&self) {
        self.way.set(self.distance);
    }

    /// Which of its nodes does its work in the world tier.
    pub(crate) fn worker(&self) -> Result<usize, String> {
        let is_worker = |node: &Node| node.state().is_some_and(|state| state["world"]["is_worker"] == true);
        poll("a world worker", JOINED_WITHIN, || self.fleet.0.iter().position(is_worker))
            .map_err(|problem| format!("{problem} in {}", self.name))
    }

    /// A node that was killed is replaced by a new one, at another address.
    pub(crate) fn replace(&mut self, node: usize) -> Result<(), String> {
        let words: Vec<&str> = self.arguments.iter().map(String::as_str).collect();
        self.fleet.0[node] = Node::spawn(&self.redis.url(), &words)?;
        self.fleet.wait_acquainted()
    }
}

#[derive(Debug)]
pub(crate) struct Scene {
    // Nodes end before what they use.
    pub(crate) regions: Vec<Region>,
    pub(crate) database: Database,
}

impl Scene {
    /// All regions share limits by now, and all their nodes know it.
    pub(crate) fn start(setting: &Setting, policy: Policy) -> Result<Self, String> {
        let database = Database::start(setting);
        let regions: Result<Vec<Region>, String> =
            (0..REGIONS).map(|place| Region::start(setting, place, &database, policy)).collect();
        let scene = Scene { regions: regions?, database };
        for region in &scene.regions {
            region.fleet.wait_acquainted()?;
        }
        let mut ledger = scene.ledger()?;
        poll("three regions that share limits", JOINED_WITHIN, || {
            let sharing = ledger.owners()?.iter().filter(|owner| owner.shares_all).count();
            (sharing == REGIONS).then_some(())
        })
        .map_err(|problem| format!("{problem}\n{}", scene.logs()))?;
        Ok(scene)
    }

    pub(crate) fn ledger(&self) -> Result<Ledger, String> {
        Ledger::open(&self.database.url())
    }

    pub(crate) fn addresses(&self) -> Vec<SocketAddr> {
        self.regions.iter().flat_map(|region| region.fleet.addresses()).collect()
    }

    pub(crate) fn generator(&self, width: Width) -> Result<Generator, String> {
        Generator::connect(&self.addresses(), width).map_err(|error| format!("can't connect: {error}"))
    }

    pub(crate) fn nodes(&self) -> impl Iterator<Item = &Node> {
        self.regions.iter().flat_map(|region| &region.fleet.0)
    }

    /// Which of all nodes leads the reconciler.
    pub(crate) fn leader(&self) -> Result<usize, String> {
        let mut ledger = self.ledger()?;
        poll("a reconciler", JOINED_WITHIN, || {
            let (term, _) = ledger.term()?;
            let known = |node: &Node| node.state()?["world"]["quotas"]["reconciler_term"].as_u64();
            self.nodes().position(|node| known(node) == Some(term))
        })
    }

    fn logs(&self) -> String {
        self.nodes().map(Node::log).collect::<Vec<_>>().join("\n")
    }
}

/// The nodes of a region, as plans name them.
pub(crate) fn nodes_of(region: usize) -> [usize; NODES_PER_REGION] {
    [NODES_PER_REGION * region, NODES_PER_REGION * region + 1]
}
