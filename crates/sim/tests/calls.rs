//! What a busy key costs the origin: calls follow the limit, not the traffic.

use tidegate_core::Nanos;
use tidegate_sim::scenario::sliding;
use tidegate_sim::seeds::{TestName, for_each};
use tidegate_sim::spread::Spread;
use tidegate_sim::{KeyPlan, START, Scenario, Simulation, arrivals};

const NODES: usize = 3;
const PER_SECOND: u64 = 20_000;

/// Even traffic on one key, for some seconds.
fn busy(seed: u64, limit: u64, period_s: u64, seconds: u64) -> Simulation {
    let key = KeyPlan::new("busy", sliding(limit, period_s));
    let until = START.plus(Nanos::from_secs(seconds));
    let mut random = Scenario::random_of(seed);
    let requests = arrivals::even(&mut random, NODES, PER_SECOND, START, until);
    let mut simulation = Simulation::new(Scenario::calm(seed, NODES, vec![key]).with_arrivals(requests));
    simulation.run();
    simulation
}

/// How many exchanges were sent from one second on and before another.
fn exchanges(simulation: &Simulation, from_s: u64, until_s: u64) -> u64 {
    let (from, until) = (START.plus(Nanos::from_secs(from_s)), START.plus(Nanos::from_secs(until_s)));
    let within = simulation.exchanges().iter().filter(|exchange| from <= exchange.at && exchange.at < until);
    within.count() as u64
}

#[test]
fn a_saturated_key_costs_what_it_refills() {
    let name = TestName { file: "calls", test: "a_saturated_key_costs_what_it_refills" };
    let calls = for_each(name, 0..8, |seed| {
        let simulation = busy(seed, 10_000, 10, 20);
        let (first, second) = (exchanges(&simulation, 0, 10), exchanges(&simulation, 10, 20));
        assert!(first <= 1_000, "{first} exchanges in the first cell");
        assert!(second <= 3_000, "{second} exchanges in the second cell");
        (first as f64, second as f64, simulation.ledger(0).admitted() as f64)
    });
    println!("exchanges in the first cell   {}", Spread::of(calls.iter().map(|calls| calls.0)));
    println!("exchanges in the second cell  {}", Spread::of(calls.iter().map(|calls| calls.1)));
    println!("admitted in both              {}", Spread::of(calls.iter().map(|calls| calls.2)));
}

#[test]
fn a_million_denials_cost_nothing() {
    let name = TestName { file: "calls", test: "a_million_denials_cost_nothing" };
    let calls = for_each(name, 0..3, |seed| {
        let simulation = busy(seed, 10_000, 3_600, 52);
        assert!(simulation.ledger(0).denied >= 1_000_000, "{} denials", simulation.ledger(0).denied);
        let later = exchanges(&simulation, 1, 53);
        assert_eq!(later, 0, "denials asked {later} times");
        exchanges(&simulation, 0, 1) as f64
    });
    println!("exchanges until the limit was spent  {}", Spread::of(calls));
}
