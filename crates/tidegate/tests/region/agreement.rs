//! Nodes that share a store share every limit: exactly where a rule says so, nearly elsewhere.

use crate::fleet::{Algorithm, Limit, Member, PATIENT, fleet, wait_for};
use crate::load::{drain, rush};
use crate::store::{cell_of, total_of};
use crate::support::{SOON, poll};
use tidegate_testkit::Redis;

const ALGORITHMS: [Algorithm; 3] = [Algorithm::Sliding, Algorithm::Fixed, Algorithm::Gcra];

/// What so many nodes admit when each gets the whole limit and more at once, from four threads each.
fn rush_and_drain(nodes: &[Member], limit: &Limit) -> u64 {
    rush(nodes, 4, limit.number / 2, limit).allowed + drain(nodes, limit)
}

#[test]
fn two_nodes_never_admit_more_than_an_exact_limit() {
    let redis = wait_for(Redis::start());
    let nodes = fleet(&redis.url(), 2, &PATIENT);
    for algorithm in ALGORITHMS {
        let limit = Limit::strict("exact", 200).algorithm(algorithm);
        assert_eq!(rush_and_drain(&nodes, &limit), 200, "{algorithm:?}");
    }
}

#[test]
fn three_nodes_never_admit_more_than_an_exact_limit() {
    let redis = wait_for(Redis::start());
    let nodes = fleet(&redis.url(), 3, &PATIENT);
    for algorithm in ALGORITHMS {
        let limit = Limit::strict("exact", 300).algorithm(algorithm);
        assert_eq!(rush_and_drain(&nodes, &limit), 300, "{algorithm:?}");
    }
}

/// Costs of which some fit where others don't: what is left over stays unspent, and nothing is counted twice.
#[test]
fn costs_of_several_units_add_up_to_no_more_than_the_limit() {
    let redis = wait_for(Redis::start());
    let nodes = fleet(&redis.url(), 2, &PATIENT);
    for algorithm in ALGORITHMS {
        let sevens = Limit::strict("costs", 300).algorithm(algorithm).cost(7);
        let ones = sevens.clone().cost(1);
        assert_eq!(rush(&nodes, 4, 30, &sevens).allowed + drain(&nodes, &sevens), 42, "{algorithm:?}");
        assert_eq!(drain(&nodes, &ones), 300 - 42 * 7, "{algorithm:?}");
    }
}

/// A tight burst: every node gets two limits at once.
#[test]
fn a_burst_on_all_nodes_overshoots_by_a_tenth_at_most() {
    let redis = wait_for(Redis::start());
    let nodes = fleet(&redis.url(), 3, &PATIENT);
    for algorithm in ALGORITHMS {
        let limit = Limit::new("bounded", 1000).algorithm(algorithm);
        let tally = rush(&nodes, 2, 1000, &limit);
        let drained = drain(&nodes, &limit);
        let verified = tally.allowed + drained - tally.unverified;
        println!("{algorithm:?}: {tally:?}, and {drained} after it");
        assert!((980 - tally.unverified..=1100).contains(&verified), "{algorithm:?}: {tally:?} {drained}");
    }
}

#[test]
fn what_one_node_spent_the_other_counts() {
    let redis = wait_for(Redis::start());
    let nodes = fleet(&redis.url(), 2, &PATIENT);
    for algorithm in ALGORITHMS {
        let limit = Limit::new("seen", 100).algorithm(algorithm).cost(30);
        for (turn, left) in [70, 40, 10].into_iter().enumerate() {
            let answer = nodes[turn % 2].ask(&limit.clone().exact());
            assert_eq!((answer.is_allowed(), answer.remaining()), (true, left), "{algorithm:?}");
        }
        let denied = nodes[1].ask(&limit);
        assert!(!denied.is_allowed(), "{algorithm:?}: {denied:?}");
        assert_eq!(nodes[0].ask(&limit.cost(10)).remaining(), 0, "{algorithm:?}");
    }
}

/// The store has one component of each node, and they add up to what was admitted.
#[test]
fn the_store_adds_up_what_each_node_admitted() {
    let redis = wait_for(Redis::start());
    let nodes = fleet(&redis.url(), 3, &PATIENT);
    let limit = Limit::new("components", 1000);
    let allowed = rush(&nodes, 1, 50, &limit).allowed;
    assert_eq!(allowed, 150);
    poll("all that was admitted", SOON, || (total_of(&redis, &limit) == 150).then_some(()));
    let cell = cell_of(&redis, &limit).unwrap();
    assert_eq!(cell.components().into_values().collect::<Vec<_>>(), [50, 50, 50], "{}", cell.name);
}

/// Another node hears of it with its next sync. (One that denies by itself has none: it goes on denying.)
#[test]
fn a_key_that_is_reset_starts_afresh_on_all_nodes() {
    let redis = wait_for(Redis::start());
    let nodes = fleet(&redis.url(), 2, &PATIENT);
    let limit = Limit::strict("reset", 10);
    for node in &nodes {
        assert!(node.ask(&limit.clone().cost(4)).is_allowed());
    }
    let reset = nodes[0].caller().post("/v1/reset", &limit.json());
    assert_eq!((reset.status, &reset.body["reset"]), (200, &1.into()), "{}", reset.body);
    assert_eq!(drain(&nodes, &limit), 10);
}
