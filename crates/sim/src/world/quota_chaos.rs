//! Scenarios of quotas: demand that moves between regions while everything that carries slices fails, for as long
//! as several leases.

use super::scenario::{HEADROOM, WorldFault, WorldScenario};
use crate::START;
use crate::chaos::signed;
use crate::fault::Fault;
use crate::network::{NetworkOptions, Odds, Way};
use crate::random::Random;
use crate::scenario::{Arrival, KeyPlan, LimitChange, Scenario, gcra, limit_of, sliding};
use tidegate_core::{Class, Nanos};
use tidegate_node::GivenPolicy;

/// Slices are leases of 15 s, and somebody who is silent goes to its even part after 45 s.
const LENGTH: Nanos = Nanos::from_secs(100);
/// Demand is another one after each of these.
const SHIFTS_EVERY: Nanos = Nanos::from_secs(12);

/// A scenario of 2 to 4 regions of 1 or 2 nodes, and one that joins in the last fifth.
pub fn scenario(seed: u64) -> WorldScenario {
    let mut random = Scenario::random_of(seed ^ 0x0051_1ce5);
    let policy = match random.below(3) {
        0 => sliding(*random.pick(&[10, 100]), 10),
        // What is rounded is more of a small burst.
        _ => gcra(*random.pick(&[7, 10, 30]), *random.pick(&[3, 5, 7, 10, 30])),
    };
    let key = KeyPlan { class: Class::Abuse, ..KeyPlan::new("shared", policy) };
    let count = 2 + random.index(3);
    let demands: Vec<Vec<u64>> = (0..count).map(|_| demands(&mut random)).collect();
    let mut regions: Vec<Scenario> =
        demands.iter().map(|demands| region(&mut random, &key, demands)).collect();
    let millis: Vec<u64> = (0..count).map(|_| *random.pick(&[0, 60, 150])).collect();
    let mut faults = Vec::new();
    for _ in 0..random.below(7) {
        let index = random.index(count);
        let nodes = regions[index].nodes;
        fault(&mut random, index, nodes, &mut faults);
    }
    if random.one_in(3) {
        // One that joins while the others hold everything.
        let late = random.index(count);
        regions[late].boots_at = START.plus(Nanos::new(random.below(LENGTH.get() / 2)));
    }
    if random.one_in(2) {
        change_limit(&mut random, &mut regions);
    }
    faults.extend(operations(&mut random, count));
    let mut last = region(&mut random, &key, &demands[0]);
    last.boots_at = START.plus(Nanos::new(LENGTH.get() / 5 * 4 + random.below(LENGTH.get() / 5)));
    last.arrivals.retain(|arrival| arrival.at > last.boots_at);
    last.changes = regions[0]
        .changes
        .iter()
        .map(|change| LimitChange { heard_at: vec![last.boots_at; 2], ..change.clone() })
        .collect();
    regions.push(last);
    let mut scenario = WorldScenario::calm(seed, regions, HEADROOM, &millis);
    scenario.networks.iter_mut().for_each(|network| worsen(&mut random, network));
    scenario.store_offset_ns = signed(&mut random, 5_000_000_000);
    scenario.faults = faults;
    scenario.ends_at = START.plus(LENGTH);
    scenario
}

/// Requests a second, one number for each stretch of time.
fn demands(random: &mut Random) -> Vec<u64> {
    let stretches = LENGTH.get() / SHIFTS_EVERY.get() + 1;
    (0..stretches).map(|_| *random.pick(&[0, 1, 5, 20, 40])).collect()
}

fn region(random: &mut Random, key: &KeyPlan, demands: &[u64]) -> Scenario {
    let nodes = 1 + random.index(2);
    let mut region = Scenario::calm(random.next_u64(), nodes, vec![key.clone()]);
    region.origin_offset_ns = signed(random, 2_000_000_000);
    region.clock_offsets_ns =
        (0..nodes).map(|_| region.origin_offset_ns + signed(random, 10_000_000)).collect();
    let mut arrivals = Vec::new();
    for (stretch, per_second) in (0..).zip(demands) {
        let from = START.plus(Nanos::new(stretch * SHIFTS_EVERY.get()));
        let requests = per_second * SHIFTS_EVERY.get() / Nanos::PER_SECOND;
        for _ in 0..requests {
            let at = from.plus(Nanos::new(random.below(SHIFTS_EVERY.get())));
            arrivals.push(Arrival { at, node: random.index(nodes), template: 0 });
        }
    }
    arrivals.sort_by_key(|arrival| arrival.at);
    region.with_arrivals(arrivals)
}

fn worsen(random: &mut Random, network: &mut NetworkOptions) {
    let odds = |random: &mut Random| Odds(*random.pick(&[0, 0, 200, 1_000]));
    network.latency.spikes = odds(random);
    network.latency.spike = Nanos::from_millis(*random.pick(&[300, 3_000]));
    [network.lost_out, network.lost_back, network.doubled] = [odds(random), odds(random), odds(random)];
}

fn fault(random: &mut Random, region: usize, nodes: usize, faults: &mut Vec<(Nanos, WorldFault)>) {
    let at = START.plus(Nanos::new(random.below(LENGTH.get())));
    let length = Nanos::from_secs(*random.pick(&[1, 4, 10, 20, 60]));
    let ends = at.plus(length);
    let (node, way) = (random.index(nodes), *random.pick(&[Way::Out, Way::Back]));
    let mut inside = |at: Nanos, fault: Fault| faults.push((at, WorldFault::Inside { region, fault }));
    match random.below(9) {
        0 | 1 => {
            faults.extend([(at, WorldFault::Cut { region, way }), (ends, WorldFault::Mend { region, way })]);
        }
        2 => {
            inside(at, Fault::Cut { node, way });
            inside(ends, Fault::Mend { node, way });
        }
        3 => inside(at, Fault::Pause { node, length }),
        4 => {
            inside(at, Fault::Crash { node });
            inside(ends, Fault::Start { node });
        }
        5 => inside(at, Fault::StoreForgets),
        6 => faults.push((at, WorldFault::WorkerPauses { region, length })),
        7 => faults.push((at, WorldFault::StorePauses { length })),
        _ => faults.extend([(at, WorldFault::StoreGoesDown), (ends, WorldFault::StoreComesBack)]),
    }
}

/// The limit is another one from some instant on, while slices of the former are out. Nodes learn of it one by one.
fn change_limit(random: &mut Random, regions: &mut [Scenario]) {
    let changes_at = START.plus(Nanos::new(random.below(LENGTH.get() / 2)));
    let late_by = Nanos::from_millis(*random.pick(&[0, 500, 5_000, 30_000]));
    let times = *random.pick(&[(1, 2), (1, 5), (2, 1), (10, 1)]);
    for region in regions {
        let policy = scaled(region.keys[0].policy, times);
        let heard = |_| changes_at.plus(Nanos::new(random.below(late_by.get() + 1)));
        let heard_at = (0..region.nodes).map(heard).collect();
        region.changes = vec![LimitChange { keys: 0..1, policy, heard_at }];
    }
}

fn scaled(policy: GivenPolicy, (times, of): (u64, u64)) -> GivenPolicy {
    let scale = |count: u64| (count * times / of).max(1);
    match policy {
        GivenPolicy::Sliding { limit, period } => {
            GivenPolicy::Sliding { limit: limit_of(scale(limit.get())), period }
        }
        GivenPolicy::Fixed { limit, period } => {
            GivenPolicy::Fixed { limit: limit_of(scale(limit.get())), period }
        }
        GivenPolicy::Gcra { rate, burst } => {
            let per_second = Nanos::PER_SECOND * rate.interval_denominator() / rate.interval_numerator_ns();
            gcra(scale(per_second), scale(burst.get()))
        }
    }
}

/// What operators and broken databases do.
fn operations(random: &mut Random, regions: usize) -> Vec<(Nanos, WorldFault)> {
    let mut faults = Vec::new();
    let instant = |random: &mut Random| START.plus(Nanos::new(random.below(LENGTH.get())));
    if random.one_in(6) {
        faults.push((instant(random), WorldFault::RegionLeaves { region: random.index(regions) }));
    }
    if random.one_in(6) {
        faults.push((instant(random), WorldFault::RegionIsRenamed { region: random.index(regions) }));
    }
    if random.one_in(2) {
        let restored = instant(random);
        let copied = START.plus(Nanos::new(random.below(restored.minus(START).get().max(1))));
        faults.extend([(copied, WorldFault::StoreIsCopied), (restored, WorldFault::StoreIsRestored)]);
    }
    faults
}
