//! A snapshot on its way: begun, piece by piece, and put in force when it is whole.

use super::Follower;
use crate::stream::follower::Action;
use crate::stream::message::SnapshotId;
use crate::stream::rule_store::RuleStore;
use tidegate_core::Nanos;

impl Follower {
    pub(super) fn begin_snapshot(
        &mut self,
        id: SnapshotId,
        length: u64,
        offset: u64,
        rule_store: &mut dyn RuleStore,
        now: Nanos,
    ) -> Vec<Action> {
        let mut actions = self.apply_pending(rule_store, now);
        let version = id.version;
        if version <= self.status.version && self.status.version > 0 {
            // Not newer than what is in force: it is let pass, and nothing of it is kept.
            self.snapshot = None;
            return actions;
        }
        match rule_store.begin(&id, length, offset) {
            Ok(()) => {
                tracing::info!(version, bytes = length, offset, "loading a snapshot of the rules");
                self.status.loading = Some((offset, length));
                self.snapshot = Some((id, length, offset));
            }
            Err(reason) => actions.extend(self.refuse(version, reason, now)),
        }
        actions
    }

    pub(super) fn chunk(
        &mut self,
        offset: u64,
        bytes: &[u8],
        rule_store: &mut dyn RuleStore,
        now: Nanos,
    ) -> Vec<Action> {
        let Some((id, length, have)) = &mut self.snapshot else { return Vec::new() };
        let version = id.version;
        let end = offset.saturating_add(u64::try_from(bytes.len()).unwrap_or(u64::MAX));
        if offset != *have || end > *length {
            self.status.gaps += 1;
            return self.refuse(version, "a piece of the snapshot is missing".to_owned(), now);
        }
        if let Err(reason) = rule_store.write(offset, bytes) {
            return self.refuse(version, reason, now);
        }
        *have = end;
        let is_whole = end == *length;
        self.status.loading = Some((end, *length));
        if is_whole { self.install(version, rule_store, now) } else { Vec::new() }
    }

    fn install(&mut self, version: u64, rule_store: &mut dyn RuleStore, now: Nanos) -> Vec<Action> {
        self.snapshot = None;
        self.status.loading = None;
        match rule_store.install() {
            Ok(version) => {
                tracing::info!(version, "a snapshot of the rules is in force");
                self.status.version = version;
                self.health_at = now;
                self.status.snapshots += 1;
                self.status.refused = None;
                self.is_stuck = false;
                self.snapshots_refused = 0;
                self.asked_at = None;
                Vec::new()
            }
            Err(reason) => {
                self.snapshots_refused = self.snapshots_refused.saturating_add(1);
                self.refuse(version, reason, now)
            }
        }
    }
}
