//! What these tests stand on: regions of some nodes and a Redis each, and one database for all of them.

use crate::fleet::{Limit, Member, PATIENT, pause, wait_for};
use crate::support::poll;
use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use tidegate_core::Nanos;
use tidegate_testkit::{FaultProxy, MariaDb, Redis};
use tidegate_world::{Cursor, SqlOptions, SqlWorld, World as _, WorldUrl};
use tokio::runtime::Handle;

/// Until all regions know of each other: the first hears of the last with its next tick.
pub(crate) const JOINED_WITHIN: Duration = Duration::from_secs(20);
/// What a busy machine may take for what should be a second.
pub(crate) const SEEN_WITHIN: Duration = Duration::from_secs(10);
/// Short, so that tests are.
const INTERVAL_MS: &str = "1000";

pub(crate) struct Region {
    pub(crate) name: String,
    pub(crate) redis: Redis,
    pub(crate) nodes: Vec<Member>,
}

pub(crate) struct Regions {
    pub(crate) database: Arc<MariaDb>,
    pub(crate) name: String,
    /// Between all regions and the database.
    pub(crate) proxy: FaultProxy,
    pub(crate) regions: Vec<Region>,
}

impl Region {
    pub(crate) fn start(name: &str, world_url: &str, nodes: usize, arguments: &[&str]) -> Self {
        let redis = wait_for(Redis::start());
        let mut region = Region { name: name.to_owned(), redis, nodes: Vec::new() };
        for _ in 0..nodes {
            region.add_node(world_url, arguments);
        }
        region
    }

    pub(crate) fn add_node(&mut self, world_url: &str, arguments: &[&str]) {
        let world = ["--region", &self.name, "--world-url", world_url, "--world-interval-ms", INTERVAL_MS];
        let arguments = [&PATIENT[..], &world, arguments].concat();
        self.nodes.push(Member::start(&self.redis.url(), &arguments));
    }

    /// Which of its nodes works for it in the world tier.
    pub(crate) fn worker(&self) -> Option<usize> {
        self.nodes.iter().position(|node| world_of(node)["is_worker"] == true)
    }

    pub(crate) fn wait_worker(&self, within: Duration) -> usize {
        poll("a world worker", within, || self.worker())
    }

    /// How much of a limit is left, as this region's store sees it: spends one, and takes its time.
    pub(crate) fn remaining(&self, limit: &Limit) -> u64 {
        pause(Duration::from_millis(50));
        self.nodes[0].ask(&limit.clone().exact()).remaining()
    }
}

/// The world tier as a node tells of it.
pub(crate) fn world_of(node: &Member) -> Value {
    node.node.state()["world"].clone()
}

impl Regions {
    /// As many regions of two nodes each, that know of each other.
    pub(crate) fn start(count: usize) -> Self {
        Self::start_with(count, &[])
    }

    pub(crate) fn start_with(count: usize, arguments: &[&str]) -> Self {
        let (database, proxy) = wait_for(async {
            let database = MariaDb::shared().await;
            let proxy = FaultProxy::start(database.address()).await;
            (database, proxy)
        });
        let name = format!("world_{}", proxy.address().port());
        database.create_database(&name);
        let mut regions = Regions { database, name, proxy, regions: Vec::new() };
        for number in 0..count {
            let region = Region::start(&format!("region-{number}"), &regions.url(), 2, arguments);
            regions.regions.push(region);
        }
        regions.wait_joined(count);
        regions
    }

    pub(crate) fn url(&self) -> String {
        format!("mysql://root@{}/{}", self.proxy.address(), self.name)
    }

    /// Until every node divides by as many regions.
    pub(crate) fn wait_joined(&self, count: usize) {
        for node in self.regions.iter().flat_map(|region| &region.nodes) {
            poll("all regions", JOINED_WITHIN, || (world_of(node)["regions_sharing"] == count).then_some(()));
        }
    }

    pub(crate) fn query(&self, statement: &str) -> Vec<Vec<String>> {
        self.database.query(&self.name, statement)
    }

    /// What the database has of each region, in the order of their ids: as somebody reads it who comes from nothing.
    pub(crate) fn components(&self, limit: &Limit) -> Vec<u64> {
        let url = WorldUrl::parse(&self.database.url(&self.name)).expect("a url");
        let mut counts = BTreeMap::new();
        wait_for(async {
            let world = SqlWorld::new(url, SqlOptions::default(), &Handle::current());
            let (mut since, mut has_more) = (Cursor::default(), true);
            while has_more {
                let page = world.import(since).await.expect("everything");
                for component in page.components.iter().filter(|component| component.cell.key == limit.key())
                {
                    let count = counts.entry((component.owner, component.cell)).or_insert(0);
                    *count = component.count.max(*count);
                }
                (since, has_more) = (page.next, page.has_more);
            }
        });
        counts.into_values().collect()
    }
}

/// So many in an hour; no test meets the end of it twice.
pub(crate) fn hourly(identifier: &str, number: u64) -> Limit {
    Limit { period: Nanos::from_secs(3_600), ..Limit::new(identifier, number) }
}
