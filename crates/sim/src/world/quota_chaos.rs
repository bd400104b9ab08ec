//! Scenarios of quotas: demand that moves between regions while everything that carries slices fails, for as long
//! as several leases.

use super::scenario::{HEADROOM, WorldFault, WorldScenario};
use crate::START;
use crate::chaos::signed;
use crate::fault::Fault;
use crate::network::{NetworkOptions, Odds, Way};
use crate::random::Random;
use crate::scenario::{Arrival, KeyPlan, Scenario, gcra, sliding};
use tidegate_core::{Class, Nanos};

/// Slices are leases of 15 s, and somebody who is silent goes to its even part after 45 s.
const LENGTH: Nanos = Nanos::from_secs(100);
/// Demand is another one after each of these.
const SHIFTS_EVERY: Nanos = Nanos::from_secs(12);

/// A scenario of 2 to 4 regions of 1 or 2 nodes.
pub fn scenario(seed: u64) -> WorldScenario {
    let mut random = Scenario::random_of(seed ^ 0x0051_1ce5);
    let policy = match random.below(3) {
        0 => sliding(*random.pick(&[10, 100]), 10),
        _ => gcra(*random.pick(&[7, 10, 30]), *random.pick(&[5, 10, 30])),
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
