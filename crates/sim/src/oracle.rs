//! The oracle of overshoot: every unit that is admitted beyond a limit is paid from a named account.
//!
//! A perfect limiter would count `admitted` in a cell and stop at the limit. Tidegate may go beyond it by what the
//! accounts of the cell hold, and by nothing else:
//!
//! | account      | what it holds |
//! |--------------|---------------|
//! | credit       | units that nodes admitted on their own and hadn't published when somebody else was granted one, and units admitted on credit when the limit was reached |
//! | unverified   | units admitted while the store couldn't be asked |
//! | lost         | units that neither the store nor a living node knows of any more |
//! |              | or that a claim hides: where a node died that had counted, as many as were admitted while the store recovered |
//! | deleted      | units of a single key that was deleted from the store, or evicted: nobody notices that. The limit once more where resets were deleted with it: who never knew of them counts as before |
//! | reported     | units charged after the fact, whatever the limit says |
//! | drawn ahead  | a constant for each node: 10 ms of the refill; of a bucket also units that were granted for an earlier request and spent later, up to the burst |
//!
//! Nothing is excused by when it happened. A store that loses data and is given nothing back has units that a living
//! node still knows of: those are in no account.

mod accounts;
mod conservation;
mod generations;
mod resets;
mod usage;

use crate::checks::Bounds;
use crate::node::{CLOCKS_DIFFER, KeyView, SimulatedNode};
use crate::origin::SimulatedOrigin;
use crate::scenario::{KeyPlan, Scenario};
use accounts::{Accounts, before};
use generations::Generations;
use std::collections::{BTreeMap, BTreeSet};
use tidegate_core::exchange::{CountSync, KeyReply, KeySync};
use tidegate_core::origin_cell::NodeId;
use tidegate_core::{KeyId, Nanos, Sequence};
use tidegate_node::GivenPolicy;
use tidegate_origin::Exchange;

/// A call ends 50 ms after it was sent, by its node's clock.
const CALLS_END_WITHIN: Nanos = Nanos::from_millis(50 + 60);

/// GCRA has no cells: all that is admitted while the bucket isn't full belongs to one.
const BUCKET: Sequence = Sequence(0);

/// An admission, as the oracle needs it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Unit {
    pub(crate) node: NodeId,
    pub(crate) cost: u64,
    /// How much of the cost the node hadn't been granted before.
    pub(crate) on_credit: u64,
    pub(crate) how: How,
    /// The node keeps no count of it: its table is full.
    pub(crate) is_untold: bool,
    pub(crate) epoch: u16,
    /// The store knows of a later reset. It ignores what the node counted before it knows of that too.
    pub(crate) is_behind: bool,
    /// The window's cell that it was charged to.
    pub(crate) sequence: Option<Sequence>,
    /// The node counts by the store's time, and not by its own clock.
    pub(crate) follows_store: bool,
    /// The node has older units of the bucket to publish.
    pub(crate) has_unpublished: bool,
    /// The store's present.
    pub(crate) now: Nanos,
    /// The store has all that nodes know: it isn't recovering from a loss of data.
    pub(crate) store_is_whole: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum How {
    Local,
    /// The store granted it.
    Asked,
    Unverified,
    Reported,
}

#[derive(Debug)]
pub(crate) struct Oracle {
    keys: Vec<KeyAccounts>,
    nodes: u64,
    is_calm: bool,
    /// Where overshoot can't be judged: regions that share a limit are judged together, by an oracle of their own, and a
    /// node whose own clock jumps counts in cells of its own.
    is_off: bool,
}

#[derive(Debug)]
struct KeyAccounts {
    plan: KeyPlan,
    id: KeyId,
    /// The largest limit that any node goes by.
    limit: u64,
    /// The largest that there ever was.
    limit_max: u64,
    was_lowered: bool,
    generations: Generations,
    cells: BTreeMap<(u64, Sequence), Accounts>,
    /// The generation that held when the store last granted something to a node.
    granted_in: BTreeMap<NodeId, u64>,
    /// The rate changes: what is owed takes longer or shorter then.
    changes_rate: bool,
    /// Nodes that know of the key, which was deleted from the store, and haven't synced it since: they, and nobody else,
    /// bring it back. Nobody notices that a single key is gone.
    unaware: BTreeSet<NodeId>,
    deleted_at: Nanos,
    /// The node that syncs it now left before all calls of the time of the deletion had ended.
    hears_more: bool,
    /// What was deleted is how often the key was reset: nodes that never knew of it count as before the reset.
    has_lost_resets: bool,
    /// Of a bucket: when each node admitted something last, and which nodes haven't published what they admitted before the
    /// bucket was full again.
    last_admitted: BTreeMap<NodeId, Nanos>,
    riding: BTreeSet<NodeId>,
    /// The clock of a node that had counted something of it stepped: the node goes by what was in use then, in the cell
    /// where its clock landed.
    was_carried: bool,
}

impl Oracle {
    pub(crate) fn new(scenario: &Scenario, bounds: &Bounds) -> Self {
        let changes_rate = |plan: &KeyPlan| {
            let GivenPolicy::Gcra { rate, .. } = plan.policy else { return false };
            let others = scenario
                .changes
                .iter()
                .filter(|change| change.keys.clone().any(|key| scenario.keys[key].id() == plan.id()));
            let is_other = |policy: &GivenPolicy| matches!(policy, GivenPolicy::Gcra { rate: other, .. } if *other != rate);
            others.into_iter().any(|change| is_other(&change.policy))
        };
        let accounts = |plan: &KeyPlan| KeyAccounts {
            id: plan.id(),
            limit: plan.size(),
            limit_max: plan.size(),
            was_lowered: false,
            generations: Generations::default(),
            cells: BTreeMap::new(),
            granted_in: BTreeMap::new(),
            changes_rate: changes_rate(plan),
            unaware: BTreeSet::new(),
            deleted_at: Nanos::ZERO,
            hears_more: false,
            has_lost_resets: false,
            last_admitted: BTreeMap::new(),
            riding: BTreeSet::new(),
            was_carried: false,
            plan: plan.clone(),
        };
        Oracle {
            keys: scenario.keys.iter().map(accounts).collect(),
            nodes: u64::try_from(scenario.nodes).unwrap_or(u64::MAX),
            is_calm: bounds.is_calm,
            is_off: bounds.has_world || bounds.has_jumps,
        }
    }

    /// Whether it is known what a perfect limiter would have left of a key.
    pub(crate) fn judges(&self, key: usize) -> bool {
        let accounts = &self.keys[key];
        let is_undone = accounts.has_lost_resets && !accounts.unaware.is_empty();
        let is_known = accounts.generations.newest_is_sent() && !is_undone && !accounts.was_carried;
        !self.is_off && !accounts.changes_rate && is_known
    }

    /// The largest limit that any living node goes by is this from now on. By the old one, so much was granted that isn't
    /// spent yet, or is being asked for.
    pub(crate) fn set_limit(&mut self, key: usize, limit: u64, by_the_old: u64, now: Nanos) {
        let accounts = &mut self.keys[key];
        if limit < accounts.limit {
            accounts.was_lowered = true;
            // Also where nothing was admitted yet, and in the window that is about to begin.
            let soon = [now, now.plus(CLOCKS_DIFFER)].map(|at| accounts.newest_cell(at));
            let cells: BTreeSet<_> = accounts.cells.keys().copied().chain(soon).collect();
            for cell in cells {
                let used = accounts.used(cell, now);
                accounts.cells.entry(cell).or_default().used_before = used + by_the_old;
            }
        }
        (accounts.limit, accounts.limit_max) = (limit, accounts.limit_max.max(limit));
    }

    /// The clock of a node stepped. What it had counted before it carries over the step, and doesn't publish any more.
    pub(crate) fn note_clock_step(&mut self, before: &[KeyView]) {
        for (accounts, view) in self.keys.iter_mut().zip(before) {
            accounts.was_carried |= view.counts.is_some();
            let generation = accounts.generations.of(view.epoch);
            let cells = &mut accounts.cells;
            unpublished_of(view, |sequence, units| {
                cells.entry((generation, sequence)).or_default().lost += units;
            });
        }
    }

    /// What a node knows of all keys.
    pub(crate) fn views(&self, node: &SimulatedNode) -> Vec<KeyView> {
        self.keys.iter().map(|accounts| node.view(accounts.id)).collect()
    }

    /// Counts an admission. An error says what it was beyond, and what the accounts hold.
    pub(crate) fn admitted(&mut self, key: usize, unit: &Unit) -> Result<(), String> {
        let (nodes, is_calm) = (self.nodes, self.is_calm);
        let accounts = &mut self.keys[key];
        let generation = match unit.how {
            How::Asked => accounts.granted_in.get(&unit.node).copied(),
            How::Local | How::Unverified | How::Reported => None,
        };
        let generation = generation.unwrap_or(0).max(accounts.generations.of(unit.epoch));
        let cell = (generation, accounts.cell_of(unit).unwrap_or(BUCKET));
        accounts.start_anew_if_full(cell, unit.now);
        let used = accounts.charge(cell, unit);
        let rides_on_old = accounts.rides_on_old(unit);
        let is_at_turn =
            unit.sequence == Some(cell.1) && accounts.plan.sequence_at(unit.now) != unit.sequence;
        let used_before = accounts.used_before_lowering(cell, unit.now);
        let limit = accounts.limit;
        let of_cell = accounts.cells.entry(cell).or_default();
        let beyond = used.saturating_sub(limit.max(used_before));
        of_cell.before_claims += if unit.store_is_whole { 0 } else { unit.cost };
        of_cell.untold += if unit.is_untold { unit.cost } else { 0 };
        // A node that doesn't know the store's time counts by its own clock, in another cell; or in one that it carries
        // over the step by which it follows the store, and doesn't publish.
        if !unit.follows_store || rides_on_old || unit.is_behind {
            of_cell.lost += unit.cost;
        }
        if is_at_turn {
            of_cell.at_turn += unit.cost;
        }
        match unit.how {
            How::Unverified => of_cell.unverified += unit.cost,
            How::Reported => of_cell.reported += unit.cost,
            How::Local | How::Asked => {
                of_cell.credit.beyond += unit.on_credit.min(beyond);
                of_cell.credit.admitted += unit.on_credit;
                if unit.how == How::Local && unit.sequence.is_none() {
                    of_cell.granted_before += unit.cost - unit.on_credit;
                }
                of_cell.nodes.insert(unit.node);
                if unit.how == How::Asked {
                    of_cell.held += unit.on_credit;
                }
            }
        }
        if self.is_off || accounts.changes_rate || unit.how == How::Reported {
            return Ok(());
        }
        accounts.check(key, cell, beyond, unit.now, nodes, is_calm)
    }

    /// The store granted something of a key to a node.
    pub(crate) fn granted(&mut self, key: usize, node: NodeId, epoch: u16, nodes: &[SimulatedNode]) {
        let accounts = &mut self.keys[key];
        let generation = accounts.generations.newest();
        accounts.granted_in.insert(node, generation);
        let mut unpublished = BTreeMap::<Sequence, u64>::new();
        for node in nodes.iter().filter(|node| node.is_up) {
            let view = node.view(accounts.id);
            if view.epoch == epoch {
                unpublished_of(&view, |sequence, units| *unpublished.entry(sequence).or_default() += units);
            }
        }
        let generation = accounts.generations.of(epoch);
        for (sequence, units) in unpublished {
            let credit = &mut accounts.cells.entry((generation, sequence)).or_default().credit;
            credit.unpublished = credit.unpublished.max(units);
        }
    }

    /// A key was deleted from the store, or a part of it: what was counted in its live cells may be admitted once more.
    pub(crate) fn record_deletion(
        &mut self,
        key: usize,
        nodes: &[SimulatedNode],
        origin: &SimulatedOrigin,
        now: Nanos,
    ) {
        self.keys[key].record_deletion(nodes, origin, now);
    }

    /// A node is about to sync some keys, before the store knows what it says.
    pub(crate) fn is_about_to_sync(
        &mut self,
        (node, exchange): (NodeId, &Exchange),
        nodes: &[SimulatedNode],
        origin: &SimulatedOrigin,
        now: Nanos,
    ) {
        let is_synced =
            |accounts: &&mut KeyAccounts| exchange.syncs.iter().any(|sync| sync.key == accounts.id);
        let unaware = self.keys.iter_mut().filter(|accounts| accounts.unaware.contains(&node));
        for accounts in unaware.filter(is_synced) {
            accounts.record_dropped(nodes, origin, now);
            let is_ahead = exchange
                .syncs
                .iter()
                .any(|sync| sync.key == accounts.id && sync.epoch > origin.epoch(accounts.id));
            if is_ahead && accounts.has_lost_resets {
                accounts.record_restored_reset(now);
            }
            accounts.hears_more = exchange.now < accounts.deleted_at.plus(CALLS_END_WITHIN);
        }
    }

    /// Whether a node knows of a key that was deleted from the store, and hasn't synced it since.
    pub(crate) fn is_unaware(&self, key: usize, node: NodeId) -> bool {
        self.keys.get(key).is_some_and(|accounts| accounts.unaware.contains(&node))
    }

    /// The store executed a sync of a key: it has all that the node knows, but for what a bucket that was forgotten may
    /// have counted before. The node had tried to publish that and wasn't answered, and nobody charges it twice.
    pub(crate) fn synced(&mut self, key: usize, node: NodeId, sync: &KeySync, reply: &KeyReply) {
        let accounts = &mut self.keys[key];
        // What another call was answered before the deletion may not be in this one.
        if !accounts.hears_more {
            accounts.unaware.remove(&node);
        }
        let CountSync::Gcra { sync: bucket, .. } = &sync.counts else { return };
        if reply.component_before.unwrap_or(0) < bucket.acked {
            let cell = (accounts.generations.of(sync.epoch), BUCKET);
            let accounts = accounts.cells.entry(cell).or_default();
            accounts.lost += bucket.sent.saturating_sub(bucket.acked);
        }
    }

    /// A node died, or the store lost something: what nobody knows of any more is lost.
    pub(crate) fn record_loss(
        &mut self,
        nodes: &[SimulatedNode],
        origin: &SimulatedOrigin,
        standing_still: &BTreeSet<NodeId>,
        now: Nanos,
    ) {
        for accounts in &mut self.keys {
            accounts.record_loss(nodes, origin, standing_still, now);
        }
    }

    /// Conservation: once all is calm, the store counts in every live cell what was admitted there, but for what is
    /// lost; and what any living node knows of it.
    pub(crate) fn is_conserved(
        &self,
        nodes: &[SimulatedNode],
        origin: &SimulatedOrigin,
        now: Nanos,
    ) -> Result<(), String> {
        if self.is_off {
            return Ok(());
        }
        for (key, accounts) in self.keys.iter().enumerate().filter(|(_, accounts)| !accounts.changes_rate) {
            accounts
                .is_conserved(nodes, origin, now)
                .map_err(|problem| format!("conservation: key {key}: {problem}"))?;
        }
        Ok(())
    }

    /// What the store, or a living node, counts of a key beyond what was admitted: granted, and not spent.
    pub(crate) fn granted_and_unspent(
        &self,
        key: usize,
        nodes: &[SimulatedNode],
        origin: &SimulatedOrigin,
        now: Nanos,
    ) -> u64 {
        let accounts = &self.keys[key];
        let newest = accounts.newest_cell(now);
        let beyond = |cell: (u64, Sequence)| {
            let counted = accounts.known_total(accounts.id_of(cell), nodes, origin);
            counted.saturating_sub(accounts.admitted_in(cell))
        };
        match accounts.plan.policy {
            GivenPolicy::Gcra { .. } => {
                let tat = origin.tat(accounts.id, accounts.generations.epoch_of(newest.0));
                accounts.units_between(now, tat).saturating_sub(accounts.used(newest, now))
            }
            GivenPolicy::Fixed { .. } => beyond(newest),
            GivenPolicy::Sliding { .. } => beyond(newest) + beyond(before(newest)),
        }
    }

    /// Whether more than the limit is in use of a key.
    pub(crate) fn is_overshot(&self, key: usize, now: Nanos) -> bool {
        let accounts = &self.keys[key];
        accounts.used(accounts.newest_cell(now), now) > accounts.limit
    }

    /// The largest limit that a key ever had.
    pub(crate) fn largest_limit(&self, key: usize) -> u64 {
        self.keys[key].limit_max
    }

    /// What a perfect limiter has left of a key now.
    pub(crate) fn left(&self, key: usize, now: Nanos) -> u64 {
        let accounts = &self.keys[key];
        accounts.limit.saturating_sub(accounts.used(accounts.newest_cell(now), now))
    }
}

/// What a node admitted and the store doesn't know of, by cell.
fn unpublished_of(view: &KeyView, mut each: impl FnMut(Sequence, u64)) {
    if let Some(CountSync::Gcra { sync, .. }) = view.counts {
        each(BUCKET, sync.cumulative.saturating_sub(sync.acked));
    }
    view.cells().for_each(|(sequence, counts)| each(sequence, counts.unsynced()));
}
