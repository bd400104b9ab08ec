//! Random scenarios, thousands of them: every invariant holds at every step, and a seed is one run.

use tidegate_sim::Simulation;
use tidegate_sim::chaos::{Trouble, scenario};
use tidegate_sim::seeds::{TestName, for_each};

fn chaos(test: &'static str, trouble: Trouble, seeds: u64) {
    for_each(TestName { file: "chaos", test }, 0..seeds, |seed| {
        let mut simulation = Simulation::new(scenario(seed, trouble));
        simulation.run();
    });
}

#[test]
fn calm_fleets_stay_within_their_stated_bounds() {
    chaos("calm_fleets_stay_within_their_stated_bounds", Trouble::None, 1_500);
}

#[test]
fn messages_are_lost_late_and_doubled() {
    chaos("messages_are_lost_late_and_doubled", Trouble::Network, 1_500);
}

#[test]
fn nodes_and_stores_fail() {
    chaos("nodes_and_stores_fail", Trouble::Everything, 2_000);
}

#[test]
fn clocks_are_wrong_and_are_set() {
    chaos("clocks_are_wrong_and_are_set", Trouble::Clocks, 1_000);
}

#[test]
fn a_seed_is_one_run() {
    let test = "a_seed_is_one_run";
    for_each(TestName { file: "chaos", test }, 0..100, |seed| {
        let hash = || {
            let mut simulation = Simulation::new(scenario(seed, Trouble::Clocks));
            simulation.run();
            simulation.trace_hash()
        };
        assert_eq!(hash(), hash(), "the same seed went two ways");
    });
}
