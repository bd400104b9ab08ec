//! The region tier: where the nodes of a region agree on their counts.
//!
//! One trait, [`Origin`], and two implementations: [`MemoryOrigin`] in this process and [`RedisOrigin`] on
//! Redis, standalone, Sentinel or Cluster. An origin only carries messages: what to send, whom to believe and
//! what to do when it fails is the node's. It must never wait longer than its deadline, and never retry.

mod breaker;
mod hot;
mod memory;
mod owners;
mod quota;
pub mod record;
mod redis;
mod store;
mod world;

#[cfg(feature = "fuzz")]
pub use crate::redis::fuzz;
pub use crate::redis::{Connection, RedisOptions, RedisOrigin, RedisUrl, UrlError, client_config};
pub use breaker::{Breaker, BreakerState};
pub use hot::{HOT_KEYS_MAX, HotKey, HotKeysReply, HotNews, HotReport};
pub use memory::MemoryOrigin;
pub use owners::{CrowdedCell, FoldStep, FoldedOwners, RememberedNodes};
pub use quota::{
    OfferedDemand, QUOTA_KEYS_MAX, QuotaNews, QuotaReply, QuotaReport, QuotaReports, Share, SliceReport,
    quota_keys_max,
};
pub use store::{CellCondition, OriginStore};
pub use world::{
    CellTotal, LeaderCandidate, LeaderRequest, LeaderStatus, OriginId, PublishRequest, WorldCell,
};

use record::{Pulse, PulseReply, RecordReading};
use std::fmt::Debug;
use std::future::Future;
use std::pin::Pin;
use tidegate_core::exchange::{KeyReply, KeySync};
use tidegate_core::origin_cell::NodeId;
use tidegate_core::{CellId, FleetSecret, KeyId, Nanos, StoredSecret, WorldView};

/// One of the servers that an origin's keys are spread over. Stays the same while the server does.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct ShardId(pub u32);

/// Some keys' syncs to one shard.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Exchange {
    pub node: NodeId,
    /// The node's present, which follows the region's time: the store goes by it.
    pub now: Nanos,
    pub syncs: Vec<KeySync>,
    pub grant: Grant,
    /// Read the shard's record after the keys: what is granted counts only if the shard has lost nothing.
    pub reads_record: bool,
}

/// How the asks of one exchange hang together.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Grant {
    /// Each ask is granted or refused by itself.
    Each,
    /// All asks of all keys, or none. The keys share a place.
    Together,
}

/// A shard's answer: for each sync, in order, its reply or what is wrong with that key alone.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ExchangeReply {
    /// The origin's own present.
    pub now: Nanos,
    pub replies: Vec<Result<KeyReply, KeyError>>,
    /// The shard's record, where the exchange asked for it.
    pub record: RecordReading,
}

/// One key's counts can't be read or written; the other keys' can. Its next sync tries again.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum KeyError {
    #[error("the store holds something else under this key: {what}")]
    Poisoned { what: String },
    /// The call that carried this key failed while others of the same exchange didn't.
    #[error(transparent)]
    Failed(#[from] OriginError),
}

/// The exchange failed as a whole. What was sent may or may not have arrived.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum OriginError {
    #[error("no answer within {waited_ms} ms")]
    Timeout { waited_ms: u64 },
    #[error("not connected: {cause}")]
    Unreachable { cause: String },
    #[error("the store refused: {message}")]
    Refused { message: String },
    /// Keys of one call lie in two places while their slot moves. Says nothing about the server's health.
    #[error("{server} is moving the keys' slot, and can't be asked about them before that is over")]
    Moving { server: String },
    #[error("the store's answer makes no sense: {what}")]
    Nonsense { what: String },
    #[error(
        "the store was set up with another fleet secret (its fingerprint is {theirs:016x}, ours {ours:016x}); \
         give all nodes of the region the same cluster.secret_file"
    )]
    OtherSecret { theirs: u64, ours: u64 },
}

impl OriginError {
    /// One word for each kind of error, for labels.
    pub const KINDS: [&str; 6] = ["timeout", "unreachable", "refused", "moving", "nonsense", "other_secret"];

    /// Which of [`OriginError::KINDS`] it is.
    pub fn kind(&self) -> usize {
        match self {
            OriginError::Timeout { .. } => 0,
            OriginError::Unreachable { .. } => 1,
            OriginError::Refused { .. } => 2,
            OriginError::Moving { .. } => 3,
            OriginError::Nonsense { .. } => 4,
            OriginError::OtherSecret { .. } => 5,
        }
    }
}

/// "I am alive", and who else is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Heartbeat {
    pub node: NodeId,
    pub fingerprint: u64,
    /// A node that wasn't heard of for this long isn't counted.
    pub alive_for: Nanos,
    /// The node is stopping: forget it at once.
    pub leaves: bool,
    /// The version of the world's regions that the node goes by; 0 when it knows of none.
    pub applied: u64,
    /// How the store answered this node before.
    pub acceptance: Acceptance,
}

/// Whether a store has accepted a node's secret.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Acceptance {
    /// It hasn't answered yet.
    #[default]
    New,
    /// The store has accepted the secret, so many times in a row. A single time proves nothing: the store may have lost its
    /// data, and the nodes of its fleet may not have come back yet. If nodes with two secrets meet at a store that has just
    /// lost its data, the store keeps the secret of the node that it accepted more often.
    Taken(u32),
    /// The store belongs to another fleet. The node must not take it over when it loses its data.
    Refused,
}

impl Acceptance {
    /// The store took a heartbeat.
    #[must_use]
    pub fn and_taken(self) -> Self {
        match self {
            Acceptance::New | Acceptance::Refused => Acceptance::Taken(1),
            Acceptance::Taken(times) => Acceptance::Taken(times.saturating_add(1)),
        }
    }

    /// The store knows another secret. A node of its fleet, which was accepted for longer, comes back by itself.
    #[must_use]
    pub fn and_refused(self) -> Self {
        match self {
            Acceptance::Taken(times) if self.weight() > 0 => Acceptance::Taken(times),
            Acceptance::New | Acceptance::Taken(_) | Acceptance::Refused => Acceptance::Refused,
        }
    }

    /// How much a node's secret weighs against another one: how often it was accepted, where that was more than once.
    pub fn weight(self) -> u32 {
        match self {
            Acceptance::Taken(times) if times > 1 => times,
            Acceptance::New | Acceptance::Taken(_) | Acceptance::Refused => 0,
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct HeartbeatReply {
    /// Live nodes of the region, this one included.
    pub nodes: u32,
    /// The origin's own present.
    pub now: Nanos,
    /// The other regions, as the world worker last told; `None` when nobody did.
    pub world: Option<WorldView>,
    /// Nodes of a release that kept no records were here, and none of this release before.
    pub keeps_no_records: bool,
}

/// A key that was started afresh, and the epoch that holds since.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Reset {
    pub key: KeyId,
    pub epoch: u16,
}

/// A reset that was carried out, as a node remembers it: a store that lost its data is told again.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DoneReset {
    pub reset: Reset,
    /// The number of the control plane's order, where it was one.
    pub reset_id: Option<u64>,
    pub expires: Nanos,
}

/// When something expires by the node's clock, and the node's present. Stores keep it for as long as lies between: their
/// own clocks may be others.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Expiry {
    pub at: Nanos,
    pub now: Nanos,
}

impl Expiry {
    /// Returns when it expires by the clock of a store that shows `present`: not at once, and in whole milliseconds from
    /// then.
    pub fn by_store(self, present: Nanos) -> Nanos {
        let now_ms = self.now.get() / 1_000_000;
        let left_ms = self.at.as_millis_ceil().saturating_sub(now_ms).max(1);
        present.plus(Nanos::from_millis(left_ms))
    }
}

/// How far a node has read the log of resets.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ResetPosition {
    /// Which log it was: another one begins when the store loses it.
    pub log: u64,
    /// The number of the last reset.
    pub number: u64,
}

/// What a node adds to the log of resets, and how far it has read it.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ResetNews {
    pub known: Option<ResetPosition>,
    /// Names the log that begins if there is none. Drawn at random.
    pub next_log: u64,
    pub resets: Vec<Reset>,
}

/// The resets that a node doesn't know of yet.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ResetLog {
    pub position: ResetPosition,
    /// Some resets may be missing: the log is another one, or the oldest are no longer in it.
    pub has_gap: bool,
    pub resets: Vec<Reset>,
}

/// A pending reply of the origin.
pub type OriginFuture<'a, T> = Pin<Box<dyn Future<Output = Result<T, OriginError>> + Send + 'a>>;

pub trait Origin: Debug + Send + Sync + 'static {
    /// The shard that keeps `key` now.
    fn shard_of(&self, key: KeyId) -> ShardId;

    /// What an operator knows a shard by.
    fn shard_name(&self, shard: ShardId) -> String;

    /// The shards that there are now.
    fn shards(&self) -> Vec<ShardId>;

    /// Sends keys' syncs to their shard and waits for the answer, at most 50 ms.
    fn exchange<'a>(&'a self, shard: ShardId, exchange: &'a Exchange) -> OriginFuture<'a, ExchangeReply>;

    /// Tells one shard that this node lives, and returns which data the shard holds.
    fn pulse(&self, shard: ShardId, pulse: Pulse) -> OriginFuture<'_, PulseReply>;

    /// Returns the nodes that sent a pulse to a shard lately: their components aren't folded.
    fn remembered_nodes(&self, shard: ShardId) -> OriginFuture<'_, RememberedNodes>;

    /// Folds some of the owners of a cell. What they counted stays counted.
    fn fold_owners<'a>(&'a self, shard: ShardId, step: FoldStep<'a>) -> OriginFuture<'a, FoldedOwners>;

    /// Whether the store has a clock of its own, which the nodes of the region follow.
    fn keeps_time(&self) -> bool {
        true
    }

    /// How often a connection to a shard was made. After each, another server may answer.
    fn connects(&self, shard: ShardId) -> u64 {
        let _ = shard;
        0
    }

    /// Says that this node lives, and asks who else does.
    fn beat(&self, heartbeat: Heartbeat) -> OriginFuture<'_, HeartbeatReply>;

    /// Returns the fleet's secret as the store holds it. Stores `ours` first if it holds none and no node uses another:
    /// whoever comes first wins, and everybody else reads the winner's.
    fn fleet_secret(&self, ours: Option<FleetSecret>) -> OriginFuture<'_, StoredSecret> {
        // A store that ends with the process keeps nothing.
        Box::pin(async move { Ok(StoredSecret { secret: ours, marker: None }) })
    }

    /// Starts a key afresh for every node: raises its epoch, and says which it is now.
    /// Above `known`, too, which the node has heard of and a store may have forgotten.
    fn reset(&self, shard: ShardId, key: KeyId, known: u16, expiry: Expiry) -> OriginFuture<'_, u16> {
        self.reset_once(shard, key, known, expiry, None)
    }

    /// Resets a key like [`Origin::reset`]. With a `reset_id`, once for each id, however many nodes ask: ids are
    /// numbers, and one that isn't above the last that was carried out here changes nothing.
    fn reset_once(
        &self,
        shard: ShardId,
        key: KeyId,
        known: u16,
        expiry: Expiry,
        reset_id: Option<u64>,
    ) -> OriginFuture<'_, u16>;

    /// Raises a key's epoch and its last reset id to those that a node remembers.
    fn restore_reset(&self, shard: ShardId, done: DoneReset, now: Nanos) -> OriginFuture<'_, ()>;

    /// Adds resets to the region's log, and returns those that the node doesn't know of. A node that denies a key by itself
    /// never syncs it, and would learn of its reset by nothing else.
    fn share_resets(&self, news: ResetNews) -> OriginFuture<'_, ResetLog>;

    /// Reports this node's demand for keys that quotas share. Returns the slices that the region holds.
    fn report_quotas<'a>(&'a self, report: &'a QuotaReport) -> OriginFuture<'a, QuotaReply>;

    /// Returns the last report of every node. Nodes that sent none for `silent_for` are left out and dropped.
    fn gather_quotas(&self, silent_for: Nanos) -> OriginFuture<'_, QuotaReports>;

    /// Publishes the region's slices to all nodes, unless later ones were published already.
    fn publish_quotas<'a>(&'a self, news: &'a QuotaNews) -> OriginFuture<'a, ()>;

    /// Reports the keys that come often to this node. Returns those that are hot in the region.
    fn report_hot<'a>(&'a self, report: &'a HotReport) -> OriginFuture<'a, HotKeysReply>;

    /// What every node said last of keys that come often, as with quotas.
    fn gather_hot(&self, silent_for: Nanos) -> OriginFuture<'_, Vec<HotReport>>;

    /// Tells all nodes which keys are hot, unless they were told something later already.
    fn publish_hot_keys<'a>(&'a self, news: &'a HotNews) -> OriginFuture<'a, ()>;

    /// Takes, renews or gives up the leadership of the region's world worker. Returns the origin's id too.
    fn lead(&self, lead: LeaderCandidate) -> OriginFuture<'_, LeaderStatus>;

    /// Enqueues publish requests. Returns how many were rejected because the queue is full.
    fn enqueue_publish_requests<'a>(&'a self, requests: &'a [PublishRequest]) -> OriginFuture<'a, u64>;

    /// Dequeues the oldest publish requests, at most `most`.
    fn dequeue_publish_requests(&self, most: u16) -> OriginFuture<'_, Vec<PublishRequest>>;

    /// The region's count of each cell, in order.
    fn totals<'a>(&'a self, cells: &'a [CellId]) -> OriginFuture<'a, Vec<Result<CellTotal, KeyError>>>;

    /// Tells cells of the world, whether anybody counts in them or not. `now` is the node's present. For each, in order, what its nodes take for
    /// published from now on: more than they were told just now, if somebody else told them more.
    fn import<'a>(
        &'a self,
        cells: &'a [WorldCell],
        now: Nanos,
    ) -> OriginFuture<'a, Vec<Result<u64, KeyError>>>;

    /// Publishes the world's view to all nodes, with their next heartbeats.
    fn publish_world_view(&self, view: WorldView) -> OriginFuture<'_, ()>;
}
