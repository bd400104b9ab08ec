//! How much more than a limit regions admit together, by simulation: the bounds of docs/world.md for 3 and 10 regions.
//!
//! Every region has two nodes and its own origin, and is 60 or 150 ms away from the world store, there and back.

use tidegate_core::{Class, Nanos};
use tidegate_sim::scenario::sliding;
use tidegate_sim::seeds::{TestName, for_each};
use tidegate_sim::spread::Spread;
use tidegate_sim::world::scenario::{HEADROOM, WorldScenario};
use tidegate_sim::{Arrival, KeyPlan, Random, START, Scenario, WorldSimulation, arrivals};
use tidegate_world::{PublishPolicy, PublishThreshold};

const LIMIT: u64 = 1_000;
const PERIOD_S: u64 = 300;
const NODES: usize = 2;
const SEEDS: u64 = 3;
const MILLIS_AWAY: [u64; 2] = [60, 150];
/// Regions know of each other when traffic comes.
const BOOTED_BEFORE: Nanos = Nanos::from_secs(20);
const FLOOR: PublishPolicy = PublishPolicy { publish: PublishThreshold::Floor(0.5), ..HEADROOM };

fn after(seconds: u64) -> Nanos {
    START.plus(Nanos::from_secs(seconds))
}

/// What was admitted in limits, by all regions together; and of that, from `rests_at` on.
fn admitted(
    seed: u64,
    regions: usize,
    class: Class,
    policy: PublishPolicy,
    requests: impl Fn(&mut Random, usize) -> Vec<Arrival>,
    rests_at: Nanos,
) -> (f64, f64) {
    let mut random = Scenario::random_of(seed);
    let key = KeyPlan { class, ..KeyPlan::new("barred", sliding(LIMIT, PERIOD_S)) };
    let region = |index: usize| {
        let requests = requests(&mut random, index);
        let mut region = Scenario::calm(random.next_u64(), NODES, vec![key.clone()]).with_arrivals(requests);
        region.boots_at = START.minus(BOOTED_BEFORE);
        region
    };
    let regions: Vec<Scenario> = (0..regions).map(region).collect();
    let mut world = WorldSimulation::new(WorldScenario::calm(seed, regions, policy, &MILLIS_AWAY));
    world.run();
    let of_limit = |admitted: u64| admitted as f64 / LIMIT as f64;
    (of_limit(world.admitted(0)), of_limit(world.admitted_between(0, rests_at, Nanos::MAX)))
}

fn seeds_of(test: &'static str, what: &str, bound: Option<f64>, run: impl Fn(u64) -> (f64, f64)) {
    let ratios = for_each(TestName { file: "world_bars", test }, 0..SEEDS, |seed| {
        let (ratio, later) = run(seed);
        assert!(bound.is_none_or(|bound| ratio <= bound), "{what}: {ratio:.3} limits were admitted");
        assert!(bound.is_none() || later == 0.0, "{what}: {later:.3} limits were admitted later");
        ratio
    });
    println!("{what}  {}", Spread::of(ratios));
}

/// All classes and both policies; only some have a bound.
fn variants(
    test: &'static str,
    bound: impl Fn(Class, PublishPolicy) -> Option<f64>,
    requests: impl Fn(&mut Random, usize, usize) -> Vec<Arrival>,
    rests_at: Nanos,
) {
    for regions in [3, 10] {
        for (name, policy) in [("headroom", HEADROOM), ("floor", FLOOR)] {
            for class in [Class::Paid, Class::Abuse] {
                let what = format!("{test}: {regions:>2} regions, {name:<8}, {class:?}");
                seeds_of(test, &what, bound(class, policy), |seed| {
                    let requests = |random: &mut Random, index| requests(random, regions, index);
                    admitted(seed, regions, class, policy, requests, rests_at)
                });
            }
        }
    }
}

/// A region's requests, one after the other.
fn even(random: &mut Random, per_second: u64, from: Nanos, until: Nanos) -> Vec<Arrival> {
    arrivals::even(random, NODES, per_second, from, until)
}

#[test]
fn even_load() {
    let bound = |_, policy: PublishPolicy| (policy == HEADROOM).then_some(1.05);
    variants("even_load", bound, |random, _, _| even(random, 10, START, after(70)), after(60));
}

/// All regions but the last spend up to 49 % of the limit each, and rest; then the last one sends all of it.
#[test]
fn resting_below_the_floor() {
    let requests = |random: &mut Random, regions: usize, index: usize| {
        if index + 1 < regions {
            return even(random, 7, START, after(70));
        }
        even(random, 100, after(75), after(85))
    };
    let bound = |_, policy: PublishPolicy| (policy == HEADROOM).then_some(1.05);
    variants("resting_below_the_floor", bound, requests, after(100));
}

/// All regions but the last spend a little less than what they would publish, and rest.
#[test]
fn resting_below_half_the_credit() {
    let requests = |random: &mut Random, regions: usize, index: usize| {
        if index + 1 < regions {
            let mut requests = even(random, 10, START, after(20));
            requests.truncate(usize::try_from(LIMIT).unwrap_or(0) / (4 * regions) - 4);
            return requests;
        }
        even(random, 100, after(25), after(45))
    };
    let bound = |_, policy: PublishPolicy| (policy == HEADROOM).then_some(1.05);
    variants("resting_below_half_the_credit", bound, requests, after(60));
}

/// Every region is sent a whole limit within a second; then some more until nothing is admitted any more.
#[test]
fn a_flash_everywhere() {
    let requests = |random: &mut Random, _, _| {
        let second = Nanos::from_secs(1);
        let mut requests = arrivals::burst(random, NODES, LIMIT / NODES as u64, START, second);
        requests.extend(even(random, 20, after(1), after(40)));
        requests
    };
    let bound = |class, policy: PublishPolicy| (policy == HEADROOM && class == Class::Abuse).then_some(1.30);
    variants("a_flash_everywhere", bound, requests, after(11));
}
