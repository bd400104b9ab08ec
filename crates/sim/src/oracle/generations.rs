//! How often somebody really reset a key, beside the epochs by which nodes and the store count resets.
//!
//! A store that forgot carries out an order once more and begins an epoch that nobody asked for: it belongs to the
//! generation of the first time.

use std::collections::BTreeMap;
use tidegate_core::Sequence;

#[derive(Clone, Debug, Default)]
pub(super) struct Generations {
    newest: u64,
    /// The cell that was the current one when the last reset was carried out.
    began_in: Option<Sequence>,
    /// The highest that all nodes are told of.
    sent: u64,
    by_epoch: BTreeMap<u16, u64>,
    by_order: BTreeMap<u64, u64>,
}

impl Generations {
    /// The store began an epoch. Returns the generation of an order that was carried out before.
    pub(super) fn begin(&mut self, epoch: u16, order: Option<u64>, current: Sequence) -> Option<u64> {
        self.began_in = Some(current);
        let known = order.and_then(|order| self.by_order.get(&order).copied());
        let generation = known.unwrap_or(self.newest + 1);
        self.newest = self.newest.max(generation);
        self.by_epoch.insert(epoch, generation);
        if let Some(order) = order {
            self.by_order.insert(order, generation);
        }
        known
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

    pub(super) fn sent(&mut self, epoch: u16) {
        self.sent = self.sent.max(self.of(epoch));
    }

    /// Neither the store nor a living node knows of an epoch beyond this one. Once the cells are over that counted when the
    /// last reset was carried out, the newest generation is counted in the epoch before.
    pub(super) fn drop_beyond(&mut self, epoch: u16, current: Sequence) {
        let is_over = self.began_in.is_some_and(|began_in| began_in.0.saturating_add(1) < current.0);
        if is_over && self.epoch_of(self.newest) > epoch {
            self.by_epoch.retain(|known, _| *known < epoch);
            self.by_epoch.insert(epoch, self.newest);
            self.sent = self.newest;
        }
    }

    pub(super) fn newest_is_sent(&self) -> bool {
        self.sent >= self.newest
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reset_that_nobody_knows_of_any_more_leaves_its_generation_to_the_epoch_before() {
        let mut generations = Generations::default();
        generations.drop_beyond(0, Sequence(50));
        assert_eq!(generations.newest(), 0, "there was none");
        generations.begin(1, None, Sequence(70));
        generations.begin(2, None, Sequence(71));
        generations.drop_beyond(2, Sequence(80));
        assert_eq!(generations.of(1), 1, "it is known");
        generations.drop_beyond(1, Sequence(72));
        assert_eq!(generations.of(1), 1, "what came before it still counts in the next cell");
        generations.drop_beyond(1, Sequence(73));
        assert_eq!([0, 1, 2].map(|epoch| generations.of(epoch)), [0, 2, 2]);
        generations.begin(2, None, Sequence(75));
        assert_eq!([1, 2].map(|epoch| generations.of(epoch)), [2, 3]);
    }

    #[test]
    fn an_order_that_is_carried_out_twice_begins_one_generation() {
        let mut generations = Generations::default();
        generations.begin(1, Some(7), Sequence(1));
        generations.begin(2, None, Sequence(1));
        generations.begin(3, Some(7), Sequence(1));
        assert_eq!([0, 1, 2, 3, 4].map(|epoch| generations.of(epoch)), [0, 1, 2, 1, 1]);
        assert_eq!((generations.newest(), generations.epoch_of(1)), (2, 3));
    }
}
