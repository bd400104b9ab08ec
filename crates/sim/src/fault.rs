//! What goes wrong in a run.

use crate::file::{length, offset};
use crate::network::Way;
use serde::{Deserialize, Serialize};
use tidegate_core::Nanos;

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum Fault {
    /// The node is gone at once, with what it knew.
    Crash {
        node: usize,
    },
    /// The node comes up as a new incarnation, knowing nothing: after a crash, or for the first time.
    Start {
        node: usize,
    },
    /// The node publishes what is left, says that it leaves, and is gone for good.
    Leave {
        node: usize,
    },
    /// The node stands still, as by SIGSTOP, and then goes on with what came meanwhile.
    Pause {
        node: usize,
        #[serde(rename = "length_ms", with = "length")]
        length: Nanos,
    },
    /// Messages of a node get lost one way.
    Cut {
        node: usize,
        way: Way,
    },
    Mend {
        node: usize,
        way: Way,
    },
    /// The clock of the node's machine is set. The node follows the time of its store, and that clock where it can't.
    WallClockIsSet {
        node: usize,
        #[serde(rename = "delta_ms", with = "offset")]
        delta_ns: i64,
    },
    /// The node's own clock jumps, whatever it should follow: the way into situations that no clock of a machine leads to.
    StepClock {
        node: usize,
        #[serde(rename = "delta_ms", with = "offset")]
        delta_ns: i64,
    },
    /// The store loses everything.
    StoreForgets,
    /// One server of the store loses everything.
    ShardForgets {
        shard: usize,
    },
    /// The store loses one key, as by eviction.
    KeyIsLost {
        key: usize,
    },
    /// The store loses how often a key was reset, and nothing else.
    EpochIsLost {
        key: usize,
    },
    /// The store loses what a node counted of a key.
    ComponentIsLost {
        key: usize,
        node: usize,
    },
    /// The store loses which nodes live, whose secret it keeps and which keys were reset lately.
    CoordinationIsLost,
    /// Somebody resets a key through a node.
    Reset {
        node: usize,
        key: usize,
    },
    /// The control plane orders that a key is reset: every node is told, and those that join later too.
    ResetIsOrdered {
        key: usize,
    },
    /// A node of another fleet, with another secret, begins to send heartbeats to this store.
    ForeignNodeStarts,
    ForeignNodeStops,
    /// A replica is as far as the store is now, and falls behind.
    StoreIsCopied,
    /// The replica takes the store's place.
    StoreFailsOver,
    /// The store stands still and then answers what came meanwhile.
    StorePauses {
        #[serde(rename = "length_ms", with = "length")]
        length: Nanos,
    },
    /// One server of the store has a replica that is as far as it is now.
    ShardIsCopied {
        shard: usize,
    },
    /// One server of the store refuses connections.
    ShardGoesDown {
        shard: usize,
    },
    /// Its replica takes its place, if it has one; else it is back itself.
    ShardFailsOver {
        shard: usize,
    },
    /// A key is hot in the region from now on.
    KeyIsHot {
        key: usize,
    },
    /// A key isn't hot any more.
    KeyIsCold {
        key: usize,
    },
    /// The server that keeps a key hands it to another one: calls about it are refused meanwhile.
    SlotMoves {
        key: usize,
        #[serde(rename = "length_ms", with = "length")]
        length: Nanos,
    },
    /// A rule's duration changes: from now on requests of one key are requests of another.
    DurationChanges {
        from: usize,
        to: usize,
    },
    /// All nodes stand still for hours or days, as machines do that are suspended.
    AllPause {
        #[serde(rename = "length_ms", with = "length")]
        length: Nanos,
    },
    /// Connections to the store are refused.
    StoreGoesDown,
    StoreComesBack,
    /// From now on so many of 10,000 replies get lost.
    RepliesLost {
        of_10_000: u64,
    },
}

impl Fault {
    /// Whether a node's clock may step because of it.
    pub(crate) fn sets_clock(&self) -> bool {
        matches!(self, Fault::StepClock { .. } | Fault::WallClockIsSet { .. })
    }
}
