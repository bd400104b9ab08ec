//! Episodes in which a lease is granted in a situation: what leads there happens while the answer is on its way.

use super::arrive;
use crate::START;
use crate::chaos::situations::{HELPER, SUBJECT, is_of_cell, lands_ms, requests_of};
use crate::coverage::{EventKind, NodeState, StoreState, Triple};
use crate::fault::Fault;
use crate::random::Random;
use crate::scenario::{Audit, LimitChange, Scenario, policy_of_size};
use crate::simulation::{Simulation, Situation};
use tidegate_core::Nanos;

/// The situation that a history is looked for in: of a lease the one in which it is drawn.
pub(super) fn before((node, store, event): Triple) -> Situation {
    if event == EventKind::LeaseGranted && expires_under(node, store) {
        return (NodeState::PreviousOnly, Some(store));
    }
    if event == EventKind::LeaseGranted && store == StoreState::Expiring {
        return (node, Some(store));
    }
    // What is drawn is counted at the store first, whatever it holds before.
    let is_after = event == EventKind::LeaseGranted && happens_after(node, store);
    (node_before(node, event), (!is_after).then_some(store))
}

/// Whether a node gets into its state of a cell that expires while the answer is on its way: what it draws is of a later
/// cell, and it goes on to that with the answer.
fn expires_under(node: NodeState, store: StoreState) -> bool {
    let is_led_there = is_of_cell(node) || matches!(node, NodeState::Holding | NodeState::BehindEpoch);
    store == StoreState::Expiring && is_led_there
}

/// What a node is in before it draws a lease, so that it is in `node` when that is granted.
fn node_before(node: NodeState, event: EventKind) -> NodeState {
    match (node, event) {
        (
            NodeState::Spent | NodeState::Unsynced | NodeState::Evicted | NodeState::BehindEpoch,
            EventKind::LeaseGranted,
        ) => NodeState::WithRoom,
        _ => node,
    }
}

/// Whether the store gets into its state after it has granted a lease.
fn happens_after(node: NodeState, store: StoreState) -> bool {
    match (node, store) {
        (NodeState::Holding, _) | (_, StoreState::Absent | StoreState::OtherEpoch) => true,
        (_, StoreState::Reserved) => node != NodeState::PreviousOnly,
        _ => false,
    }
}

/// A key becomes hot, and its node draws. While the answer is on its way, the node and the store get into the situation.
/// `None` where the node draws nothing.
pub(super) fn draw(
    scenario: &mut Scenario,
    (node, store, _): Triple,
    at: Nanos,
    random: &mut Random,
) -> Option<()> {
    let (requests, way) = (requests_of(scenario), scenario.network.latency.least);
    if !scenario.keys[0].is_hot {
        scenario.faults.push((at, Fault::KeyIsHot { key: 0 }));
    }
    let count = match (node, store) {
        // Nothing is spent of what was granted.
        (NodeState::Prepaid, StoreState::BelowFloor) => 0,
        _ if scenario.keys[0].is_hot => 40,
        _ => 1,
    };
    (0..count).for_each(|index| arrive(scenario, at.plus(Nanos::new(index + 1)), SUBJECT, 0));
    if (node, store) == (NodeState::Holding, StoreState::Expiring) {
        arrive(scenario, at.plus(Nanos::new(2)), SUBJECT, requests.both);
    }
    if (node, store) == (NodeState::Prepaid, StoreState::BelowFloor) {
        // More than was granted: the node asks, and draws beside it.
        arrive(scenario, at.plus(Nanos::new(2)), SUBJECT, requests.much);
    }
    scenario.ends_at = scenario.ends_at.max(at.plus(Nanos::from_millis(500)));
    let drawn_at = drawn_at(scenario, at)?;
    let eighths = |eighths: u64| Nanos::new(way.get() / 8 * eighths);
    let later = drawn_at.plus(eighths(4));
    let mut faults = Vec::new();
    match (node, store) {
        (_, StoreState::Absent) => faults.push((later, Fault::KeyIsLost { key: 0 })),
        // Somebody makes the cell anew, without what is held.
        (NodeState::Holding, StoreState::AtFloor) => {
            faults.push((drawn_at.plus(eighths(2)), Fault::KeyIsLost { key: 0 }));
            arrive(scenario, drawn_at.minus(eighths(4)), HELPER, 0);
        }
        (NodeState::Holding, StoreState::BelowFloor) => {
            faults.push((drawn_at.plus(eighths(2)), Fault::StoreForgets));
            arrive(scenario, drawn_at.minus(eighths(4)), HELPER, 0);
        }
        (NodeState::BehindEpoch, StoreState::OtherEpoch) => {}
        (_, StoreState::OtherEpoch) => faults.push((later, Fault::EpochIsLost { key: 0 })),
        (_, StoreState::Reserved) => arrive(scenario, drawn_at.minus(eighths(4)), HELPER, requests.both),
        // What is drawn of a bucket moves its expiry on: but a replica that takes the store's place doesn't know of it.
        (NodeState::Absent | NodeState::Evicted, StoreState::Expiring) => {
            faults.extend([(at, Fault::StoreIsCopied), (later, Fault::StoreFailsOver)]);
        }
        // Its clock is set back into the cell that the store is about to delete.
        (node, StoreState::Expiring) if is_of_cell(node) => {
            let lands_at = START.plus(Nanos::from_millis(lands_ms(node, random)));
            let delta_ns = -i64::try_from(later.minus(lands_at).get()).unwrap_or(0);
            faults.push((later, Fault::StepClock { node: SUBJECT, delta_ns }));
        }
        _ => {}
    }
    let reset = Fault::Reset { node: HELPER, key: 0 };
    match (node, store) {
        (NodeState::BehindEpoch, StoreState::OtherEpoch) => {
            faults.push((drawn_at.minus(eighths(6)), reset));
        }
        // Another node knows of the reset, and the store doesn't any more.
        (NodeState::BehindEpoch, _) => {
            faults.push((drawn_at.minus(eighths(12)), reset));
            faults.push((drawn_at.minus(eighths(2)), Fault::EpochIsLost { key: 0 }));
        }
        (NodeState::Unsynced, StoreState::Expiring) => {}
        (NodeState::Unsynced, _) => arrive(scenario, later, SUBJECT, requests.report),
        (NodeState::Spent, _) => {
            let policy = policy_of_size(&scenario.keys[0].policy, 0);
            let mut heard_at = vec![Nanos::MAX; scenario.nodes];
            heard_at[SUBJECT] = later;
            scenario.changes.push(LimitChange { keys: 0..1, policy, heard_at });
        }
        (NodeState::Evicted, _) => {
            (2..scenario.keys.len()).for_each(|key| arrive(scenario, later, SUBJECT, key));
        }
        _ => {}
    }
    scenario.faults.extend(faults);
    Some(())
}

/// When the store grants node 0 a lease.
fn drawn_at(scenario: &Scenario, from: Nanos) -> Option<Nanos> {
    let scenario = Scenario { audit: Audit::CountsOnly, ..scenario.clone() };
    let until = scenario.ends_at;
    let mut simulation = Simulation::new(scenario);
    simulation.observe_from_now();
    simulation.run_until_drawn(from, until)
}
