//! Folding: how the hash of a long window stays small although every incarnation of a node counts in a field of its own.
//!
//! A cell or a bucket that has many more owners than there are nodes is *crowded*. A node folds it in steps: the components
//! of owners that the cell's shard no longer remembers become one. A node is remembered for
//! [`crate::record::PULSE_RETENTION`] after its last pulse, so one that was stopped, or cut off for that long, is folded.
//! Folding can be undone, so nothing depends on whether such a node is really gone: when it publishes again, the store takes
//! its component out of the folded ones, by what the node says was confirmed to it.

use tidegate_core::origin_cell::NodeId;
use tidegate_core::{KeyId, Sequence};

/// A window's cell, or a bucket.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct CrowdedCell {
    pub key: KeyId,
    pub epoch: u16,
    /// `None` for a bucket.
    pub sequence: Option<Sequence>,
}

/// One step through the owners of a cell.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FoldStep<'a> {
    pub cell: CrowdedCell,
    /// Where the step before ended; 0 for the first.
    pub cursor: u64,
    /// Nodes that aren't folded.
    pub stays: &'a [NodeId],
}

/// What came of a step.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct FoldedOwners {
    /// Where the next step goes on; 0 at the end.
    pub next: u64,
    pub folded: u32,
    /// The owners that are left.
    pub owners: u32,
}

/// The nodes that sent a pulse to a shard lately.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RememberedNodes {
    /// How many of them are alive.
    pub live: u32,
    pub nodes: Vec<NodeId>,
}
