//! A flash: every region is sent a whole limit of a key that nobody knew, within a second.
//!
//! A program of its own, because the bound holds for regions that hear of each other in time: tests beside this one would
//! keep the processor from them.

#[allow(dead_code, reason = "the tests of one region use the rest of it")]
#[path = "../region/fleet.rs"]
mod fleet;
#[allow(dead_code, reason = "the tests of one process use the rest of it")]
#[path = "../process/support.rs"]
mod support;

use fleet::{Limit, Member, PATIENT, wait_for};
use std::sync::Arc;
use std::thread;
use std::time::Duration;
use support::poll;
use tidegate_core::Nanos;
use tidegate_testkit::{FaultProxy, MariaDb, ProxyFault, Redis};
use tokio::time::Instant;

/// A region is one for the others within seconds.
const JOINED_WITHIN: Duration = Duration::from_secs(20);
const REGIONS: usize = 3;
/// From a region to the database, each way.
const DISTANCE: Duration = Duration::from_millis(30);
const LIMIT: u64 = 1_000;
const PERIOD: Nanos = Nanos::from_secs(300);
const FLASH: Duration = Duration::from_secs(1);
/// A region's callers come in rounds, each with as many requests in one write.
const ROUNDS: u32 = 100;

struct Flashed {
    // Nodes end before what they use.
    nodes: Vec<Member>,
    _stores: Vec<Redis>,
    _ways: Vec<FaultProxy>,
    _database: Arc<MariaDb>,
}

fn start() -> Flashed {
    let database = wait_for(MariaDb::shared());
    let ways: Vec<FaultProxy> =
        (0..REGIONS).map(|_| wait_for(FaultProxy::start(database.address()))).collect();
    let name = format!("flash_{}", ways[0].address().port());
    database.create_database(&name);
    let stores: Vec<Redis> = (0..REGIONS).map(|_| wait_for(Redis::start())).collect();
    let node = |number: usize| {
        ways[number].set(ProxyFault::Latency(DISTANCE));
        let url = format!("mysql://root@{}/{name}", ways[number].address());
        let region = format!("region-{number}");
        let world = ["--region", &region, "--world-url", &url];
        Member::start(&stores[number].url(), &[&PATIENT[..], &world].concat())
    };
    let nodes = (0..REGIONS).map(node).collect();
    Flashed { nodes, _stores: stores, _ways: ways, _database: database }
}

/// Sends a whole limit to a node within a second. Returns how much of it was admitted.
fn flash(node: &Member, limit: &Limit, began: Instant) -> u64 {
    let mut caller = node.caller();
    let per_round = LIMIT / u64::from(ROUNDS);
    let mut admitted = 0;
    for round in 0..ROUNDS {
        let due = FLASH * round / ROUNDS;
        fleet::pause(due.saturating_sub(began.elapsed()));
        (0..per_round).for_each(|_| caller.send("/v1/limit", &limit.json()));
        for _ in 0..per_round {
            let (_, body) = caller.receive();
            admitted += u64::from(body["allowed"] == true);
        }
    }
    admitted
}

#[test]
fn a_flash_to_three_regions_admits_at_most_one_and_a_half_limits() {
    let world = start();
    let is_connected = |node: &Member| node.node.state()["world"]["connected"] == true;
    poll("regions that are connected", JOINED_WITHIN * 2, || {
        world.nodes.iter().all(is_connected).then_some(())
    });
    for round in 0..3 {
        let left = PERIOD.get() - Nanos::from_millis(unix_ms()).get() % PERIOD.get();
        if left < Nanos::from_secs(5).get() {
            fleet::pause(Duration::from_nanos(left));
        }
        let limit = Limit { period: PERIOD, ..Limit::new(&format!("flash {round}"), LIMIT) };
        let began = Instant::now();
        let admitted: Vec<u64> = thread::scope(|scope| {
            let flashes: Vec<_> =
                world.nodes.iter().map(|node| scope.spawn(|| flash(node, &limit, began))).collect();
            flashes.into_iter().map(|flash| flash.join().unwrap()).collect()
        });
        println!("flash {round}: {admitted:?} in {:?}", began.elapsed());
        let sum: u64 = admitted.iter().sum();
        assert!((LIMIT..=LIMIT * 3 / 2).contains(&sum), "{admitted:?} of {LIMIT}");
    }
}

#[expect(clippy::disallowed_methods, reason = "the nodes' windows follow the clock of the machine")]
fn unix_ms() -> u64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
    u64::try_from(since.as_millis()).unwrap()
}
