//! One follower of a feed: what it was sent, and what it is sent next. Never a queue.

use super::Feed;
use crate::stream::HEARTBEAT_EVERY;
use crate::stream::frame::framed;
use crate::stream::message::{
    AnswerPart, FollowerMessage, FollowerRole, Hello, PROTOCOL, Payload, ServerMessage, SnapshotId, Welcome,
};
use crate::stream::recent::Lack;
use bytes::Bytes;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use tidegate_core::Nanos;
use tidegate_rules::Snapshot;

/// Of the snapshot file, in one message.
pub(super) const CHUNK_BYTES: usize = 64 << 10;
/// Changes that come in quick succession leave together: a message for each would cost more than it says.
pub(super) const BATCH_DELAY: Nanos = Nanos::from_millis(40);

/// One follower's place.
#[derive(Debug)]
pub struct Subscriber {
    feed: Arc<Feed>,
    node: Arc<str>,
    connection: u64,
    position: Position,
    role: FollowerRole,
    is_welcomed: bool,
    notices_seen: u64,
    questions_seen: u64,
    /// The version that it had at first, or that the last file had: what followed it was sent.
    came_with: u64,
    /// The number of the last.
    resets_sent: u64,
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
    /// `connection`: its number at the feed.
    pub(super) fn new(feed: Arc<Feed>, hello: &Hello, connection: u64, now: Nanos) -> Self {
        let revision = feed.core.lock().revision;
        let mut subscriber = Subscriber {
            feed,
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
            resets_sent: 0,
            // Who comes later isn't waited for.
            questions_seen: revision,
            heartbeat_at: now,
            gathers_until: now,
        };
        if let Some((id, bytes)) = &hello.partial {
            subscriber.resume_snapshot(id, *bytes);
        }
        subscriber
    }

    /// What to send next: `room` bytes of it, or one message; nothing where nothing is due.
    pub fn fill(&mut self, now: Nanos, room: usize, out: &mut Vec<Bytes>) {
        if !self.is_welcomed {
            self.is_welcomed = true;
            let (node, software) = (self.feed.name.clone(), self.feed.software.clone());
            out.push(message(&ServerMessage::Welcome(Welcome { protocol: PROTOCOL, node, software })));
        }
        if now >= self.heartbeat_at {
            self.heartbeat_at = now.plus(HEARTBEAT_EVERY);
            let (head, stale_ms) = (self.feed.head(), self.feed.reported_stale_ms(now));
            out.push(message(&ServerMessage::Heartbeat { head, stale_ms }));
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
            let (number, reset) = self.feed.core.lock().resets.next(self.resets_sent, self.came_with, now);
            self.resets_sent = number;
            let Some(reset) = reset else { return };
            let message = message(&ServerMessage::Reset(reset));
            bytes += message.len();
            out.push(message);
        }
    }

    /// Whether it is to be looked for some that it wasn't told of.
    fn lacks_resets(&self) -> bool {
        matches!(self.position, Position::After(_))
            && self.resets_sent < self.feed.core.lock().resets.last_number()
    }

    fn fill_notices(&mut self, out: &mut Vec<Bytes>) {
        let core = self.feed.core.lock();
        let seen = self.notices_seen;
        for (kind, (revision, payload)) in core.notices.iter().filter(|(_, (revision, _))| *revision > seen) {
            self.notices_seen = self.notices_seen.max(*revision);
            out.push(message(&ServerMessage::Notice(Payload { kind: *kind, payload: payload.clone() })));
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
                self.gathers_until = now.plus(BATCH_DELAY);
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
            out.push(message(&ServerMessage::Snapshot { id, length, offset: *offset }));
        }
        let bytes = Bytes::copy_from_slice(snapshot.chunk(*offset, CHUNK_BYTES));
        let end = *offset + u64::try_from(bytes.len()).unwrap_or(0);
        out.push(message(&ServerMessage::Chunk { offset: *offset, bytes }));
        *offset = end;
        if end >= length(snapshot) {
            let version = snapshot.version();
            self.position = Position::After(version);
            (self.came_with, self.resets_sent) = (self.came_with.max(version), 0);
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

    /// Handles a message of the follower.
    pub fn receive(&mut self, up: FollowerMessage, now: Nanos) {
        match up {
            // One that isn't newer than what it has would help it to nothing.
            FollowerMessage::Resume { wants_snapshot: true, rule_version } => {
                self.position = Position::Waits { at_least: rule_version.saturating_add(1) };
            }
            FollowerMessage::Resume { rule_version, .. } => self.position = Position::After(rule_version),
            FollowerMessage::Health(health) => {
                self.feed.nodes.lock().record_health(&self.node, self.connection, health, now);
            }
            FollowerMessage::Report(payload) => self.feed.report(self.node.clone(), payload),
            FollowerMessage::Nodes(reports) => self.feed.nodes.lock().receive_reports(reports, now),
            // Only a broker speaks for others.
            FollowerMessage::Answer(part) => {
                let node = if self.role == FollowerRole::Broker { part.node } else { self.node.clone() };
                self.feed.questions.lock().receive(AnswerPart { node, ..part });
            }
            // A second hello says nothing new; what isn't known is of a newer release.
            FollowerMessage::Hello(_) | FollowerMessage::Unknown => {}
        }
    }

    pub fn node(&self) -> &str {
        &self.node
    }
}

impl Drop for Subscriber {
    fn drop(&mut self) {
        self.feed.nodes.lock().left(&self.node, self.connection);
    }
}

pub(super) fn length(snapshot: &Snapshot) -> u64 {
    u64::try_from(snapshot.bytes().len()).unwrap_or(u64::MAX)
}

fn message(down: &ServerMessage) -> Bytes {
    framed(|out| down.encode(out)).into()
}
