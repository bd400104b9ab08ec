//! How often somebody really reset a key, beside the epochs by which nodes and the store count resets.
//!
//! A store that forgot carries out an order once more and begins an epoch that nobody asked for: it belongs to the
//! generation of the first time.

use std::collections::BTreeMap;

#[derive(Clone, Debug, Default)]
pub(super) struct Generations {
    newest: u64,
    /// The highest that all nodes are told of.
    told: u64,
    by_epoch: BTreeMap<u16, u64>,
    by_order: BTreeMap<u64, u64>,
}

impl Generations {
    /// The store began an epoch.
    pub(super) fn begin(&mut self, epoch: u16, order: Option<u64>) {
        let known = order.and_then(|order| self.by_order.get(&order).copied());
        let generation = known.unwrap_or(self.newest + 1);
        self.newest = self.newest.max(generation);
        self.by_epoch.insert(epoch, generation);
        if let Some(order) = order {
            self.by_order.insert(order, generation);
        }
    }

    /// The generation that an epoch belongs to.
    pub(super) fn of(&self, epoch: u16) -> u64 {
        self.by_epoch.range(..=epoch).next_back().map_or(0, |(_, generation)| *generation)
    }

    pub(super) fn newest(&self) -> u64 {
        self.newest
    }

    /// The last epoch of a generation.
    pub(super) fn epoch_of(&self, generation: u64) -> u16 {
        let epochs = self.by_epoch.iter().filter(|(_, other)| **other == generation);
        epochs.map(|(epoch, _)| *epoch).max().unwrap_or(0)
    }

    pub(super) fn told(&mut self, epoch: u16) {
        self.told = self.told.max(self.of(epoch));
    }

    pub(super) fn newest_is_told(&self) -> bool {
        self.told >= self.newest
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_order_that_is_carried_out_twice_begins_one_generation() {
        let mut generations = Generations::default();
        generations.begin(1, Some(7));
        generations.begin(2, None);
        generations.begin(3, Some(7));
        assert_eq!([0, 1, 2, 3, 4].map(|epoch| generations.of(epoch)), [0, 1, 2, 1, 1]);
        assert_eq!((generations.newest(), generations.epoch_of(1)), (2, 3));
    }
}
