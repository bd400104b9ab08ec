//! When nodes hear of changed limits: by the simulated streams of their brokers, or within a time that the plan says.

use super::perfect::changes_at_once;
use super::plan::{FaultName, Plan, instant, length};
use super::run::BOOTED_BEFORE;
use crate::START;
use crate::random::Random;
use crate::scenario::LimitChange;
use crate::streams::{ProcessId, StreamFault, StreamRegion, StreamScenario, Streams};
use tidegate_core::Nanos;

/// The changed limits that nodes receive, and how long that takes.
pub(crate) struct RuleDelivery {
    /// For each region.
    pub(crate) changes: Vec<Vec<LimitChange>>,
    /// How long the last node took, for the changes of each second.
    pub(crate) slowest_ms: Vec<u64>,
}

impl RuleDelivery {
    pub(crate) fn new(plan: &Plan, seed: u64) -> Self {
        let mut heard =
            RuleDelivery { changes: vec![Vec::new(); plan.region_count()], slowest_ms: Vec::new() };
        for (change, by_node) in changes_at_once(plan).into_iter().zip(received_at(plan, seed)) {
            let at = change.heard_at[0];
            let second = usize::try_from(at.minus(START).get() / Nanos::PER_SECOND).unwrap_or(0);
            // Who never heard of it hadn't by the end.
            let last = by_node.iter().max().map(|last| (*last).min(instant(plan.seconds as f64)));
            let slowest_ms = last.map_or(0, |last| last.minus(at).as_millis_ceil());
            heard.slowest_ms.resize(heard.slowest_ms.len().max(second + 1), 0);
            heard.slowest_ms[second] = heard.slowest_ms[second].max(slowest_ms);
            let mut nodes = by_node.into_iter();
            for (region, changes) in heard.changes.iter_mut().enumerate() {
                let heard_at = nodes.by_ref().take(plan.nodes_of(region)).collect();
                changes.push(LimitChange { heard_at, ..change.clone() });
            }
        }
        heard
    }
}

/// For each change, for each node of all regions.
fn received_at(plan: &Plan, seed: u64) -> Vec<Vec<Nanos>> {
    let mut random = Random::new(seed ^ 0x6368_616e);
    // Changes are pushed in the order of time.
    let mut order: Vec<usize> = (0..plan.change.len()).collect();
    order.sort_by_key(|index| changed_at(plan, *index));
    let is_carried = plan.change.iter().any(|change| change.get_ref().within_ms.is_none());
    let carried =
        is_carried.then(|| Streams::new(streams_of(plan, &order, random.next_u64())).run().heard_at);
    let nodes = (0..plan.region_count()).map(|region| plan.nodes_of(region)).sum();
    let mut of_change =
        |(index, change): (usize, &super::plan::PlannedChange)| match (change.within_ms, &carried) {
            (None, Some(carried)) => {
                let place = order.iter().position(|other| *other == index);
                place.map_or_else(Vec::new, |place| carried[place].clone())
            }
            (within_ms, _) => {
                let within = Nanos::from_millis(within_ms.unwrap_or(0)).get() + 1;
                let at = changed_at(plan, index);
                (0..nodes).map(|_| at.plus(Nanos::new(random.below(within)))).collect()
            }
        };
    plan.change.iter().map(toml::Spanned::get_ref).enumerate().map(&mut of_change).collect()
}

fn changed_at(plan: &Plan, index: usize) -> Nanos {
    instant(plan.change[index].get_ref().at_s)
}

fn streams_of(plan: &Plan, order: &[usize], seed: u64) -> StreamScenario {
    let brokers = usize::try_from(plan.fleet.brokers).unwrap_or(0);
    // There and back is what is planned.
    let away = plan.fleet.away_ms.iter().map(|ms| Nanos::new(Nanos::from_millis(*ms).get() / 2)).cycle();
    let regions = (0..plan.region_count()).zip(away);
    let regions = regions.map(|(region, away)| StreamRegion { brokers, nodes: plan.nodes_of(region), away });
    StreamScenario {
        seed,
        planes: 1,
        regions: regions.collect(),
        changes: order.iter().map(|index| changed_at(plan, *index)).collect(),
        faults: faults_of(plan, brokers),
        flaw: None,
        begins_at: START.minus(BOOTED_BEFORE),
        ends_at: instant(plan.seconds as f64),
    }
}

fn faults_of(plan: &Plan, brokers: usize) -> Vec<(Nanos, StreamFault)> {
    let mut faults = Vec::new();
    for fault in plan.fault.iter().map(toml::Spanned::get_ref) {
        let region = usize::try_from(fault.region).unwrap_or(0);
        let gone: Vec<ProcessId> = match fault.kind {
            FaultName::BrokersDown => {
                (region * brokers..(region + 1) * brokers).map(ProcessId::Broker).collect()
            }
            FaultName::ControlDown => vec![ProcessId::Plane(0)],
            FaultName::ShardFailsOver
            | FaultName::StoreDown
            | FaultName::StoreForgets
            | FaultName::WorldDown => Vec::new(),
        };
        let begins = instant(fault.at_s);
        let ends = begins.plus(length(fault.lasts_s.unwrap_or(0.0)));
        for who in gone {
            faults.push((begins, StreamFault::Crash { who }));
            faults.push((ends, StreamFault::Start { who, forgets: false }));
        }
    }
    faults.sort_by_key(|(at, _)| *at);
    faults
}
