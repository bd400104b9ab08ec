//! One cell as a region's origin keeps it: every owner's component, their sum, the floor, the world.
//!
//! The pure half of the region tier: the in-process origin is made of these, and the Redis script computes
//! the same. Everything only grows (INV-1), so two writers at once, a retry or a repeat do no harm.

use crate::counts::CellReply;
use crate::window::{COUNT_MAX, add_count};
use std::collections::BTreeMap;

/// One process incarnation: the owner of a component.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct NodeId(pub u64);

#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct OriginCell {
    components: BTreeMap<NodeId, u64>,
    sum: u64,
    /// The highest regional count that anyone claimed: heals a store that forgot.
    floor: u64,
    /// The other regions.
    world: u64,
    /// What the world tier has of this region.
    published: u64,
}

impl OriginCell {
    /// Takes an owner's absolute component and its claim about the region. Registers it even at 0.
    pub fn publish(&mut self, node: NodeId, component: u64, claim: u64) -> CellReply {
        let stored = self.components.entry(node).or_default();
        let before = *stored;
        *stored = before.max(component.min(COUNT_MAX));
        assert!(*stored >= before, "INV-1: a component never shrinks");
        self.sum = add_count(self.sum, *stored - before);
        self.floor = self.floor.max(claim.min(COUNT_MAX)).max(self.sum);
        self.reply(node)
    }

    /// Grants a cost that the caller has found to fit: it counts at once, for everybody.
    pub fn grant(&mut self, node: NodeId, cost: u64) -> CellReply {
        let component = add_count(self.component(node), cost);
        let claim = add_count(self.total(), cost);
        self.publish(node, component, claim)
    }

    /// Imports what the world tier says: the region's own row can only raise the floor (INV-5), the other
    /// regions' sum is kept apart and never published again (INV-2).
    pub fn import(&mut self, own_row: u64, other_regions: u64) {
        let before = self.total();
        self.floor = self.floor.max(own_row.min(COUNT_MAX));
        self.world = self.world.max(other_regions.min(COUNT_MAX));
        assert!(self.total() >= before, "INV-5: the own world component only raises");
    }

    /// The world tier has accepted this much of the region.
    pub fn set_published(&mut self, total: u64) {
        self.published = self.published.max(total);
    }

    pub fn published(&self) -> u64 {
        self.published
    }

    pub fn component(&self, node: NodeId) -> u64 {
        self.components.get(&node).copied().unwrap_or(0)
    }

    pub fn owners(&self) -> usize {
        self.components.len()
    }

    /// What the region has admitted.
    pub fn total(&self) -> u64 {
        self.sum.max(self.floor)
    }

    fn reply(&self, node: NodeId) -> CellReply {
        CellReply { component: self.component(node), total: self.total(), world: self.world }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_publish_is_absolute_and_a_claim_heals() {
        let mut cell = OriginCell::default();
        cell.publish(NodeId(1), 5, 5);
        cell.publish(NodeId(1), 5, 5);
        let reply = cell.publish(NodeId(2), 3, 20);
        assert_eq!(reply, CellReply { component: 3, total: 20, world: 0 });
        assert_eq!(cell.publish(NodeId(1), 4, 0).component, 5);
        assert_eq!(cell.owners(), 2);
    }

    #[test]
    fn a_grant_counts_for_everybody_at_once() {
        let mut cell = OriginCell::default();
        assert_eq!(cell.grant(NodeId(1), 4), CellReply { component: 4, total: 4, world: 0 });
        assert_eq!(cell.publish(NodeId(2), 0, 0).total, 4);
    }

    #[test]
    fn the_own_world_row_raises_the_total_and_the_others_stay_apart() {
        let mut cell = OriginCell::default();
        cell.publish(NodeId(1), 5, 5);
        cell.import(3, 7);
        assert_eq!((cell.total(), cell.publish(NodeId(1), 5, 5).world), (5, 7));
        cell.import(9, 6);
        assert_eq!((cell.total(), cell.publish(NodeId(1), 5, 5).world), (9, 7));
        cell.set_published(9);
        cell.set_published(4);
        assert_eq!(cell.published(), 9);
    }
}
