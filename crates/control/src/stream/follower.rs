//! The following half: which server, what to ask it for, and what to do with what comes. Sans-IO.
//!
//! Takes events with the time as an argument and says what to do. What is refused leaves the rules in force as they
//! are; a snapshot is asked for then, and not more often than every few seconds, so that a server with a bad change
//! isn't flooded. The newest version wins: what is older than the rules in force is skipped.

mod freshness;
mod loading;

use super::SILENT_MAX;
use super::message::{
    FollowerHealth, FollowerMessage, FollowerRole, Hello, PROTOCOL, PayloadKind, ServerMessage, SnapshotId,
    Welcome,
};
use super::rule_store::{ApplyResult, RuleStore};
use super::status::{FollowedServer, Staleness, Status};
use bytes::Bytes;
use freshness::AwaitedVersion;
use std::collections::BTreeMap;
use std::sync::Arc;
use tidegate_core::Nanos;

/// Waits between attempts: twice the one before, ± a quarter. The longest is short, because a broker and then its
/// nodes have to come back within a second of the control plane.
const RECONNECT_DELAY_MIN: Nanos = Nanos::from_millis(50);
const RECONNECT_DELAY_MAX: Nanos = Nanos::from_millis(300);
/// From an attempt's begin to the server's first message.
const CONNECT_MAX: Nanos = Nanos::from_secs(2);
/// See [`SILENT_MAX`].
const SILENT: &str = "nothing was heard for 1 s";
/// How often a server is asked again for what was missing or refused.
const ASK_AGAIN_EVERY: Nanos = Nanos::from_secs(3);
const HEALTH_EVERY: Nanos = Nanos::from_secs(1);
/// A version that is in force is told of sooner.
const VERSION_REPORT_DELAY: Nanos = Nanos::from_millis(200);
/// Changes that are put in force together at most.
const PENDING_MAX: usize = 4096;
const PENDING_BYTES_MAX: usize = 4 << 20;

/// Who follows.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Identity {
    pub node: Arc<str>,
    pub region: Arc<str>,
    pub software: Arc<str>,
    pub role: FollowerRole,
}

/// What is to be done.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Action {
    /// To this server of the list.
    Connect(usize),
    Disconnect,
    Send(FollowerMessage),
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Phase {
    Waiting {
        until: Nanos,
    },
    Connecting {
        since: Nanos,
    },
    /// Connected; the server was last heard then.
    Streaming {
        received_at: Nanos,
    },
}

#[derive(Debug)]
pub struct Follower {
    identity: Identity,
    servers: usize,
    phase: Phase,
    /// In a row that failed.
    failures: u32,
    random: u64,
    pending: Vec<(u64, Bytes)>,
    pending_bytes: usize,
    /// The snapshot that comes, how long it is, and how much of it is there.
    snapshot: Option<(SnapshotId, u64, u64)>,
    asked_at: Option<Nanos>,
    /// A refused change isn't tried again until a snapshot came.
    is_stuck: bool,
    /// Since when the server says that an older version than the one in force is the newest.
    ahead_since: Option<Nanos>,
    /// In a row.
    snapshots_refused: u32,
    /// The version that a heartbeat named and that isn't in force yet, how old that was, and since when it is waited
    /// for.
    awaited: Option<AwaitedVersion>,
    server_changed_at: Nanos,
    health_at: Nanos,
    reported_staleness: Staleness,
    notices: BTreeMap<PayloadKind, Bytes>,
    status: Status,
}

impl Follower {
    /// `servers`: how many there are; `seed`: which one is the first, and chance in the waits.
    pub fn new(identity: Identity, servers: usize, seed: u64, now: Nanos) -> Self {
        let servers = servers.max(1);
        let server = usize::try_from(seed % u64::try_from(servers).unwrap_or(1)).unwrap_or(0);
        Follower {
            identity,
            servers,
            phase: Phase::Waiting { until: now },
            failures: 0,
            random: seed | 1,
            pending: Vec::new(),
            pending_bytes: 0,
            snapshot: None,
            asked_at: None,
            is_stuck: false,
            ahead_since: None,
            snapshots_refused: 0,
            awaited: None,
            server_changed_at: now,
            health_at: now,
            reported_staleness: Staleness::Fresh,
            notices: BTreeMap::new(),
            status: Status { server, confirmed_at: now, ..Status::default() },
        }
    }

    /// What is there before anybody was asked.
    pub fn begins_with(&mut self, rule_store: &dyn RuleStore) {
        self.status.version = rule_store.status().version;
    }

    pub fn status(&self) -> &Status {
        &self.status
    }

    /// The newest that came down of a kind.
    pub fn notice(&self, kind: PayloadKind) -> Option<&Bytes> {
        self.notices.get(&kind)
    }

    /// What time alone brings about.
    pub fn tick(&mut self, now: Nanos) -> Vec<Action> {
        self.report_staleness(now);
        match self.phase {
            Phase::Waiting { until } if now >= until => {
                self.phase = Phase::Connecting { since: now };
                vec![Action::Connect(self.status.server)]
            }
            Phase::Connecting { since } if now >= since.plus(CONNECT_MAX) => {
                self.failed("no connection within 2 s", now);
                vec![Action::Disconnect]
            }
            Phase::Streaming { received_at } if now >= received_at.plus(SILENT_MAX) => {
                self.failed(SILENT, now);
                vec![Action::Disconnect]
            }
            Phase::Streaming { .. } if now >= self.health_at => {
                self.health_at = now.plus(HEALTH_EVERY);
                vec![Action::Send(FollowerMessage::Health(self.health(now)))]
            }
            Phase::Waiting { .. } | Phase::Connecting { .. } | Phase::Streaming { .. } => Vec::new(),
        }
    }

    /// When to tick next.
    pub fn wakes_at(&self) -> Nanos {
        match self.phase {
            Phase::Waiting { until } => until,
            Phase::Connecting { since } => since.plus(CONNECT_MAX),
            Phase::Streaming { received_at } => received_at.plus(SILENT_MAX).min(self.health_at),
        }
    }

    fn health(&self, now: Nanos) -> FollowerHealth {
        FollowerHealth {
            rule_version: self.status.version,
            refused_version: self.status.refused.as_ref().map_or(0, |(version, _)| *version),
            stale_ms: self.status.stale_for(now).as_millis_ceil(),
        }
    }

    /// A connection is there: says who this is and what it has.
    pub fn connected(&mut self, rule_store: &dyn RuleStore, now: Nanos) -> Vec<Action> {
        self.phase = Phase::Streaming { received_at: now };
        self.status.connects += 1;
        let stored = rule_store.status();
        self.status.version = stored.version;
        let Identity { node, region, software, role } = self.identity.clone();
        self.health_at = now.plus(HEALTH_EVERY);
        vec![Action::Send(FollowerMessage::Hello(Hello {
            protocol: PROTOCOL,
            node,
            region,
            software,
            role,
            rule_version: stored.version,
            partial: stored.partial,
        }))]
    }

    /// There is no connection, or no longer.
    pub fn lost(&mut self, problem: &str, now: Nanos) {
        if !matches!(self.phase, Phase::Waiting { .. }) {
            self.failed(problem, now);
        }
    }

    /// The next server, at once after one that worked, and later the more have failed in a row.
    fn failed(&mut self, problem: &str, now: Nanos) {
        let had_begun = self.status.following.take().is_some();
        if self.status.problem.as_deref() != Some(problem) {
            tracing::warn!(
                server = self.status.server,
                problem,
                "the rules stream is interrupted; the rules in force stay, and the next server is tried"
            );
        }
        self.status.problem = Some(problem.to_owned());
        self.failures = if had_begun { 0 } else { self.failures.saturating_add(1) };
        self.reset_stream();
        self.next_server(now);
        let wait = self.wait();
        self.phase = Phase::Waiting { until: now.plus(wait) };
    }

    fn reset_stream(&mut self) {
        self.pending.clear();
        self.pending_bytes = 0;
        self.snapshot = None;
        // What was refused is refused by the next server, too: it is asked for as seldom.
        self.asked_at = self.asked_at.filter(|_| self.is_stuck);
        self.awaited = None;
        self.ahead_since = None;
        self.status.loading = None;
    }

    fn next_server(&mut self, now: Nanos) {
        self.status.server = (self.status.server + 1) % self.servers;
        self.server_changed_at = now;
    }

    fn wait(&mut self) -> Nanos {
        let doubled = RECONNECT_DELAY_MIN.get() << self.failures.min(8);
        let wait = doubled.min(RECONNECT_DELAY_MAX.get());
        // Three quarters to five quarters of it, by chance.
        self.random =
            self.random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        Nanos::new(wait - wait / 4 + (self.random >> 33) % (wait / 2).max(1))
    }

    /// Handles a message of the server. Changes stay pending until [`Follower::apply_pending`].
    pub fn receive(
        &mut self,
        down: ServerMessage,
        rule_store: &mut dyn RuleStore,
        now: Nanos,
    ) -> Vec<Action> {
        // What came with the message that ended the stream is of no stream any more.
        let Phase::Streaming { received_at } = &mut self.phase else { return Vec::new() };
        let last = std::mem::replace(received_at, now);
        // This process stood still: what waited meanwhile is as old, and would confirm rules that are.
        if now >= last.plus(SILENT_MAX) {
            self.failed(SILENT, now);
            return vec![Action::Disconnect];
        }
        match down {
            ServerMessage::Welcome(welcome) => self.welcomed(&welcome, now),
            ServerMessage::Heartbeat { head, stale_ms } => self.heartbeat(head, stale_ms, rule_store, now),
            ServerMessage::Change { version, delta } => self.change(version, delta, rule_store, now),
            ServerMessage::Snapshot { id, length, offset } => {
                self.begin_snapshot(id, length, offset, rule_store, now)
            }
            ServerMessage::Chunk { offset, bytes } => self.chunk(offset, &bytes, rule_store, now),
            ServerMessage::Notice(notice) => {
                self.notices.insert(notice.kind, notice.payload);
                Vec::new()
            }
            ServerMessage::Reset(reset) => {
                let actions = self.apply_pending(rule_store, now);
                rule_store.reset(&reset);
                actions
            }
            // Whoever carries the messages sees to it.
            ServerMessage::Question(_) | ServerMessage::Unknown => Vec::new(),
        }
    }

    fn welcomed(&mut self, welcome: &Welcome, now: Nanos) -> Vec<Action> {
        let Some(protocol) = PROTOCOL.common(welcome.protocol) else {
            let problem = format!(
                "the server ({}) speaks versions {} to {} of the protocol, this {} to {}: update the older of the two",
                welcome.software,
                welcome.protocol.oldest,
                welcome.protocol.newest,
                PROTOCOL.oldest,
                PROTOCOL.newest
            );
            self.failed(&problem, now);
            return vec![Action::Disconnect];
        };
        let is_other_release =
            welcome.software != self.identity.software || welcome.protocol.newest != PROTOCOL.newest;
        if is_other_release {
            tracing::warn!(
                server = %welcome.software,
                this = %self.identity.software,
                protocol,
                "the rules come from another release; that works, update the older of the two when you can"
            );
        }
        let (name, software) = (welcome.node.clone(), welcome.software.clone());
        tracing::info!(server = %name, version = self.status.version, "following the rules");
        self.status.following = Some(FollowedServer { name, software, protocol, is_other_release });
        self.status.problem = None;
        self.failures = 0;
        Vec::new()
    }

    fn change(
        &mut self,
        version: u64,
        delta: Bytes,
        rule_store: &mut dyn RuleStore,
        now: Nanos,
    ) -> Vec<Action> {
        let newest = self.pending.last().map_or(self.status.version, |(version, _)| *version);
        if version <= newest || self.is_stuck {
            return Vec::new();
        }
        if version != newest + 1 {
            self.status.gaps += 1;
            return self.ask(newest, false, now);
        }
        self.pending_bytes += delta.len();
        self.pending.push((version, delta));
        if self.pending.len() >= PENDING_MAX || self.pending_bytes >= PENDING_BYTES_MAX {
            return self.apply_pending(rule_store, now);
        }
        Vec::new()
    }

    /// Applies the pending changes. Call it when no further message is at hand.
    pub fn apply_pending(&mut self, rule_store: &mut dyn RuleStore, now: Nanos) -> Vec<Action> {
        if self.pending.is_empty() {
            return Vec::new();
        }
        let ApplyResult { version, refused } = rule_store.apply(&self.pending);
        self.status.changes += version.saturating_sub(self.status.version);
        self.status.version = version;
        self.health_at = self.health_at.min(now.plus(VERSION_REPORT_DELAY));
        self.pending.clear();
        self.pending_bytes = 0;
        match refused {
            None => {
                self.status.refused = None;
                self.confirm(rule_store, now);
                Vec::new()
            }
            Some(reason) => self.refuse(version + 1, reason, now),
        }
    }

    fn refuse(&mut self, version: u64, reason: String, now: Nanos) -> Vec<Action> {
        self.status.refusals += 1;
        self.is_stuck = true;
        let refused = Some((version, reason));
        if self.status.refused != refused {
            let reason = refused.as_ref().map_or("", |(_, reason)| reason);
            tracing::error!(
                version,
                reason,
                in_force = self.status.version,
                "what the control plane sent is refused; the rules in force stay, and a snapshot is asked for"
            );
        }
        self.status.refused = refused;
        self.snapshot = None;
        self.status.loading = None;
        self.ask(self.status.version, true, now)
    }

    fn ask(&mut self, rule_version: u64, wants_snapshot: bool, now: Nanos) -> Vec<Action> {
        // A snapshot that was refused is large, and will be refused again: less and less often.
        let every = Nanos::new(ASK_AGAIN_EVERY.get() << self.snapshots_refused.min(5));
        if self.asked_at.is_some_and(|asked_at| now < asked_at.plus(every)) {
            return Vec::new();
        }
        self.asked_at = Some(now);
        vec![Action::Send(FollowerMessage::Resume { rule_version, wants_snapshot })]
    }
}

#[cfg(test)]
mod tests;
