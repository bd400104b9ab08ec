//! Scenarios that aim at something that went wrong once, with numbers drawn from a seed.
//!
//! The ordinary generator meets each of these rarely: several things have to come in one order within seconds. A pattern
//! only draws when and how much; what is wrong about the outcome is for the oracles to find.

use crate::START;
use crate::fault::Fault;
use crate::random::Random;
use crate::scenario::{Arrival, KeyPlan, LimitChange, LimitUse, Scenario, Template, fixed, gcra, sliding};
use crate::simulation::shard_of;
use tidegate_core::{Accuracy, Class, Nanos};

/// What a scenario aims at.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ChaosPattern {
    /// The store loses data after a node that counted most of a limit has died: the others grow at the same time.
    FloorGrowth,
    /// A node stands still for longer than resets are announced.
    MissedReset,
    /// The store loses a reset that the control plane ordered, and a node joins.
    ReplayedReset,
    /// The limit of a key that is hot and busy becomes 0.
    LoweredLease,
    /// A node stands still between holding some of two keys and admitting the request.
    HeldPause,
    /// A short burst at one node, of a key that is hot and whose window is long.
    LeaseBurst,
    /// Nodes start while the store is away.
    FreeOutage,
    /// The clocks of the nodes differ by more than a window.
    SkewedClocks,
    /// The burst of a bucket that is spent is lowered.
    LoweredBurst,
    /// A store that lost its data grants something to a node that knows nothing, before the others say what a dead node
    /// had counted.
    ClaimAfterGrowth,
}

impl ChaosPattern {
    pub const ALL: [ChaosPattern; 10] = [
        ChaosPattern::FloorGrowth,
        ChaosPattern::MissedReset,
        ChaosPattern::ReplayedReset,
        ChaosPattern::LoweredLease,
        ChaosPattern::HeldPause,
        ChaosPattern::LeaseBurst,
        ChaosPattern::FreeOutage,
        ChaosPattern::SkewedClocks,
        ChaosPattern::LoweredBurst,
        ChaosPattern::ClaimAfterGrowth,
    ];
}

pub(crate) fn scenario(pattern: ChaosPattern, seed: u64) -> Scenario {
    let mut random = Scenario::random_of(seed ^ 0x7061_7474);
    match pattern {
        ChaosPattern::FloorGrowth => floor_growth(seed, &mut random),
        ChaosPattern::MissedReset => missed_reset(seed, &mut random),
        ChaosPattern::ReplayedReset => replayed_reset(seed, &mut random),
        ChaosPattern::LoweredLease => lowered_lease(seed, &mut random),
        ChaosPattern::HeldPause => held_pause(seed, &mut random),
        ChaosPattern::LeaseBurst => lease_burst(seed, &mut random),
        ChaosPattern::FreeOutage => free_outage(seed, &mut random),
        ChaosPattern::SkewedClocks => skewed_clocks(seed, &mut random),
        ChaosPattern::LoweredBurst => lowered_burst(seed, &mut random),
        ChaosPattern::ClaimAfterGrowth => claim_after_growth(seed, &mut random),
    }
}

pub(super) fn at(millis: u64) -> Nanos {
    START.plus(Nanos::from_millis(millis))
}

/// So many requests at one node, evenly between two instants.
fn requests(node: usize, template: usize, count: u64, from_ms: u64, until_ms: u64) -> Vec<Arrival> {
    let gap = Nanos::from_millis(until_ms - from_ms).get() / count.max(1);
    (0..count)
        .map(|index| Arrival { at: at(from_ms).plus(Nanos::new(index * gap)), node, template })
        .collect()
}

fn ordered(mut scenario: Scenario, mut arrivals: Vec<Arrival>, ends_ms: u64) -> Scenario {
    arrivals.sort_by_key(|arrival| arrival.at);
    scenario.faults.sort_by_key(|(at, _)| *at);
    scenario = scenario.with_arrivals(arrivals);
    scenario.ends_at = scenario.ends_at.max(at(ends_ms));
    scenario
}

fn floor_growth(seed: u64, random: &mut Random) -> Scenario {
    let (nodes, limit) = (3 + random.index(3), *random.pick(&[100, 400, 1_000]));
    let policy = if random.one_in(2) { fixed(limit, 3_600) } else { sliding(limit, 3_600) };
    let mut scenario = Scenario::calm(seed, nodes, vec![KeyPlan::new("key 0", policy)]);
    let mut arrivals = requests(0, 0, limit * 6 / 10, 0, 2_000);
    scenario.faults.push((at(6_000 + random.below(1_000)), Fault::StoreForgets));
    if random.one_in(2) {
        scenario.faults.push((at(4_000), Fault::Crash { node: 0 }));
        scenario.faults.push((at(5_000), Fault::Leave { node: 0 }));
    }
    for node in 1..nodes {
        arrivals.extend(requests(node, 0, 1, 3_000, 3_001));
        arrivals.extend(requests(node, 0, limit / 2, 8_000, 8_000 + 100 * limit / 10));
    }
    ordered(scenario, arrivals, 10_000 + 10 * limit)
}

fn claim_after_growth(seed: u64, random: &mut Random) -> Scenario {
    let limit = *random.pick(&[6, 20, 100]);
    let policy = if random.one_in(2) { fixed(limit, 3_600) } else { sliding(limit, 3_600) };
    let mut scenario = Scenario::calm(seed, 3, vec![KeyPlan::new("key 0", policy)]);
    let mut arrivals = requests(2, 0, limit / 2, 0, 300);
    arrivals.extend(requests(1, 0, 1, 600, 601));
    scenario.faults.push((at(1_000), Fault::Crash { node: 2 }));
    let forgets_ms = random.between(1_500, 2_000);
    scenario.faults.push((at(forgets_ms), Fault::StoreForgets));
    arrivals.extend(requests(0, 0, limit / 3, forgets_ms + 1, forgets_ms + random.between(2, 300)));
    ordered(scenario, arrivals, 4_000)
}

fn missed_reset(seed: u64, random: &mut Random) -> Scenario {
    let nodes = 2 + random.index(3);
    let limit = *random.pick(&[3, 10, 50]);
    let mut scenario = Scenario::calm(seed, nodes, vec![KeyPlan::new("key 0", fixed(limit, 3_600))]);
    let arrivals = (0..nodes).flat_map(|node| requests(node, 0, limit, 0, 1_000)).collect();
    let length = Nanos::from_millis(random.between(18_000, 30_000));
    scenario.faults.push((at(2_000), Fault::Pause { node: 1, length }));
    scenario.faults.push((at(2_500 + random.below(1_000)), Fault::Reset { node: 0, key: 0 }));
    ordered(scenario, arrivals, 34_000)
}

fn replayed_reset(seed: u64, random: &mut Random) -> Scenario {
    let (nodes, limit) = (1 + random.index(3), *random.pick(&[10, 20, 100]));
    let accuracy = *random.pick(&[Accuracy::Exact, Accuracy::Bounded]);
    let key = KeyPlan { accuracy, ..KeyPlan::new("key 0", fixed(limit, 3_600)) };
    let mut scenario = Scenario::calm(seed, nodes + 1, vec![key]);
    scenario.absent = vec![nodes];
    let mut arrivals = requests(0, 0, limit / 2, 0, 1_000);
    arrivals.extend(requests(0, 0, limit / 2, 3_000, 4_000));
    arrivals.extend(requests(0, 0, 1, 6_000, 6_001));
    arrivals.extend((0..=nodes).flat_map(|node| requests(node, 0, limit, 9_000, 11_000)));
    scenario.faults.extend([
        (at(1_500 + random.below(1_000)), Fault::ResetIsOrdered { key: 0 }),
        (at(4_500 + random.below(1_000)), Fault::StoreForgets),
        (at(7_000 + random.below(1_000)), Fault::Start { node: nodes }),
    ]);
    ordered(scenario, arrivals, 12_000)
}

fn lowered_lease(seed: u64, random: &mut Random) -> Scenario {
    let nodes = 2 + random.index(2);
    let accuracy = *random.pick(&[Accuracy::Exact, Accuracy::Bounded]);
    let key = KeyPlan { accuracy, ..KeyPlan::new("key 0", sliding(10_000, 10)).hot() };
    let mut scenario = Scenario::calm(seed, nodes, vec![key]);
    let per_node = random.between(500, 1_500);
    let arrivals = (0..nodes).flat_map(|node| requests(node, 0, per_node, 0, 1_500)).collect();
    let heard_at = vec![at(500 + random.below(500)); nodes];
    let policy = sliding(*random.pick(&[0, 0, 10]), 10);
    scenario.changes.push(LimitChange { keys: 0..1, policy, heard_at });
    ordered(scenario, arrivals, 2_000)
}

fn lowered_burst(seed: u64, random: &mut Random) -> Scenario {
    let (nodes, rate) = (1 + random.index(3), *random.pick(&[1, 3]));
    let burst = *random.pick(&[100, 200]);
    let accuracy = *random.pick(&[Accuracy::Exact, Accuracy::Bounded]);
    let key = KeyPlan { accuracy, ..KeyPlan::new("key 0", gcra(rate, burst)) };
    let mut scenario = Scenario::calm(seed, nodes, vec![key]);
    scenario.judges_overshot = true;
    let mut arrivals: Vec<Arrival> = (0..nodes).flat_map(|node| requests(node, 0, burst, 0, 1_000)).collect();
    let heard_at = (0..nodes).map(|_| at(2_000 + random.below(500))).collect();
    scenario.changes.push(LimitChange { keys: 0..1, policy: gcra(rate, 5), heard_at });
    arrivals.extend((0..nodes).flat_map(|node| requests(node, 0, 20, 1_900, 10_000)));
    ordered(scenario, arrivals, 11_000)
}

fn held_pause(seed: u64, random: &mut Random) -> Scenario {
    let plan = |name: &str| KeyPlan {
        class: Class::Abuse,
        accuracy: Accuracy::Exact,
        ..KeyPlan::new(name, fixed(40, 3_600))
    };
    // Two keys that lie on different servers.
    let first = plan("key 0");
    let names = (1..).map(|number| format!("key {number}"));
    let is_elsewhere = |name: &String| shard_of(plan(name).id(), 3) != shard_of(first.id(), 3);
    let second = names.into_iter().find(is_elsewhere).map(|name| plan(&name));
    let mut scenario = Scenario::calm(seed, 3, vec![first.clone(), second.unwrap_or(first)]);
    scenario.shards = 3;
    let cost = *random.pick(&[5, 10, 20]);
    scenario.templates.push(Template {
        limits: [0, 1].into_iter().map(|key| LimitUse { key, cost }).collect(),
        is_report: false,
    });
    // Everybody is an owner before, so that nobody is cold.
    let mut arrivals: Vec<Arrival> = (0..3).flat_map(|node| requests(node, 0, 1, 0, 100)).collect();
    arrivals.extend((0..3).flat_map(|node| requests(node, 1, 1, 100, 200)));
    arrivals.push(Arrival { at: at(1_000), node: 0, template: 2 });
    let pause = at(1_000).plus(Nanos::new(random.between(50_000, 500_000)));
    let length = Nanos::from_millis(random.between(255, 600));
    scenario.faults.push((pause, Fault::Pause { node: 0, length }));
    for node in 1..3 {
        arrivals.extend(requests(node, 2, 40 / cost, 1_255, 1_260));
    }
    ordered(scenario, arrivals, 2_000)
}

fn lease_burst(seed: u64, random: &mut Random) -> Scenario {
    let accuracy = *random.pick(&[Accuracy::Exact, Accuracy::Bounded]);
    let policy = if random.one_in(2) { fixed(1_000, 86_400) } else { sliding(1_000, 3_600) };
    let key = KeyPlan { accuracy, ..KeyPlan::new("key 0", policy).hot() };
    let scenario = Scenario::calm(seed, 2 + random.index(3), vec![key]);
    let length_ms = random.between(30, 200);
    ordered(scenario, requests(0, 0, random.between(300, 600), 0, length_ms), 1_000)
}

fn free_outage(seed: u64, random: &mut Random) -> Scenario {
    let nodes = 2 + random.index(4);
    let policy = if random.one_in(2) { gcra(1, 5) } else { sliding(60, 60) };
    let key = KeyPlan { class: Class::Free, ..KeyPlan::new("key 0", policy) };
    let mut scenario = Scenario::calm(seed, nodes, vec![key]);
    scenario.judges_free = true;
    scenario.faults.push((at(1_000), Fault::StoreGoesDown));
    for node in 0..nodes {
        scenario.faults.push((at(1_500), Fault::Crash { node }));
        scenario.faults.push((at(2_000 + random.below(200)), Fault::Start { node }));
    }
    scenario.faults.push((at(24_000), Fault::StoreComesBack));
    let arrivals = (0..nodes).flat_map(|node| requests(node, 0, 60, 3_000, 23_000)).collect();
    ordered(scenario, arrivals, 25_000)
}

fn skewed_clocks(seed: u64, random: &mut Random) -> Scenario {
    let limit = *random.pick(&[10, 20, 50]);
    let policy = if random.one_in(2) { fixed(limit, 10) } else { sliding(limit, 10) };
    let key = KeyPlan { accuracy: Accuracy::Exact, ..KeyPlan::new("key 0", policy) };
    let mut scenario = Scenario::calm(seed, 3, vec![key]);
    let skew = i64::try_from(random.between(15, 40)).unwrap_or(15) * 1_000_000_000;
    scenario.clock_offsets_ns = vec![0, -skew, skew];
    let arrivals = (0..3).flat_map(|node| requests(node, 0, limit, 1_000, 3_000)).collect();
    ordered(scenario, arrivals, 4_000)
}
