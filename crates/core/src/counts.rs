//! The counts of one cell as one node knows them, and how they merge (docs/design.md, "Cells,
//! components and tiers").
//!
//! `own` grows by what this node admits, everything else only by what the stores report, and every merge is
//! a maximum. So a retry can't count twice, a lost reply costs nothing, and a store that forgets is healed by
//! the next publish. What a store says is checked, never asserted on.

use crate::window::{COUNT_MAX, add_count};

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Counts {
    /// What this node admitted.
    pub own: u64,
    /// This node's component as the origin last reported it.
    pub stored: u64,
    /// The rest of the region.
    pub others: u64,
    /// The other regions. Never published again (INV-2).
    pub world: u64,
}

/// What the origin answers to a sync of one cell.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CellReply {
    /// This node's component there.
    pub component: u64,
    /// The region's total: the sum of the components, or the floor if that is higher.
    pub total: u64,
    pub world: u64,
    /// How much of the total the world tier has: what is beyond it, other regions don't know yet.
    pub published: u64,
}

/// A reply that no honest store gives. The counts were left as they were.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum ReplyError {
    #[error("the store reports a component of {component} in a total of {total}")]
    ComponentAboveTotal { component: u64, total: u64 },
    #[error("the store reports a count of {count}, more than any cell can hold")]
    Implausible { count: u64 },
    #[error("the store answers about another algorithm")]
    OtherAlgorithm,
}

impl Counts {
    /// What this node publishes: what it admitted, or was granted if that is more. With the grant in it, a
    /// store that forgot gets its prepaid part back too, and nobody takes that for somebody else's.
    pub fn component(&self) -> u64 {
        self.own.max(self.stored)
    }

    /// What the region has admitted, as far as this node knows.
    pub fn regional(&self) -> u64 {
        add_count(self.component(), self.others)
    }

    /// To decide by: it may exceed what a cell can hold, and then denies.
    #[inline]
    pub fn effective(&self) -> u64 {
        self.component().saturating_add(self.others).saturating_add(self.world)
    }

    /// What an admission of this node is decided on: prepaid is this node's own to spend.
    #[inline]
    pub fn spent(&self) -> u64 {
        self.own.saturating_add(self.others).saturating_add(self.world)
    }

    /// Granted by the origin, not yet spent.
    pub fn prepaid(&self) -> u64 {
        self.stored.saturating_sub(self.own)
    }

    /// Admitted, not yet known to the origin; also what was spent since the last sync.
    pub fn unsynced(&self) -> u64 {
        self.own.saturating_sub(self.stored)
    }

    /// Counts an admission of this node.
    pub fn admit(&mut self, cost: u64) {
        let before = *self;
        self.own = add_count(self.own, cost);
        assert!(self.own >= before.own, "INV-1: a component never shrinks");
        assert!(
            (self.others, self.world) == (before.others, before.world),
            "INV-2: only the own one is written"
        );
    }

    /// Merges a reply in which `granted` is new. A node that had forgotten what it published before counts
    /// that as its own again: it did admit it.
    pub(crate) fn take(
        &mut self,
        reply: CellReply,
        granted: u64,
        had_forgotten: bool,
    ) -> Result<(), ReplyError> {
        let mut after = *self;
        if had_forgotten {
            after.own = add_count(after.own, reply.component.saturating_sub(granted));
        }
        after.merge(reply)?;
        *self = after;
        Ok(())
    }

    /// Merges the origin's reply.
    pub fn merge(&mut self, reply: CellReply) -> Result<(), ReplyError> {
        let CellReply { component, total, world, published } = reply;
        if let Some(count) = [component, total, world, published].into_iter().find(|count| *count > COUNT_MAX)
        {
            return Err(ReplyError::Implausible { count });
        }
        if component > total {
            return Err(ReplyError::ComponentAboveTotal { component, total });
        }
        let before = *self;
        self.stored = component;
        self.others = self.others.max(total - component);
        self.world = self.world.max(world);
        assert!(self.own == before.own, "INV-2: a reply never writes the own component");
        assert!(self.others >= before.others && self.world >= before.world, "INV-1: merge is max");
        let news = component.saturating_sub(before.component())
            + (total - component).saturating_sub(before.others)
            + world.saturating_sub(before.world);
        assert!(
            self.effective() <= before.effective().saturating_add(news),
            "INV-3: a view grows by no more than what is new to it"
        );
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lost_reply_and_a_retry_count_once() {
        let mut counts = Counts::default();
        counts.admit(5);
        let reply = CellReply { component: 5, total: 12, world: 3, published: 0 };
        counts.merge(reply).unwrap();
        counts.merge(reply).unwrap();
        assert_eq!((counts.regional(), counts.effective(), counts.unsynced()), (12, 15, 0));
    }

    #[test]
    fn a_late_grant_is_prepaid_and_spent_first() {
        let mut counts = Counts::default();
        counts.merge(CellReply { component: 4, total: 10, world: 0, published: 0 }).unwrap();
        assert_eq!((counts.prepaid(), counts.regional()), (4, 10));
        counts.admit(3);
        assert_eq!((counts.prepaid(), counts.regional()), (1, 10));
        counts.admit(2);
        assert_eq!((counts.prepaid(), counts.regional(), counts.unsynced()), (0, 11, 1));
    }

    #[test]
    fn a_store_that_forgets_is_healed_and_never_refills() {
        let mut counts = Counts::default();
        counts.admit(6);
        counts.merge(CellReply { component: 6, total: 20, world: 0, published: 0 }).unwrap();
        counts.merge(CellReply { component: 0, total: 0, world: 0, published: 0 }).unwrap();
        assert_eq!((counts.regional(), counts.unsynced()), (20, 6));
    }

    #[test]
    fn nonsense_changes_nothing() {
        let mut counts = Counts { own: 1, stored: 1, others: 2, world: 3 };
        let before = counts;
        assert!(counts.merge(CellReply { component: 5, total: 4, world: 0, published: 0 }).is_err());
        assert!(counts.merge(CellReply { component: 0, total: u64::MAX, world: 0, published: 0 }).is_err());
        assert_eq!(counts, before);
        let full = CellReply { component: 0, total: COUNT_MAX, world: COUNT_MAX, published: COUNT_MAX };
        assert!(counts.merge(full).is_ok(), "a count that saturated is one");
    }
}
