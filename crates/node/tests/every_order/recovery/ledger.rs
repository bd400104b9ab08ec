//! What really happened in the region, for the judgments to compare with.

use std::collections::BTreeMap;

/// By incarnation and generation: the number of resets before it.
type ByNode = BTreeMap<(u64, u8), u64>;

#[derive(Clone, Debug, Default)]
pub(super) struct Ledger {
    /// How often the key was reset.
    pub(super) generation: u8,
    /// The epoch that the last reset made.
    pub(super) epoch: u16,
    admitted: ByNode,
    /// The largest component that the store ever held: a grant counts as spent, whether it arrived or not.
    components: ByNode,
    /// Account: admitted without an answer, by the rule's class.
    pub(super) unverified: u64,
    /// Account: spent, and known to no living node nor to the store.
    pub(super) lost: u64,
    /// Account: admitted without asking.
    pub(super) credit: u64,
}

impl Ledger {
    pub(super) fn admitted(&mut self, id: u64, generation: u8) {
        *self.admitted.entry((id, generation)).or_default() += 1;
    }

    pub(super) fn stored(&mut self, id: u64, component: u64) {
        let largest = self.components.entry((id, self.generation)).or_default();
        *largest = component.max(*largest);
    }

    /// The accounts start afresh with the counts.
    pub(super) fn reset(&mut self, epoch: u16) {
        self.generation += 1;
        self.epoch = epoch;
        (self.unverified, self.lost, self.credit) = (0, 0, 0);
    }

    /// Returns every incarnation that admitted or was granted anything since the last reset.
    pub(super) fn owners(&self) -> impl Iterator<Item = u64> {
        let counts = self.admitted.keys().chain(self.components.keys());
        counts.filter(|(_, generation)| *generation == self.generation).map(|(id, _)| *id)
    }

    /// Returns what was admitted since the last reset.
    pub(super) fn admitted_in_all(&self) -> u64 {
        self.admitted
            .iter()
            .filter(|((_, generation), _)| *generation == self.generation)
            .map(|(_, count)| count)
            .sum()
    }

    /// Returns what was admitted or granted since the last reset.
    pub(super) fn spent(&self) -> u64 {
        let mut spent = self.components.clone();
        for (place, count) in &self.admitted {
            let largest = spent.entry(*place).or_default();
            *largest = (*largest).max(*count);
        }
        spent
            .iter()
            .filter(|((_, generation), _)| *generation == self.generation)
            .map(|(_, count)| count)
            .sum()
    }
}
