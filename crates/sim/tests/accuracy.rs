//! Unkey's multi-node frame: even traffic to random nodes from a window's start on, some windows long. What is
//! admitted must be within 2 % of what may be: `min(windows × limit, requests)`.
//!
//! A sliding window spends its limit in its first cell, and from then on refills as fast as that fades: one
//! limit per window, whatever the load. So the frame's allowance is also what a perfect limiter admits, but for
//! the rounding of one request per cell, and that is compared too: one engine alone, with the same requests.
//! 1,000 seeds in all, fewer for the rows with more requests.

use tidegate_core::Nanos;
use tidegate_sim::scenario::sliding;
use tidegate_sim::seeds::{TestName, for_each};
use tidegate_sim::spread::Spread;
use tidegate_sim::{Arrival, KeyPlan, START, Scenario, Simulation, admitted_alone, arrivals};

/// Of the allowance.
const LEAST: f64 = 0.98;
const MOST: f64 = 1.02;

/// One row of the frame.
#[derive(Clone, Copy)]
struct Row {
    limit: u64,
    period_s: u64,
    load_percent: u64,
    nodes: usize,
    windows: u64,
}

impl Row {
    fn per_second(self) -> u64 {
        (self.limit * self.load_percent / (100 * self.period_s)).max(1)
    }

    fn arrivals(self, seed: u64) -> Vec<Arrival> {
        let until = START.plus(Nanos::from_secs(self.windows * self.period_s));
        let mut random = Scenario::random_of(seed);
        arrivals::even(&mut random, self.nodes, self.per_second(), START, until)
    }

    /// What the fleet admits of the allowance, and what one engine alone does.
    fn run(self, seed: u64) -> (f64, f64) {
        let key = KeyPlan::new("framed", sliding(self.limit, self.period_s));
        let requests = self.arrivals(seed);
        let total = self.per_second() * self.windows * self.period_s;
        let allowance = (self.windows * self.limit).min(total) as f64;
        let alone = admitted_alone(&key, &requests) as f64 / allowance;
        let scenario = Scenario::calm(seed, self.nodes, vec![key]).with_arrivals(requests);
        let mut simulation = Simulation::new(scenario);
        simulation.run();
        (simulation.ledger(0).admitted() as f64 / allowance, alone)
    }
}

/// Every load of a kind with every number of nodes.
fn rows(limit: u64, period_s: u64, windows: u64, kinds: &[(u64, &[usize])]) -> Vec<Row> {
    let row = |load_percent, nodes| Row { limit, period_s, load_percent, nodes, windows };
    kinds.iter().flat_map(|(load, nodes)| nodes.iter().map(|nodes| row(*load, *nodes))).collect()
}

fn accurate(test: &'static str, rows: &[Row], seeds: u64) {
    let name = TestName { file: "accuracy", test };
    for row in rows {
        let Row { limit, period_s, load_percent, nodes, windows } = *row;
        let ratios = for_each(name, 0..seeds, |seed| {
            let (fleet, alone) = row.run(seed);
            assert!(
                (LEAST..=MOST).contains(&fleet),
                "{fleet:.4} of the allowance; one engine alone: {alone:.4}"
            );
            (fleet, alone)
        });
        println!(
            "{limit:>6}/{period_s:<3} s × {load_percent:>3} % × {nodes} nodes × {windows:>2}   {}   alone {:.4}",
            Spread::of(ratios.iter().map(|(fleet, _)| *fleet)),
            Spread::of(ratios.iter().map(|(_, alone)| *alone)).median,
        );
    }
}

#[test]
fn small_limits_over_seconds() {
    let mut all = rows(100, 10, 10, &[(90, &[1, 3, 5]), (100, &[1, 3, 5]), (200, &[1, 3, 5])]);
    all.extend(rows(100, 30, 5, &[(200, &[9])]));
    accurate("small_limits_over_seconds", &all, 50);
}

#[test]
fn small_limits_over_minutes() {
    let mut all = rows(100, 300, 10, &[(90, &[1, 3, 5]), (150, &[3, 5])]);
    all.extend(rows(100, 300, 3, &[(100, &[9])]));
    accurate("small_limits_over_minutes", &all, 20);
}

#[test]
fn tiny_limits() {
    accurate("tiny_limits", &rows(10, 60, 10, &[(90, &[1, 3, 5]), (150, &[3, 5])]), 56);
}

#[test]
fn medium_limits() {
    accurate("medium_limits", &rows(1_000, 10, 10, &[(90, &[3]), (100, &[3, 5]), (200, &[3, 5])]), 16);
}

#[test]
fn large_limits() {
    accurate("large_limits", &rows(10_000, 60, 5, &[(90, &[3]), (100, &[3, 5]), (200, &[3, 5])]), 4);
}
