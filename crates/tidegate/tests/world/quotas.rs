//! Rates that hold over the world: each region enforces a part, parts follow demand and never sum to more.

use crate::fleet::{Member, pause};
use crate::regions::{JOINED_WITHIN, Regions, world_of};
use crate::support::poll;
use serde_json::Value;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;
use tokio::time::Instant;

const RATE: u64 = 100;
/// Targets are measured elsewhere: here a busy machine may take twice as long.
const FOLLOWED_WITHIN: Duration = Duration::from_secs(20);
const TAKEN_OVER_WITHIN: Duration = Duration::from_secs(10);
/// Looks at several nodes that took longer saw no one instant.
const LOOK_WITHIN: Duration = Duration::from_millis(250);
const WHOLE: u64 = 1_000_000_000;

fn body(identifier: &str) -> String {
    format!(
        r#"{{"namespace":"shared","identifier":"{identifier}","rate_per_s":{RATE},"burst":{RATE},"cost":1}}"#
    )
}

fn quotas_of(node: &Member) -> Value {
    world_of(node)["quotas"].clone()
}

/// Until everybody has a part.
fn wait_active(world: &Regions) {
    for node in world.regions.iter().flat_map(|region| &region.nodes) {
        poll("a part for every region", JOINED_WITHIN, || {
            let quotas = quotas_of(node);
            (quotas["is_active"] == true && quotas["members"] == world.regions.len()).then_some(())
        });
    }
}

/// Callers of one region, so many a second, until it is dropped.
struct Load {
    per_second: Arc<AtomicU64>,
    stops: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Load {
    fn start(node: &Member, identifier: &str) -> Self {
        let (per_second, stops) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicBool::new(false)));
        let (mut caller, body) = (node.caller(), body(identifier));
        let (pace, stop) = (per_second.clone(), stops.clone());
        let thread = std::thread::spawn(move || {
            while !stop.load(Ordering::Relaxed) {
                let per_second = pace.load(Ordering::Relaxed);
                if per_second > 0 {
                    caller.post("/v1/limit", &body);
                }
                pause(Duration::from_micros(1_000_000 / per_second.max(5)));
            }
        });
        Load { per_second, stops, thread: Some(thread) }
    }

    fn set(&self, per_second: u64) {
        self.per_second.store(per_second, Ordering::Relaxed);
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        self.stops.store(true, Ordering::Relaxed);
        // A thread that failed has said so.
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

/// Each region's part of the rate, in billionths: the largest that any of its nodes goes by. And whether all were
/// looked at at about one instant.
fn parts(world: &Regions) -> (Vec<u64>, bool) {
    let started = Instant::now();
    let part = |node: &Member| {
        let slice = quotas_of(node)["in_force"][0]["rate_billionths"].as_u64();
        slice.unwrap_or(WHOLE / world.regions.len() as u64)
    };
    let region = |nodes: &[Member]| nodes.iter().map(part).max().unwrap_or(0);
    let parts = world.regions.iter().map(|region_| region(&region_.nodes)).collect();
    (parts, started.elapsed() < LOOK_WITHIN)
}

/// Until a region has such a part; all parts are looked at meanwhile, in the database too.
fn wait_part(world: &Regions, region: usize, at_least: u64) {
    poll("a slice that follows demand", FOLLOWED_WITHIN, || {
        let (parts, is_one_instant) = parts(world);
        assert!(!is_one_instant || parts.iter().sum::<u64>() <= WHOLE + 10, "INV-6: {parts:?}");
        let written =
            world.query("SELECT key_id, SUM(rate_parts), SUM(amount) FROM tidegate_slices GROUP BY key_id");
        for row in &written {
            let [parts, amount] = [&row[1], &row[2]].map(|number| number.parse::<u64>().expect("a sum"));
            assert!(parts <= WHOLE && amount <= RATE, "INV-6 in the database: {row:?}");
        }
        (parts[region] >= at_least).then_some(())
    });
}

#[test]
fn slices_follow_demand_and_never_sum_to_more_than_the_limit() {
    let world = Regions::start(3);
    wait_active(&world);
    let loads: Vec<Load> =
        world.regions.iter().map(|region| Load::start(&region.nodes[0], "shifting")).collect();
    let set = |demands: [u64; 3]| loads.iter().zip(demands).for_each(|(load, demand)| load.set(demand));
    set([200, 5, 5]);
    wait_part(&world, 0, WHOLE / 2);
    set([5, 5, 200]);
    wait_part(&world, 2, WHOLE * 6 / 10);
    let answer = poll("a denial", FOLLOWED_WITHIN, || {
        let answer = world.regions[2].nodes[1].caller().post("/v1/limit", &body("shifting"));
        (!answer.is_allowed()).then_some(answer)
    });
    let limit = &answer.body["limits"][0];
    assert_eq!((answer.path(), &limit["limit"], &limit["remaining"]), ("quota", &RATE.into(), &0.into()));
    assert!(limit["retry_after_ms"].as_u64().is_some_and(|wait| wait < 1_000), "{}", answer.body);
    set([0, 0, 0]);
    poll("the even split", FOLLOWED_WITHIN, || {
        world.query("SELECT 1 FROM tidegate_slices").is_empty().then_some(())
    });
}

#[test]
fn a_reconciler_that_is_killed_is_replaced_and_slices_go_on() {
    let mut world = Regions::start(3);
    wait_active(&world);
    let term = |node: &Member| quotas_of(node)["reconciler_term"].as_u64().unwrap_or(0);
    let (region, node, before) = poll("a reconciler", TAKEN_OVER_WITHIN, || {
        let nodes = world.regions.iter().enumerate().flat_map(|(region, found)| {
            found.nodes.iter().enumerate().map(move |(index, node)| (region, index, term(node)))
        });
        nodes.into_iter().find(|(_, _, term)| *term > 0)
    });
    drop(world.regions[region].nodes.remove(node));
    poll("another one", TAKEN_OVER_WITHIN, || {
        let mut nodes = world.regions.iter().flat_map(|region| &region.nodes);
        nodes.any(|node| term(node) > before).then_some(())
    });
    let load = Load::start(&world.regions[1].nodes[0], "after");
    load.set(200);
    wait_part(&world, 1, WHOLE * 6 / 10);
}
