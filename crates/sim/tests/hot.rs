//! Hot keys: what is leased is never overspent, costs its origin as much at any rate of requests, and is all
//! admitted in the end.

use tidegate_core::{Accuracy, Nanos};
use tidegate_node::GivenPolicy;
use tidegate_sim::scenario::{fixed, gcra, sliding};
use tidegate_sim::seeds::{TestName, for_each};
use tidegate_sim::spread::Spread;
use tidegate_sim::{Fault, KeyPlan, START, Scenario, Simulation, arrivals};

const NODES: usize = 3;
/// Of each node, a second.
const CALLS_MAX: f64 = 10.0;

fn after(seconds: u64) -> Nanos {
    START.plus(Nanos::from_secs(seconds))
}

/// Even traffic on one hot key. That nobody exceeds the limit is checked at every admission (`checks/bounds.rs`).
fn scenario(seed: u64, key: KeyPlan, per_second: u64, seconds: u64) -> Scenario {
    let mut random = Scenario::random_of(seed);
    let requests = arrivals::even(&mut random, NODES, per_second, START, after(seconds));
    Scenario::calm(seed, NODES, vec![key.hot()]).with_arrivals(requests)
}

fn run(scenario: Scenario) -> Simulation {
    let mut simulation = Simulation::new(scenario);
    simulation.run();
    simulation
}

/// Exchanges of a node in a second, from one second on and before another.
fn calls(simulation: &Simulation, from_s: u64, until_s: u64) -> f64 {
    let within =
        simulation.exchanges().iter().filter(|call| after(from_s) <= call.at && call.at < after(until_s));
    within.count() as f64 / (until_s - from_s) as f64 / NODES as f64
}

/// What was admitted of what could be, and calls a second and node, of traffic that goes on for `seconds`.
fn admits(test: &'static str, policy: GivenPolicy, per_second: u64, seconds: u64, expected: u64, least: f64) {
    let name = TestName { file: "hot", test };
    let figures = for_each(name, 0..6, |seed| {
        let simulation = run(scenario(seed, KeyPlan::new("hot", policy), per_second, seconds));
        let ratio = simulation.ledger(0).admitted() as f64 / expected as f64;
        let calls = calls(&simulation, 1, seconds);
        assert!(calls <= CALLS_MAX, "{calls:.1} calls a second and node");
        assert!((least..=1.02).contains(&ratio), "{ratio:.4} of what could be admitted");
        (ratio, calls)
    });
    println!("{test}: admitted {}", Spread::of(figures.iter().map(|figure| figure.0)));
    println!("{test}: calls a second and node {}", Spread::of(figures.iter().map(|figure| figure.1)));
}

#[test]
fn a_window_that_is_never_full_admits_everything() {
    let policy = sliding(1_000_000, 60);
    admits("a_window_that_is_never_full_admits_everything", policy, 10_000, 8, 80_000, 1.0);
}

#[test]
fn a_sliding_window_that_is_full_admits_what_fades() {
    // One limit, and two more while two cells fade.
    let policy = sliding(20_000, 5);
    admits("a_sliding_window_that_is_full_admits_what_fades", policy, 12_000, 15, 60_000, 0.97);
}

#[test]
fn a_fixed_window_is_spent_to_the_last() {
    let policy = fixed(20_000, 5);
    admits("a_fixed_window_is_spent_to_the_last", policy, 12_000, 15, 60_000, 0.99);
}

#[test]
fn a_bucket_that_is_empty_admits_what_refills() {
    let policy = gcra(5_000, 5_000);
    admits("a_bucket_that_is_empty_admits_what_refills", policy, 12_000, 10, 55_000, 0.98);
}

#[test]
fn a_bucket_that_is_never_empty_admits_everything() {
    let policy = gcra(100_000, 100_000);
    admits("a_bucket_that_is_never_empty_admits_everything", policy, 10_000, 8, 80_000, 1.0);
}

#[test]
fn exact_rules_and_small_limits_are_spent_to_the_last() {
    let name = TestName { file: "hot", test: "exact_rules_and_small_limits_are_spent_to_the_last" };
    for_each(name, 0..20, |seed| {
        for accuracy in [Accuracy::Exact, Accuracy::Bounded, Accuracy::Fast] {
            for limit in [1, 10, 1_000] {
                let key = KeyPlan { accuracy, ..KeyPlan::new("hot", fixed(limit, 60)) };
                let simulation = run(scenario(seed, key, 2_000, 3));
                assert_eq!(simulation.ledger(0).admitted(), limit, "{accuracy:?}");
            }
        }
    });
}

#[test]
fn what_a_dead_node_held_stays_spent_and_is_one_lease_at_most() {
    let name = TestName { file: "hot", test: "what_a_dead_node_held_stays_spent_and_is_one_lease_at_most" };
    let per_second = 12_000;
    let unused = for_each(name, 0..40, |seed| {
        let limit = 30_000;
        let key = KeyPlan::new("hot", fixed(limit, 60));
        let mut scenario = scenario(seed, key, per_second, 5);
        let dies = after(1).plus(Nanos::from_millis(seed * 7));
        scenario.faults = vec![(dies, Fault::Crash { node: 0 })];
        let mut simulation = Simulation::new(scenario);
        simulation.run_until(Nanos::new(dies.get() - 1));
        let held = simulation.prepaid(0, 0);
        simulation.run();
        let unused = limit - simulation.ledger(0).admitted();
        // 100 ms of its share, an eighth to spare, and what was left when that came.
        let lease = per_second / NODES as u64 / 10;
        assert!(unused <= held && held <= lease * 3 / 2, "{unused} unused, {held} held, leases of {lease}");
        unused as f64 / lease as f64
    });
    println!("left unused, in leases  {}", Spread::of(unused));
}
