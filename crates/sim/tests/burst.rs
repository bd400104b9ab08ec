//! Tight bursts: every node is sent two limits within 100 ms. 1,002 seeds in all, fewer for the larger limits.

use tidegate_core::Nanos;
use tidegate_sim::scenario::sliding;
use tidegate_sim::seeds::{TestName, for_each};
use tidegate_sim::spread::Spread;
use tidegate_sim::{KeyPlan, START, Scenario, Simulation, arrivals};

/// A tenth over the limit, for all nodes together.
const BAR: f64 = 1.10;

/// What all nodes admitted together, in limits.
fn admitted(seed: u64, nodes: usize, limit: u64) -> f64 {
    let mut random = Scenario::random_of(seed);
    let key = KeyPlan::new("bursting", sliding(limit, 60));
    let length = Nanos::from_millis(100);
    let requests = arrivals::burst(&mut random, nodes, 2 * limit, START, length);
    let mut simulation = Simulation::new(Scenario::calm(seed, nodes, vec![key]).with_arrivals(requests));
    simulation.run();
    simulation.ledger(0).admitted() as f64 / limit as f64
}

fn burst(test: &'static str, limit: u64, seeds: u64) {
    let name = TestName { file: "burst", test };
    for nodes in [3, 5, 9] {
        let ratios = for_each(name, 0..seeds, |seed| {
            let ratio = admitted(seed, nodes, limit);
            assert!(ratio <= BAR, "{nodes} nodes admitted {ratio:.3} limits of {limit}");
            ratio
        });
        println!("limit {limit:>6} × {nodes} nodes  {}", Spread::of(ratios));
    }
}

#[test]
fn of_100() {
    burst("of_100", 100, 230);
}

#[test]
fn of_1000() {
    burst("of_1000", 1_000, 92);
}

#[test]
fn of_10000() {
    burst("of_10000", 10_000, 12);
}
