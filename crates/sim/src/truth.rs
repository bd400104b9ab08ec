//! The most that anybody may believe of a key: what was admitted, where what was granted counts as spent.
//!
//! INV-3 is about this: a view above it would deny a caller for what nobody did.

use crate::scenario::KeyPlan;
use std::collections::BTreeMap;
use tidegate_core::gcra_sync::interval_times;
use tidegate_core::origin_cell::NodeId;
use tidegate_core::{Nanos, Rate, Sequence};
use tidegate_node::GivenPolicy;

#[derive(Clone, Debug)]
pub(crate) enum KeyTruth {
    Window {
        plan: KeyPlan,
        cells: BTreeMap<Cell, CellTruth>,
    },
    /// The arrival time of each epoch.
    Bucket {
        rate: Rate,
        tats: BTreeMap<u16, Nanos>,
    },
}

/// A cell of one key: the epoch that it belongs to, and its number.
pub(crate) type Cell = (u16, Sequence);

#[derive(Clone, Debug, Default)]
pub(crate) struct CellTruth {
    owners: BTreeMap<NodeId, Owner>,
    /// The sum of the owners' larger halves, and of what lapsed.
    total: u64,
}

#[derive(Clone, Copy, Debug, Default)]
struct Owner {
    /// What the node admitted.
    admitted: u64,
    /// The highest component that the store ever had of it, grants included.
    stored: u64,
    /// All that it was ever granted there.
    granted: u64,
}

impl Owner {
    fn spent(self) -> u64 {
        self.admitted.max(self.stored)
    }
}

impl CellTruth {
    pub(crate) fn total(&self) -> u64 {
        self.total
    }

    /// The most that the store may hold of a node, or the node publish.
    pub(crate) fn of(&self, node: NodeId) -> u64 {
        self.owners.get(&node).copied().unwrap_or_default().spent()
    }

    fn change(&mut self, node: NodeId, change: impl FnOnce(&mut Owner)) {
        let owner = self.owners.entry(node).or_default();
        let before = owner.spent();
        change(owner);
        self.total = self.total - before + owner.spent();
    }

    pub(crate) fn admit(&mut self, node: NodeId, cost: u64) {
        self.change(node, |owner| owner.admitted += cost);
    }

    /// The node takes so much for what it admitted itself.
    pub(crate) fn remember(&mut self, node: NodeId, own: u64) {
        self.change(node, |owner| owner.admitted = owner.admitted.max(own));
    }

    /// Granted to a node that may have forgotten what it had: as if it were new each time.
    pub(crate) fn grant_anew(&mut self, taken: u64) {
        self.total += taken;
    }

    pub(crate) fn store(&mut self, node: NodeId, component: u64, taken: u64) {
        self.change(node, |owner| {
            owner.stored = owner.stored.max(component);
            owner.granted += taken;
        });
    }

    /// What a node was ever granted.
    pub(crate) fn granted(&self, node: NodeId) -> u64 {
        self.owners.get(&node).map_or(0, |owner| owner.granted)
    }

    /// The store lost what it had of each node. What a node doesn't know of by now counts as spent all the
    /// same, since others may have heard of it; and once more when the node hears of it yet.
    pub(crate) fn lapse(&mut self, known: impl Fn(NodeId) -> ComponentView) {
        for (node, owner) in &mut self.owners {
            let ComponentView { component, is_cold, hears_more } = known(*node);
            let (before, stored) = (owner.spent(), owner.stored);
            owner.admitted = owner.admitted.min(component);
            owner.stored = if is_cold { 0 } else { stored.min(component) };
            // What the owner had beyond that is nobody's now. A cold node can't tell what of it was granted.
            let detached = if is_cold { before.max(owner.spent() + stored) } else { before } - owner.spent();
            if hears_more {
                owner.stored = stored;
            }
            self.total = self.total - before + detached + owner.spent();
        }
    }
}

/// What a node knows of its own component of a cell.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ComponentView {
    pub(crate) component: u64,
    /// The store never told it what it has.
    pub(crate) is_cold: bool,
    /// Answers are still on their way to it.
    pub(crate) hears_more: bool,
}

impl ComponentView {
    pub(crate) const ALL: ComponentView =
        ComponentView { component: u64::MAX, is_cold: false, hears_more: false };
    /// Nobody can tell: everything may be counted twice.
    pub(crate) const ANYTHING: ComponentView =
        ComponentView { component: u64::MAX, is_cold: true, hears_more: true };
}

impl KeyTruth {
    pub(crate) fn new(plan: &KeyPlan) -> Self {
        match plan.policy {
            GivenPolicy::Sliding { .. } | GivenPolicy::Fixed { .. } => {
                KeyTruth::Window { plan: plan.clone(), cells: BTreeMap::new() }
            }
            GivenPolicy::Gcra { rate, .. } => KeyTruth::Bucket { rate, tats: BTreeMap::new() },
        }
    }

    /// A node admitted `cost`, of which `prepaid` had been granted to it before, and counted it in `sequence`.
    pub(crate) fn admit(
        &mut self,
        node: NodeId,
        (cost, prepaid): (u64, u64),
        (epoch, sequence): (u16, Option<Sequence>),
        node_now: Nanos,
    ) {
        match self {
            KeyTruth::Window { plan, cells } => {
                let Some(sequence) = sequence.or_else(|| plan.sequence_at(node_now)) else { return };
                cells.entry((epoch, sequence)).or_default().admit(node, cost);
            }
            KeyTruth::Bucket { .. } => self.spend(epoch, cost.saturating_sub(prepaid), node_now),
        }
    }

    /// A bucket's units were granted or admitted.
    pub(crate) fn spend(&mut self, epoch: u16, units: u64, now: Nanos) {
        if let KeyTruth::Bucket { rate, tats } = self
            && units > 0
        {
            let tat = tats.entry(epoch).or_default();
            *tat = (*tat).max(now).plus(interval_times(*rate, units));
        }
    }

    /// When a bucket that saw everything is full again; zero for a window.
    pub(crate) fn tat(&self, epoch: u16) -> Nanos {
        match self {
            KeyTruth::Window { .. } => Nanos::ZERO,
            KeyTruth::Bucket { tats, .. } => tats.get(&epoch).copied().unwrap_or_default(),
        }
    }

    pub(crate) fn cell_mut(&mut self, cell: Cell) -> Option<&mut CellTruth> {
        match self {
            KeyTruth::Window { cells, .. } => Some(cells.entry(cell).or_default()),
            KeyTruth::Bucket { .. } => None,
        }
    }

    pub(crate) fn total(&self, cell: Cell) -> u64 {
        match self {
            KeyTruth::Window { cells, .. } => cells.get(&cell).map_or(0, CellTruth::total),
            KeyTruth::Bucket { .. } => 0,
        }
    }

    /// What a node admitted in a cell, or was granted.
    pub(crate) fn of(&self, node: NodeId, cell: Cell) -> u64 {
        match self {
            KeyTruth::Window { cells, .. } => cells.get(&cell).map_or(0, |cell| cell.of(node)),
            KeyTruth::Bucket { .. } => 0,
        }
    }

    /// The store lost what it had not yet told: `known` is what a node knows of its own component.
    pub(crate) fn lapse(&mut self, known: impl Fn(NodeId, Cell) -> ComponentView) {
        if let KeyTruth::Window { cells, .. } = self {
            for (id, cell) in cells {
                cell.lapse(|node| known(node, *id));
            }
        }
    }
}
