//! What is drawn before a history begins: the key, and the requests that a situation may need.

use super::{NEWCOMER, SHARDS, is_of_cell};
use crate::coverage::{EventKind, NodeState, StoreState, Triple};
use crate::random::Random;
use crate::scenario::{KeyPlan, LimitUse, Scenario, Template};
use crate::simulation::shard_of;
use tidegate_core::{Accuracy, Class};

/// Calls that are slow are met on their way.
pub(super) fn is_slow((node, store, event): Triple) -> bool {
    matches!(node, NodeState::Holding | NodeState::Prepaid)
        || store == StoreState::Reserved
        || event == EventKind::LeaseGranted
}

pub(super) fn limit_of((node, store, event): Triple, random: &mut Random) -> u64 {
    match node {
        NodeState::Leased => 1_000,
        _ if event == EventKind::LeaseGranted => 1_000,
        NodeState::Spent if store != StoreState::BelowFloor => *random.pick(&[10, 20, 40]),
        NodeState::Spent => 40,
        _ => *random.pick(&[200, 1_000]),
    }
}

pub(super) fn class_of((node, store, event): Triple, random: &mut Random) -> Class {
    match node {
        // A request while a lease is on its way would move the node on to the next cell.
        node if is_of_cell(node) && store == StoreState::Expiring && event == EventKind::LeaseGranted => {
            Class::Abuse
        }
        // A request meanwhile would create an entry.
        NodeState::Absent if event == EventKind::LeaseGranted && store != StoreState::BelowFloor => {
            Class::Abuse
        }
        // What comes too late for its request isn't admitted meanwhile.
        NodeState::Prepaid => Class::Abuse,
        NodeState::Unsynced => Class::Paid,
        _ => *random.pick(&[Class::Paid, Class::Paid, Class::Free, Class::Abuse]),
    }
}

pub(super) fn accuracy_of((node, store, event): Triple, random: &mut Random) -> Accuracy {
    match (node, store) {
        (NodeState::Holding | NodeState::Prepaid, _) | (_, StoreState::Reserved) => Accuracy::Exact,
        (NodeState::Leased, _) => *random.pick(&[Accuracy::Bounded, Accuracy::Fast, Accuracy::Exact]),
        (NodeState::Unsynced, StoreState::Expiring) if event == EventKind::LeaseGranted => Accuracy::Bounded,
        (NodeState::Unsynced, _) if event == EventKind::LeaseGranted => Accuracy::Exact,
        (NodeState::Unsynced, _) => *random.pick(&[Accuracy::Async, Accuracy::Bounded, Accuracy::Fast]),
        _ => *random.pick(&[Accuracy::Bounded, Accuracy::Exact]),
    }
}

pub(super) fn scenario_of(seed: u64, key: &KeyPlan, is_crowded: bool) -> Scenario {
    let names = (1..).map(|number| format!("key {number}"));
    let named =
        |name: &String| KeyPlan { is_hot: false, ..KeyPlan { identifier: name.clone(), ..key.clone() } };
    let is_elsewhere = |name: &String| shard_of(named(name).id(), SHARDS) != shard_of(key.id(), SHARDS);
    let second = names.into_iter().find(is_elsewhere).map_or_else(|| key.clone(), |name| named(&name));
    let mut keys = vec![key.clone(), second];
    if is_crowded {
        keys.extend((0..4).map(|index| named(&format!("filler {index}"))));
    }
    let mut scenario = Scenario::calm(seed, NEWCOMER + 1, keys);
    scenario.absent = vec![NEWCOMER];
    scenario.shards = SHARDS;
    scenario.keys_max = if is_crowded { 2 } else { scenario.keys_max };
    let size = key.size();
    let template = |limits: &[(usize, u64)], is_report| Template {
        limits: limits.iter().map(|(key, cost)| LimitUse { key: *key, cost: *cost }).collect(),
        is_report,
    };
    scenario.templates.extend([
        template(&[(0, 1), (1, 1)], false),
        template(&[(0, size)], false),
        template(&[(0, size + 1)], false),
        template(&[(0, 0)], false),
        template(&[(0, 1)], true),
        template(&[(0, size.div_ceil(4))], false),
        template(&[(0, size)], true),
        template(&[(0, (2 * size).div_ceil(5))], false),
    ]);
    scenario
}
