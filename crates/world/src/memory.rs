//! A world store in this process: a [`WorldStore`] behind a lock, for tests.
//!
//! Answers at once and forgets everything with the process. Tells the time by what it was given, and can be
//! told to fail, as a database does.

use crate::rules::{
    HistoryPage, NewRuleLogEntry, Remainder, RuleItem, RuleItemId, RuleItemsPage, RuleLog, RuleLogEntry,
    RuleLogEntrySize, RuleLogSubject, Summary,
};
use crate::{
    Acknowledgement, CellId, Cursor, Demand, ImportPage, JoinReply, JoinRequest, MergeReport, OwnerId,
    PublishReply, Row, SliceGrants, Slices, StoredCounts, Survey, Term, World, WorldError, WorldFuture,
    WorldStore,
};
use parking_lot::Mutex;
use std::fmt;
use tidegate_core::Nanos;

/// How many rows a page of an import has.
const PAGE_ROWS: usize = 5000;

/// Tells the present.
type Present = Box<dyn Fn() -> Nanos + Send + Sync>;

pub struct MemoryWorld {
    store: Mutex<WorldStore>,
    present: Present,
    page_rows: usize,
    /// What every call answers, while there is something.
    outage: Mutex<Option<WorldError>>,
}

impl MemoryWorld {
    pub fn new(present: Box<dyn Fn() -> Nanos + Send + Sync>) -> Self {
        MemoryWorld { store: Mutex::default(), present, page_rows: PAGE_ROWS, outage: Mutex::default() }
    }

    /// The same with pages of so many rows, at least one.
    #[must_use]
    pub fn with_page_rows(self, page_rows: usize) -> Self {
        MemoryWorld { page_rows: page_rows.max(1), ..self }
    }

    /// From now on every call fails like this, and does nothing; or works again.
    pub fn set_outage(&self, outage: Option<WorldError>) {
        *self.outage.lock() = outage;
    }

    /// Looks into the store, or meddles with it.
    pub fn with_store<T>(&self, act: impl FnOnce(&mut WorldStore) -> T) -> T {
        act(&mut self.store.lock())
    }

    fn answer<T: Send + 'static>(
        &self,
        act: impl FnOnce(&mut WorldStore, Nanos) -> Result<T, WorldError>,
    ) -> WorldFuture<'_, T> {
        let outage = self.outage.lock().clone();
        let answer = match outage {
            Some(error) => Err(error),
            None => self.with_store(|store| act(store, (self.present)())),
        };
        Box::pin(std::future::ready(answer))
    }
}

impl fmt::Debug for MemoryWorld {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemoryWorld").field("store", &self.store).finish_non_exhaustive()
    }
}

impl World for MemoryWorld {
    fn join<'a>(&'a self, joining: &'a JoinRequest) -> WorldFuture<'a, JoinReply> {
        self.answer(|store, now| store.join(joining, now))
    }

    fn publish<'a>(&'a self, owner: OwnerId, rows: &'a [Row]) -> WorldFuture<'a, PublishReply> {
        self.answer(|store, now| Ok(store.publish(owner, rows, now)))
    }

    fn import(&self, since: Cursor) -> WorldFuture<'_, ImportPage> {
        self.answer(|store, now| Ok(store.import(since, self.page_rows, now)))
    }

    fn stored_counts<'a>(&'a self, owner: OwnerId, cells: &'a [CellId]) -> WorldFuture<'a, StoredCounts> {
        self.answer(|store, _| Ok(store.stored_counts(owner, cells)))
    }

    fn merge_log(&self) -> WorldFuture<'_, MergeReport> {
        // This store has no log.
        self.answer(|_, _| Ok(MergeReport::default()))
    }

    fn delete_expired(&self) -> WorldFuture<'_, u64> {
        self.answer(|store, now| Ok(store.delete_expired(now)))
    }

    fn lead<'a>(&'a self, job: &'a str, holder: u64, lease: Nanos) -> WorldFuture<'a, Option<Term>> {
        self.answer(|store, now| Ok(store.lead(job, holder, lease, now)))
    }

    fn report<'a>(&'a self, owner: OwnerId, demands: &'a [Demand]) -> WorldFuture<'a, ()> {
        self.answer(|store, now| store.report(owner, demands, now))
    }

    fn slices(&self, owner: OwnerId) -> WorldFuture<'_, Slices> {
        self.answer(|store, now| Ok(store.slices(owner, now)))
    }

    fn acknowledge<'a>(&'a self, owner: OwnerId, said: &'a Acknowledgement) -> WorldFuture<'a, ()> {
        self.answer(|store, now| {
            store.acknowledge(owner, said, now);
            Ok(())
        })
    }

    fn survey(&self) -> WorldFuture<'_, Survey> {
        self.answer(|store, now| Ok(store.survey(now)))
    }

    fn grant<'a>(&'a self, term: Term, granted: &'a SliceGrants) -> WorldFuture<'a, ()> {
        self.answer(|store, _| store.grant(term, granted))
    }
}

impl RuleLog for MemoryWorld {
    fn head(&self) -> WorldFuture<'_, u64> {
        self.answer(|store, _| Ok(store.rules_head()))
    }

    fn append<'a>(&'a self, head: u64, entries: &'a [NewRuleLogEntry]) -> WorldFuture<'a, ()> {
        self.answer(|store, now| store.append_rules(head, entries, now))
    }

    fn entries(&self, after: u64) -> WorldFuture<'_, Vec<RuleLogEntry>> {
        self.answer(|store, _| Ok(store.rules_entries(after, self.page_rows)))
    }

    fn entry(&self, version: u64) -> WorldFuture<'_, Option<RuleLogEntry>> {
        self.answer(|store, _| Ok(store.rules_entry(version)))
    }

    fn history(&self, page: HistoryPage) -> WorldFuture<'_, Vec<Summary>> {
        self.answer(|store, _| Ok(store.rules_history(page)))
    }

    fn sizes(&self, subject: RuleLogSubject, rows_max: usize) -> WorldFuture<'_, Vec<RuleLogEntrySize>> {
        self.answer(|store, _| Ok(store.rules_sizes(subject, rows_max)))
    }

    fn prune<'a>(&'a self, remainders: &'a [Remainder]) -> WorldFuture<'a, ()> {
        self.answer(|store, _| {
            store.prune_rules(remainders);
            Ok(())
        })
    }

    fn items(&self, page: RuleItemsPage) -> WorldFuture<'_, Vec<RuleItem>> {
        self.answer(|store, _| Ok(store.rules_items(page, self.page_rows)))
    }

    fn find<'a>(&'a self, items: &'a [RuleItemId]) -> WorldFuture<'a, Vec<RuleItem>> {
        self.answer(|store, _| Ok(store.find_rules(items)))
    }
}
