//! How old the rules in force may be: heartbeats say which version is the newest, and since when that is known.

use super::{ASK_AGAIN_EVERY, Action, Follower};
use crate::stream::rule_store::RuleStore;
use crate::stream::status::Staleness;
use tidegate_core::Nanos;

/// A server that hasn't heard from its own for so long is left, where there are others, and as often.
const STALE_SERVER_MAX: Nanos = Nanos::from_secs(10);

/// A server that is behind for so long, while what it knows is never older than that, stays behind.
const BEHIND_MAX: Nanos = Nanos::from_secs(10);
const BEHIND_STALE_MAX: Nanos = Nanos::from_secs(5);

/// A version that isn't in force yet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct AwaitedVersion {
    head: u64,
    /// When it was named, it had been the newest of all so long ago.
    stale_for: Nanos,
    since: Nanos,
}

impl Follower {
    pub(super) fn heartbeat(
        &mut self,
        head: u64,
        stale_ms: u64,
        rule_store: &mut dyn RuleStore,
        now: Nanos,
    ) -> Vec<Action> {
        let mut actions = self.apply_pending(rule_store, now);
        self.status.head = head;
        let stale_for = Nanos::from_millis(stale_ms);
        if self.status.is_ahead() {
            self.is_behind(stale_for, now);
        } else {
            self.ahead_since = None;
            // While changes keep coming, the head is always ahead: the first one that was named is waited for.
            self.awaited.get_or_insert(AwaitedVersion { head, stale_for, since: now });
            self.confirm(rule_store, now);
        }
        if self.is_stuck {
            actions.extend(self.ask(self.status.version, true, now));
        } else if self.is_overdue(now) {
            self.status.gaps += 1;
            actions.extend(self.ask(self.status.version, false, now));
        }
        let is_left = self.servers > 1
            && stale_for > STALE_SERVER_MAX
            && now.minus(self.server_changed_at) > STALE_SERVER_MAX;
        if is_left {
            self.failed("the server itself has heard nothing of the control plane for 10 s", now);
            actions.push(Action::Disconnect);
        }
        self.report_staleness(now);
        actions
    }

    /// The server has an older version than is in force here, so it can't say that this is the newest. It may be
    /// about to catch up. If it knows the newest and that stays older, its store was put back to an earlier state,
    /// and a version that it has later isn't the one that builds on what is in force here: only a file is.
    fn is_behind(&mut self, stale_for: Nanos, now: Nanos) {
        self.awaited = None;
        if stale_for > BEHIND_STALE_MAX {
            self.ahead_since = None;
            return;
        }
        let since = *self.ahead_since.get_or_insert(now);
        if now.minus(since) > BEHIND_MAX && !self.is_stuck {
            self.is_stuck = true;
            tracing::error!(
                version = self.status.version,
                head = self.status.head,
                fix = "docs/brokers.md says what to do when a store was restored",
                "the control plane's newest version is older than the one in force here: its store went back; the \
                 rules in force stay until it has a newer version, and then all rules are loaded afresh"
            );
        }
    }

    /// What a heartbeat named has come: the rules in force were the newest then.
    pub(super) fn confirm(&mut self, rule_store: &mut dyn RuleStore, now: Nanos) {
        if let Some(awaited) = self.awaited
            && self.status.version >= awaited.head
            && !self.is_stuck
        {
            self.awaited = None;
            // It may be longer than this process lives: the keeper is told the length, not the instant.
            let ago = awaited.stale_for.plus(now.minus(awaited.since));
            self.status.confirmed_at = self.status.confirmed_at.max(now.minus(ago));
            rule_store.confirmed(ago);
        }
    }

    /// What a heartbeat named hasn't come, and nothing is on its way.
    fn is_overdue(&self, now: Nanos) -> bool {
        self.snapshot.is_none()
            && self.awaited.is_some_and(|awaited| now.minus(awaited.since) > ASK_AGAIN_EVERY)
    }

    /// Logs how old the rules may be, once for each grade.
    pub(super) fn report_staleness(&mut self, now: Nanos) {
        let stale_for = self.status.stale_for(now);
        let staleness = Staleness::of(stale_for);
        if staleness == self.reported_staleness {
            return;
        }
        let (version, seconds) = (self.status.version, stale_for.as_millis_ceil() / 1000);
        let fix = if self.status.is_ahead() {
            "what is in force here is newer than what the control plane has: see docs/brokers.md on restored stores"
        } else {
            "see whether the control plane and its brokers run, and can be reached from here"
        };
        match staleness {
            Staleness::Fresh => tracing::info!(version, "the rules are known to be the newest again"),
            Staleness::Warning => tracing::warn!(
                version,
                seconds,
                head = self.status.head,
                fix,
                "the rules may be out of date: nobody has confirmed them lately"
            ),
            Staleness::Alarm => tracing::error!(
                version,
                seconds,
                head = self.status.head,
                fix,
                "the rules are out of date, or may be: nobody has confirmed them for a minute"
            ),
        }
        self.reported_staleness = staleness;
    }
}
