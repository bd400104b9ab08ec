//! The one task of a control plane that writes and follows the log.
//!
//! Pushes that come while others are being written go together into the next transaction, each as a version of its
//! own: a store that syncs its disk for every commit takes thousands of single changes a second all the same.

use super::draft::{Draft, Overlay};
use super::items;
use super::json::EntryJson;
use super::prune::{self, PushesSinceScan};
use super::{
    Conflict, ControlPlane, EncodedDelta, PlaneError, Push, PushOutcome, RecordedChange, RuleState,
    RuleVersion,
};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;
use tidegate_core::Nanos;
use tidegate_rules::{Delta, RuleChange};
use tidegate_world::{ENTRIES_AT_ONCE_MAX, NewRuleLogEntry, RuleItemsPage, WorldError};
use tokio::sync::{mpsc, oneshot};
use tokio::time::MissedTickBehavior;

/// How often the store is asked whether somebody else wrote.
const POLL_EVERY: Duration = Duration::from_millis(75);
/// The most pushes of one transaction.
const BATCH_MAX: usize = 256;
/// How often a batch is tried again because another process was faster.
const ATTEMPTS_MAX: u32 = 50;

type Answer<T> = oneshot::Sender<Result<T, PlaneError>>;

#[derive(Debug)]
pub(super) enum QueuedWrite {
    Push { push: Box<Push>, reply: Answer<PushOutcome> },
    Restore { entries: Vec<EntryJson>, reply: Answer<u64> },
}

/// Writes queued pushes to the log, and follows what other control planes write.
#[derive(Debug)]
pub struct PushWriter {
    plane: Arc<ControlPlane>,
    queued: mpsc::Receiver<QueuedWrite>,
    is_loaded: bool,
    pushes_since_scan: PushesSinceScan,
}

/// A push on its way, and what came of it so far.
struct PendingPush {
    push: Box<Push>,
    reply: Answer<PushOutcome>,
}

impl PushWriter {
    pub(super) fn new(plane: Arc<ControlPlane>, queued: mpsc::Receiver<QueuedWrite>) -> Self {
        PushWriter { plane, queued, is_loaded: false, pushes_since_scan: PushesSinceScan::default() }
    }

    /// Runs for as long as it is polled.
    pub async fn run(mut self) {
        let mut ticks = tokio::time::interval(POLL_EVERY);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut batch = Vec::new();
        loop {
            tokio::select! {
                biased;
                _ = ticks.tick() => self.poll().await,
                count = self.queued.recv_many(&mut batch, BATCH_MAX), if self.is_loaded => {
                    if count == 0 {
                        return;
                    }
                    self.work(std::mem::take(&mut batch)).await;
                }
            }
        }
    }

    /// Applies what other control planes wrote. Logs the first failure, and the recovery.
    async fn poll(&mut self) {
        let followed = if self.is_loaded { self.catch_up().await } else { self.load().await };
        let mut problem = self.plane.problem.lock();
        match followed {
            Ok(()) => {
                if problem.take().is_some() {
                    let version = self.plane.rules().version;
                    tracing::info!(version, "the rules are as the store has them");
                }
            }
            Err(error) => {
                let text = error.to_string();
                if problem.as_ref() != Some(&text) {
                    tracing::warn!(problem = %text, "can't follow the store of the rules; trying on");
                }
                *problem = Some(text);
            }
        }
    }

    /// Documents and the fleet's mode, and then what came meanwhile.
    async fn load(&mut self) -> Result<(), PlaneError> {
        let log = &self.plane.log;
        let head = log.head().await?;
        let mut changes = Vec::new();
        let mut page = RuleItemsPage { place: Some(items::documents()), after: None };
        loop {
            let found = log.items(page).await?;
            let Some(last) = found.last() else { break };
            page.after = Some(last.id);
            for item in &found {
                changes.push(items::change_of(item)?);
            }
        }
        for item in log.find(&[items::fleet_item()]).await? {
            changes.push(items::change_of(&item)?);
        }
        let rules = RuleState::of(head, changes)?;
        self.plane.rules.store(Arc::new(rules));
        self.plane.head.send_replace(head);
        self.is_loaded = true;
        self.catch_up().await
    }

    async fn catch_up(&mut self) -> Result<(), PlaneError> {
        let head = self.plane.log.head().await?;
        let mut version = self.plane.rules().version;
        if head < version {
            return Err(PlaneError::Damaged(format!(
                "it is at version {head}, and was at {version} before; was it replaced by an older one? Restore a \
                 backup, or start the control plane anew"
            )));
        }
        while version < head {
            for entry in self.plane.log.entries(version).await? {
                let changed = entry.changed.clone();
                let entry = RuleVersion::read(entry)?;
                if entry.is_pruned() {
                    // Too far behind for the log.
                    return Box::pin(self.load()).await;
                }
                self.take_in(entry.changed, changed)?;
            }
            let now = self.plane.rules().version;
            if now == version {
                return Err(PlaneError::Damaged(format!("version {} is missing in its log", version + 1)));
            }
            version = now;
        }
        Ok(())
    }

    /// One more version is in force.
    fn take_in(&self, delta: Delta, bytes: Vec<u8>) -> Result<(), PlaneError> {
        let plane = &self.plane;
        let (before, version) = (plane.rules(), delta.version);
        if version != before.version + 1 {
            return Err(PlaneError::Damaged(format!("version {version} follows {}", before.version)));
        }
        let next = before.after(&delta)?;
        let logged = Arc::new(EncodedDelta { delta, bytes });
        plane.recent.lock().add(logged.clone());
        plane.rules.store(Arc::new(next));
        plane.head.send_replace(version);
        // Nobody may be listening.
        let _ = plane.sent.send(logged);
        Ok(())
    }

    async fn work(&mut self, batch: Vec<QueuedWrite>) {
        let mut pushes = Vec::new();
        for queued in batch {
            match queued {
                QueuedWrite::Push { push, reply } => pushes.push(PendingPush { push, reply }),
                QueuedWrite::Restore { entries, reply } => {
                    self.write(std::mem::take(&mut pushes)).await;
                    // Who asked may have given up.
                    let _ = reply.send(self.restore(entries).await);
                }
            }
        }
        self.write(pushes).await;
    }

    async fn write(&mut self, mut pushes: Vec<PendingPush>) {
        for _ in 0..ATTEMPTS_MAX {
            if pushes.is_empty() {
                return;
            }
            // Who was told of a version by another process knows it before this one does.
            let known = self.plane.rules().version;
            if pushes.iter().any(|waiting| waiting.push.if_version.is_some_and(|version| version > known))
                && let Err(error) = self.catch_up().await
            {
                return fail(pushes, &error);
            }
            let before = self.plane.rules();
            let (drafts, entries) = self.draft(&before, pushes).await;
            if entries.is_empty() {
                return answer(drafts);
            }
            match self.plane.log.append(before.version, &entries).await {
                Ok(()) => {
                    let sizes: Vec<usize> =
                        entries.iter().map(|entry| entry.changed.len() + entry.replaced.len()).collect();
                    for (version, entry) in (before.version + 1..).zip(entries) {
                        let taken = items::decode(&entry.changed)
                            .and_then(|delta| self.take_in(delta, entry.changed));
                        if let Err(error) = taken {
                            tracing::error!(%error, version, "a version that was just written can't be read");
                        }
                    }
                    let written = drafts.iter().filter(|(_, outcome)| outcome.version > before.version);
                    let tenants: Vec<_> = written.map(|(waiting, _)| waiting.push.tenant.clone()).collect();
                    answer(drafts);
                    return self.prune(tenants.iter().zip(sizes)).await;
                }
                Err(WorldError::Outdated { .. }) => {
                    pushes = drafts.into_iter().map(|(waiting, _)| waiting).collect();
                    if let Err(error) = self.catch_up().await {
                        return fail(pushes, &error);
                    }
                }
                Err(error) => {
                    let pushes = drafts.into_iter().map(|(waiting, _)| waiting).collect();
                    return fail(pushes, &PlaneError::Store(error));
                }
            }
        }
        fail(pushes, &PlaneError::Busy);
    }

    /// Prunes the histories of tenants that have pushed much. Nobody waits for it: who pushed has its answer.
    async fn prune(&mut self, written: impl Iterator<Item = (&Option<Arc<str>>, usize)>) {
        let due: BTreeSet<Arc<str>> = written
            .filter_map(|(tenant, bytes)| Some((tenant.as_ref()?, bytes)))
            .filter(|(tenant, bytes)| self.pushes_since_scan.is_due(tenant, *bytes))
            .map(|(tenant, _)| Arc::clone(tenant))
            .collect();
        for tenant in due {
            if let Err(error) = prune::prune(&*self.plane.log, &tenant, self.plane.retention).await {
                tracing::warn!(%error, tenant = &*tenant, "the history of a tenant couldn't be pruned; it is tried again");
            }
        }
    }

    /// Each upon what those before it change. Who can't have what they asked for is told so at once.
    async fn draft(
        &self,
        before: &Arc<RuleState>,
        pushes: Vec<PendingPush>,
    ) -> (Vec<(PendingPush, PushOutcome)>, Vec<NewRuleLogEntry>) {
        let (mut drafts, mut entries) = (Vec::new(), Vec::new());
        let (mut rules, mut overlay) = (RuleState::clone(before), Overlay::default());
        for waiting in pushes {
            match self.draft_one(&rules, &overlay, &waiting.push).await {
                Ok((Some(entry), after, outcome)) => {
                    entries.push(entry);
                    overlay.take(&outcome.changes);
                    rules = after;
                    drafts.push((waiting, outcome));
                }
                Ok((None, _, outcome)) => drafts.push((waiting, outcome)),
                Err(error) => drop(waiting.reply.send(Err(error))),
            }
        }
        (drafts, entries)
    }

    async fn draft_one(
        &self,
        rules: &RuleState,
        overlay: &Overlay,
        push: &Push,
    ) -> Result<(Option<NewRuleLogEntry>, RuleState, PushOutcome), PlaneError> {
        let log = &*self.plane.log;
        let draft = Draft::of(log, rules, overlay, push).await?;
        let lines = draft.lines(log, rules).await?;
        let Draft { changes, after } = draft;
        if changes.is_empty() {
            return Ok((None, after, PushOutcome { version: rules.version, changes, lines }));
        }
        let version = rules.version + 1;
        let entry = new_entry(&changes, &push.author, &push.reason, version)?;
        Ok((Some(entry), RuleState { version, ..after }, PushOutcome { version, changes, lines }))
    }

    /// Versions as they once were.
    async fn restore(&mut self, entries: Vec<EntryJson>) -> Result<u64, PlaneError> {
        for chunk in entries.chunks(ENTRIES_AT_ONCE_MAX) {
            let before = self.plane.rules();
            let mut new = Vec::new();
            for (version, entry) in (before.version + 1..).zip(chunk) {
                new.push(restored(version, entry)?);
            }
            self.plane.log.append(before.version, &new).await?;
            self.catch_up().await?;
        }
        Ok(self.plane.rules().version)
    }
}

fn answer(drafts: Vec<(PendingPush, PushOutcome)>) {
    for (waiting, outcome) in drafts {
        // Who asked may have given up.
        let _ = waiting.reply.send(Ok(outcome));
    }
}

fn fail(pushes: Vec<PendingPush>, error: &PlaneError) {
    for waiting in pushes {
        let _ = waiting.reply.send(Err(error.clone()));
    }
}

fn new_entry(
    changes: &[RecordedChange],
    author: &str,
    reason: &str,
    version: u64,
) -> Result<NewRuleLogEntry, PlaneError> {
    let (after, before) = changes.iter().map(|change| (change.after.clone(), change.before.clone())).unzip();
    let item = |change: &RecordedChange| {
        Ok((items::item_of(&change.after), items::value_of(&change.after, version)?))
    };
    Ok(NewRuleLogEntry {
        author: author.to_owned(),
        reason: reason.to_owned(),
        changes: u32::try_from(changes.len()).unwrap_or(u32::MAX),
        changed: items::encode(version, after)?,
        replaced: items::encode(version, before)?,
        subjects: items::subjects(changes),
        items: changes.iter().map(item).collect::<Result<_, PlaneError>>()?,
        at: None,
    })
}

fn restored(version: u64, entry: &EntryJson) -> Result<NewRuleLogEntry, PlaneError> {
    if entry.version != version {
        let message =
            format!("the backup goes on with version {}, and the store is at {}", entry.version, version - 1);
        return Err(PlaneError::refused(
            message,
            "restore into an empty store, from the backup's first line",
        ));
    }
    let read = |changes: &[super::json::ChangeJson]| {
        let changes: Result<Vec<RuleChange>, _> = changes.iter().map(|change| change.change()).collect();
        changes.map_err(|error| PlaneError::refused(error.to_string(), "is the backup whole?"))
    };
    let (after, before) = (read(&entry.changed)?, read(&entry.replaced)?);
    // Of a version that was pruned nobody knows what it replaced.
    let is_pruned = before.is_empty() && !after.is_empty();
    let before = if is_pruned { after.iter().map(items::absent).collect() } else { before };
    if after.len() != before.len() {
        return Err(PlaneError::refused(format!("version {version} is damaged"), "take another backup"));
    }
    let changes: Vec<RecordedChange> =
        after.into_iter().zip(before).map(|(after, before)| RecordedChange { after, before }).collect();
    let at = Some(Nanos::new(entry.at_us.saturating_mul(1000)));
    let restored = NewRuleLogEntry { at, ..new_entry(&changes, &entry.author, &entry.reason, version)? };
    match is_pruned {
        true => Ok(NewRuleLogEntry { replaced: items::encode(version, Vec::new())?, ..restored }),
        false => Ok(restored),
    }
}

/// What others changed since a version.
pub(super) async fn conflict(
    log: &dyn tidegate_world::RuleLog,
    rules: &RuleState,
    expected: u64,
    tenant: Option<&str>,
) -> Result<Conflict, PlaneError> {
    let mut entries = Vec::new();
    let mut after = expected;
    while after < rules.version && entries.len() < 100 {
        let page = log.entries(after).await?;
        let Some(last) = page.last() else { break };
        after = last.summary.version;
        for entry in page {
            entries.push(RuleVersion::read(entry)?);
        }
    }
    let mut changes = super::rollback::collapsed(&entries);
    changes.retain(|change| {
        tenant.is_none_or(|tenant| items::owner(&change.after).is_some_and(|owner| *owner.tenant == *tenant))
    });
    let lines = super::draft::lines_between(rules, &changes);
    let mut summaries: Vec<_> = entries.into_iter().map(|entry| entry.summary).collect();
    summaries.reverse();
    if tenant.is_some() {
        // Who else changed what is none of a tenant's business.
        summaries.clear();
    }
    Ok(Conflict { expected, head: rules.version, lines, entries: summaries })
}
