//! What a world store keeps, as a plain value: what the SQL stores do, without SQL.
//!
//! `MemoryWorld` and the simulator drive it. No IO, no clock and no randomness: the same calls give the same
//! answers. Must never differ from the SQL stores: a random test compares them.

mod counts;
mod fleet;
mod quotas;
mod rules;

pub(crate) use rules::check as check_entries;

use crate::rules::{
    HistoryPage, NewRuleLogEntry, Remainder, RuleItem, RuleItemId, RuleItemsPage, RuleLogEntry,
    RuleLogEntrySize, RuleLogSubject, Summary,
};
use crate::{
    Acknowledgement, CellId, Component, Cursor, DEMAND_TTL, Demand, ImportPage, JoinReply, JoinRequest,
    Membership, OwnerId, PublishReply, RECONCILER, Row, SliceGrants, Slices, StoredCounts, Survey, Term,
    WorldError,
};
use counts::Counts;
use fleet::Fleet;
use quotas::Quotas;
use rules::Rules;
use std::collections::BTreeMap;
use tidegate_core::Nanos;

/// The world store as a plain value: what the SQL stores are compared with.
#[derive(Clone, Debug, Default)]
pub struct WorldStore {
    fleet: Fleet,
    counts: Counts,
    quotas: Quotas,
    rules: Rules,
    /// How many grants were written.
    revision: u64,
    leases: BTreeMap<String, Lease>,
}

#[derive(Clone, Copy, Debug)]
struct Lease {
    holder: u64,
    term: u64,
    expires: Nanos,
}

impl WorldStore {
    pub fn join(&mut self, joining: &JoinRequest, now: Nanos) -> Result<JoinReply, WorldError> {
        let before = self.fleet.membership();
        let joined = self.fleet.join(joining, now)?;
        if joining.leaves && before.members.iter().any(|member| member.owner == joined.me) {
            self.quotas.remove_owner(joined.me);
        }
        Ok(joined)
    }

    pub fn publish(&mut self, owner: OwnerId, rows: &[Row], now: Nanos) -> PublishReply {
        let mut published = PublishReply::default();
        for (index, row) in rows.iter().enumerate() {
            match row.problem() {
                Some(problem) => published.refused.push((index, problem)),
                None => self.counts.publish(owner, row, now),
            }
        }
        published
    }

    /// A page of at most so many rows.
    pub fn import(&self, since: Cursor, rows_max: usize, now: Nanos) -> ImportPage {
        self.counts.import(since, rows_max, now)
    }

    /// What an owner's rows of these cells are.
    pub fn stored_counts(&self, owner: OwnerId, cells: &[CellId]) -> StoredCounts {
        let counts = cells.iter().map(|cell| self.counts.of(cell, owner).unwrap_or(0));
        StoredCounts { counts: counts.collect(), lag: Nanos::ZERO }
    }

    pub fn delete_expired(&mut self, now: Nanos) -> u64 {
        self.counts.delete_expired(now) + self.quotas.delete_expired(now)
    }

    /// The leader of a job keeps its term as long as nobody else took over, however late it comes.
    pub fn lead(&mut self, job: &str, holder: u64, lease: Nanos, now: Nanos) -> Option<Term> {
        let expires = now.plus(lease);
        let Some(held) = self.leases.get_mut(job) else {
            self.leases.insert(job.to_owned(), Lease { holder, term: 1, expires });
            return Some(Term(1));
        };
        if held.holder != holder {
            if held.expires > now {
                return None;
            }
            (held.holder, held.term) = (holder, held.term + 1);
        }
        held.expires = expires;
        Some(Term(held.term))
    }

    pub fn report(&mut self, owner: OwnerId, demands: &[Demand], now: Nanos) -> Result<(), WorldError> {
        self.quotas.report(owner, demands, now)
    }

    pub fn slices(&self, owner: OwnerId, now: Nanos) -> Slices {
        let (slices, confirmed) = (self.quotas.slices(owner), self.fleet.confirmed(owner));
        Slices { slices, now, confirmed, revision: self.revision }
    }

    pub fn acknowledge(&mut self, owner: OwnerId, said: &Acknowledgement, now: Nanos) {
        if self.fleet.confirmed(owner) < said.known {
            return;
        }
        self.fleet.confirm(owner, said.read.min(now));
        self.quotas.acknowledge(owner, &said.slices);
    }

    pub fn survey(&self, now: Nanos) -> Survey {
        Survey {
            revision: self.revision,
            membership: self.fleet.membership(),
            demands: self.quotas.demands(now.minus(DEMAND_TTL)),
            slices: self.quotas.held(),
            now,
        }
    }

    pub fn grant(&mut self, term: Term, granted: &SliceGrants) -> Result<(), WorldError> {
        let theirs = self.leases.get(RECONCILER).map_or(0, |lease| lease.term);
        if theirs != term.0 {
            return Err(WorldError::Deposed { theirs });
        }
        if self.revision != granted.revision {
            return Err(WorldError::Outdated { theirs: self.revision });
        }
        if let Some(membership) = &granted.membership {
            self.fleet.replace(membership)?;
        }
        self.quotas.grant(granted);
        self.revision += 1;
        Ok(())
    }

    /// The version of the rules' last entry.
    pub fn rules_head(&self) -> u64 {
        self.rules.head()
    }

    pub fn append_rules(
        &mut self,
        head: u64,
        entries: &[NewRuleLogEntry],
        now: Nanos,
    ) -> Result<(), WorldError> {
        self.rules.append(head, entries, now)
    }

    pub fn rules_entries(&self, after: u64, rows_max: usize) -> Vec<RuleLogEntry> {
        self.rules.entries(after, rows_max)
    }

    pub fn rules_entry(&self, version: u64) -> Option<RuleLogEntry> {
        self.rules.entry(version)
    }

    pub fn rules_history(&self, page: HistoryPage) -> Vec<Summary> {
        self.rules.history(page)
    }

    pub fn rules_sizes(&self, subject: RuleLogSubject, rows_max: usize) -> Vec<RuleLogEntrySize> {
        self.rules.sizes(subject, rows_max)
    }

    pub fn prune_rules(&mut self, remainders: &[Remainder]) {
        self.rules.prune(remainders);
    }

    pub fn rules_items(&self, page: RuleItemsPage, rows_max: usize) -> Vec<RuleItem> {
        self.rules.items(page, rows_max)
    }

    pub fn find_rules(&self, items: &[RuleItemId]) -> Vec<RuleItem> {
        self.rules.find(items)
    }

    /// Loses some rows, as an operator's mistake or a damaged table does: for the simulator.
    pub fn lose_rows(&mut self, is_lost: impl Fn(&CellId, OwnerId) -> bool) {
        self.counts.lose(is_lost);
    }

    /// Everybody's component of every cell, for checks.
    pub fn components(&self) -> impl Iterator<Item = Component> + '_ {
        self.counts.components()
    }

    /// An owner's count of a cell, for checks.
    pub fn component(&self, cell: &CellId, owner: OwnerId) -> Option<u64> {
        self.counts.of(cell, owner)
    }

    pub fn membership(&self) -> Membership {
        self.fleet.membership()
    }
}

#[cfg(test)]
mod tests;
