//! How rules reach every node: one stream from each node to a broker, and from each broker to the control plane.
//!
//! The same two halves everywhere. [`Feed`] is the serving one: the newest changes and the snapshot file, and who
//! follows. [`Follower`] is the following one: which server, what to ask it for, what to do with what comes. Both
//! take the time as an argument and do no IO; `link.rs` and `driver.rs` carry the follower's messages, and
//! `crates/server/src/grpc/follow.rs` the feed's. A broker is a follower that fills a feed.

mod driver;
mod endpoint;
mod feed;
mod follower;
mod frame;
mod link;
mod message;
mod nodes;
mod questions;
mod recent;
mod relay;
mod resets;
mod rule_store;
mod status;
mod steady;
mod stored_rules;

pub use driver::{FollowOptions, FollowView, QuestionHandler, follow};
pub use endpoint::{Duplex, Endpoint, EndpointError, Endpoints, Stream, Trust};
pub use feed::{Feed, FeedCounters, Subscriber};
pub use follower::{Action, Follower, Identity};
pub use frame::{FrameError, framed, take_first};
pub use message::{
    AnswerPart, Asker, FollowerHealth, FollowerMessage, FollowerRole, Hello, MESSAGE_BYTES_MAX, NodeReport,
    PAYLOAD_BYTES_MAX, PROTOCOL, Payload, PayloadKind, Protocol, Question, QuestionId, ServerMessage,
    SnapshotId, Welcome,
};
pub use questions::{ANSWER_BYTES_MAX, Answers, NodeAnswer, TooManyQuestions};
pub use relay::Relay;
pub use resets::{PastReset, RESET_BROADCAST_MAX, RESET_BROADCAST_TTL};
pub use rule_store::{ApplyResult, RuleStore, RulesStatus};
pub use status::{FollowedServer, Staleness, Status};
pub use steady::Steady;
pub use stored_rules::{StoredRules, StoredRulesError};

use tidegate_core::Nanos;

/// How often a server says which version it has.
pub const HEARTBEAT_EVERY: Nanos = Nanos::from_millis(200);
/// Without a word for so long, a follower goes on to the next server.
pub const SILENT_MAX: Nanos = Nanos::from_secs(1);
/// Rules that may be older than this are told of, and than this again, louder.
pub const STALE_WARNING: Nanos = Nanos::from_secs(30);
pub const STALE_ALARM: Nanos = Nanos::from_secs(60);
/// Where the method is found.
pub const FOLLOW_PATH: &str = "/tidegate.control.v1.Rules/Follow";
