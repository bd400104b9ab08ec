//! What a perfect limiter says is in use of a key, and whether the accounts hold what was admitted beyond its limit.

use super::accounts::{Accounts, before};
use super::{BUCKET, KeyAccounts, Unit};
use crate::node::{CLOCKS_DIFFER, SimulatedNode};
use crate::origin::SimulatedOrigin;
use tidegate_core::gcra_sync::interval_times;
use tidegate_core::{Accuracy, Class, Nanos, Sequence};
use tidegate_node::GivenPolicy;

impl KeyAccounts {
    /// The highest epoch that the store or a living node knows of.
    pub(super) fn known_epoch(&self, nodes: &[SimulatedNode], origin: &SimulatedOrigin) -> u16 {
        let of_nodes = nodes.iter().filter(|node| node.is_up).map(|node| node.view(self.id).epoch);
        of_nodes.max().unwrap_or(0).max(origin.epoch(self.id))
    }

    pub(super) fn newest_cell(&self, now: Nanos) -> (u64, Sequence) {
        (self.generations.newest(), self.plan.sequence_at(now).unwrap_or(BUCKET))
    }

    /// The cell that a perfect limiter counts a unit in: the node's, unless its clock is off by more than clocks that
    /// follow the same time differ.
    pub(super) fn cell_of(&self, unit: &Unit) -> Option<Sequence> {
        let theirs = unit.sequence?;
        let near = [unit.now.minus(CLOCKS_DIFFER), unit.now.plus(CLOCKS_DIFFER)];
        let is_right = near.iter().any(|instant| self.plan.sequence_at(*instant) == Some(theirs));
        if is_right { Some(theirs) } else { self.plan.sequence_at(unit.now) }
    }

    /// A bucket that is full again owes nobody anything.
    pub(super) fn start_anew_if_full(&mut self, cell: (u64, Sequence), now: Nanos) {
        if let GivenPolicy::Gcra { .. } = self.plan.policy
            && self.level(cell, now) == 0
        {
            self.cells.insert(cell, Accounts { level_at: now, ..Accounts::default() });
        }
    }

    pub(super) fn level(&self, cell: (u64, Sequence), now: Nanos) -> u128 {
        let (GivenPolicy::Gcra { rate, .. }, Some(accounts)) = (self.plan.policy, self.cells.get(&cell))
        else {
            return 0;
        };
        let drained =
            u128::from(now.minus(accounts.level_at).get()) * u128::from(rate.interval_denominator());
        accounts.level.saturating_sub(drained)
    }

    /// Charges a unit; returns what is in use then.
    pub(super) fn charge(&mut self, cell: (u64, Sequence), unit: &Unit) -> u64 {
        if let GivenPolicy::Gcra { rate, burst } = self.plan.policy {
            let level = self.level(cell, unit.now);
            let accounts = self.cells.entry(cell).or_default();
            accounts.level = level + u128::from(unit.cost) * u128::from(rate.interval_numerator_ns());
            accounts.owes_more |=
                accounts.level > u128::from(burst.get()) * u128::from(rate.interval_numerator_ns());
            accounts.level_at = accounts.level_at.max(unit.now);
        }
        self.cells.entry(cell).or_default().admitted += unit.cost;
        self.used(cell, unit.now)
    }

    /// What a perfect limiter says is in use.
    pub(super) fn used(&self, cell: (u64, Sequence), now: Nanos) -> u64 {
        match self.plan.policy {
            GivenPolicy::Gcra { rate, .. } => {
                let unit = u128::from(rate.interval_numerator_ns());
                u64::try_from(self.level(cell, now).div_ceil(unit)).unwrap_or(u64::MAX)
            }
            GivenPolicy::Fixed { .. } => self.admitted_in(cell),
            GivenPolicy::Sliding { .. } => {
                let before = self.admitted_in(before(cell));
                self.admitted_in(cell) + self.faded(before, cell.1, now)
            }
        }
    }

    /// Whether a unit of a bucket is published with the time of an older one, since when the bucket has filled again.
    pub(super) fn rides_on_old(&mut self, unit: &Unit) -> bool {
        let GivenPolicy::Gcra { rate, burst } = self.plan.policy else { return false };
        let before = self.last_admitted.insert(unit.node, unit.now);
        let is_full = |before: Nanos| before.plus(interval_times(rate, burst.get())) < unit.now;
        let is_long_ago = before.is_some_and(is_full);
        if !unit.has_unpublished {
            self.riding.remove(&unit.node);
        } else if is_long_ago {
            self.riding.insert(unit.node);
        }
        self.riding.contains(&unit.node)
    }

    /// What was in use when the limit was lowered, in this cell or in the one before.
    pub(super) fn used_before_lowering(&self, cell: (u64, Sequence), now: Nanos) -> u64 {
        let of = |cell| self.cells.get(&cell).map_or(0, |accounts| accounts.used_before);
        of(cell).max(self.faded(of(before(cell)), cell.1, now))
    }

    pub(super) fn admitted_in(&self, cell: (u64, Sequence)) -> u64 {
        self.cells.get(&cell).map_or(0, |accounts| accounts.admitted)
    }

    /// What is left of a count of the cell before.
    pub(super) fn faded(&self, count: u64, sequence: Sequence, now: Nanos) -> u64 {
        let GivenPolicy::Sliding { period, .. } = self.plan.policy else { return 0 };
        let rest = period.cell(sequence).end.minus(now).min(period.length());
        let faded = u128::from(count) * u128::from(rest.get()) / u128::from(period.get());
        u64::try_from(faded).unwrap_or(u64::MAX)
    }

    pub(super) fn check(
        &self,
        key: usize,
        cell: (u64, Sequence),
        beyond: u64,
        now: Nanos,
        nodes: u64,
        is_calm: bool,
    ) -> Result<(), String> {
        let none = Accounts::default();
        let of_cell = self.cells.get(&cell).unwrap_or(&none);
        let carried = match self.plan.policy {
            GivenPolicy::Sliding { .. } => {
                let before = self
                    .cells
                    .get(&before(cell))
                    .map_or(0, |cell| cell.sum(self.plan.accuracy, self.limit_max));
                // Rounding: once here, and once where it was admitted.
                self.faded(before, cell.1, now) + 2
            }
            _ => 0,
        };
        let drawn = (nodes + 1) * self.plan.drawn_ahead();
        let rounding = if matches!(self.plan.policy, GivenPolicy::Gcra { .. }) { drawn / 2 + 1 } else { 0 };
        if beyond > of_cell.sum(self.plan.accuracy, self.limit_max) + carried + drawn + rounding {
            return Err(format!(
                "overshoot: {beyond} units of key {key} ({}) beyond its limit of {}; the accounts hold {} of them: {:?}, {carried} \
                 from the cell before, {drawn} drawn ahead",
                crate::chaos::describe(&self.plan),
                self.limit,
                of_cell.sum(self.plan.accuracy, self.limit_max) + carried + drawn + rounding,
                of_cell
            ));
        }
        let bound = self.credit_bound(of_cell, nodes, is_calm);
        // The accounts of a bucket begin anew when it is full, also while something is unpublished.
        let is_bucket = matches!(self.plan.policy, GivenPolicy::Gcra { .. });
        let unpublished = if is_bucket { 0 } else { of_cell.credit.unpublished };
        if unpublished.max(of_cell.credit.beyond) > bound.saturating_add(rounding) {
            return Err(format!("overshoot: the bound of credit is {bound} for key {key}: {of_cell:?}"));
        }
        Ok(())
    }

    /// The most that may be unpublished at once: a quarter of what is left, divided by the nodes that share it. One
    /// that doesn't hear of the others divides by itself alone.
    pub(super) fn credit_bound(&self, accounts: &Accounts, nodes: u64, is_calm: bool) -> u64 {
        let limit = self.limit_max;
        let bound = match (self.plan.accuracy, self.plan.class) {
            // `exact` has no account of credit: nothing that it admits may be paid from there.
            (Accuracy::Fast | Accuracy::Async | Accuracy::Exact, _) => return u64::MAX,
            (Accuracy::Bounded, Class::Abuse) if is_calm => limit.div_ceil(4),
            (Accuracy::Bounded, _) if is_calm => (2..=nodes + 1).map(|n| limit.div_ceil(4 * n)).sum(),
            (Accuracy::Bounded, _) => {
                let nodes = u64::try_from(accounts.nodes.len()).unwrap_or(u64::MAX).max(1);
                nodes.saturating_mul(limit.div_ceil(4))
            }
        };
        bound + accounts.unverified + accounts.reported + accounts.held
    }
}
