//! From the log in the store to the stream: a control plane's rules files, and the feed that serves them.
//!
//! At a start the file is brought up to date from the log, or built anew from what the store has where that is too
//! far away. While a file is built, the log goes on: what was changed meanwhile is applied after it, and as changes say
//! how things are, and not by how much they differ, it doesn't matter which of them the file has already.

use crate::plane::{ControlPlane, PlaneError, RuleVersion, read_item};
use crate::stream::{Feed, PastReset, RESET_BROADCAST_MAX, RESET_BROADCAST_TTL, StoredRules};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tidegate_core::Nanos;
use tidegate_rules::{Delta, LookupSeed, RuleChange, RuleFilesError, SnapshotWriter, WriteError};
use tidegate_world::RuleItem;
use tokio::sync::mpsc;
use tokio::time::MissedTickBehavior;

/// Who is further behind than this has it quicker from a file.
const REPLAYED_MAX: u64 = 200_000;
/// How often it is looked whether there is something to do, but for changes, which are taken at once.
const POLL_EVERY: Duration = Duration::from_millis(100);
/// Files and disk are looked after once in so many looks.
const POLLS_PER_MAINTENANCE: u64 = 10;
/// Pages that wait to be written to a file.
const PAGES_MAX: usize = 4;

/// What keeps the feed as the plane has it.
#[derive(Debug)]
pub struct Publisher {
    plane: Arc<ControlPlane>,
    stored: StoredRules,
    feed: Arc<Feed>,
    /// By the wall clock, when the feed's clock began.
    began_at: Nanos,
    /// What was reset up to this version is known from the store, with its age.
    resets_known: u64,
    is_ill: bool,
}

#[derive(Debug, thiserror::Error)]
enum PublishError {
    #[error(transparent)]
    Plane(#[from] PlaneError),
    #[error(transparent)]
    Files(#[from] RuleFilesError),
    #[error("a rules file can't be written: {0}")]
    Write(#[from] WriteError),
    #[error("{0}")]
    Other(String),
}

impl Publisher {
    /// `now`: by the wall clock.
    pub fn new(plane: Arc<ControlPlane>, stored: StoredRules, feed: Arc<Feed>, now: Nanos) -> Self {
        let began_at = now.minus(feed.clock().now());
        Publisher { plane, stored, feed, began_at, resets_known: 0, is_ill: false }
    }

    /// Until the future is dropped.
    pub async fn run(mut self) {
        let mut versions = self.plane.versions();
        let mut ticks = tokio::time::interval(POLL_EVERY);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut is_begun = false;
        for look in 0_u64.. {
            tokio::select! {
                _ = ticks.tick() => {}
                changed = versions.changed() => if changed.is_err() { return },
            }
            // Nothing is known of the head before the store has answered.
            if self.plane.problem().is_some() {
                continue;
            }
            let published = if is_begun { self.catch_up().await } else { self.begin().await };
            is_begun |= published.is_ok();
            self.record_publish(published);
            if look.is_multiple_of(POLLS_PER_MAINTENANCE)
                && let Some(snapshot) = self.stored.tend(self.feed.takes_snapshot_request())
            {
                self.feed.offer(snapshot);
            }
        }
    }

    fn record_publish(&mut self, published: Result<(), PublishError>) {
        match published {
            Ok(()) => {
                if std::mem::replace(&mut self.is_ill, false) {
                    tracing::info!("the newest rules are sent to nodes again");
                }
                self.feed.confirm(self.feed.clock().now(), Nanos::ZERO);
            }
            Err(error) => {
                if !std::mem::replace(&mut self.is_ill, true) {
                    tracing::error!(%error, "the newest rules can't be sent to nodes; trying again");
                }
            }
        }
    }

    /// Serves what the files have, if that can be gone on from, or builds a file.
    async fn begin(&mut self) -> Result<(), PublishError> {
        let (head, version) = (self.plane.rules().version, self.stored.version());
        let is_usable = self.stored.snapshot().is_some()
            && version <= head
            && head - version <= REPLAYED_MAX
            && self.has_same_past(version).await?;
        if !is_usable {
            self.build(head).await?;
        }
        self.recall_resets(head).await?;
        if let Some(snapshot) = self.stored.snapshot() {
            self.feed.offer(Arc::clone(snapshot));
        }
        let published = self.stored.each_change(|version, delta| self.feed.publish(version, delta.into()));
        published.map_err(|error| PublishError::Other(error.to_string()))?;
        self.catch_up().await
    }

    /// Whether the store's log has, where the files end, what the files have there: it may be another store's.
    async fn has_same_past(&self, version: u64) -> Result<bool, PublishError> {
        let Some(delta) = self.stored.last_change()? else { return Ok(true) };
        let entry = self.plane.entry(version).await?;
        Ok(entry.changed.encode().is_ok_and(|bytes| bytes == delta))
    }

    /// What was reset lately: changes that are read again, of the store or of a file, don't say when they were made.
    async fn recall_resets(&mut self, head: u64) -> Result<(), PublishError> {
        let now = self.began_at.plus(self.feed.clock().now());
        for (at, delta) in
            self.plane.resets_since(now.minus(RESET_BROADCAST_TTL), RESET_BROADCAST_MAX).await?
        {
            if let Some(reset) = PastReset::of(&delta, now.minus(at)) {
                self.feed.receive_reset(reset, self.feed.clock().now());
            }
        }
        self.resets_known = head;
        Ok(())
    }

    async fn catch_up(&mut self) -> Result<(), PublishError> {
        loop {
            let version = self.feed.head();
            if version >= self.plane.rules().version {
                return Ok(());
            }
            let mut resets = Vec::new();
            let mut note = |delta: &Delta| resets.extend(PastReset::of(delta, Nanos::ZERO));
            let changes: Vec<(u64, bytes::Bytes)> = match self.plane.recent_after(version) {
                Some(recent) => {
                    recent.iter().for_each(|logged| note(&logged.delta));
                    recent.iter().map(|logged| (logged.delta.version, logged.bytes.clone().into())).collect()
                }
                None => {
                    let entries = self.plane.entries_after(version).await?;
                    if entries.iter().any(RuleVersion::is_pruned) {
                        // Too far behind for the log.
                        self.build(self.plane.rules().version).await?;
                        if let Some(snapshot) = self.stored.snapshot() {
                            self.feed.offer(Arc::clone(snapshot));
                        }
                        continue;
                    }
                    entries.iter().for_each(|entry| note(&entry.changed));
                    let encoded = entries.iter().map(|entry| {
                        let bytes =
                            entry.changed.encode().map_err(|error| PublishError::Other(error.to_string()))?;
                        Ok((entry.changed.version, bytes.into()))
                    });
                    encoded.collect::<Result<_, PublishError>>()?
                }
            };
            if changes.is_empty() {
                return Err(PublishError::Other(format!("version {} is missing in the log", version + 1)));
            }
            for (version, delta) in &changes {
                let published = self.feed.publish(*version, delta.clone());
                published.map_err(|error| PublishError::Other(error.to_string()))?;
            }
            let known = self.resets_known;
            for reset in resets.into_iter().filter(|reset| reset.version > known) {
                self.feed.receive_reset(reset, self.feed.clock().now());
            }
            self.stored.append(&changes);
        }
    }

    /// A file of everything that the store has, as of `head` at least.
    async fn build(&mut self, head: u64) -> Result<(), PublishError> {
        tracing::info!(version = head, "building a rules file from the store");
        let path = self.stored.path_for_new(head);
        let (pages, received) = mpsc::channel(PAGES_MAX);
        let writing = tokio::task::spawn_blocking({
            let path = path.clone();
            move || write(&path, head, received)
        });
        let mut after = None;
        loop {
            let items = self.plane.everything_unread(after).await?;
            let Some(last) = items.last() else { break };
            after = Some(last.id);
            // Who writes ends before this only by an error, which it tells below.
            if pages.send(items).await.is_err() {
                break;
            }
        }
        drop(pages);
        let written = writing.await;
        written
            .map_err(|_| PublishError::Other("the thread that writes a rules file panicked".to_owned()))??;
        self.stored.install_file(&path)?;
        Ok(())
    }
}

/// Reads what the store has, and writes the file: while this does, the next page comes.
fn write(path: &Path, version: u64, mut pages: mpsc::Receiver<Vec<RuleItem>>) -> Result<(), PublishError> {
    let mut writer = SnapshotWriter::new(path, version, LookupSeed::random())?;
    while let Some(items) = pages.blocking_recv() {
        for item in &items {
            match read_item(item)? {
                RuleChange::Document { name, text: Some(text) } => writer.document(&name, &text)?,
                RuleChange::Override { name, value: Some(value) } => writer.set(&name, &value)?,
                RuleChange::FleetMode(mode) => writer.fleet_mode(mode),
                RuleChange::Document { text: None, .. }
                | RuleChange::Override { value: None, .. }
                | RuleChange::Reset { .. } => {}
            }
        }
    }
    writer.finish()?;
    Ok(())
}
