//! How much more than its limit may be admitted, by the bounds of docs/design.md: INV-7 for GCRA, and the same for
//! windows.

use crate::network::Odds;
use crate::scenario::{KeyPlan, Scenario};
use crate::{Fault, NetworkOptions};
use std::collections::BTreeSet;
use tidegate_core::Nanos;
use tidegate_node::GivenPolicy;

/// A clock that is further off than this is set when its node hears the region's time.
const SET_FROM_NS: i64 = 50_000_000;

/// What can be relied on in a scenario.
#[derive(Debug)]
pub(crate) struct Bounds {
    /// No clock is off: nodes and the store agree on every instant. And the store never forgets: one that did may charge a bucket twice for what was admitted before, by up
    /// to a few percent (docs/design.md, "GCRA over several nodes").
    pub(crate) buckets_are_exact: bool,
    /// No clock is ever set: a node's cells come one after the other.
    pub(crate) clocks_are_steady: bool,
    /// A node's own clock jumps.
    pub(crate) has_jumps: bool,
    /// Every call is answered before its request gives up.
    pub(crate) is_calm: bool,
    /// The tables hold every key.
    pub(crate) is_roomy: bool,
    /// There are other regions.
    pub(crate) has_world: bool,
    /// Keys that are charged whatever their limits say, or whose limits change.
    overdrawn: BTreeSet<usize>,
}

impl Bounds {
    pub(crate) fn of(scenario: &Scenario) -> Self {
        let jumps = |fault: &(Nanos, Fault)| matches!(fault.1, Fault::StepClock { .. });
        let reports = scenario.templates.iter().filter(|template| template.is_report);
        let forgets = |fault: &(Nanos, Fault)| {
            let fault = &fault.1;
            matches!(fault, Fault::StoreForgets | Fault::StoreFailsOver | Fault::ShardFailsOver { .. })
        };
        let off_by = |offset: &i64| (offset - scenario.origin_offset_ns).abs();
        let are_close = scenario.clock_offsets_ns.iter().all(|offset| off_by(offset) <= SET_FROM_NS);
        let has_jumps = scenario.faults.iter().any(jumps);
        let is_set = scenario.faults.iter().any(|(_, fault)| fault.sets_clock());
        let clocks_are_steady = are_close && !is_set;
        let clocks_are_right = clocks_are_steady
            && scenario.origin_offset_ns == 0
            && scenario.clock_drifts_ppm.iter().all(|drift| *drift == 0)
            && scenario.clock_offsets_ns.iter().all(|offset| *offset == 0);
        Bounds {
            clocks_are_steady,
            has_jumps,
            buckets_are_exact: clocks_are_right
                && scenario.world.is_none()
                && scenario.changes.is_empty()
                && !scenario.faults.iter().any(forgets),
            is_calm: scenario.faults.is_empty()
                && scenario.world.is_none()
                && answers_in_time(&scenario.network, scenario.wakes_within),
            is_roomy: scenario.keys_max > 2 * scenario.keys.len().max(512),
            has_world: scenario.world.is_some(),
            overdrawn: reports
                .flat_map(|template| &template.limits)
                .map(|limit| limit.key)
                .chain((0..scenario.keys.len()).filter(|key| scenario.keys[*key].is_ruled()))
                .chain(scenario.changes.iter().flat_map(|change| change.keys.clone()))
                .chain(scenario.faults.iter().filter_map(|(_, fault)| reset_key(fault)))
                .collect(),
        }
    }

    /// Compares what a key's meter shows for the admitting node alone.
    pub(crate) fn check(&self, key: usize, plan: &KeyPlan, alone: u64) -> Result<(), String> {
        if !self.is_roomy || !self.clocks_are_steady || self.overdrawn.contains(&key) {
            return Ok(());
        }
        let alone_max = self.alone_max(plan);
        let name = if matches!(plan.policy, GivenPolicy::Gcra { .. }) { "INV-7" } else { "overshoot" };
        if alone > alone_max {
            return Err(format!("{name}: one node alone holds {alone} of key {key}, more than {alone_max}"));
        }
        Ok(())
    }

    /// What one node may admit on its own view, with what was granted to it ahead.
    fn alone_max(&self, plan: &KeyPlan) -> u64 {
        let size = plan.size() + plan.drawn_ahead() + in_flight(plan);
        match plan.policy {
            // What was granted stays prepaid while the bucket refills beside it: what was drawn ahead, and what
            // came too late.
            GivenPolicy::Gcra { .. } if self.is_calm => size + plan.drawn_ahead(),
            GivenPolicy::Gcra { .. } => size + plan.drawn_ahead() + plan.size(),
            _ => size,
        }
    }
}

/// A bucket refills between a grant and its spending.
fn in_flight(plan: &KeyPlan) -> u64 {
    match plan.policy {
        GivenPolicy::Gcra { .. } => plan.drawn_ahead().div_ceil(2) + 1,
        _ => 0,
    }
}

/// The key that a fault resets: a node may admit its limit once more.
fn reset_key(fault: &Fault) -> Option<usize> {
    match fault {
        Fault::Reset { key, .. } | Fault::ResetIsOrdered { key } => Some(*key),
        _ => None,
    }
}

fn answers_in_time(network: &NetworkOptions, wakes_within: Nanos) -> bool {
    let NetworkOptions { latency, lost_out, lost_back, doubled } = *network;
    let slowest = if latency.spikes == Odds::NEVER { latency.most } else { latency.most.max(latency.spike) };
    // The call in flight, and the one after it; each may leave late.
    let wait = slowest.plus(slowest).plus(slowest).plus(slowest);
    let wait = wait.plus(wakes_within).plus(wakes_within).plus(wakes_within);
    [lost_out, lost_back, doubled] == [Odds::NEVER; 3] && wait < Nanos::from_millis(5)
}
