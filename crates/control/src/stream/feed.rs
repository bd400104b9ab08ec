//! The serving half: what followers are sent, and what they said.
//!
//! A follower is a position, in the newest changes or in the snapshot file, and never a queue: what it doesn't take
//! isn't kept for it. One that falls behind what is kept gets the snapshot, read from the file as it takes it.
//! Whoever carries the messages asks for the next ones when there is room.

mod subscriber;

pub use subscriber::Subscriber;

use super::Steady;
use super::message::{
    Asker, FollowerHealth, FollowerRole, Hello, NodeReport, Payload, PayloadKind, QuestionId,
};
use super::nodes::Nodes;
use super::questions::{Answers, QuestionRequest, Questions, TooManyQuestions};
use super::recent::{OutOfOrder, Recent};
use super::resets::{PastReset, Resets};
use super::rule_store::ApplyResult;
use bytes::Bytes;
use parking_lot::Mutex;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tidegate_core::Nanos;
use tidegate_rules::{Delta, Snapshot};
use tokio::sync::watch;

/// Reports that nobody has taken yet; what comes beyond is dropped, and counted.
const REPORTS_MAX: usize = 1024;

#[derive(Debug)]
pub struct Feed {
    name: Arc<str>,
    software: Arc<str>,
    clock: Steady,
    core: Mutex<Core>,
    nodes: Mutex<Nodes>,
    reports: Mutex<VecDeque<(Arc<str>, Payload)>>,
    questions: Mutex<Questions>,
    /// Changes when there is something to send.
    changed: watch::Sender<u64>,
    counters: FeedCounters,
}

/// What a feed has done, for operators.
#[derive(Debug, Default)]
pub struct FeedCounters {
    connections: AtomicU64,
    snapshots: AtomicU64,
    resynchronised: AtomicU64,
    reports_dropped: AtomicU64,
}

impl FeedCounters {
    pub fn counts_by_name(&self) -> [(&'static str, u64); 4] {
        let get = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        [
            ("follower_connections", get(&self.connections)),
            ("follower_snapshots", get(&self.snapshots)),
            ("followers_resynchronised", get(&self.resynchronised)),
            ("follower_reports_dropped", get(&self.reports_dropped)),
        ]
    }
}

#[derive(Debug, Default)]
struct Core {
    recent: Recent,
    snapshot: Option<Arc<Snapshot>>,
    /// The newest of each kind, and the revision that it came with.
    notices: BTreeMap<PayloadKind, (u64, Bytes)>,
    revision: u64,
    /// When it was last known that the head is the newest of all; `None`: not since the start.
    confirmed_at: Option<Nanos>,
    /// Somebody needs a newer snapshot than there is.
    wants_file: bool,
    resets: Resets,
}

impl Feed {
    /// `name` and `software` are what followers are told.
    pub fn new(name: &str, software: &str) -> Arc<Self> {
        Arc::new(Feed {
            name: name.into(),
            software: software.into(),
            clock: Steady::begin(),
            core: Mutex::default(),
            nodes: Mutex::default(),
            reports: Mutex::default(),
            questions: Mutex::default(),
            changed: watch::Sender::new(0),
            counters: FeedCounters::default(),
        })
    }

    /// All times that a feed is given are of this clock.
    pub fn clock(&self) -> Steady {
        self.clock
    }

    pub fn counters(&self) -> &FeedCounters {
        &self.counters
    }

    pub fn head(&self) -> u64 {
        self.core.lock().recent.head()
    }

    /// How long the head wasn't confirmed, or since the start.
    pub fn stale_for(&self, now: Nanos) -> Nanos {
        now.minus(self.core.lock().confirmed_at.unwrap_or_default())
    }

    /// Returns how old the rules are, as followers are told. A process that just started from its disk doesn't know: it
    /// reports no age, because the time since its start would confirm old rules to everybody.
    fn reported_stale_ms(&self, now: Nanos) -> u64 {
        let confirmed_at = self.core.lock().confirmed_at;
        confirmed_at.map_or(u64::MAX, |confirmed_at| now.minus(confirmed_at).as_millis_ceil())
    }

    /// The next change, as `Delta::encode` writes it. Followers that have the one before are sent it at once.
    pub fn publish(&self, version: u64, delta: Bytes) -> Result<(), OutOfOrder> {
        let mut core = self.core.lock();
        core.recent.push(version, delta)?;
        core.revision += 1;
        self.notify(core.revision);
        Ok(())
    }

    /// Changes in the order of their versions, from whoever has them; what is damaged goes no further.
    pub fn take(&self, changes: &[(u64, Bytes)], now: Nanos) -> ApplyResult {
        for (version, delta) in changes {
            if let Err(reason) = self.take_one(*version, delta, now) {
                return ApplyResult { version: self.head(), refused: Some(reason) };
            }
        }
        ApplyResult { version: self.head(), refused: None }
    }

    fn take_one(&self, version: u64, delta: &Bytes, now: Nanos) -> Result<(), String> {
        let decoded = Delta::decode(delta).map_err(|error| error.to_string())?;
        if decoded.version != version {
            return Err(format!("version {version} was announced, and {} came", decoded.version));
        }
        self.publish(version, delta.clone()).map_err(|error| error.to_string())?;
        if let Some(reset) = PastReset::of(&decoded, Nanos::ZERO) {
            self.receive_reset(reset, now);
        }
        Ok(())
    }

    /// Stores a reset for followers that get a snapshot, or came by one.
    pub fn receive_reset(&self, reset: PastReset, now: Nanos) {
        let mut core = self.core.lock();
        if core.resets.receive(reset, now) {
            core.revision += 1;
            self.notify(core.revision);
        }
    }

    /// Another snapshot file for whoever is too far behind. The changes after it must be at hand, or come.
    pub fn offer(&self, snapshot: Arc<Snapshot>) {
        let mut core = self.core.lock();
        if core.recent.head() < snapshot.version() {
            core.recent.restart(snapshot.version());
        }
        core.snapshot = Some(snapshot);
        core.revision += 1;
        self.notify(core.revision);
    }

    /// Returns whether a follower needs a newer snapshot, and clears the request: the caller must build one.
    pub fn takes_snapshot_request(&self) -> bool {
        std::mem::take(&mut self.core.lock().wants_file)
    }

    /// The head was the newest of all `stale_for` ago. Before the start is no better than never.
    pub fn confirm(&self, now: Nanos, stale_for: Nanos) {
        if stale_for > now {
            return;
        }
        let mut core = self.core.lock();
        core.confirmed_at = core.confirmed_at.max(Some(now.minus(stale_for)));
    }

    /// The newest of its kind, for all followers.
    pub fn notice(&self, notice: Payload) {
        let mut core = self.core.lock();
        core.revision += 1;
        let revision = core.revision;
        core.notices.insert(notice.kind, (revision, notice.payload));
        self.notify(revision);
    }

    /// What followers reported, with who did, oldest first.
    pub fn take_reports(&self, most: usize) -> Vec<(Arc<str>, Payload)> {
        let mut reports = self.reports.lock();
        let count = reports.len().min(most);
        reports.drain(..count).collect()
    }

    /// Who follows, here or at a broker.
    pub fn nodes(&self, now: Nanos) -> Vec<NodeReport> {
        self.nodes.lock().list(now)
    }

    /// Asks every node that follows, here or at a broker, about its decision log, and waits for what they say.
    pub async fn ask(
        &self,
        query: &str,
        asker: Asker,
        within: Duration,
    ) -> Result<Answers, TooManyQuestions> {
        let nodes = self.nodes(self.clock.now()).into_iter();
        let of = nodes
            .filter(|node| node.is_connected && node.role == FollowerRole::Node)
            .map(|node| node.node)
            .collect();
        let (id, is_done) = {
            let mut core = self.core.lock();
            core.revision += 1;
            let asked =
                self.questions.lock().ask(QuestionRequest { query, asker, within, of }, core.revision)?;
            self.notify(core.revision);
            asked
        };
        let open = OpenQuestion { feed: self, id };
        // Whoever hasn't answered by then is named.
        let _ = tokio::time::timeout(within, is_done).await;
        Ok(open.take())
    }

    fn notify(&self, revision: u64) {
        self.changed.send_replace(revision);
    }

    /// Changes when there may be something to send.
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.changed.subscribe()
    }

    /// Somebody follows from here on. Whether both speak a version of the protocol is for the caller to see.
    pub fn subscribe(self: &Arc<Self>, hello: &Hello, now: Nanos) -> Subscriber {
        let connection = self.counters.connections.fetch_add(1, Ordering::Relaxed);
        self.nodes.lock().joined(hello, connection, now);
        Subscriber::new(Arc::clone(self), hello, connection, now)
    }

    fn report(&self, node: Arc<str>, payload: Payload) {
        let mut reports = self.reports.lock();
        if reports.len() < REPORTS_MAX {
            reports.push_back((node, payload));
        } else {
            self.counters.reports_dropped.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// The feed's own word on how it is, for whom it follows itself.
    pub fn health(&self, now: Nanos) -> FollowerHealth {
        FollowerHealth {
            rule_version: self.head(),
            refused_version: 0,
            stale_ms: self.stale_for(now).as_millis_ceil(),
        }
    }
}

/// A question that is waited for. Dropped, it is over.
struct OpenQuestion<'f> {
    feed: &'f Feed,
    id: QuestionId,
}

impl OpenQuestion<'_> {
    fn take(&self) -> Answers {
        self.feed.questions.lock().take(self.id)
    }
}

impl Drop for OpenQuestion<'_> {
    fn drop(&mut self) {
        self.take();
    }
}

#[cfg(test)]
mod tests;
