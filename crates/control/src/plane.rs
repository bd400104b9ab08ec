//! The control plane of the rules: takes changes, checks them against the whole set, logs them, and tells everybody.
//!
//! Any number of processes over one store are equal: each follows the log, and the store lets only one of two write a
//! version. Overrides are millions and stay in the store; rules are few, and are held as they stand.

mod check;
mod draft;
mod items;
pub mod json;
mod meaning;
mod prune;
mod push_writer;
mod recent;
mod rollback;
mod rule_state;
mod share;
mod written;

pub(crate) use items::change_of as read_item;
pub use items::{RecordedChange, owner};
pub use meaning::{Line, Sign, override_words};
pub use prune::Retention;
pub use push_writer::PushWriter;
pub use recent::EncodedDelta;
pub use rule_state::RuleState;
pub use written::{ExportedRules, WRITTEN_OVERRIDES_MAX, WrittenOverrides};

use arc_swap::ArcSwap;
use draft::{Draft, Overlay};
use parking_lot::Mutex;
use push_writer::QueuedWrite;
use recent::Recent;
use std::sync::Arc;
use std::time::Duration;
use tidegate_core::Nanos;
use tidegate_rules::{Delta, DocumentName, Mode, OverrideName, PushedRules, RuleChange, RuleErrors, Source};
use tidegate_world::{
    HistoryPage, RuleItem, RuleItemId, RuleItemsPage, RuleLog, RuleLogSubject, Summary, WorldError,
};
use tokio::sync::{broadcast, mpsc, oneshot, watch};

/// The most changes of one push.
pub const CHANGES_MAX: usize = 100_000;
/// Pushes that wait to be written; more are refused.
const QUEUE_MAX: usize = 4096;
/// Deltas that a subscriber may lag behind before it has to ask for them.
const BROADCAST_MAX: usize = 4096;
/// How long a push waits to be written.
const WRITE_TIMEOUT: Duration = Duration::from_secs(20);
/// How long a version of another process's may take to be heard of.
const NOTIFY_TIMEOUT: Duration = Duration::from_secs(1);
/// Rows of a page of history.
pub const HISTORY_ROWS_MAX: usize = 1000;

/// A change that a push makes to the rules.
#[derive(Clone, Debug)]
pub enum PushChange {
    /// What rules files say, in the place of what is there.
    Files {
        pushed: PushedRules,
        replace: Replace,
        overrides: OverrideRetention,
    },
    /// One override, written as an entry of `overrides`.
    SetOverride {
        document: DocumentName,
        entry: Source,
    },
    RemoveOverride {
        document: DocumentName,
        target: OverrideTarget,
    },
    FleetMode(Mode),
    /// A caller starts afresh.
    Reset {
        document: DocumentName,
        entry: Source,
    },
    /// Back to how it was at a version.
    RollBack {
        to: u64,
    },
    /// As they are.
    Changes(Vec<RuleChange>),
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Replace {
    /// The namespaces that the files name.
    Named,
    /// Everything: what the files don't name goes.
    All,
}

/// Whether a push that replaces a namespace removes the overrides that it does not list.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum OverrideRetention {
    /// Removes overrides that the files don't list.
    Pruned,
    /// They stay; those of the files are set.
    Kept,
}

/// The override that a push removes: by its attributes, or by its name if its rule no longer exists.
#[derive(Clone, Debug)]
pub enum OverrideTarget {
    Entry(Source),
    Name(OverrideName),
}

#[derive(Clone, Debug)]
pub struct Push {
    pub change: PushChange,
    /// Only if the rules are at this version.
    pub if_version: Option<u64>,
    pub author: String,
    pub reason: String,
    /// Whose rules may be changed; `None` for everybody's.
    pub tenant: Option<Arc<str>>,
}

/// The result of a push, or of its preview.
#[derive(Clone, Debug)]
pub struct PushOutcome {
    /// That the rules have now; of a preview, that they have without it.
    pub version: u64,
    pub changes: Vec<RecordedChange>,
    /// What that means.
    pub lines: Vec<Line>,
}

/// The rules are at another version than the one that was asked for.
#[derive(Clone, Debug)]
pub struct Conflict {
    pub expected: u64,
    pub head: u64,
    /// What others changed since, in plain words.
    pub lines: Vec<Line>,
    /// Who it was, the latest first.
    pub entries: Vec<Summary>,
}

#[derive(Clone, Debug, thiserror::Error)]
pub enum PlaneError {
    #[error("the rules have errors\n{0}")]
    Invalid(RuleErrors),
    #[error("{message}; {fix}")]
    Refused { message: String, fix: String },
    #[error(
        "the rules of tenant {tenant} aren't this token's; use one of that tenant, or of tenant `default`"
    )]
    Forbidden { tenant: String },
    #[error("what the fleet has in common is for tenant `default` to change; use a token of it")]
    FleetIsForbidden,
    #[error("the rules are at version {}, not {}: somebody was faster", .0.head, .0.expected)]
    Conflict(Box<Conflict>),
    #[error("there is no {0}")]
    Unknown(String),
    #[error("too many changes wait to be written, or the store is slow; try again")]
    Busy,
    #[error("the rules aren't read from the store yet: {0}; it is tried again")]
    NotReady(String),
    #[error("the store: {0}; whether anything was written shows in the history")]
    Store(#[from] WorldError),
    #[error("the store has something in it that can't be read: {0}")]
    Damaged(String),
}

impl PlaneError {
    fn refused(message: impl Into<String>, fix: impl Into<String>) -> Self {
        PlaneError::Refused { message: message.into(), fix: fix.into() }
    }
}

/// One version of the rules, decoded from the log.
#[derive(Clone, Debug)]
pub struct RuleVersion {
    pub summary: Summary,
    pub changed: Delta,
    pub replaced: Delta,
}

impl RuleVersion {
    fn read(entry: tidegate_world::RuleLogEntry) -> Result<Self, PlaneError> {
        let (changed, replaced) = (items::decode(&entry.changed)?, items::decode(&entry.replaced)?);
        Ok(RuleVersion { summary: entry.summary, changed, replaced })
    }

    /// Whether some of its details are gone: it can neither be undone nor applied to older rules.
    pub fn is_pruned(&self) -> bool {
        self.replaced.changes.len() < usize::try_from(self.summary.changes).unwrap_or(usize::MAX)
    }
}

#[derive(Debug)]
pub struct ControlPlane {
    log: Arc<dyn RuleLog>,
    rules: ArcSwap<RuleState>,
    queue: mpsc::Sender<QueuedWrite>,
    sent: broadcast::Sender<Arc<EncodedDelta>>,
    head: watch::Sender<u64>,
    recent: Mutex<Recent>,
    /// Why the rules aren't what the store has, while that is so.
    problem: Mutex<Option<String>>,
    retention: Retention,
}

impl ControlPlane {
    /// Answers nothing before the worker runs and has reached the store.
    pub fn new(log: Arc<dyn RuleLog>) -> (Arc<Self>, PushWriter) {
        Self::with_retention(log, Retention::default())
    }

    /// The same, with another bound of each tenant's history.
    pub fn with_retention(log: Arc<dyn RuleLog>, retention: Retention) -> (Arc<Self>, PushWriter) {
        let (queue, queued) = mpsc::channel(QUEUE_MAX);
        let plane = Arc::new(ControlPlane {
            log,
            rules: ArcSwap::default(),
            queue,
            sent: broadcast::Sender::new(BROADCAST_MAX),
            head: watch::Sender::new(0),
            recent: Mutex::default(),
            problem: Mutex::new(Some("the store hasn't answered yet".to_owned())),
            retention,
        });
        (plane.clone(), PushWriter::new(plane, queued))
    }

    /// Returns the rules in force here.
    pub fn rules(&self) -> Arc<RuleState> {
        self.rules.load_full()
    }

    /// Why they may be older than what the store has.
    pub fn problem(&self) -> Option<String> {
        self.problem.lock().clone()
    }

    /// The version in force here, whenever it changes.
    pub fn versions(&self) -> watch::Receiver<u64> {
        self.head.subscribe()
    }

    /// Every delta from now on, in order. Who lags behind asks [`ControlPlane::recent_after`] or
    /// [`ControlPlane::entries_after`].
    pub fn subscribe(&self) -> broadcast::Receiver<Arc<EncodedDelta>> {
        self.sent.subscribe()
    }

    /// The deltas that follow a version up to the present, from memory; `None` when that goes too far back.
    pub fn recent_after(&self, version: u64) -> Option<Vec<Arc<EncodedDelta>>> {
        self.recent.lock().after(version, self.rules().version)
    }

    /// A page of the entries that follow a version, from the store.
    pub async fn entries_after(&self, version: u64) -> Result<Vec<RuleVersion>, PlaneError> {
        self.log.entries(version).await?.into_iter().map(RuleVersion::read).collect()
    }

    /// Queues a change, and returns its outcome when it is written.
    pub async fn push(&self, push: Push) -> Result<PushOutcome, PlaneError> {
        self.ready()?;
        self.queued(|reply| QueuedWrite::Push { push: Box::new(push), reply }).await
    }

    /// Writes versions as they once were into a store that ends right before them. Says the head.
    pub async fn restore(&self, entries: Vec<json::EntryJson>) -> Result<u64, PlaneError> {
        self.ready()?;
        self.queued(|reply| QueuedWrite::Restore { entries, reply }).await
    }

    async fn queued<T>(
        &self,
        queued: impl FnOnce(oneshot::Sender<Result<T, PlaneError>>) -> QueuedWrite,
    ) -> Result<T, PlaneError> {
        let (reply, answer) = oneshot::channel();
        self.queue.try_send(queued(reply)).map_err(|_| PlaneError::Busy)?;
        match tokio::time::timeout(WRITE_TIMEOUT, answer).await {
            Ok(Ok(outcome)) => outcome,
            Ok(Err(_)) | Err(_) => Err(PlaneError::Busy),
        }
    }

    /// What a push would change, and whether it could be made now. Nothing is written.
    pub async fn preview(&self, push: &Push) -> Result<PushOutcome, PlaneError> {
        self.ready()?;
        // Who was told of a version by another process knows it before this one does.
        if let Some(before) = push.if_version.and_then(|version| version.checked_sub(1)) {
            self.wait_beyond(before, NOTIFY_TIMEOUT).await;
        }
        let before = self.rules();
        let draft = Draft::of(&*self.log, &before, &Overlay::default(), push).await?;
        let lines = draft.lines(&*self.log, &before).await?;
        Ok(PushOutcome { version: before.version, changes: draft.changes, lines })
    }

    /// Whether the rules were ever read.
    pub fn ready(&self) -> Result<(), PlaneError> {
        match &*self.problem.lock() {
            Some(problem) if self.rules().version == 0 => Err(PlaneError::NotReady(problem.clone())),
            _ => Ok(()),
        }
    }

    /// The latest first; of one tenant, or of one namespace.
    pub async fn history(
        &self,
        tenant: Option<&str>,
        namespace: Option<&DocumentName>,
        before: u64,
        rows_max: usize,
    ) -> Result<Vec<Summary>, PlaneError> {
        let of_tenant = tenant.map(items::tenant_subject);
        let subject: Option<RuleLogSubject> = namespace.map(items::namespace_subject).or(of_tenant);
        let rows_max = rows_max.clamp(1, HISTORY_ROWS_MAX);
        Ok(self.log.history(HistoryPage { subject, before, rows_max }).await?)
    }

    /// The versions with resets that were made since, the latest first, so many at most, and when.
    pub async fn resets_since(&self, since: Nanos, most: usize) -> Result<Vec<(Nanos, Delta)>, PlaneError> {
        let (mut found, mut before) = (Vec::new(), u64::MAX);
        while found.len() < most {
            let page = HistoryPage { subject: Some(items::resets()), before, rows_max: HISTORY_ROWS_MAX };
            let summaries = self.log.history(page).await?;
            let Some(last) = summaries.last() else { break };
            before = last.version;
            let is_old = last.at < since;
            for summary in summaries.iter().filter(|summary| summary.at >= since) {
                found.push((summary.at, self.entry(summary.version).await?.changed));
            }
            if is_old {
                break;
            }
        }
        found.truncate(most);
        Ok(found)
    }

    pub async fn entry(&self, version: u64) -> Result<RuleVersion, PlaneError> {
        let entry = self.log.entry(version).await?;
        entry.map_or_else(|| Err(PlaneError::Unknown(format!("version {version}"))), RuleVersion::read)
    }

    /// A page of the overrides of a namespace, and where the next begins.
    pub async fn overrides(
        &self,
        document: &DocumentName,
        after: Option<RuleItemId>,
    ) -> Result<(Vec<RuleChange>, Option<RuleItemId>), PlaneError> {
        self.items(RuleItemsPage { place: Some(items::overrides_of(document)), after }).await
    }

    /// A page of everything, each as the change that makes it, and where the next begins.
    pub async fn everything(
        &self,
        after: Option<RuleItemId>,
    ) -> Result<(Vec<RuleChange>, Option<RuleItemId>), PlaneError> {
        self.items(RuleItemsPage { place: None, after }).await
    }

    /// The same as the store has it, for who has another thread to read it on ([`read_item`]), and its own to ask for
    /// the next page meanwhile.
    pub(crate) async fn everything_unread(
        &self,
        after: Option<RuleItemId>,
    ) -> Result<Vec<RuleItem>, PlaneError> {
        Ok(self.log.items(RuleItemsPage { place: None, after }).await?)
    }

    async fn items(&self, page: RuleItemsPage) -> Result<(Vec<RuleChange>, Option<RuleItemId>), PlaneError> {
        let items = self.log.items(page).await?;
        let next = items.last().map(|item| item.id);
        let changes: Result<Vec<RuleChange>, PlaneError> = items.iter().map(items::change_of).collect();
        Ok((changes?, next))
    }

    /// What the store keeps of one thing.
    pub async fn find(&self, name: &OverrideName) -> Result<Option<RuleChange>, PlaneError> {
        let found = self.log.find(&[items::override_item(name)]).await?;
        found.first().map(items::change_of).transpose()
    }

    /// Waits until the rules here are past a version, for so long at most. Says where they are.
    pub async fn wait_beyond(&self, version: u64, wait: Duration) -> u64 {
        let mut versions = self.versions();
        let past = versions.wait_for(|head| *head > version);
        // Whichever it is: the head is asked again.
        let _ = tokio::time::timeout(wait, past).await;
        self.rules().version
    }
}
