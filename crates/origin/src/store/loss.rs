//! What a store may lose, for the simulator: one key, a part of it, or what nodes share beside their counts.

use super::OriginStore;
use super::nodes::Nodes;
use tidegate_core::counts::CellReply;
use tidegate_core::origin_cell::NodeId;
use tidegate_core::{CellId, KeyId};

impl OriginStore {
    /// Loses everything about one key: its cells, its epoch, and the last order that reset it.
    pub fn lose_key(&mut self, key: KeyId) {
        self.windows.remove_where(|cell| cell.key == key);
        self.gcras.remove_where(|(other, _)| *other == key);
        self.lose_epoch(key);
        self.reset_ids.remove_where(|other| *other == key);
    }

    /// Loses how often a key was reset.
    pub fn lose_epoch(&mut self, key: KeyId) {
        self.epochs.remove_where(|other| *other == key);
    }

    /// Loses what one node counted in the cells of a key. What nodes claimed of the region goes with it.
    pub fn lose_component(&mut self, key: KeyId, node: NodeId) {
        for (_, window) in self.windows.values_where(|cell: &CellId| cell.key == key) {
            window.cell.lose(node);
        }
    }

    /// Loses which bursts the debts of buckets were made with.
    pub fn lose_bursts(&mut self) {
        for (_, state) in self.gcras.values_where(|_| true) {
            state.lose_burst();
        }
    }

    /// Loses which nodes live, whose secret it keeps, and which keys were reset lately.
    pub fn lose_coordination(&mut self) {
        self.nodes = Nodes::default();
    }

    /// A cell's total, what the other regions counted in it, and how much of the total the world tier has.
    pub fn cell(&self, cell: &CellId) -> Option<CellReply> {
        self.windows.get(cell).map(|window| window.cell.read(NodeId(0)))
    }

    /// How often a key was reset, as far as the store knows.
    pub fn epoch(&self, key: KeyId) -> u16 {
        self.epoch_of(key)
    }
}
