//! What every step of many regions must satisfy, by books that only this simulation can keep.
//!
//! INV-1 of the world's components, INV-2 of a region's row, and INV-3 of what a region believes of the others.

use crate::simulation::{Simulation, StoreDone, StoreStep, WorldNote};
use std::collections::{BTreeMap, BTreeSet};
use tidegate_core::{CellId, Nanos};
use tidegate_node::world::{Step, StepResult};
use tidegate_world::{OwnerId, WorldStore};

/// The highest counts that each component and row ever had, against which every step is checked.
#[derive(Debug, Default)]
pub(super) struct WorldLedger {
    /// The highest that each component ever was.
    components: BTreeMap<(CellId, OwnerId), u64>,
    /// Whose each owner is.
    regions: BTreeMap<OwnerId, usize>,
    /// Who each region was told last that it is: a store and all its nodes may be new.
    owners: BTreeMap<usize, OwnerId>,
    /// The most that each region ever had in the store.
    published: BTreeMap<(CellId, usize), u64>,
    /// Which origin each owner is. One origin has one owner, however its region is called.
    origins: BTreeMap<OwnerId, u64>,
    /// Regions that are cut off, and that the backup which took the store's place doesn't know as members.
    unknown: BTreeSet<usize>,
}

impl WorldLedger {
    /// A region was told who it is.
    pub(super) fn joined(&mut self, region: usize, step: &StoreStep, done: &StoreDone) {
        if let (StoreStep::Work(Step::Join(joining)), StoreDone::Work(StepResult::Joined(Ok(joined)))) =
            (step, done)
        {
            self.regions.insert(joined.me, region);
            self.owners.insert(region, joined.me);
            self.origins.insert(joined.me, joining.origin);
            self.unknown.remove(&region);
        }
    }

    pub(super) fn owner_of(&self, region: usize) -> Option<OwnerId> {
        self.owners.get(&region).copied()
    }

    /// The store lost rows, or an older one took its place.
    pub(super) fn rows_were_lost(&mut self, store: &WorldStore) {
        for ((cell, owner), count) in &mut self.components {
            *count = store.component(cell, *owner).unwrap_or(0);
        }
    }

    /// A backup took the store's place. A region that joined after it was made, and that is cut off, goes on at its even
    /// part, of which the others can't know: docs/world-internals.md says that INV-6 isn't promised then.
    pub(super) fn was_restored(&mut self, store: &WorldStore, is_cut: impl Fn(usize) -> bool) {
        self.rows_were_lost(store);
        let members = store.membership().members;
        let is_member = |owner| members.iter().any(|member| member.owner == owner && member.is_active);
        let unknown = self.owners.iter().filter(|(region, owner)| is_cut(**region) && !is_member(**owner));
        self.unknown = unknown.map(|(region, _)| *region).collect();
    }

    /// The most that a region ever had in the store.
    pub(super) fn published(&self, region: usize, cell: &CellId) -> u64 {
        self.published.get(&(*cell, region)).copied().unwrap_or(0)
    }

    /// What the store has of a region, under any of its names.
    pub(super) fn row(&self, store: &WorldStore, region: usize, cell: &CellId) -> u64 {
        let owners = self.regions.iter().filter(|(_, other)| **other == region);
        owners.filter_map(|(owner, _)| store.component(cell, *owner)).max().unwrap_or(0)
    }

    /// What is counted for two owners. A region whose store forgot which one it is, while nobody who knew could tell
    /// it, is another owner since: what it published before is counted beside what it publishes now.
    pub(super) fn counted_twice(&self, store: &WorldStore, cell: &CellId) -> u64 {
        let twice = self.former_owners().filter_map(|owner| store.component(cell, owner));
        twice.sum()
    }

    fn former_owners(&self) -> impl Iterator<Item = OwnerId> {
        let is_current = |owner: &OwnerId| {
            self.owners.values().any(|current| self.origins.get(current) == self.origins.get(owner))
        };
        self.regions.keys().copied().filter(move |owner| !is_current(owner))
    }

    fn region_of(&self, owner: OwnerId) -> Option<usize> {
        self.regions.get(&owner).copied()
    }

    /// After some rows were written.
    pub(super) fn written(
        &mut self,
        step: &StoreStep,
        store: &WorldStore,
        regions: &[Simulation],
    ) -> Result<(), String> {
        let StoreStep::Work(Step::Publish(owner, rows)) = step else { return Ok(()) };
        let Some(region) = self.region_of(*owner) else { return Err(format!("{owner:?} is nobody's")) };
        for row in rows {
            let id = (row.cell, *owner);
            let stored = store.component(&row.cell, *owner).unwrap_or(0);
            let before = self.components.insert(id, stored).unwrap_or(0);
            let published = self.published.entry((row.cell, region)).or_default();
            *published = (*published).max(stored);
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
    pub(super) fn check_note(
        &self,
        region: usize,
        note: WorldNote,
        regions: &[Simulation],
    ) -> Result<(), String> {
        let (key, sequence, regional, world) = match note {
            WorldNote::Told(cell) => (cell.cell.key, cell.cell.sequence, cell.own, cell.others),
            WorldNote::Believed { key, sequence, regional, world } => (key, sequence, regional, world),
            WorldNote::Granted(_) | WorldNote::Admitted(_) | WorldNote::Denied(_) => return Ok(()),
        };
        // What a clock step carries over is held beside the region's counts, as the other regions' are, and was counted in
        // another cell.
        let is_carried = matches!(note, WorldNote::Believed { .. }) && regions[region].sets_clocks();
        let world = if is_carried { 0 } else { world };
        if self.former_owners().next().is_some() {
            // A region whose origin forgot which one it is, while nobody who knew could tell it, is another owner
            // since. What nodes that couldn't be reached meanwhile remember is counted for both.
            return Ok(());
        }
        let everybody: u64 = regions.iter().map(|region| region.spent(key, sequence)).sum();
        let own = regions[region].spent(key, sequence);
        if world > everybody - own || regional > own {
            return Err(format!(
                "INV-3: region {region} believes in {regional} and {world} in {sequence:?} of {key:?} by {note:?}, and \
                 {own} and {} is true",
                everybody - own
            ));
        }
        Ok(())
    }

    /// INV-6: the parts that are in force sum to no more than the whole.
    pub(super) fn parts_fit(&self, regions: &[Simulation], now: Nanos) -> Result<(), String> {
        let keys = regions.first().map_or(&[][..], |region| region.keys());
        for (key, _) in keys.iter().enumerate().filter(|(_, plan)| plan.is_quota()) {
            let known = regions.iter().enumerate().filter(|(region, _)| !self.unknown.contains(region));
            let parts: Vec<(u64, f64)> = known.map(|(_, region)| region.in_force(key, now)).collect();
            let wholes: Vec<(u64, f64)> = regions.iter().map(|region| region.largest_limit(key)).collect();
            let whole = wholes.iter().map(|whole| whole.0).max().unwrap_or(0);
            let all = wholes.iter().map(|whole| whole.1).fold(0.0, f64::max);
            let amount: u64 = parts.iter().map(|part| part.0).sum();
            let rate: f64 = parts.iter().map(|part| part.1).sum();
            if amount > whole || rate > all * 1.000_001 {
                return Err(format!("INV-6: of key {key}, {whole} at {all}, {parts:?} are in force"));
            }
        }
        Ok(())
    }

    /// INV-1 once more, of everything.
    pub(super) fn all_there(&self, store: &WorldStore) -> Result<(), String> {
        for ((cell, owner), count) in &self.components {
            let stored = store.component(cell, *owner);
            if stored.is_some_and(|stored| stored < *count) {
                return Err(format!("INV-1: {count} of {owner:?} in {cell:?} became {stored:?}"));
            }
        }
        Ok(())
    }
}
