//! A world store in a SQL database: SQLite, MySQL or MariaDB, PostgreSQL.
//!
//! Starts without a database and never waits past its deadline. Retries nothing, caches nothing, and decides
//! nothing that two processes could decide differently: every merge and every fence is in the statement, and
//! every instant is the database's.

mod counts;
mod dialect;
mod fleet;
mod link;
mod log;
mod merge;
mod pool;
mod quotas;
mod rules;
mod schema;
mod secret;
mod tls;
mod url;

pub(crate) use log::LogReadSet;
pub use url::{WorldUrl, WorldUrlError};

use crate::rules::{
    HistoryPage, NewRuleLogEntry, Remainder, RuleItem, RuleItemId, RuleItemsPage, RuleLog, RuleLogEntry,
    RuleLogEntrySize, RuleLogSubject, Summary,
};
use crate::{
    Acknowledgement, CellId, Cursor, Demand, ImportPage, JoinReply, JoinRequest, MergeReport, OwnerId,
    PublishReply, Row, SliceGrants, Slices, StoredCounts, Survey, Term, World, WorldError, WorldFuture,
};
use dialect::Dialect;
use link::{Failure, Link};
use pool::Pool;
use std::time::Duration;
use tidegate_core::{FleetSecret, Nanos, StoredSecret};
use tokio::runtime::Handle;

/// How a store works. The defaults fit a fleet of any size.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SqlOptions {
    /// The longest that a call takes, its connection included. Merging the log takes many statements, each of which
    /// has this long.
    pub deadline: Duration,
    /// How many connections there are at most.
    pub connections_max: usize,
    /// How many rows a page of an import has.
    pub page_rows: usize,
    /// How many rows a statement writes.
    pub chunk_rows: usize,
    /// Whether SQLite waits for the disk: what was written outlives also a power cut. Servers decide that themselves.
    pub waits_for_disk: bool,
}

impl Default for SqlOptions {
    fn default() -> Self {
        SqlOptions {
            deadline: Duration::from_secs(2),
            connections_max: 4,
            page_rows: 5000,
            chunk_rows: 500,
            waits_for_disk: false,
        }
    }
}

/// A world store in a database.
#[derive(Debug)]
pub struct SqlWorld {
    url: WorldUrl,
    options: SqlOptions,
    pool: Pool,
}

/// A connection with its database's dialect, for as long as one call takes.
#[derive(Debug)]
struct Session<'a> {
    link: &'a mut Link,
    dialect: &'static Dialect,
    options: SqlOptions,
}

impl SqlWorld {
    /// Never fails and never waits: connections are made when calls come, by tasks on `runtime`. Calls may be
    /// awaited on another one, as long as that is tokio's and has timers.
    pub fn new(url: WorldUrl, options: SqlOptions, runtime: &Handle) -> Self {
        let address =
            if options.waits_for_disk { url.address().synchronous() } else { url.address().clone() };
        let pool = Pool::new(address, options.connections_max.max(1), runtime.clone());
        SqlWorld { url, options, pool }
    }

    pub fn url(&self) -> &WorldUrl {
        &self.url
    }

    /// Returns the fleet's secret as the database holds it. Stores `ours` first if it holds none and no region uses
    /// another: whoever comes first wins, and everybody else reads the winner's.
    pub async fn fleet_secret(&self, ours: Option<FleetSecret>) -> Result<StoredSecret, WorldError> {
        self.call(async move |session| session.fleet_secret(ours).await).await
    }

    /// One call, with a connection and a deadline.
    async fn call<T>(
        &self,
        act: impl AsyncFnOnce(Session<'_>) -> Result<T, Failure>,
    ) -> Result<T, WorldError> {
        self.call_within(self.options.deadline, act).await
    }

    async fn call_within<T>(
        &self,
        within: Duration,
        act: impl AsyncFnOnce(Session<'_>) -> Result<T, Failure>,
    ) -> Result<T, WorldError> {
        let deadline = tokio::time::sleep(within);
        tokio::pin!(deadline);
        let mut lent = tokio::select! {
            lent = self.pool.lend() => lent?,
            () = tokio::time::sleep(self.options.deadline) => return Err(late_after(self.options.deadline).into()),
        };
        let session =
            Session { link: lent.link(), dialect: self.url.address().dialect(), options: self.options };
        let outcome = tokio::select! {
            outcome = act(session) => outcome,
            () = &mut deadline => Err(late_after(within)),
        };
        match outcome {
            Ok(answer) => {
                lent.give_back();
                Ok(answer)
            }
            Err(failure) => {
                lent.close(&failure);
                Err(failure.into())
            }
        }
    }
}

fn late_after(waited: Duration) -> Failure {
    let waited_ms = u64::try_from(waited.as_millis()).unwrap_or(u64::MAX);
    Failure::World(WorldError::Timeout { waited_ms })
}

impl World for SqlWorld {
    fn join<'a>(&'a self, joining: &'a JoinRequest) -> WorldFuture<'a, JoinReply> {
        Box::pin(async move {
            joining.check()?;
            self.call(async |session| session.join(joining).await).await
        })
    }

    fn publish<'a>(&'a self, owner: OwnerId, rows: &'a [Row]) -> WorldFuture<'a, PublishReply> {
        Box::pin(self.call(async move |session| session.publish(owner, rows).await))
    }

    fn import(&self, since: Cursor) -> WorldFuture<'_, ImportPage> {
        Box::pin(self.call(async move |session| session.import(since).await))
    }

    fn publish_and_import<'a>(
        &'a self,
        owner: OwnerId,
        rows: &'a [Row],
        since: Cursor,
    ) -> WorldFuture<'a, (PublishReply, ImportPage)> {
        Box::pin(self.call(async move |session| session.publish_and_import(owner, rows, since).await))
    }

    fn stored_counts<'a>(&'a self, owner: OwnerId, cells: &'a [CellId]) -> WorldFuture<'a, StoredCounts> {
        Box::pin(self.call(async move |session| session.stored_counts(owner, cells).await))
    }

    fn merge_log(&self) -> WorldFuture<'_, MergeReport> {
        let within = self.options.deadline.saturating_mul(merge::DEADLINES);
        Box::pin(self.call_within(within, async |session| session.merge_log().await))
    }

    fn delete_expired(&self) -> WorldFuture<'_, u64> {
        Box::pin(self.call(async |session| session.delete_expired().await))
    }

    fn lead<'a>(&'a self, job: &'a str, holder: u64, lease: Nanos) -> WorldFuture<'a, Option<Term>> {
        Box::pin(self.call(async move |session| session.lead(job, holder, lease).await))
    }

    fn report<'a>(&'a self, owner: OwnerId, demands: &'a [Demand]) -> WorldFuture<'a, ()> {
        Box::pin(async move {
            demands.iter().try_for_each(Demand::check)?;
            self.call(async |session| session.report(owner, demands).await).await
        })
    }

    fn slices(&self, owner: OwnerId) -> WorldFuture<'_, Slices> {
        Box::pin(self.call(async move |session| session.slices(owner).await))
    }

    fn acknowledge<'a>(&'a self, owner: OwnerId, said: &'a Acknowledgement) -> WorldFuture<'a, ()> {
        Box::pin(self.call(async move |session| session.acknowledge(owner, said).await))
    }

    fn survey(&self) -> WorldFuture<'_, Survey> {
        Box::pin(self.call(async |session| session.survey().await))
    }

    fn grant<'a>(&'a self, term: Term, granted: &'a SliceGrants) -> WorldFuture<'a, ()> {
        Box::pin(self.call(async move |session| session.grant(term, granted).await))
    }
}

impl RuleLog for SqlWorld {
    fn head(&self) -> WorldFuture<'_, u64> {
        Box::pin(self.call(async |session| session.head().await))
    }

    fn append<'a>(&'a self, head: u64, entries: &'a [NewRuleLogEntry]) -> WorldFuture<'a, ()> {
        Box::pin(self.call(async move |session| session.append(head, entries).await))
    }

    fn entries(&self, after: u64) -> WorldFuture<'_, Vec<RuleLogEntry>> {
        Box::pin(self.call(async move |session| session.entries(after).await))
    }

    fn entry(&self, version: u64) -> WorldFuture<'_, Option<RuleLogEntry>> {
        Box::pin(self.call(async move |session| session.entry(version).await))
    }

    fn history(&self, page: HistoryPage) -> WorldFuture<'_, Vec<Summary>> {
        Box::pin(self.call(async move |session| session.history(page).await))
    }

    fn sizes(&self, subject: RuleLogSubject, rows_max: usize) -> WorldFuture<'_, Vec<RuleLogEntrySize>> {
        Box::pin(self.call(async move |session| session.sizes(subject, rows_max).await))
    }

    fn prune<'a>(&'a self, remainders: &'a [Remainder]) -> WorldFuture<'a, ()> {
        Box::pin(self.call(async move |session| session.prune(remainders).await))
    }

    fn items(&self, page: RuleItemsPage) -> WorldFuture<'_, Vec<RuleItem>> {
        Box::pin(self.call(async move |session| session.items(page).await))
    }

    fn find<'a>(&'a self, items: &'a [RuleItemId]) -> WorldFuture<'a, Vec<RuleItem>> {
        Box::pin(self.call(async move |session| session.find(items).await))
    }
}
