//! What a worker begins, and what comes of it.

use tidegate_core::{CellId, WorldView};
use tidegate_origin::{CellTotal, KeyError, Letter, OriginError, Reset, WorldCell};
use tidegate_world::{
    Cursor, Imported, Joined, Joining, Merged, OwnerId, Published, Row, StoredCounts, WorldError,
};

/// Something to be done, now.
#[derive(Clone, PartialEq, Debug)]
pub enum Step {
    Join(Joining),
    TakeMail {
        most: u16,
    },
    Totals(Vec<CellId>),
    Publish(OwnerId, Vec<Row>),
    Import(Cursor),
    /// Tell the origin what the world has.
    Write(Vec<WorldCell>),
    /// Tell the nodes how the world stands.
    Tell(WorldView),
    /// Tell the nodes which keys were reset elsewhere.
    TellResets(Vec<Reset>),
    /// Ask the store what it has of the region's own rows.
    Check(OwnerId, Vec<CellId>),
    /// Bring the store's log into its table.
    Merge,
    Delete,
}

/// What came of a step.
#[derive(Clone, PartialEq, Debug)]
pub enum Done {
    Joined(Result<Joined, WorldError>),
    Mail(Result<Vec<Letter>, OriginError>),
    Totals(Result<Vec<Result<CellTotal, KeyError>>, OriginError>),
    Published(Result<Published, WorldError>),
    Imported(Result<Imported, WorldError>),
    Written(Result<Vec<Result<u64, KeyError>>, OriginError>),
    Told(Result<(), OriginError>),
    ToldResets(Result<(), OriginError>),
    Checked(Result<StoredCounts, WorldError>),
    Merged(Result<Merged, WorldError>),
    Deleted(Result<u64, WorldError>),
}

/// What is done one at a time.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Lane {
    Join,
    Mail,
    Publish,
    Import,
    Write,
    Tell,
    Resets,
    Check,
    Merge,
    Delete,
}

impl Step {
    /// Whether the region's origin is asked; else the world store is.
    pub fn is_at_origin(&self) -> bool {
        match self {
            Step::TakeMail { .. }
            | Step::Totals(_)
            | Step::Write(_)
            | Step::Tell(_)
            | Step::TellResets(_) => true,
            Step::Join(_)
            | Step::Publish(..)
            | Step::Import(_)
            | Step::Check(..)
            | Step::Merge
            | Step::Delete => false,
        }
    }
}

impl Done {
    pub(super) fn lane(&self) -> Lane {
        match self {
            Done::Joined(_) => Lane::Join,
            Done::Mail(_) => Lane::Mail,
            Done::Totals(_) | Done::Published(_) => Lane::Publish,
            Done::Imported(_) => Lane::Import,
            Done::Written(_) => Lane::Write,
            Done::Told(_) => Lane::Tell,
            Done::ToldResets(_) => Lane::Resets,
            Done::Checked(_) => Lane::Check,
            Done::Merged(_) => Lane::Merge,
            Done::Deleted(_) => Lane::Delete,
        }
    }
}
