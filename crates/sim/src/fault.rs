//! What goes wrong in a run.

use crate::network::Way;
use tidegate_core::Nanos;

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Fault {
    /// The node is gone at once, with what it knew.
    Crash {
        node: usize,
    },
    /// The node comes up again as a new incarnation, knowing nothing.
    Start {
        node: usize,
    },
    /// The node stands still, as by SIGSTOP, and then goes on with what came meanwhile.
    Pause {
        node: usize,
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
    /// The node's clock is set.
    StepClock {
        node: usize,
        delta_ns: i64,
    },
    /// The store loses everything.
    StoreForgets,
    /// A replica is as far as the store is now, and falls behind.
    StoreIsCopied,
    /// The replica takes the store's place.
    StoreFailsOver,
    /// The store stands still and then answers what came meanwhile.
    StorePauses {
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
    /// Connections to the store are refused.
    StoreGoesDown,
    StoreComesBack,
    /// From now on so many of 10,000 replies get lost.
    RepliesLost {
        of_10_000: u64,
    },
}
