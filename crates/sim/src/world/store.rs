//! The world store, and what it goes through.
//!
//! Real logic: `tidegate_world::WorldStore`, which the SQL stores are compared with.

use super::scenario::WorldFlaw;
use crate::simulation::{LEADER_LEASE_TTL, QuotaDone, QuotaStep, StoreDone, StoreStep};
use std::collections::BTreeMap;
use tidegate_core::{CellId, Nanos};
use tidegate_node::world::{Step, StepResult};
use tidegate_world::{
    Cursor, ImportPage, JoinReply, JoinRequest, OwnerId, PublishReply, RECONCILER, Row, StoredCounts,
    WorldError, WorldStore,
};

#[derive(Debug)]
pub(super) struct SimulatedStore {
    pub(super) store: WorldStore,
    offset_ns: i64,
    pub(super) is_down: bool,
    pub(super) paused_until: Nanos,
    /// A backup.
    copy: Option<Box<WorldStore>>,
    /// How often it was started: what wasn't committed before is undone.
    pub(super) life: u32,
    page_rows: usize,
    /// What each worker was told that its rows are at, when the store adds deltas.
    adds: Option<BTreeMap<(CellId, OwnerId), u64>>,
    flaw: Option<WorldFlaw>,
    /// When the last statement was executed, by the store's clock.
    executed_at: Nanos,
}

/// Made-up counts of more limits than these are ignored by [`WorldFlaw::IgnoresOverdrawn`].
const OVERDRAWN_TIMES: u64 = 16;

impl SimulatedStore {
    pub(super) fn new(offset_ns: i64, page_rows: usize, flaw: Option<WorldFlaw>) -> Self {
        SimulatedStore {
            store: WorldStore::default(),
            offset_ns,
            is_down: false,
            paused_until: Nanos::ZERO,
            copy: None,
            life: 0,
            page_rows,
            adds: (flaw == Some(WorldFlaw::AddsDeltas)).then(BTreeMap::new),
            flaw,
            executed_at: Nanos::ZERO,
        }
    }

    pub(super) fn copy(&mut self) {
        self.copy = Some(Box::new(self.store.clone()));
    }

    /// The backup takes its place, if there is one.
    pub(super) fn restore(&mut self) {
        if let Some(copy) = self.copy.take() {
            self.store = *copy;
            self.life += 1;
        }
    }

    /// The present by the store's clock.
    pub(super) fn present(&self, now: Nanos) -> Nanos {
        now.shifted(self.offset_ns)
    }

    /// Executes a statement at the instant `stamp` of the store's own time, or a nanosecond after the one before. A cursor of
    /// this store is an instant and a row: what is written in an instant that was read already could be missed. Databases have
    /// a log, whose entries are numbered.
    pub(super) fn execute(&mut self, step: &StoreStep, stamp: Nanos) -> StoreDone {
        let stamp = stamp.max(self.executed_at.plus(Nanos::new(1)));
        self.executed_at = stamp;
        match step {
            StoreStep::Work(step) => StoreDone::Work(self.work(step, stamp)),
            StoreStep::Quota(step) => StoreDone::Quota(self.quota(step, stamp)),
        }
    }

    fn quota(&mut self, step: &QuotaStep, stamp: Nanos) -> QuotaDone {
        match step {
            QuotaStep::Report(owner, demands) => {
                QuotaDone::Reported(self.store.report(*owner, demands, stamp).is_ok())
            }
            QuotaStep::Acknowledge(owner, said) => {
                self.store.acknowledge(*owner, said, stamp);
                QuotaDone::Acknowledged(true)
            }
            QuotaStep::Slices(owner) => {
                let mut slices = self.store.slices(*owner, stamp);
                if self.flaw == Some(WorldFlaw::HidesRestores) {
                    slices.confirmed = Nanos::MAX;
                }
                QuotaDone::Slices(Some(slices))
            }
            QuotaStep::Lead { holder } => {
                QuotaDone::Led(self.store.lead(RECONCILER, *holder, LEADER_LEASE_TTL, stamp))
            }
            QuotaStep::Survey => QuotaDone::Surveyed(Some(Box::new(self.store.survey(stamp)))),
            QuotaStep::Grant(term, granted) => {
                // Who is refused surveys again.
                let _ = self.store.grant(*term, granted);
                QuotaDone::Granted
            }
        }
    }

    fn work(&mut self, step: &Step, stamp: Nanos) -> StepResult {
        match step {
            Step::Join(joining) => StepResult::Joined(self.join(joining, stamp)),
            Step::Publish(owner, rows) => StepResult::Published(Ok(self.publish(*owner, rows, stamp))),
            Step::Import(since) => StepResult::Imported(Ok(self.import(*since, stamp))),
            Step::Check(owner, cells) => StepResult::Checked(Ok(self.stored_counts(*owner, cells))),
            Step::Delete => StepResult::Deleted(Ok(self.store.delete_expired(stamp))),
            other => unreachable!("{other:?} is for the origin"),
        }
    }

    fn join(&mut self, joining: &JoinRequest, stamp: Nanos) -> Result<JoinReply, WorldError> {
        if self.flaw != Some(WorldFlaw::OwnersByName) {
            return self.store.join(joining, stamp);
        }
        let of_name = joining.region.bytes().fold(0_u64, |sum, byte| sum.wrapping_mul(31) + u64::from(byte));
        self.store.join(&JoinRequest { origin: joining.origin ^ of_name, ..joining.clone() }, stamp)
    }

    fn stored_counts(&self, owner: OwnerId, cells: &[CellId]) -> StoredCounts {
        if self.flaw == Some(WorldFlaw::ForgetsLosses) {
            return StoredCounts { counts: vec![u64::MAX; cells.len()], lag: Nanos::ZERO };
        }
        self.store.stored_counts(owner, cells)
    }

    fn import(&self, since: Cursor, stamp: Nanos) -> ImportPage {
        let mut imported = self.store.import(since, self.page_rows, stamp);
        if self.flaw == Some(WorldFlaw::IgnoresOverdrawn) {
            imported.components.retain(|row| row.count <= OVERDRAWN_TIMES * row.limit.max(1));
        }
        imported.is_restart &= self.flaw != Some(WorldFlaw::ForgetsLosses);
        imported
    }

    fn publish(&mut self, owner: OwnerId, rows: &[Row], stamp: Nanos) -> PublishReply {
        let Some(told) = &self.adds else { return self.store.publish(owner, rows, stamp) };
        let stored: BTreeMap<(CellId, OwnerId), u64> =
            self.store.components().map(|row| ((row.cell, row.owner), row.count)).collect();
        let added = rows.iter().map(|row| {
            let id = (row.cell, owner);
            let known = told.get(&id).copied().unwrap_or(0);
            let count = stored.get(&id).copied().unwrap_or(0) + row.count.saturating_sub(known);
            Row { count, ..row.clone() }
        });
        let added: Vec<Row> = added.collect();
        self.store.publish(owner, &added, stamp)
    }

    /// The worker hears that its rows were written.
    pub(super) fn receive(&mut self, step: &StoreStep) {
        if let (StoreStep::Work(Step::Publish(owner, rows)), Some(told)) = (step, &mut self.adds) {
            told.extend(rows.iter().map(|row| ((row.cell, *owner), row.count)));
        }
    }
}
