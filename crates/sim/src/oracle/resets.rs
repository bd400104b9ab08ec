//! What the oracle hears of resets.

use super::{BUCKET, Oracle};
use crate::node::SimulatedNode;
use crate::origin::SimulatedOrigin;
use tidegate_core::{KeyId, Nanos};

impl Oracle {
    /// The store carried out a reset. An order that it had carried out before, and forgot, begins no new generation. One that
    /// reaches it between a loss of data and the first node that notices is carried out once more: the epoch before isn't
    /// counted any more.
    pub(crate) fn was_reset(
        &mut self,
        key: usize,
        (epoch, order): (u16, Option<u64>),
        is_whole: bool,
        now: Nanos,
    ) {
        let accounts = &mut self.keys[key];
        let current = accounts.plan.sequence_at(now).unwrap_or(BUCKET);
        let repeated = accounts.generations.begin(epoch, order, current);
        if let Some(generation) = repeated.filter(|_| !is_whole || accounts.has_lost_resets) {
            let cell = (generation, current);
            let used = accounts.used(cell, now);
            accounts.cells.entry(cell).or_default().lost += used;
        }
    }

    /// All nodes are told of a reset from now on.
    pub(crate) fn reset_is_sent(&mut self, key: KeyId, epoch: u16) {
        if let Some(accounts) = self.keys.iter_mut().find(|accounts| accounts.id == key) {
            accounts.generations.sent(epoch);
        }
    }

    /// Resets that neither the store nor a living node knows of any more, and needn't: what was counted before them is over.
    /// From then on the key is counted in an earlier epoch again.
    pub(crate) fn record_lost_resets(
        &mut self,
        nodes: &[SimulatedNode],
        origin: &SimulatedOrigin,
        now: Nanos,
    ) {
        for accounts in self.keys.iter_mut().filter(|accounts| accounts.generations.newest() > 0) {
            let Some(current) = accounts.plan.sequence_at(now) else { continue };
            let known = accounts.known_epoch(nodes, origin);
            accounts.generations.drop_beyond(known, current);
        }
    }

    /// Whether the last reset of a key is lost: neither the store nor a living node knows of it, or it was deleted with the
    /// key, and the store or a node still counts as before it. What was counted before counts again, where the store still
    /// has that.
    pub(crate) fn is_reset_lost(
        &self,
        key: usize,
        nodes: &[SimulatedNode],
        origin: &SimulatedOrigin,
    ) -> bool {
        let accounts = &self.keys[key];
        let newest = accounts.generations.newest();
        let epoch = accounts.generations.epoch_of(newest);
        let is_behind = |node: &SimulatedNode| {
            node.is_up && node.sharing().table.state(accounts.id).is_some_and(|state| state.epoch() < epoch)
        };
        let is_deleted =
            accounts.has_lost_resets && (origin.epoch(accounts.id) < epoch || nodes.iter().any(is_behind));
        newest > 0 && (is_deleted || accounts.known_epoch(nodes, origin) < epoch)
    }
}
