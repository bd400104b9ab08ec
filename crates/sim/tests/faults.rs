//! What stores that forget, fail over, answer nobody or are gone do to a limit, and how fast all is well again.

mod outage;

use tidegate_core::Nanos;
use tidegate_sim::scenario::{gcra, sliding};
use tidegate_sim::seeds::{TestName, for_each};
use tidegate_sim::spread::Spread;
use tidegate_sim::{
    Arrival, Fault, KeyPlan, Latency, LimitUse, NetworkOptions, Odds, START, Scenario, Simulation, Template,
    arrivals,
};

const MINUTE: u64 = 60;

fn after(millis: u64) -> Nanos {
    START.plus(Nanos::from_millis(millis))
}

/// Traffic that spends a limit per minute in 40 s, and goes on to the minute's end.
fn minute(seed: u64, nodes: usize, limit: u64, faults: Vec<(Nanos, Fault)>) -> f64 {
    let mut random = Scenario::random_of(seed);
    let key = KeyPlan::new("counted", sliding(limit, MINUTE));
    let until = START.plus(Nanos::from_secs(MINUTE));
    let requests = arrivals::even(&mut random, nodes, limit / 40, START, until);
    let mut scenario = Scenario::calm(seed, nodes, vec![key]).with_arrivals(requests);
    scenario.faults = faults;
    let mut simulation = Simulation::new(scenario);
    simulation.run();
    simulation.ledger(0).admitted() as f64 / limit as f64
}

/// When so much of the limit is spent.
fn at_percent(percent: u64) -> Nanos {
    after(40_000 * percent / 100)
}

fn within_5_percent(test: &'static str, faults: impl Fn() -> Vec<(Nanos, Fault)>) {
    let name = TestName { file: "faults", test };
    for (nodes, limit) in [(3, 400), (5, 1_000), (9, 4_000)] {
        let ratios = for_each(name, 0..60, |seed| {
            let ratio = minute(seed, nodes, limit, faults());
            assert!((0.95..=1.05).contains(&ratio), "{nodes} nodes admitted {ratio:.3} limits of {limit}");
            ratio
        });
        println!("{test}: limit {limit:>5} × {nodes} nodes  {}", Spread::of(ratios));
    }
}

#[test]
fn a_store_that_forgets() {
    within_5_percent("a_store_that_forgets", || vec![(at_percent(60), Fault::StoreForgets)]);
}

/// As real nodes do: a connection on which nothing comes is given up, and none is made while nobody is heard.
#[test]
fn a_store_that_nobody_hears_is_soon_not_called_any_more() {
    let mut random = Scenario::random_of(1);
    let requests = arrivals::even(&mut random, 3, 500, START, after(16_000));
    let key = KeyPlan::new("rate", gcra(200, 200));
    let mut scenario = Scenario::calm(1, 3, vec![key]).with_arrivals(requests);
    scenario.faults = vec![
        (after(5_000), Fault::RepliesLost { of_10_000: 10_000 }),
        (after(10_000), Fault::RepliesLost { of_10_000: 0 }),
    ];
    let mut simulation = Simulation::new(scenario);
    simulation.run();
    let calls = |from, until| {
        let calls = simulation.exchanges().iter();
        calls.filter(|call| (after(from)..after(until)).contains(&call.at)).count()
    };
    let (well, unheard, mended) = (calls(4_000, 5_000), calls(6_000, 10_000), calls(10_000, 11_500));
    assert!(well > 100 && unheard == 0 && mended > 0, "{well} {unheard} {mended} calls");
}

#[test]
fn acknowledgements_lost_for_5_seconds() {
    within_5_percent("acknowledgements_lost_for_5_seconds", || {
        let begins = at_percent(50);
        let ends = begins.plus(Nanos::from_secs(5));
        vec![(begins, Fault::RepliesLost { of_10_000: 10_000 }), (ends, Fault::RepliesLost { of_10_000: 0 })]
    });
}

#[test]
fn half_of_the_acknowledgements_lost_for_5_seconds() {
    within_5_percent("half_of_the_acknowledgements_lost_for_5_seconds", || {
        let begins = at_percent(50);
        let ends = begins.plus(Nanos::from_secs(5));
        vec![(begins, Fault::RepliesLost { of_10_000: 5_000 }), (ends, Fault::RepliesLost { of_10_000: 0 })]
    });
}

#[test]
fn a_stale_failover() {
    within_5_percent("a_stale_failover", || {
        vec![(at_percent(30), Fault::StoreIsCopied), (at_percent(60), Fault::StoreFailsOver)]
    });
}

#[test]
fn joins_and_deaths_are_known_within_2_seconds() {
    let name = TestName { file: "faults", test: "joins_and_deaths_are_known_within_2_seconds" };
    let known_after = for_each(name, 0..100, |seed| {
        let mut scenario = Scenario::calm(seed, 5, Vec::new());
        scenario.faults =
            vec![(after(0), Fault::Crash { node: 4 }), (after(10_000), Fault::Start { node: 4 })];
        let mut simulation = Simulation::new(scenario);
        let mut until_all_know = |from_ms: u64, nodes: u32| {
            let knows = |simulation: &Simulation, node| simulation.live_nodes(node) == nodes;
            (from_ms..).step_by(10).find(|millis| {
                simulation.run_until(after(*millis));
                (0..4).all(|node| knows(&simulation, node))
            })
        };
        assert_eq!(until_all_know(0, 5), Some(0), "all five were known before");
        let death = until_all_know(10, 4).unwrap_or(u64::MAX);
        let join = until_all_know(10_000, 5).unwrap_or(u64::MAX) - 10_000;
        assert!(death <= 2_000 && join <= 2_000, "a death known after {death} ms, a join after {join} ms");
        (death as f64, join as f64)
    });
    println!("a death is known after ms  {}", Spread::of(known_after.iter().map(|(death, _)| *death)));
    println!("a join is known after ms   {}", Spread::of(known_after.iter().map(|(_, join)| *join)));
}

/// A node that dies between reserving and confirming: what it held is free again after 250 ms.
#[test]
fn a_hold_expires_with_its_node() {
    let name = TestName { file: "faults", test: "a_hold_expires_with_its_node" };
    for_each(name, 0..50, |seed| {
        let keys = vec![KeyPlan::new("one", sliding(10, MINUTE)), KeyPlan::new("other", gcra(1, 10))];
        let mut scenario = Scenario::calm(seed, 2, keys);
        let both = [0, 1].map(|key| LimitUse { key, cost: 10 });
        scenario.templates = vec![Template { limits: both.into_iter().collect(), is_report: false }];
        let millisecond = Nanos::from_millis(1);
        let latency =
            Latency { least: millisecond, most: millisecond, spikes: Odds::NEVER, spike: Nanos::ZERO };
        scenario.network = NetworkOptions { latency, ..NetworkOptions::LOOPBACK };
        scenario.faults = vec![(START.plus(Nanos::new(1_500_000)), Fault::Crash { node: 0 })];
        let come = |millis, node| Arrival { at: after(millis), node, template: 0 };
        let mut simulation =
            Simulation::new(scenario.with_arrivals(vec![come(0, 0), come(240, 1), come(252, 1)]));
        simulation.run_until(after(250));
        assert_eq!(simulation.ledger(0).admitted(), 0, "held back for a node that died");
        simulation.run();
        let admitted = [0, 1].map(|key| simulation.ledger(key).admitted());
        assert_eq!(admitted, [10, 10], "nothing is left of it after 250 ms");
    });
}
