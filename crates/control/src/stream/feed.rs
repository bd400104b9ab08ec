//! The serving half: what followers are sent, and what they said.
//!
//! A follower is a position, in the newest changes or in the snapshot file, and never a queue: what it doesn't take
//! isn't kept for it. One that falls behind what is kept gets the snapshot, read from the file as it takes it.
//! Whoever carries the messages asks for the next ones when there is room.

use super::frame::framed;
use super::keeper::Applied;
use super::message::{
    AnswerPart, Asker, Down, Health, Hello, Kind, NodeReport, PROTOCOL, Payload, QuestionId, Role,
    SnapshotId, Up, Welcome,
};
use super::nodes::Nodes;
use super::questions::{Answers, Asking, Questions, TooManyQuestions};
use super::recent::{Lack, OutOfOrder, Recent};
use super::resets::{PastReset, Resets};
use super::{HEARTBEAT_EVERY, Steady};
use bytes::Bytes;
use parking_lot::Mutex;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tidegate_core::Nanos;
use tidegate_rules::{Delta, Snapshot};
use tokio::sync::watch;

/// Of the snapshot file, in one message.
const CHUNK_BYTES: usize = 64 << 10;
/// Changes that come in quick succession leave together: a message for each would cost more than it says.
const GATHERED_FOR: Nanos = Nanos::from_millis(40);
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
    pub fn named(&self) -> [(&'static str, u64); 4] {
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
    notices: BTreeMap<Kind, (u64, Bytes)>,
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

    /// What followers are told. Who has just started from its disk doesn't know how old its rules are: told as the time
    /// since the start, that would confirm them to everybody.
    fn told_stale_ms(&self, now: Nanos) -> u64 {
        let confirmed_at = self.core.lock().confirmed_at;
        confirmed_at.map_or(u64::MAX, |confirmed_at| now.minus(confirmed_at).as_millis_ceil())
    }

    /// The next change, as `Delta::encode` writes it. Followers that have the one before are sent it at once.
    pub fn publish(&self, version: u64, delta: Bytes) -> Result<(), OutOfOrder> {
        let mut core = self.core.lock();
        core.recent.push(version, delta)?;
        core.revision += 1;
        self.tell(core.revision);
        Ok(())
    }

    /// Changes in the order of their versions, from whoever has them; what is damaged goes no further.
    pub fn take(&self, changes: &[(u64, Bytes)], now: Nanos) -> Applied {
        for (version, delta) in changes {
            if let Err(reason) = self.take_one(*version, delta, now) {
                return Applied { version: self.head(), refused: Some(reason) };
            }
        }
        Applied { version: self.head(), refused: None }
    }

    fn take_one(&self, version: u64, delta: &Bytes, now: Nanos) -> Result<(), String> {
        let decoded = Delta::decode(delta).map_err(|error| error.to_string())?;
        if decoded.version != version {
            return Err(format!("version {version} was announced, and {} came", decoded.version));
        }
        self.publish(version, delta.clone()).map_err(|error| error.to_string())?;
        if let Some(reset) = PastReset::of(&decoded, Nanos::ZERO) {
            self.hear_of_reset(reset, now);
        }
        Ok(())
    }

    /// What was reset, for those who get a file, or came by one.
    pub fn hear_of_reset(&self, reset: PastReset, now: Nanos) {
        let mut core = self.core.lock();
        if core.resets.hear(reset, now) {
            core.revision += 1;
            self.tell(core.revision);
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
        self.tell(core.revision);
    }

    /// Whether somebody needs a newer snapshot than there is. Asked once, it is up to who asked.
    pub fn takes_want_of_file(&self) -> bool {
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
        self.tell(revision);
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
        let of =
            nodes.filter(|node| node.is_connected && node.role == Role::Node).map(|node| node.node).collect();
        let (id, is_done) = {
            let mut core = self.core.lock();
            core.revision += 1;
            let asked = self.questions.lock().ask(Asking { query, asker, within, of }, core.revision)?;
            self.tell(core.revision);
            asked
        };
        let open = OpenQuestion { feed: self, id };
        // Whoever hasn't answered by then is named.
        let _ = tokio::time::timeout(within, is_done).await;
        Ok(open.take())
    }

    fn tell(&self, revision: u64) {
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
        let mut subscriber = Subscriber {
            feed: Arc::clone(self),
            node: hello.node.clone(),
            connection,
            // Who has nothing begins with a file, which changes can be added to.
            position: match hello.rule_version {
                0 => Position::Waits { at_least: 0 },
                version => Position::After(version),
            },
            role: hello.role,
            is_welcomed: false,
            notices_seen: 0,
            came_with: hello.rule_version,
            resets_told: 0,
            // Who comes later isn't waited for.
            questions_seen: self.core.lock().revision,
            heartbeat_at: now,
            gathers_until: now,
        };
        if let Some((id, bytes)) = &hello.partial {
            subscriber.resume_snapshot(id, *bytes);
        }
        subscriber
    }
}

/// One follower's place.
#[derive(Debug)]
pub struct Subscriber {
    feed: Arc<Feed>,
    node: Arc<str>,
    connection: u64,
    position: Position,
    role: Role,
    is_welcomed: bool,
    notices_seen: u64,
    questions_seen: u64,
    /// The version that it had at first, or that the last file had: what followed it was sent.
    came_with: u64,
    /// The number of the last.
    resets_told: u64,
    heartbeat_at: Nanos,
    /// What comes before is sent together.
    gathers_until: Nanos,
}

#[derive(Debug)]
enum Position {
    /// It has this version.
    After(u64),
    /// So much of the file was sent; `is_begun`: it was told which file it is.
    Within { snapshot: Arc<Snapshot>, offset: u64, is_begun: bool },
    /// It wants a snapshot of this version or a later one, and there is none yet that can be gone on from.
    Waits { at_least: u64 },
}

impl Subscriber {
    /// What to send next: `room` bytes of it, or one message; nothing where nothing is due.
    pub fn fill(&mut self, now: Nanos, room: usize, out: &mut Vec<Bytes>) {
        if !self.is_welcomed {
            self.is_welcomed = true;
            let (node, software) = (self.feed.name.clone(), self.feed.software.clone());
            out.push(message(&Down::Welcome(Welcome { protocol: PROTOCOL, node, software })));
        }
        if now >= self.heartbeat_at {
            self.heartbeat_at = now.plus(HEARTBEAT_EVERY);
            let (head, stale_ms) = (self.feed.head(), self.feed.told_stale_ms(now));
            out.push(message(&Down::Heartbeat { head, stale_ms }));
        }
        self.fill_notices(out);
        self.fill_questions(out);
        match &self.position {
            Position::After(version) => {
                let version = *version;
                self.fill_changes(version, now, room, out);
            }
            Position::Waits { at_least } => self.wait_for_snapshot(*at_least),
            Position::Within { .. } => {}
        }
        self.fill_chunk(out);
        self.fill_resets(now, room, out);
    }

    /// Those that came before what it was sent as changes, once it has the rules that they are about.
    fn fill_resets(&mut self, now: Nanos, room: usize, out: &mut Vec<Bytes>) {
        let mut bytes = 0;
        while bytes < room && self.lacks_resets() {
            let (number, reset) = self.feed.core.lock().resets.next(self.resets_told, self.came_with, now);
            self.resets_told = number;
            let Some(reset) = reset else { return };
            let message = message(&Down::Reset(reset));
            bytes += message.len();
            out.push(message);
        }
    }

    /// Whether it is to be looked for some that it wasn't told of.
    fn lacks_resets(&self) -> bool {
        matches!(self.position, Position::After(_))
            && self.resets_told < self.feed.core.lock().resets.last_number()
    }

    fn fill_notices(&mut self, out: &mut Vec<Bytes>) {
        let core = self.feed.core.lock();
        let seen = self.notices_seen;
        for (kind, (revision, payload)) in core.notices.iter().filter(|(_, (revision, _))| *revision > seen) {
            self.notices_seen = self.notices_seen.max(*revision);
            out.push(message(&Down::Notice(Payload { kind: *kind, payload: payload.clone() })));
        }
    }

    fn fill_questions(&mut self, out: &mut Vec<Bytes>) {
        let seen = self.questions_seen;
        for (revision, message) in self.feed.questions.lock().after(seen) {
            self.questions_seen = self.questions_seen.max(revision);
            out.push(message);
        }
    }

    fn fill_changes(&mut self, version: u64, now: Nanos, room: usize, out: &mut Vec<Bytes>) {
        if now < self.gathers_until {
            return;
        }
        let lack = self.feed.core.lock().recent.after(version, room);
        match lack {
            Lack::Nothing => {}
            Lack::Changes(changes) => {
                let count = u64::try_from(changes.len()).unwrap_or(0);
                self.position = Position::After(version + count);
                self.gathers_until = now.plus(GATHERED_FOR);
                out.extend(changes);
            }
            Lack::TooMuch => {
                self.feed.counters.resynchronised.fetch_add(1, Ordering::Relaxed);
                self.position = Position::Waits { at_least: version + 1 };
                self.wait_for_snapshot(version + 1);
            }
        }
    }

    /// Begins the snapshot if there is one that can be gone on from: otherwise it would be sent for ever.
    fn wait_for_snapshot(&mut self, at_least: u64) {
        let mut core = self.feed.core.lock();
        let at_least = at_least.max(core.recent.base());
        match core.snapshot.clone().filter(|file| file.version() >= at_least) {
            Some(snapshot) => {
                self.feed.counters.snapshots.fetch_add(1, Ordering::Relaxed);
                self.position = Position::Within { snapshot, offset: 0, is_begun: false };
            }
            None => core.wants_file = true,
        }
    }

    /// It has a part of a file already: if that is still the one, the rest of it is enough.
    fn resume_snapshot(&mut self, id: &SnapshotId, bytes: u64) {
        let core = self.feed.core.lock();
        let same = core.snapshot.clone().filter(|file| file.id() == *id && bytes <= length(file));
        if let Some(snapshot) = same.filter(|file| file.version() >= core.recent.base()) {
            self.position = Position::Within { snapshot, offset: bytes, is_begun: false };
        }
    }

    fn fill_chunk(&mut self, out: &mut Vec<Bytes>) {
        let Position::Within { snapshot, offset, is_begun } = &mut self.position else { return };
        if !*is_begun {
            *is_begun = true;
            let (id, length) = (snapshot.id(), length(snapshot));
            out.push(message(&Down::Snapshot { id, length, offset: *offset }));
        }
        let bytes = Bytes::copy_from_slice(snapshot.chunk(*offset, CHUNK_BYTES));
        let end = *offset + u64::try_from(bytes.len()).unwrap_or(0);
        out.push(message(&Down::Chunk { offset: *offset, bytes }));
        *offset = end;
        if end >= length(snapshot) {
            let version = snapshot.version();
            self.position = Position::After(version);
            (self.came_with, self.resets_told) = (self.came_with.max(version), 0);
        }
    }

    /// When to ask again, if nothing changes before.
    pub fn wakes_at(&self, now: Nanos) -> Nanos {
        match self.position {
            Position::After(_) if self.lacks_resets() => now,
            Position::After(_) if self.gathers(now) => self.heartbeat_at.min(self.gathers_until),
            Position::After(version) if version < self.feed.head() => now,
            Position::After(_) | Position::Waits { .. } => self.heartbeat_at,
            Position::Within { .. } => now,
        }
    }

    /// Whether what changed a moment ago is still being gathered.
    pub fn gathers(&self, now: Nanos) -> bool {
        matches!(self.position, Position::After(_)) && now < self.gathers_until
    }

    /// What the follower said.
    pub fn heard(&mut self, up: Up, now: Nanos) {
        match up {
            // One that isn't newer than what it has would help it to nothing.
            Up::Resume { wants_snapshot: true, rule_version } => {
                self.position = Position::Waits { at_least: rule_version.saturating_add(1) };
            }
            Up::Resume { rule_version, .. } => self.position = Position::After(rule_version),
            Up::Health(health) => self.feed.nodes.lock().told(&self.node, self.connection, health, now),
            Up::Report(payload) => self.feed.report(self.node.clone(), payload),
            Up::Nodes(reports) => self.feed.nodes.lock().heard_of(reports, now),
            // Only a broker speaks for others.
            Up::Answer(part) => {
                let node = if self.role == Role::Broker { part.node } else { self.node.clone() };
                self.feed.questions.lock().heard(AnswerPart { node, ..part });
            }
            // A second hello says nothing new; what isn't known is of a newer release.
            Up::Hello(_) | Up::Unknown => {}
        }
    }

    pub fn node(&self) -> &str {
        &self.node
    }
}

impl Feed {
    fn report(&self, node: Arc<str>, payload: Payload) {
        let mut reports = self.reports.lock();
        if reports.len() < REPORTS_MAX {
            reports.push_back((node, payload));
        } else {
            self.counters.reports_dropped.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// The feed's own word on how it is, for whom it follows itself.
    pub fn health(&self, now: Nanos) -> Health {
        Health {
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

impl Drop for Subscriber {
    fn drop(&mut self) {
        self.feed.nodes.lock().left(&self.node, self.connection);
    }
}

fn length(snapshot: &Snapshot) -> u64 {
    u64::try_from(snapshot.bytes().len()).unwrap_or(u64::MAX)
}

fn message(down: &Down) -> Bytes {
    framed(|out| down.encode(out)).into()
}

#[cfg(test)]
mod tests;
