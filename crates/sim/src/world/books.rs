//! What every step of many regions must satisfy, by books that only this simulation can keep.
//!
//! INV-1 of the world's components, INV-2 of a region's row, and INV-3 of what a region believes of the others.

use crate::simulation::{Simulation, WorldNote};
use std::collections::BTreeMap;
use tidegate_core::CellId;
use tidegate_node::world::{Done, Step};
use tidegate_world::{OwnerId, Store};

#[derive(Debug, Default)]
pub(super) struct Books {
    /// The highest that each component ever was.
    components: BTreeMap<(CellId, OwnerId), u64>,
    /// Whose each owner is.
    regions: BTreeMap<OwnerId, usize>,
    /// Who each region was told last that it is: a store and all its nodes may be new.
    owners: BTreeMap<usize, OwnerId>,
}

impl Books {
    /// A region was told who it is.
    pub(super) fn joined(&mut self, region: usize, done: &Done) {
        if let Done::Joined(Ok(joined)) = done {
            self.regions.insert(joined.me, region);
            self.owners.insert(region, joined.me);
        }
    }

    pub(super) fn owner_of(&self, region: usize) -> Option<OwnerId> {
        self.owners.get(&region).copied()
    }

    fn region_of(&self, owner: OwnerId) -> Option<usize> {
        self.regions.get(&owner).copied()
    }

    /// After some rows were written.
    pub(super) fn written(
        &mut self,
        step: &Step,
        store: &Store,
        regions: &[Simulation],
    ) -> Result<(), String> {
        let Step::Publish(owner, rows) = step else { return Ok(()) };
        let Some(region) = self.region_of(*owner) else { return Err(format!("{owner:?} is nobody's")) };
        for row in rows {
            let id = (row.cell, *owner);
            let stored = store.component(&row.cell, *owner).unwrap_or(0);
            let before = self.components.insert(id, stored).unwrap_or(0);
            if stored < before {
                return Err(format!("INV-1: the component {id:?} shrank from {before} to {stored}"));
            }
            let spent = regions[region].spent(row.cell.key, row.cell.sequence);
            if row.count > spent || stored > spent {
                return Err(format!(
                    "INV-2: region {region} publishes {} in {:?}, the store has {stored}, and {spent} is true",
                    row.count, row.cell
                ));
            }
        }
        Ok(())
    }

    /// A region heard something of the others.
    pub(super) fn heard(&self, region: usize, note: WorldNote, regions: &[Simulation]) -> Result<(), String> {
        let (key, sequence, regional, world) = match note {
            WorldNote::Told(cell) => (cell.cell.key, cell.cell.sequence, cell.own, cell.others),
            WorldNote::Believed { key, sequence, regional, world } => (key, sequence, regional, world),
        };
        let everybody: u64 = regions.iter().map(|region| region.spent(key, sequence)).sum();
        let own = regions[region].spent(key, sequence);
        let has_one_owner = self.regions.values().filter(|of| **of == region).count() <= 1;
        if regional + world > everybody || (has_one_owner && (world > everybody - own || regional > own)) {
            return Err(format!(
                "INV-3: region {region} believes in {regional} and {world} in {sequence:?} of {key:?} by {note:?}, and \
                 {own} and {} is true",
                everybody - own
            ));
        }
        Ok(())
    }

    /// INV-1 once more, of everything.
    pub(super) fn all_there(&self, store: &Store) -> Result<(), String> {
        for ((cell, owner), count) in &self.components {
            let stored = store.component(cell, *owner);
            if stored.is_some_and(|stored| stored < *count) {
                return Err(format!("INV-1: {count} of {owner:?} in {cell:?} became {stored:?}"));
            }
        }
        Ok(())
    }
}
