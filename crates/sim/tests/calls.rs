//! The load on the store grows with keys and nodes, not with requests.

use tidegate_core::Nanos;
use tidegate_sim::scenario::sliding;
use tidegate_sim::{KeyPlan, START, Scenario, Simulation, arrivals};

const NODES: usize = 3;
const CELL: Nanos = Nanos::from_secs(10);

fn exchanges(simulation: &Simulation, from: Nanos, until: Nanos) -> usize {
    simulation.exchanges().iter().filter(|note| from <= note.at && note.at < until).count()
}

#[test]
fn a_key_at_20_000_a_second_costs_a_thousand_calls_and_then_three() {
    for seed in 0..3 {
        let mut random = Scenario::random_of(seed);
        let (second, third) = (START.plus(CELL), START.plus(CELL).plus(CELL));
        let requests = arrivals::even(&mut random, NODES, 20_000, START, third);
        let key = KeyPlan::new("busy", sliding(10_000, 10));
        let mut simulation = Simulation::new(Scenario::calm(seed, NODES, vec![key]).with_arrivals(requests));
        simulation.run();
        let first = exchanges(&simulation, START, second);
        let saturated = exchanges(&simulation, second, third);
        let admitted = simulation.ledger(0).admitted();
        println!(
            "seed {seed}: {first} calls in the first cell, {saturated} in the second; admitted {admitted}"
        );
        assert!(first <= 1_000, "seed {seed}: {first} calls in the first cell");
        assert!(saturated <= 3_000, "seed {seed}: {saturated} calls in the second, saturated cell");
        assert!((19_600..=20_400).contains(&admitted), "seed {seed}: admitted {admitted} of 20,000");
    }
}

#[test]
fn a_million_denied_requests_cost_nothing_after_the_first_second() {
    let mut random = Scenario::random_of(1);
    let key = KeyPlan::new("attacked", sliding(100, 3600));
    let until = START.plus(Nanos::from_secs(50));
    let requests = arrivals::even(&mut random, NODES, 20_000, START, until);
    let mut simulation = Simulation::new(Scenario::calm(1, NODES, vec![key]).with_arrivals(requests));
    simulation.run();
    let later = exchanges(&simulation, START.plus(Nanos::from_secs(1)), until);
    assert_eq!((later, simulation.ledger(0).admitted()), (0, 100));
    assert!(simulation.ledger(0).denied >= 999_900);
}
