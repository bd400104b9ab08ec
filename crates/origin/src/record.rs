//! How nodes notice that a shard lost data, and how they agree that it has been restored.
//!
//! Every shard keeps a *record*: which [`Incarnation`] of its data this is, and whether that is still being restored.
//! Nodes send a [`Pulse`] to every shard with each heartbeat. A record that is missing, that another server process
//! wrote, or that knows less of a node than the node was told, means that data is gone: a new incarnation begins. It
//! is *recovering* until every live node has published again what it knows, for at least [`RECOVERY_MIN`] and at most
//! [`RECOVERY_MAX`].

use tidegate_core::Nanos;
use tidegate_core::origin_cell::NodeId;

/// A new incarnation recovers for so long at least: every live node has sent a pulse by then. It is the time for which
/// a node counts as alive after a heartbeat, and one heartbeat more.
pub const RECOVERY_MIN: Nanos = Nanos::from_millis(1_900);
/// A shard waits no longer than this for its nodes.
pub const RECOVERY_MAX: Nanos = Nanos::from_secs(30);
/// A shard remembers the pulses of a node for so long. A node whose last one is older doesn't miss them.
pub const PULSE_RETENTION: Nanos = Nanos::from_secs(3_600);

/// The life of a shard's data, from one loss to the next.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Incarnation(pub u64);

/// "I am alive on this shard, and this is what I was told by it."
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Pulse {
    pub node: NodeId,
    /// Names the incarnation that begins if data is gone. Drawn at random for each pulse.
    pub next: Incarnation,
    /// The number of this pulse, of this node on this shard. Numbers only grow.
    pub number: u64,
    /// The highest number that the shard has acknowledged; 0 when it never did within [`PULSE_RETENTION`].
    pub acked: u64,
    /// The incarnation that the shard named last.
    pub known: Option<Incarnation>,
    /// The incarnation to which this node has published everything that it knows.
    pub confirmed: Option<Incarnation>,
    /// For how long after this pulse the node counts as alive.
    pub alive_for: Nanos,
    /// The node is stopping: nobody waits for it.
    pub leaves: bool,
    /// A record that is missing isn't a loss: the shard is new on purpose, or holds the counts of a release that kept no
    /// records.
    pub adopts: bool,
}

/// A shard's answer to a pulse.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PulseReply {
    pub record: ShardRecord,
    /// This pulse ended the recovery because its time was over: so many live nodes hadn't confirmed theirs.
    pub unconfirmed: u32,
    /// The shard's own present.
    pub now: Nanos,
    /// What the server removes by itself; `None` where this pulse didn't look, or the server doesn't tell.
    pub eviction: Option<Eviction>,
}

/// Keys that a server removes when its memory is full.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Eviction {
    /// Its `maxmemory-policy` is another one than `noeviction`.
    pub is_allowed: bool,
    /// How many it has removed since it was started.
    pub keys: u64,
}

/// Which data a shard holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ShardRecord {
    pub incarnation: Incarnation,
    /// Some of what nodes know may not be published again yet.
    pub is_recovering: bool,
}

/// What an exchange read of its shard's record, after its keys.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum RecordReading {
    /// It wasn't asked for.
    #[default]
    NotRead,
    Missing,
    Found(ShardRecord),
}
