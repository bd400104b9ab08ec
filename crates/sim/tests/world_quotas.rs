//! Quotas over many regions: the parts of a limit that are in force never sum to more than it, whatever fails; and
//! mistakes made on purpose are found.

use std::panic::{AssertUnwindSafe, catch_unwind};
use tidegate_control::Flaw;
use tidegate_core::Nanos;
use tidegate_sim::scenario::gcra;
use tidegate_sim::seeds::{TestName, for_each};
use tidegate_sim::spread::Spread;
use tidegate_sim::world::quota_chaos::scenario;
use tidegate_sim::world::scenario::{HEADROOM, WorldScenario};
use tidegate_sim::{KeyPlan, START, Scenario, WorldSimulation, arrivals};

const PER_SECOND: u64 = 100;

fn after(seconds: u64) -> Nanos {
    START.plus(Nanos::from_secs(seconds))
}

/// Regions of two nodes that know of each other, 60 and 150 ms from the world store; for each, what is sent a
/// second before and after 30 s.
fn shifting(seed: u64, demands: &[(u64, u64)]) -> WorldSimulation {
    let mut random = Scenario::random_of(seed);
    let key = KeyPlan::new("shared", gcra(PER_SECOND, PER_SECOND));
    let region = |(before, later): &(u64, u64)| {
        let stretches = [(*before, START, after(30)), (*later, after(30), after(60))];
        let busy = stretches.into_iter().filter(|(per_second, ..)| *per_second > 0);
        let requests = busy
            .flat_map(|(per_second, from, until)| arrivals::even(&mut random, 2, per_second, from, until));
        let requests = requests.collect();
        let mut region = Scenario::calm(random.next_u64(), 2, vec![key.clone()]).with_arrivals(requests);
        region.boots_at = START.minus(Nanos::from_secs(20));
        region
    };
    let regions = demands.iter().map(region).collect();
    let mut world = WorldSimulation::new(WorldScenario::calm(seed, regions, HEADROOM, &[60, 150]));
    world.run();
    world
}

/// What a region admitted a second, of what the limit admits.
fn rate(world: &WorldSimulation, region: usize, from_s: u64, until_s: u64) -> f64 {
    let admitted = world.region(region).ledger(0).admitted_between(after(from_s), after(until_s));
    admitted as f64 / (PER_SECOND * (until_s - from_s)) as f64
}

#[test]
fn parts_follow_a_shift_of_demand_within_10_seconds() {
    let test = "parts_follow_a_shift_of_demand_within_10_seconds";
    let shares = for_each(TestName { file: "world_quotas", test }, 0..5, |seed| {
        let world = shifting(seed, &[(60, 15), (45, 15), (45, 120)]);
        let last = rate(&world, 2, 40, 60);
        let all: f64 = (0..3).map(|region| rate(&world, region, 40, 60)).sum();
        assert!(last >= 0.63, "the third region asks for all that the others leave, 0.7, and gets {last:.3}");
        assert!(all <= 1.01, "{all:.3} of the limit is admitted");
        last
    });
    println!("40/30/30 to 10/10/80: the third region's share from 10 s on  {}", Spread::of(shares));
}

#[test]
fn a_region_alone_gets_most_of_the_limit_within_10_seconds() {
    let test = "a_region_alone_gets_most_of_the_limit_within_10_seconds";
    let shares = for_each(TestName { file: "world_quotas", test }, 0..5, |seed| {
        let world = shifting(seed, &[(150, 150), (0, 0), (0, 0)]);
        let alone = rate(&world, 0, 10, 30);
        assert!(alone >= 0.80, "it gets {alone:.3}");
        alone
    });
    println!("alone of three: its share from 10 s on  {}", Spread::of(shares));
}

#[test]
fn parts_in_force_fit_the_limit_at_every_instant() {
    let test = "parts_in_force_fit_the_limit_at_every_instant";
    for_each(TestName { file: "world_quotas", test }, 0..150, |seed| {
        WorldSimulation::new(scenario(seed)).run();
    });
}

/// The first of 300 seeds that finds a mistake of the reconciler.
fn is_found(flaw: Flaw) {
    let found = (0..300).find(|seed| {
        let mut scenario = scenario(*seed);
        scenario.regions.iter_mut().for_each(|region| region.flaw = flaw);
        let panicked = catch_unwind(AssertUnwindSafe(|| WorldSimulation::new(scenario).run())).err();
        let message = panicked.and_then(|panicked| panicked.downcast_ref::<String>().cloned());
        message.is_some_and(|message| message.contains("INV-6"))
    });
    println!("{flaw:?} is found by seed {found:?}");
    assert!(found.is_some(), "{flaw:?} is found by none of 300 seeds");
}

#[test]
fn raising_before_lowering() {
    is_found(Flaw::RaisesFirst);
}

#[test]
fn ignoring_silence() {
    is_found(Flaw::IgnoresSilence);
}

#[test]
fn new_regions_that_hold_something_at_once() {
    is_found(Flaw::ActivatesAtOnce);
}
