//! What a region's nodes say to each other about hot keys, through the origin.
//!
//! Each message stands for itself and replaces the one before, as with quotas. A lost one costs a second.

use tidegate_core::origin_cell::NodeId;
use tidegate_core::{KeyId, Nanos};

/// The most keys in one message; what comes less often is left out.
pub const HOT_KEYS_MAX: usize = 1000;

/// A key that comes often.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct HotKey {
    pub key: KeyId,
    pub per_second: u64,
}

/// What comes often to one node.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct HotReport {
    pub node: NodeId,
    /// The stamp of the news that it goes by; 0 when it heard none.
    pub applied: u64,
    pub keys: Vec<HotKey>,
}

/// What is hot in the region.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct HotNews {
    /// When it was added up, in microseconds of the origin's time: what is later is newer.
    pub stamp: u64,
    pub keys: Vec<HotKey>,
}

/// The reply to a report of hot keys.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct HotKeysReply {
    /// The origin's own present.
    pub now: Nanos,
    /// Later than what the node goes by; `None` when there is nothing new.
    pub news: Option<HotNews>,
}
