//! The messages between a region's nodes and its world worker, by way of the origin (docs/design.md, "Counts
//! between regions").
//!
//! Any node that finds a cell due enqueues a publish request. One node, the world worker, carries counts to the world
//! store and writes back the counts of the other regions. All counts are absolute and merged by max, so two workers at
//! once do no harm. A lost publish request is enqueued again by the nodes' next scan.

use std::sync::Arc;
use tidegate_core::origin_cell::NodeId;
use tidegate_core::{CellId, Nanos};

/// A node that offers to be the region's world worker.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LeaderCandidate {
    pub node: NodeId,
    pub request: LeaderRequest,
    /// The origin's id, as far as the node knows: an origin that lost its id takes this. A node that has just started
    /// waits for the proposals of others, and makes one up if there are none.
    pub proposed: Option<OriginId>,
}

/// What a node requests of the election.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LeaderRequest {
    /// To lead for so long from now, if nobody else does.
    Lead { lease: Nanos },
    /// To stop leading, so that another node may lead at once.
    GiveUp,
}

/// Identifies the store that a region's counts are in. The id stays with the counts; together with the region's name,
/// it identifies the region in the world tier.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct OriginId {
    pub id: u64,
    /// Changes whenever the store lost all its data: everything must be written to it again.
    pub incarnation: u64,
}

/// The state of the election, as one node sees it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LeaderStatus {
    /// This node is the region's world worker.
    pub is_leader: bool,
    /// `None` when no node has proposed one yet: then nobody leads.
    pub origin: Option<OriginId>,
    /// The lowest version of the membership that a live node applies; for the leader only.
    pub applied_by_all: u64,
    /// The origin's own present.
    pub now: Nanos,
}

/// A request to publish one cell to the other regions.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PublishRequest {
    pub cell: CellId,
    pub limit: u64,
    /// When nobody needs the cell any more.
    pub expires: Nanos,
    /// The limit's name, to be shown: carried as it is.
    pub name: Arc<str>,
}

/// What a region has counted in a cell, and how much of that the world tier has.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct CellTotal {
    pub total: u64,
    pub published: u64,
}

/// The counts of a cell that the world tier has.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct WorldCell {
    pub cell: CellId,
    /// The region's own row: can only raise its count, and freshens nothing (INV-5).
    pub own: u64,
    /// The sum of the other regions.
    pub others: u64,
    /// When nobody needs the cell any more.
    pub expires: Nanos,
}
