//! The oracle of conservation: once all is calm, nothing that a living region counted or published is missing
//! elsewhere, but for what the accounts allow.

use super::WorldSimulation;
use super::oracle::{before, cell_of};
use crate::chaos::describe;
use crate::scenario::KeyPlan;
use tidegate_core::world::{CellUsage, is_due, spenders};
use tidegate_core::{CellId, Class, Nanos, Sequence, WorldPolicy};
use tidegate_node::GivenPolicy;

/// So near to the end of a cell, regions whose clocks differ may be in different ones.
const NEAR: Nanos = Nanos::from_secs(4);

/// Regions needn't believe in a count of more than so many limits.
const PLAUSIBLE_TIMES: u64 = 16;

impl WorldSimulation {
    /// What is missing somewhere though somebody who lives knows of it.
    pub fn is_conserved(&self) -> Result<(), String> {
        for (key, plan) in self.scenario_keys().iter().enumerate() {
            for sequence in self.live_cells(plan) {
                let cell = cell_of(plan, sequence);
                for region in (0..self.regions.len()).filter(|region| self.regions[*region].is_inhabited()) {
                    self.is_conserved_of(region, plan, &cell).map_err(|problem| {
                        format!(
                            "conservation: region {region}, key {key} ({}), {sequence:?}: {problem}",
                            describe(plan)
                        )
                    })?;
                }
            }
        }
        Ok(())
    }

    /// How many regions share limits, by the store's word: one that left before it ever joined is none of them.
    pub(super) fn sharing_regions(&self) -> u32 {
        let members = self.store.store.membership().members.len();
        u32::try_from(members.clamp(1, self.regions.len())).unwrap_or(u32::MAX)
    }

    /// The cells of a key that still count, in every region alike; none near the end of one.
    pub(super) fn live_cells(&self, plan: &KeyPlan) -> Vec<Sequence> {
        let at = |instant: Nanos| plan.sequence_at(instant).filter(|_| !plan.is_quota());
        let Some(current) = at(self.now) else { return Vec::new() };
        if [self.now.minus(NEAR), self.now.plus(NEAR)].into_iter().any(|near| at(near) != Some(current)) {
            return Vec::new();
        }
        match plan.policy {
            GivenPolicy::Sliding { .. } => vec![current, before(current)],
            _ => vec![current],
        }
    }

    fn is_conserved_of(&self, region: usize, plan: &KeyPlan, cell: &CellId) -> Result<(), String> {
        let counted = self.regions[region].cell_at_store(cell);
        let row = self.ledger.row(&self.store.store, region, cell);
        // A row that is lost is found by the worker that published it, or by a node that knows of the cell and names it.
        // When the processes of both are gone, nobody looks before somebody asks about the key again.
        let is_known = self.regions[region].known_by_nodes(cell) > 0;
        if is_known && row < counted.published {
            return Err(format!("it published {}, and the world store has {row}", counted.published));
        }
        let others = (0..self.regions.len()).filter(|other| *other != region);
        // A larger count changes nothing: there is nothing left of the limit in any case.
        let believed = plan.size().max(1).saturating_mul(PLAUSIBLE_TIMES);
        let others = others.map(|other| self.ledger.row(&self.store.store, other, cell).min(believed));
        let others = others.sum::<u64>().min(believed);
        if counted.world < others {
            return Err(format!("the others published {others}, and its store knows of {}", counted.world));
        }
        let known = self.regions[region].known_by_nodes(cell);
        if self.scenario.judges_data_loss && known > counted.total {
            return Err(format!("a node knows of {known}, and its store of {}", counted.total));
        }
        self.is_published(region, plan, cell)
    }

    /// What a region counted and the others don't know of is within its credit. A row is looked for wherever
    /// something was counted.
    fn is_published(&self, region: usize, plan: &KeyPlan, cell: &CellId) -> Result<(), String> {
        // Nobody is left who would name what a node that died counted, nor what its store had of it.
        let is_current = plan.sequence_at(self.now) == Some(cell.sequence);
        if !is_current || !self.regions[region].is_counted_by_the_living(cell) {
            return Ok(());
        }
        let counted = self.regions[region].cell_at_store(cell);
        let published = self.ledger.row(&self.store.store, region, cell);
        // By what it can know: it looks again when the others have used a fortieth more.
        let limit = plan.size();
        let used = (counted.total + counted.world).saturating_sub(limit / 20);
        let unpublished = CellUsage { limit, used, total: counted.total, published };
        let earlier_cell = cell_of(plan, before(cell.sequence));
        let earlier = self.regions[region].cell_at_store(&earlier_cell);
        // Nodes know of the others what their last syncs said.
        let of_others = [cell, &earlier_cell].map(|cell| self.regions[region].known_of_others(cell));
        let is_alone = of_others == [0, 0] && published + earlier.published > 0;
        let regions = spenders(self.sharing_regions(), plan.class == Class::Abuse, is_alone);
        if is_due(WorldPolicy::Headroom, &unpublished, regions) {
            return Err(format!("it counted {}, and its row is {published}", counted.total));
        }
        Ok(())
    }
}
