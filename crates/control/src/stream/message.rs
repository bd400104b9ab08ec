//! What the two ends of a rules stream say to each other.

mod wire;

use super::resets::PastReset;
use bytes::Bytes;
use std::sync::Arc;
use tidegate_rules::DELTA_BYTES_MAX;
pub use tidegate_rules::SnapshotId;

/// The versions of the protocol that are spoken here.
pub const PROTOCOL: Protocol = Protocol { newest: 1, oldest: 1 };
/// In bytes: of a node, a region.
pub(super) const NAME_BYTES_MAX: usize = 128;
pub(super) const SOFTWARE_BYTES_MAX: usize = 64;
pub const PAYLOAD_BYTES_MAX: usize = 1 << 20;
pub(super) const CHUNK_BYTES_MAX: usize = 1 << 20;
/// Of one message; a broker with more sends several.
pub(super) const NODES_MAX: usize = 1000;
/// Of a question.
pub(super) const QUERY_BYTES_MAX: usize = 64 << 10;
/// The longest message: a delta and what is around it.
pub const MESSAGE_BYTES_MAX: usize = DELTA_BYTES_MAX + 1024;

/// A range of versions of the protocol.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Protocol {
    pub newest: u32,
    pub oldest: u32,
}

impl Protocol {
    /// The newest that both speak; `None` when there is none.
    pub fn common(self, other: Protocol) -> Option<u32> {
        let newest = self.newest.min(other.newest);
        (newest >= self.oldest.max(other.oldest)).then_some(newest)
    }
}

/// The kind of process that follows the rules.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum FollowerRole {
    #[default]
    Node,
    Broker,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Hello {
    pub protocol: Protocol,
    pub node: Arc<str>,
    pub region: Arc<str>,
    pub software: Arc<str>,
    pub role: FollowerRole,
    /// In force; 0: none.
    pub rule_version: u64,
    /// A snapshot that is partly there, and how much of it.
    pub partial: Option<(SnapshotId, u64)>,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Welcome {
    pub protocol: Protocol,
    pub node: Arc<str>,
    pub software: Arc<str>,
}

/// The rules that a follower has in force, and how old they are.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct FollowerHealth {
    pub rule_version: u64,
    /// Of a change that was refused; 0: none.
    pub refused_version: u64,
    pub stale_ms: u64,
}

/// The kind of a payload that other parts of the system send over the stream.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum PayloadKind {
    HeavyHitters = 1,
    Demand = 2,
    HotSet = 3,
    Slices = 4,
    LiveNodes = 5,
}

impl PayloadKind {
    const ALL: [PayloadKind; 5] = [
        PayloadKind::HeavyHitters,
        PayloadKind::Demand,
        PayloadKind::HotSet,
        PayloadKind::Slices,
        PayloadKind::LiveNodes,
    ];

    fn of(number: u64) -> Option<Self> {
        PayloadKind::ALL.into_iter().find(|kind| *kind as u64 == number)
    }
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Payload {
    pub kind: PayloadKind,
    pub payload: Bytes,
}

/// What is known of a node at a server.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NodeReport {
    pub node: Arc<str>,
    pub region: Arc<str>,
    pub software: Arc<str>,
    pub role: FollowerRole,
    pub rule_version: u64,
    pub refused_version: u64,
    pub seen_ms_ago: u64,
    pub is_connected: bool,
}

/// By which an answer is told from those to other questions of the same server.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct QuestionId(pub u64);

/// Who wants to know.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Asker {
    Operator,
    /// Of whom nothing is shown that isn't its own: the query names it.
    Tenant,
}

/// About the decision log, to everybody who follows.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Question {
    pub id: QuestionId,
    /// How long an answer is waited for.
    pub within_ms: u64,
    pub asker: Asker,
    /// As the query of `GET /v1/why`.
    pub query: Arc<str>,
}

/// A piece of what a node answers: they come in order.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct AnswerPart {
    pub id: QuestionId,
    pub node: Arc<str>,
    pub region: Arc<str>,
    pub is_last: bool,
    /// The bytes say why there is no answer.
    pub is_problem: bool,
    pub bytes: Bytes,
}

/// From a follower to its server.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum FollowerMessage {
    Hello(Hello),
    /// Asks for what follows this version, or for a snapshot whatever it has.
    Resume {
        rule_version: u64,
        wants_snapshot: bool,
    },
    Health(FollowerHealth),
    Report(Payload),
    Nodes(Vec<NodeReport>),
    Answer(AnswerPart),
    /// Of a newer release.
    Unknown,
}

/// From a server to a follower.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ServerMessage {
    Welcome(Welcome),
    /// A snapshot file begins, or goes on.
    Snapshot {
        id: SnapshotId,
        length: u64,
        offset: u64,
    },
    Chunk {
        offset: u64,
        bytes: Bytes,
    },
    Change {
        version: u64,
        delta: Bytes,
    },
    Heartbeat {
        head: u64,
        /// How long ago the server last knew that this is the newest of all; `u64::MAX`: not since it started.
        stale_ms: u64,
    },
    Notice(Payload),
    Question(Question),
    /// Of a version that the follower has, but may not have heard of as a change.
    Reset(PastReset),
    /// Of a newer release.
    Unknown,
}

#[cfg(test)]
mod tests;
