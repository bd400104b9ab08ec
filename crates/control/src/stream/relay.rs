//! A broker: follows like a node, and serves what it receives.
//!
//! Knows what a change is, so that what is damaged goes no further; what it means is for nodes to see.

use super::feed::Feed;
use super::message::SnapshotId;
use super::resets::PastReset;
use super::rule_store::{ApplyResult, RuleStore, RulesStatus};
use super::stored_rules::StoredRules;
use bytes::Bytes;
use std::sync::Arc;
use tidegate_core::Nanos;

#[derive(Debug)]
pub struct Relay {
    stored: StoredRules,
    feed: Arc<Feed>,
}

impl Relay {
    /// Serves what the directory has from the first moment.
    pub fn new(stored: StoredRules, feed: Arc<Feed>) -> Self {
        if let Some(snapshot) = stored.snapshot() {
            feed.offer(Arc::clone(snapshot));
        }
        let published = stored.each_change(|version, delta| feed.publish(version, delta.into()));
        if let Err(error) = published {
            tracing::warn!(%error, "the log of the rules isn't whole; the rest is loaded again");
        }
        Relay { stored, feed }
    }
}

impl RuleStore for Relay {
    fn status(&self) -> RulesStatus {
        let version = if self.stored.snapshot().is_some() { self.feed.head() } else { 0 };
        self.stored.status(version)
    }

    fn begin(&mut self, id: &SnapshotId, length: u64, offset: u64) -> Result<(), String> {
        self.stored.begin(id, length, offset)
    }

    fn write(&mut self, offset: u64, bytes: &[u8]) -> Result<(), String> {
        self.stored.write(offset, bytes)
    }

    fn install(&mut self) -> Result<u64, String> {
        let snapshot = self.stored.install_unread()?;
        let version = snapshot.version();
        self.feed.offer(snapshot);
        Ok(version)
    }

    fn apply(&mut self, changes: &[(u64, Bytes)]) -> ApplyResult {
        let applied = self.feed.take(changes, self.feed.clock().now());
        let count = changes.iter().take_while(|(version, _)| *version <= applied.version).count();
        // On their way to the nodes already: a disk that is slow holds up nobody.
        self.stored.append(&changes[..count]);
        applied
    }

    fn reset(&mut self, reset: &PastReset) {
        match reset.read() {
            Ok(_) => self.feed.receive_reset(reset.clone(), self.feed.clock().now()),
            Err(problem) => tracing::warn!(version = reset.version, problem, "a reset isn't handed on"),
        }
    }

    fn confirmed(&mut self, ago: Nanos) {
        self.feed.confirm(self.feed.clock().now(), ago);
    }

    fn tend(&mut self) {
        if let Some(snapshot) = self.stored.tend(self.feed.takes_snapshot_request()) {
            self.feed.offer(snapshot);
        }
    }
}
