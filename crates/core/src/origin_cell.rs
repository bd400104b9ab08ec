//! One cell as a region's origin keeps it: every owner's component, their sum, the floor, the world.
//!
//! The pure half of the region tier: the in-process origin is made of these, and the Redis script computes
//! the same. Everything only grows (INV-1), so two writers at once, a retry or a repeat do no harm.

use crate::counts::CellReply;
use crate::limit::NUMBER_MAX;
use std::collections::BTreeMap;

/// What a store counts up to: the last integer up to which Lua counts without gaps.
const STORED_MAX: u64 = NUMBER_MAX;

/// One process incarnation: the owner of a component.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct NodeId(pub u64);

#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct OriginCell {
    components: BTreeMap<NodeId, u64>,
    /// The sum of the components of owners that are gone.
    folded: u64,
    /// The sum of all components, folded ones included.
    sum: u64,
    /// The highest regional count that anyone claimed: heals a store that forgot.
    floor: u64,
    /// The other regions.
    world: u64,
    /// What the world tier has of this region.
    published: u64,
}

/// What an owner publishes of one cell.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PublishedCell {
    /// The owner's own, absolute component.
    pub component: u64,
    /// The highest component of this owner that the origin has counted before, or may have: it was sent.
    pub acked: u64,
    /// The highest count of the region that the owner knows of.
    pub claim: u64,
}

impl OriginCell {
    /// Takes an owner's absolute component and its claim about the region. Registers it even at 0.
    ///
    /// `acked` is how much of the component the origin has counted before, or may have. Only growth beyond it raises the
    /// floor by addition: nobody else can have claimed that. Example: the store lost node A's 600, and B and C both claim
    /// 602. B then admits 5 and publishes 6 (`acked` 1), C does the same: the floor grows to 607 and to 612. By their
    /// claims alone, 607 each, the second 5 would be lost.
    pub fn publish(&mut self, node: NodeId, cell: PublishedCell) -> CellReply {
        let before = self.component_before(node, &cell).unwrap_or(0);
        if !self.components.contains_key(&node) {
            self.folded -= before;
        }
        let stored = self.components.entry(node).or_default();
        *stored = before.max(cell.component.min(STORED_MAX));
        assert!(*stored >= before, "INV-1: a component never shrinks");
        let growth = stored.saturating_sub(before.max(cell.acked));
        self.sum = add_stored(self.sum, *stored - before);
        self.floor = add_stored(self.floor, growth);
        self.claim(cell.claim.max(self.sum));
        self.read(node)
    }

    /// Returns the owner's component as it is before a publish; `None` where it is no owner.
    ///
    /// An owner that was folded, and is back, has its component taken out of the folded ones: as much as was confirmed to
    /// it, or may have been counted. Example: 7 of A were folded. A comes back and publishes 9, of which it knows that 7
    /// were counted: its component is 7 again, and the sum grows by 2. If A doesn't know whether a call arrived that
    /// carried 8, the sum grows by 1: rather one too few than one twice.
    pub fn component_before(&self, node: NodeId, cell: &PublishedCell) -> Option<u64> {
        let taken = || self.folded.min(cell.acked).min(cell.component);
        self.registered(node).or_else(|| Some(taken()).filter(|taken| *taken > 0))
    }

    /// Adds the component of an owner that is gone to the folded ones. The sum stays as it is.
    pub fn fold(&mut self, node: NodeId) {
        let component = self.components.remove(&node).unwrap_or(0);
        self.folded = add_stored(self.folded, component);
    }

    /// The owners, in order.
    pub fn nodes(&self) -> impl Iterator<Item = NodeId> + '_ {
        self.components.keys().copied()
    }

    /// Takes a claim about the region alone: registers nobody.
    pub fn claim(&mut self, claim: u64) {
        self.floor = self.floor.max(claim.min(STORED_MAX));
    }

    /// Grants a cost that the caller has found to fit: it counts at once, for everybody.
    pub fn grant(&mut self, node: NodeId, cost: u64) -> CellReply {
        let before = self.component(node);
        let claim = add_stored(self.total(), cost);
        let component = add_stored(before, cost);
        self.publish(node, PublishedCell { component, acked: component, claim })
    }

    /// Imports what the world tier says: the region's own row can only raise the floor (INV-5), the other
    /// regions' sum is kept apart and never published again (INV-2).
    pub fn import(&mut self, own_row: u64, other_regions: u64) {
        let (before, owners) = (self.total(), self.components.len());
        self.claim(own_row);
        self.world = self.world.max(other_regions.min(STORED_MAX));
        assert!(self.total() >= before, "INV-5: the own world component only raises");
        assert!(self.components.len() == owners, "INV-5: an import makes nobody an owner");
    }

    /// The world tier has accepted this much of the region.
    pub fn set_published(&mut self, total: u64) {
        self.published = self.published.max(total.min(STORED_MAX));
    }

    pub fn published(&self) -> u64 {
        self.published
    }

    pub fn component(&self, node: NodeId) -> u64 {
        self.components.get(&node).copied().unwrap_or(0)
    }

    /// An owner's component; `None` for a node that is none.
    pub fn registered(&self, node: NodeId) -> Option<u64> {
        self.components.get(&node).copied()
    }

    pub fn owners(&self) -> usize {
        self.components.len()
    }

    /// Loses an owner's component, and every claim: a store that lost some of its data.
    pub fn lose(&mut self, node: NodeId) {
        self.sum = self.sum.saturating_sub(self.components.remove(&node).unwrap_or(0));
        self.floor = self.sum;
    }

    /// The sum of what the owners published.
    pub fn sum(&self) -> u64 {
        self.sum
    }

    /// What the region has admitted.
    pub fn total(&self) -> u64 {
        self.sum.max(self.floor)
    }

    /// What the other regions don't know of yet.
    pub fn unpublished(&self) -> u64 {
        self.total().saturating_sub(self.published)
    }

    /// What the region and the others have admitted: what a limit is compared with.
    pub fn in_use(&self) -> u64 {
        add_stored(self.total(), self.world)
    }

    /// What a node is told, without publishing anything.
    pub fn read(&self, node: NodeId) -> CellReply {
        CellReply {
            component: self.component(node),
            total: self.total(),
            world: self.world,
            published: self.published,
        }
    }
}

/// Saturates at [`STORED_MAX`].
fn add_stored(count: u64, more: u64) -> u64 {
    count.saturating_add(more).min(STORED_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn published(component: u64, claim: u64) -> PublishedCell {
        PublishedCell { component, acked: component, claim }
    }

    #[test]
    fn survivors_that_grow_at_the_same_time_are_both_counted_beside_what_only_they_remember() {
        let mut cell = OriginCell::default();
        cell.publish(NodeId(2), PublishedCell { component: 1, acked: 1, claim: 602 });
        cell.publish(NodeId(3), PublishedCell { component: 1, acked: 1, claim: 602 });
        cell.publish(NodeId(2), PublishedCell { component: 6, acked: 1, claim: 607 });
        let reply = cell.publish(NodeId(3), PublishedCell { component: 6, acked: 1, claim: 607 });
        assert_eq!((reply.total, cell.sum()), (612, 12));
        cell.publish(NodeId(3), PublishedCell { component: 6, acked: 1, claim: 607 });
        assert_eq!(cell.total(), 612, "a publish that is repeated counts once");
    }

    #[test]
    fn a_folded_owner_that_is_back_is_not_counted_twice() {
        let mut cell = OriginCell::default();
        cell.publish(NodeId(1), published(7, 7));
        cell.publish(NodeId(2), published(3, 10));
        cell.fold(NodeId(1));
        assert_eq!((cell.total(), cell.sum(), cell.owners()), (10, 10, 1));
        let back = PublishedCell { component: 9, acked: 7, claim: 12 };
        assert_eq!(cell.component_before(NodeId(1), &back), Some(7));
        let reply = cell.publish(NodeId(1), back);
        assert_eq!((reply.component, reply.total, cell.sum(), cell.owners()), (9, 12, 12, 2));
        let new = PublishedCell { component: 4, acked: 0, claim: 0 };
        assert_eq!(cell.component_before(NodeId(3), &new), None);
        assert_eq!(cell.publish(NodeId(3), new).total, 16, "nothing of another owner was folded");
    }

    #[test]
    fn a_publish_is_absolute_and_a_claim_heals() {
        let mut cell = OriginCell::default();
        cell.publish(NodeId(1), published(5, 5));
        cell.publish(NodeId(1), published(5, 5));
        let reply = cell.publish(NodeId(2), published(3, 20));
        assert_eq!(reply, CellReply { component: 3, total: 20, world: 0, published: 0 });
        assert_eq!(cell.publish(NodeId(1), published(4, 0)).component, 5);
        assert_eq!(cell.owners(), 2);
    }

    #[test]
    fn a_grant_counts_for_everybody_at_once() {
        let mut cell = OriginCell::default();
        assert_eq!(cell.grant(NodeId(1), 4), CellReply { component: 4, total: 4, world: 0, published: 0 });
        assert_eq!(cell.publish(NodeId(2), published(0, 0)).total, 4);
    }

    #[test]
    fn a_claim_alone_and_a_reading_register_nobody() {
        let mut cell = OriginCell::default();
        cell.claim(7);
        assert_eq!(cell.read(NodeId(1)), CellReply { component: 0, total: 7, world: 0, published: 0 });
        assert_eq!(cell.owners(), 0);
    }

    #[test]
    fn counts_stop_at_2_to_the_53() {
        let mut cell = OriginCell::default();
        cell.publish(NodeId(1), published(u64::MAX, 0));
        assert_eq!(
            cell.publish(NodeId(2), published(5, u64::MAX)),
            CellReply { component: 5, total: 1 << 53, world: 0, published: 0 }
        );
        cell.import(0, u64::MAX);
        assert_eq!(cell.in_use(), 1 << 53);
    }

    #[test]
    fn the_own_world_row_raises_the_total_and_the_others_stay_apart() {
        let mut cell = OriginCell::default();
        cell.publish(NodeId(1), published(5, 5));
        cell.import(3, 7);
        assert_eq!((cell.total(), cell.publish(NodeId(1), published(5, 5)).world), (5, 7));
        cell.import(9, 6);
        assert_eq!((cell.total(), cell.publish(NodeId(1), published(5, 5)).world), (9, 7));
        cell.set_published(9);
        cell.set_published(4);
        assert_eq!((cell.published(), cell.unpublished()), (9, 0));
        cell.publish(NodeId(1), published(14, 14));
        assert_eq!(cell.unpublished(), 5, "what the others don't know of");
    }
}
