//! Folding in the store: the same as `redis/fold.lua` computes.

use super::OriginStore;
use crate::owners::{CrowdedCell, FoldStep, FoldedOwners, RememberedNodes};
use std::collections::BTreeSet;
use tidegate_core::origin_cell::NodeId;
use tidegate_core::{CellId, Nanos};

/// The most owners that one step folds.
const OWNERS_PER_STEP: usize = 128;

impl OriginStore {
    /// Folds some of the owners of a cell or a bucket that aren't among the nodes that stay.
    pub fn fold_owners(&mut self, step: &FoldStep, now: Nanos) -> FoldedOwners {
        self.wake(now);
        let CrowdedCell { key, epoch, sequence } = step.cell;
        let stays: BTreeSet<NodeId> = step.stays.iter().copied().collect();
        let is_gone = |node: &NodeId| !stays.contains(node);
        let (gone, owners) = if let Some(sequence) = sequence {
            let id = CellId { key, epoch, sequence };
            if self.windows.get(&id).is_none() {
                return FoldedOwners::default();
            }
            let cell = &mut self.windows.entry(id).cell;
            let gone: Vec<NodeId> = cell.nodes().filter(is_gone).take(OWNERS_PER_STEP).collect();
            gone.iter().for_each(|node| cell.fold(*node));
            (gone, cell.owners())
        } else {
            if self.gcras.get(&(key, epoch)).is_none() {
                return FoldedOwners::default();
            }
            let state = self.gcras.entry((key, epoch));
            let gone: Vec<NodeId> = state.nodes().filter(is_gone).take(OWNERS_PER_STEP).collect();
            gone.iter().for_each(|node| state.fold(*node));
            (gone, state.nodes().count())
        };
        let count = |length| u32::try_from(length).unwrap_or(u32::MAX);
        let next = u64::from(gone.len() == OWNERS_PER_STEP);
        FoldedOwners { next, folded: count(gone.len()), owners: count(owners) }
    }

    /// The nodes that sent a pulse lately.
    pub fn remembered_nodes(&mut self, now: Nanos) -> RememberedNodes {
        let present = self.wake(now);
        self.record.remembered(present)
    }
}
