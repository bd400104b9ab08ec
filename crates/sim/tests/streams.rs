//! Rules on their way: from a push to the last node, and through everything that can go wrong between.

use tidegate_core::Nanos;
use tidegate_sim::START;
use tidegate_sim::streams::{
    ProcessId, RuleDeliveryTimes, StreamFault, StreamFlaw, StreamRegion, StreamScenario, Streams,
};

const fn at(millis: u64) -> Nanos {
    START.plus(Nanos::from_millis(millis))
}

/// Three regions with two brokers and 50 nodes each, and a change every second.
fn calm(seed: u64) -> StreamScenario {
    let region = |away_ms| StreamRegion { brokers: 2, nodes: 50, away: Nanos::from_millis(away_ms) };
    StreamScenario {
        seed,
        planes: 1,
        regions: vec![region(1), region(40), region(75)],
        changes: (0..20).map(|second| at(1_000 * second)).collect(),
        faults: Vec::new(),
        flaw: None,
        begins_at: START.minus(Nanos::from_secs(5)),
        ends_at: at(25_000),
    }
}

/// How long the last node took to hear of each change.
fn slowest(travelled: &RuleDeliveryTimes) -> Vec<Nanos> {
    let last = |heard_at: &Vec<Nanos>| *heard_at.iter().max().expect("nodes");
    travelled
        .heard_at
        .iter()
        .zip(&travelled.pushed_at)
        .map(|(heard, pushed)| last(heard).minus(*pushed))
        .collect()
}

#[test]
fn all_nodes_hear_of_a_change_within_half_a_second() {
    let travelled = Streams::new(calm(1)).run_and_heal();
    let slowest = slowest(&travelled);
    assert!(slowest.iter().all(|took| *took < Nanos::from_millis(500)), "{slowest:?}");
    assert!(slowest.iter().any(|took| *took > Nanos::from_millis(75)), "it takes time: {slowest:?}");
}

#[test]
fn a_broker_that_dies_costs_its_nodes_little_and_one_that_forgot_serves_again() {
    let mut scenario = calm(2);
    for broker in 0..2 {
        let (who, after) = (ProcessId::Broker(broker), 5_000 * broker as u64);
        scenario.faults.push((at(4_100 + after), StreamFault::Crash { who }));
        scenario.faults.push((at(6_100 + after), StreamFault::Start { who, forgets: true }));
    }
    let travelled = Streams::new(scenario).run_and_heal();
    let slowest = slowest(&travelled);
    assert!(slowest.iter().all(|took| *took < Nanos::from_secs(1)), "{slowest:?}");
}

#[test]
fn without_a_control_plane_nothing_changes_and_when_it_is_back_everything_does() {
    let mut scenario = calm(3);
    let who = ProcessId::Plane(0);
    scenario.faults.push((at(4_500), StreamFault::Crash { who }));
    scenario.faults.push((at(10_500), StreamFault::Start { who, forgets: true }));
    let travelled = Streams::new(scenario).run_and_heal();
    // The fifth push was refused until then.
    assert!(travelled.pushed_at[5] >= at(10_500));
    let late = travelled.heard_at[5].iter().filter(|heard| **heard > at(12_500)).count();
    assert_eq!(late, 0, "{:?}", slowest(&travelled));
}

#[test]
fn a_scenario_is_one_run() {
    let hash = || {
        let mut scenario = calm(4);
        scenario.faults.push((at(3_000), StreamFault::Break { who: ProcessId::Broker(1) }));
        Streams::new(scenario).run_and_heal().trace_hash
    };
    assert_eq!(hash(), hash());
}

/// Two control planes, of which one doesn't reach the log while the other takes changes.
fn half_blind(flaw: Option<StreamFlaw>) -> StreamScenario {
    let mut scenario = StreamScenario { planes: 2, flaw, ..calm(5) };
    scenario.faults.push((at(4_500), StreamFault::LogAway { plane: 1 }));
    scenario.faults.push((at(12_500), StreamFault::LogBack { plane: 1 }));
    scenario
}

#[test]
fn who_follows_a_control_plane_that_doesnt_reach_its_log_knows_that_its_rules_may_be_old() {
    let travelled = Streams::new(half_blind(None)).run_and_heal();
    assert!(slowest(&travelled).iter().any(|took| *took > Nanos::from_secs(3)), "its followers heard late");
}

#[test]
#[should_panic(expected = "was the newest")]
fn a_control_plane_that_confirms_what_it_doesnt_know_is_found() {
    drop(Streams::new(half_blind(Some(StreamFlaw::ConfirmsUnheard))).run_and_heal());
}
