//! What a region's nodes and its world worker say to each other about quotas, through the origin.
//!
//! Nodes say what was asked for and which news they go by; the worker, which speaks with the other regions, tells
//! which slices the region holds. Each message stands for itself and replaces the one before, so that a lost or a
//! repeated one does no harm.

use std::sync::Arc;
use tidegate_core::origin_cell::NodeId;
use tidegate_core::slice::Lease;
use tidegate_core::{KeyId, Nanos, Spec};

/// The most keys in one message; what is beyond is left out by its sender, and counted there.
pub const QUOTA_KEYS_MAX: usize = 10_000;

/// The most keys in the reports of all nodes together: a worker reads them in one answer, and none at all when that
/// is too long for it.
const GATHERED_KEYS_MAX: usize = 100_000;

/// The most keys in the report of one of so many nodes.
pub fn quota_keys_max(nodes: u32) -> usize {
    let of_all = usize::try_from(nodes.max(1)).map_or(0, |nodes| GATHERED_KEYS_MAX / nodes);
    of_all.clamp(1, QUOTA_KEYS_MAX)
}

/// What was asked for of one key on one node, admitted or not.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct OfferedDemand {
    pub key: KeyId,
    /// The whole limit, as the node's rules have it.
    pub spec: Spec,
    pub is_abuse: bool,
    /// Thousandths of cost a second, averaged.
    pub milli_per_second: u64,
}

#[derive(Clone, PartialEq, Debug)]
pub struct QuotaReport {
    pub node: NodeId,
    /// The stamp of the news that all decisions of this node go by; 0 when it heard none.
    pub applied: u64,
    /// The membership that limits are divided by on this node; 0 when it heard of none.
    pub version: u64,
    pub offered: Vec<OfferedDemand>,
    /// The node is stopping: forget it at once.
    pub leaves: bool,
}

/// The reply to a report of demand.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct QuotaReply {
    /// The origin's own present.
    pub now: Nanos,
    /// Later than what the node goes by; `None` when there is nothing new.
    pub news: Option<Arc<QuotaNews>>,
    /// The origin knows of no news as late as those that the node goes by: it has forgotten them.
    pub is_behind: bool,
}

/// The part of the region in limits that it holds no slice of.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Share {
    /// Of the membership that it is by.
    pub version: u64,
    /// Which of so many members the region is.
    pub index: u32,
    pub members: u32,
    /// A region that isn't active holds nothing.
    pub is_active: bool,
}

/// The lease of one slice, as nodes receive it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SliceReport {
    pub key: KeyId,
    /// By the origin's clock.
    pub lease: Lease,
}

/// All slices of a region, and its part in everything else.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct QuotaNews {
    /// When it was read, in microseconds of the world store's time: what is later is newer.
    pub stamp: u64,
    pub share: Share,
    pub slices: Vec<SliceReport>,
}

/// What the nodes of a region said.
#[derive(Clone, PartialEq, Debug)]
pub struct QuotaReports {
    /// The origin's own present.
    pub now: Nanos,
    /// When the origin last noticed that it has forgotten something, by its own clock; 0 when it never did. Who
    /// reported before may be missing, and may act by what it heard for a lease from then on.
    pub lost_data_at: Nanos,
    pub reports: Vec<QuotaReport>,
}
