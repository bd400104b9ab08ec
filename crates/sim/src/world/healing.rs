//! What must hold some time after the last fault: rows are what their regions counted, nothing that the others
//! should hear of is left, and what is spent everywhere is denied everywhere.

use super::WorldSimulation;
use crate::chaos::describe;
use crate::node::VIEW_TTL;
use crate::scenario::{Arrival, KeyPlan};
use std::collections::BTreeMap;
use tidegate_core::world::{CellUsage, is_due, spenders};
use tidegate_core::{Accuracy, CellId, Class, Nanos, WorldPolicy};
use tidegate_node::GivenPolicy;
use tidegate_world::OwnerId;

/// Requests are answered by then.
const ANSWERED_WITHIN: Nanos = Nanos::from_millis(200);

impl WorldSimulation {
    /// Everything that should have healed by now and hasn't.
    pub fn unhealed(&self) -> Vec<String> {
        let mut problems = Vec::new();
        for (cell, rows) in self.rows() {
            let Some(plan) = self.scenario_keys().iter().find(|plan| plan.id() == cell.key) else { continue };
            let (limit, name) = (plan.size(), describe(plan));
            let fades_for = u64::from(matches!(plan.policy, GivenPolicy::Sliding { .. }));
            let has_ended = plan.sequence_at(self.now).is_some_and(|now| now.0 > cell.sequence.0 + fades_for);
            if has_ended {
                // Nobody weighs it any more, and the region's store may have dropped it before its row.
                continue;
            }
            let all_rows: u64 = rows.values().sum();
            for (index, region) in self.regions.iter().enumerate() {
                // Nobody is left who knows of what a node that died was about to name, nor who would bring what it
                // counted to the row's last unit: nodes look at what they count themselves. What the others miss then
                // is less than half of the region's credit.
                if !region.is_inhabited() || !region.is_counted_by_the_living(&cell) {
                    continue;
                }
                let total = region.counted(&cell);
                let owner = self.ledger.owner_of(index);
                let published = owner.and_then(|owner| rows.get(&owner)).copied().unwrap_or_default();
                if published > 0 && published != total {
                    problems.push(format!(
                        "region {index} counted {total} in {cell:?}, and its row is {published}"
                    ));
                }
                // By what it can know: it looks again when the others have used a fortieth more, and so do they.
                let used = (total + all_rows - published).saturating_sub(limit / 20);
                let unpublished = CellUsage { limit, used, total, published };
                // Nodes know of the others what their last syncs said.
                let is_alone = region.known_of_others(&cell) == 0;
                let regions = spenders(self.sharing_regions(), plan.class == Class::Abuse, is_alone);
                if is_due(WorldPolicy::Headroom, &unpublished, regions) {
                    problems.push(format!(
                        "region {index} should have published {unpublished:?} of {name} in {cell:?}"
                    ));
                }
            }
        }
        problems
    }

    /// What each owner has published of each cell.
    fn rows(&self) -> BTreeMap<CellId, BTreeMap<OwnerId, u64>> {
        let mut cells: BTreeMap<CellId, BTreeMap<OwnerId, u64>> = BTreeMap::new();
        for row in self.store.store.components() {
            cells.entry(row.cell).or_default().insert(row.owner, row.count);
        }
        cells
    }

    /// Asks every node for every key that is spent by all rows together, and says who admits it. A node goes by what it
    /// heard for a while, and may have heard just before the last row came.
    pub fn admits_what_is_spent(&mut self) -> Vec<String> {
        let mut spent: Vec<usize> =
            (0..self.scenario_keys().len()).filter(|key| self.is_spent(*key)).collect();
        self.run_until(self.now.plus(VIEW_TTL));
        spent.retain(|key| self.is_spent(*key));
        let now = self.now;
        let admitted = |world: &WorldSimulation, key: usize| -> Vec<u64> {
            world.regions.iter().map(|region| region.ledger(key).admitted()).collect()
        };
        let before: Vec<Vec<u64>> = spent.iter().map(|key| admitted(self, *key)).collect();
        for region in &mut self.regions {
            for node in 0..region.node_count() {
                for key in
                    spent.iter().filter(|key| !region.has_prepaid(node, **key)).copied().collect::<Vec<_>>()
                {
                    region.inject_request(Arrival { at: now, node, template: key });
                }
            }
        }
        self.run_until(now.plus(ANSWERED_WITHIN));
        let mut problems = Vec::new();
        for (key, before) in spent.iter().zip(before) {
            let after = admitted(self, *key);
            if after != before {
                let name = describe(&self.scenario_keys()[*key]);
                problems.push(format!(
                    "key {key}, {name}, is spent, and regions went from {before:?} to {after:?}"
                ));
            }
        }
        problems
    }

    /// Whether the rows of the cell that every region is in sum to the key's limit.
    fn is_spent(&self, key: usize) -> bool {
        let Some(plan) = self.scenario_keys().get(key) else { return false };
        let Some(sequence) = plan.sequence_at(self.now) else { return false };
        let rows = self.rows();
        let cell = CellId { key: plan.id(), epoch: 0, sequence };
        let sum: u64 = rows.get(&cell).map_or(0, |rows| rows.values().sum());
        // A region whose clock is off may be in the next cell soon, or in the one before still.
        let near = Nanos::from_secs(4);
        let is_within = [self.now.minus(near), self.now.plus(near)]
            .iter()
            .all(|instant| plan.sequence_at(*instant) == Some(sequence));
        // Who never asks goes by what it knew when it last heard.
        // What is charged whatever its limit says goes on growing.
        is_within && sum >= plan.size() && plan.accuracy != Accuracy::Async && !plan.charges_always
    }

    pub(super) fn scenario_keys(&self) -> &[KeyPlan] {
        self.regions.first().map_or(&[], |region| region.keys())
    }
}
