//! Conservation: what the store and the living nodes know of a key, beside what was admitted.

use super::{Accounts, BUCKET, KeyAccounts, Oracle};
use crate::node::{Call, KeyView, SimulatedNode};
use crate::origin::SimulatedOrigin;
use std::collections::{BTreeMap, BTreeSet};
use tidegate_core::exchange::CountSync;
use tidegate_core::origin_cell::NodeId;
use tidegate_core::{CellId, Nanos, Sequence};
use tidegate_node::GivenPolicy;
use tidegate_origin::Exchange;

/// What the store and the living nodes know of a cell.
struct CellKnowledge {
    /// The most that they can tell of it together.
    total: u64,
    /// What is left of that without claims: the components of living nodes, and of those that the store has.
    of_components: u64,
    /// What living nodes admitted, and the store didn't confirm.
    unpublished: u64,
}

impl Oracle {
    /// A node doesn't know whether the store counted what a call carried and asked for. It doesn't add that to the highest
    /// total that was claimed: rather one too few than one twice (`OriginCell::component_before`). So a claim hides as much,
    /// if the call wasn't counted.
    pub(crate) fn is_unanswered(&mut self, node: &SimulatedNode, exchange: &Exchange) {
        for sync in &exchange.syncs {
            let CountSync::Window(window) = &sync.counts else { continue };
            let Some(accounts) = self.keys.iter_mut().find(|accounts| accounts.id == sync.key) else {
                continue;
            };
            let asked: u64 = sync.request.asks.iter().sum();
            let view = node.view(sync.key);
            let published = view.cells().find(|(sequence, _)| *sequence == window.sequence);
            let unconfirmed = published.map_or(0, |(_, counts)| counts.unsynced());
            let cell = (accounts.generations.of(sync.epoch), window.sequence);
            accounts.cells.entry(cell).or_default().before_claims += asked + unconfirmed;
        }
    }
}

impl KeyAccounts {
    /// What neither the store nor a living node knows of any more is lost. A recovery doesn't wait for nodes that stand
    /// still: what only they know is missing when the others go on.
    pub(super) fn record_loss(
        &mut self,
        nodes: &[SimulatedNode],
        origin: &SimulatedOrigin,
        standing_still: &BTreeSet<NodeId>,
        now: Nanos,
    ) {
        let epochs = self.generations.clone();
        // Also where nothing was admitted yet, and something was granted.
        let live = self.cells.keys().copied().filter(|cell| self.is_live(*cell, now));
        let cells: BTreeSet<_> = live.chain([self.newest_cell(now)]).collect();
        for cell in cells {
            let lost = match self.plan.policy {
                GivenPolicy::Gcra { .. } => {
                    let known = self.known_tat(epochs.epoch_of(cell.0), nodes, origin, standing_still);
                    self.used(cell, now).saturating_sub(self.units_between(now, known))
                }
                _ => {
                    let CellKnowledge { total, of_components, unpublished } =
                        self.known(self.id_of(cell), nodes, origin, standing_still);
                    // With what those hold who stand still: they spend it on top of what the store grants since.
                    let with_all = self.known_total(self.id_of(cell), nodes, origin);
                    let accounts = self.cells.entry(cell).or_default();
                    accounts.claimed = accounts.claimed.max(total - of_components);
                    if !origin.is_whole(self.id) {
                        accounts.before_claims += unpublished;
                    }
                    accounts.admitted.max(with_all).saturating_sub(total)
                }
            };
            let accounts = self.cells.entry(cell).or_default();
            accounts.lost = accounts.lost.max(lost);
        }
    }

    pub(super) fn record_deletion(&mut self, nodes: &[SimulatedNode], origin: &SimulatedOrigin, now: Nanos) {
        // An answer that is on its way brings what it says later.
        let knows = |node: &&SimulatedNode| {
            node.is_up && (node.sharing().table.state(self.id).is_some() || self.calls_of(node) > 0)
        };
        self.unaware = nodes.iter().filter(knows).map(|node| node.id).collect();
        self.deleted_at = now;
        self.has_lost_resets |= self.generations.newest() > 0;
        let current = (self.generations.newest(), self.plan.sequence_at(now).unwrap_or(BUCKET));
        let live = self.cells.keys().copied().filter(|cell| *cell != current && self.is_live(*cell, now));
        let cells: Vec<_> = live.chain([current]).collect();
        for cell in cells {
            // What was granted and is on its way counts as well.
            let used = self.used(cell, now).max(self.admitted_in(cell)).max(origin.total(&self.id_of(cell)));
            let once_more = if self.has_lost_resets { self.limit_max.max(used) } else { used };
            let accounts = self.cells.entry(cell).or_default();
            accounts.deleted = accounts.deleted.max(once_more);
        }
    }

    /// A reset that was deleted comes back: what was counted as before it, since then, isn't counted any more.
    pub(super) fn record_restored_reset(&mut self, now: Nanos) {
        let cells: Vec<_> = self.cells.keys().copied().filter(|cell| self.is_live(*cell, now)).collect();
        for cell in cells {
            let used = self.used(cell, now).max(self.admitted_in(cell));
            let accounts = self.cells.entry(cell).or_default();
            accounts.deleted = accounts.deleted.max(used);
        }
    }

    /// How many of a node's calls about the key weren't answered yet.
    pub(super) fn calls_of(&self, node: &SimulatedNode) -> usize {
        let is_about = |call: &&Call| call.outgoing.exchange.syncs.iter().any(|sync| sync.key == self.id);
        node.calls.values().filter(is_about).count()
    }

    /// A node that knew of the key when it was deleted is about to sync it. If it dropped its entry since, it brings nothing
    /// back.
    pub(super) fn record_dropped(&mut self, nodes: &[SimulatedNode], origin: &SimulatedOrigin, now: Nanos) {
        let cells: Vec<_> = self.cells.keys().copied().filter(|cell| self.is_live(*cell, now)).collect();
        for cell in cells {
            let dropped = match self.plan.policy {
                GivenPolicy::Gcra { .. } => {
                    let known =
                        self.known_tat(self.generations.epoch_of(cell.0), nodes, origin, &BTreeSet::new());
                    self.used(cell, now).saturating_sub(self.units_between(now, known))
                }
                _ => {
                    let CellKnowledge { total, .. } =
                        self.known(self.id_of(cell), nodes, origin, &BTreeSet::new());
                    self.admitted_in(cell).saturating_sub(total)
                }
            };
            let accounts = self.cells.entry(cell).or_default();
            accounts.dropped = accounts.dropped.max(dropped);
        }
    }

    /// Whether a cell still counts.
    pub(super) fn is_live(&self, (generation, sequence): (u64, Sequence), now: Nanos) -> bool {
        let current = self.plan.sequence_at(now).unwrap_or(BUCKET);
        let slides = matches!(self.plan.policy, GivenPolicy::Sliding { .. });
        generation == self.generations.newest()
            && (sequence == current || slides && sequence.0.wrapping_add(1) == current.0)
    }

    pub(super) fn id_of(&self, (generation, sequence): (u64, Sequence)) -> CellId {
        CellId { key: self.id, epoch: self.generations.epoch_of(generation), sequence }
    }

    /// What the store and the living nodes together can tell of a cell.
    fn known(
        &self,
        cell: CellId,
        nodes: &[SimulatedNode],
        origin: &SimulatedOrigin,
        without: &BTreeSet<NodeId>,
    ) -> CellKnowledge {
        let mut components: BTreeMap<NodeId, u64> = origin.counters(&cell).collect();
        let (mut known, mut unpublished) = (origin.total(&cell), 0);
        for node in nodes.iter().filter(|node| node.is_up && !without.contains(&node.id)) {
            let view = node.view(cell.key);
            let counts =
                view.cells().find(|(sequence, _)| view.epoch == cell.epoch && *sequence == cell.sequence);
            if let Some((_, counts)) = counts {
                let component = components.entry(node.id).or_default();
                *component = (*component).max(counts.component());
                known = known.max(counts.regional());
                unpublished += counts.unsynced();
            }
        }
        let of_components = components.values().sum();
        CellKnowledge { total: known.max(of_components), of_components, unpublished }
    }

    /// The most that the store and the living nodes together can tell of a window.
    pub(super) fn known_total(&self, cell: CellId, nodes: &[SimulatedNode], origin: &SimulatedOrigin) -> u64 {
        self.known(cell, nodes, origin, &BTreeSet::new()).total
    }

    fn known_tat(
        &self,
        epoch: u16,
        nodes: &[SimulatedNode],
        origin: &SimulatedOrigin,
        without: &BTreeSet<NodeId>,
    ) -> Nanos {
        let of_node = |node: &SimulatedNode| tat_of(&node.view(self.id), epoch);
        let living = nodes.iter().filter(|node| node.is_up && !without.contains(&node.id));
        let of_nodes = living.map(of_node).max();
        origin.tat(self.id, epoch).max(of_nodes.unwrap_or_default())
    }

    /// How many units refill between two instants.
    pub(super) fn units_between(&self, from: Nanos, until: Nanos) -> u64 {
        let GivenPolicy::Gcra { rate, .. } = self.plan.policy else { return 0 };
        let ticks = u128::from(until.minus(from).get()) * u128::from(rate.interval_denominator());
        u64::try_from(ticks.div_ceil(u128::from(rate.interval_numerator_ns()))).unwrap_or(u64::MAX)
    }

    pub(super) fn is_conserved(
        &self,
        nodes: &[SimulatedNode],
        origin: &SimulatedOrigin,
        now: Nanos,
    ) -> Result<(), String> {
        for (cell, accounts) in self.cells.iter().filter(|(cell, _)| self.is_live(**cell, now)) {
            let id = self.id_of(*cell);
            // Since nobody knows of the last reset any more, the key is counted in an earlier epoch again; where it was
            // deleted, until somebody who knows of it syncs the key.
            let counts_in =
                if self.has_lost_resets { origin.epoch(self.id) } else { self.known_epoch(nodes, origin) };
            let epochs = counts_in.min(id.epoch)..=id.epoch;
            let excused = accounts.uncounted().max(accounts.dropped) + accounts.untold;
            let (counted, wanted): (u64, u64) = match self.plan.policy {
                // A lowered burst leaves one empty bucket of what is owed.
                GivenPolicy::Gcra { .. } if self.was_lowered || accounts.owes_more => continue,
                GivenPolicy::Gcra { .. } => {
                    let owed = |epoch| self.units_between(now, origin.tat(self.id, epoch));
                    let wanted = self.used(*cell, now).saturating_sub(excused + self.gcra_slack(accounts));
                    (epochs.map(owed).sum(), wanted)
                }
                _ => {
                    let counted = |epoch| origin.total(&CellId { epoch, ..id });
                    (epochs.map(counted).sum(), accounts.admitted.saturating_sub(excused))
                }
            };
            // What was deleted alone comes back with those who know of it, when they sync it.
            if counted < wanted && self.unaware.is_empty() {
                return Err(format!(
                    "the store counts {counted} in {id:?}, where {wanted} are in use: {} were admitted, of which {} are lost",
                    accounts.admitted,
                    accounts.uncounted()
                ));
            }
            self.nodes_know_no_more(id, nodes, origin)?;
        }
        Ok(())
    }

    /// Nodes publish several admissions with the time of the first: the idle time that a late one pays for is at most
    /// what lay between them. A unit for each node, and two in a hundred.
    fn gcra_slack(&self, accounts: &Accounts) -> u64 {
        let nodes = u64::try_from(accounts.nodes.len()).unwrap_or(u64::MAX);
        self.plan.drawn_ahead() + nodes + 1 + accounts.admitted / 50
    }

    fn nodes_know_no_more(
        &self,
        id: CellId,
        nodes: &[SimulatedNode],
        origin: &SimulatedOrigin,
    ) -> Result<(), String> {
        let is_aware = |node: &SimulatedNode| node.is_up && !self.unaware.contains(&node.id);
        for (index, node) in nodes.iter().enumerate().filter(|(_, node)| is_aware(node)) {
            let view = node.view(self.id);
            // It may have heard of a reset from the log after that was deleted with the key.
            if view.epoch > origin.epoch(self.id) && !self.has_lost_resets {
                return Err(format!("node {index} is at epoch {}, and the store is behind", view.epoch));
            }
            for (sequence, counts) in view.cells().filter(|(sequence, _)| *sequence == id.sequence) {
                let stored = origin.total(&CellId { epoch: view.epoch, ..id });
                if view.epoch == id.epoch && counts.regional() > stored {
                    let known = counts.regional();
                    return Err(format!(
                        "node {index} knows of {known} in {sequence:?}, and the store of {stored}"
                    ));
                }
            }
        }
        Ok(())
    }
}

fn tat_of(view: &KeyView, epoch: u16) -> Nanos {
    match view.counts {
        Some(CountSync::Gcra { sync, .. }) if view.epoch == epoch => sync.busy.tat,
        _ => Nanos::ZERO,
    }
}
