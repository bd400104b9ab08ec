//! What a region's nodes and its world worker say to each other through the origin (docs/design.md, "Counts
//! between regions").
//!
//! Any node sees that a cell is due and names it in the publish queue; one node, the world worker, carries counts to
//! the world store and writes back what the other regions have. Everything in it is absolute and merged by max,
//! so that two workers at once do no harm, and a lost publish request is written again by the nodes' next look.

use std::sync::Arc;
use tidegate_core::origin_cell::NodeId;
use tidegate_core::{CellId, Nanos};

/// A node that offers to be the region's world worker.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LeaderCandidate {
    pub node: NodeId,
    pub request: LeaderRequest,
    /// Which origin this is, as far as the node knows: an origin that has forgotten it takes this. A node that
    /// has just started lets others speak first, and makes one up when nobody does.
    pub proposed: Option<OriginId>,
}

/// What a node requests of the election.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LeaderRequest {
    /// For so long from now, if nobody else does.
    Lead { lease: Nanos },
    /// Another one may, at once.
    GiveUp,
}

/// Which store a region's counts are in. The number stays with the counts; it is the region's name in the world
/// tier, together with the region's.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct OriginId {
    pub id: u64,
    /// Changes whenever the store has forgotten everything: what it was told must be told again.
    pub incarnation: u64,
}

/// The state of the election, as one node sees it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LeaderStatus {
    /// This node is the region's world worker.
    pub is_leader: bool,
    /// `None` when nobody has said yet: then nobody leads.
    pub origin: Option<OriginId>,
    /// The lowest version of the world's regions that a live node goes by; told to the leader only.
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
    /// Whose limit it is, for people: carried as it is.
    pub name: Arc<str>,
}

/// What a region has counted in a cell, and how much of that the world tier has.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct CellTotal {
    pub total: u64,
    pub published: u64,
}

/// What the world tier says of a cell.
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
