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
pub enum StepResult {
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
pub enum WorkerTask {
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

impl StepResult {
    pub(super) fn lane(&self) -> WorkerTask {
        match self {
            StepResult::Joined(_) => WorkerTask::Join,
            StepResult::Mail(_) => WorkerTask::Mail,
            StepResult::Totals(_) | StepResult::Published(_) => WorkerTask::Publish,
            StepResult::Imported(_) => WorkerTask::Import,
            StepResult::Written(_) => WorkerTask::Write,
            StepResult::Told(_) => WorkerTask::Tell,
            StepResult::ToldResets(_) => WorkerTask::Resets,
            StepResult::Checked(_) => WorkerTask::Check,
            StepResult::Merged(_) => WorkerTask::Merge,
            StepResult::Deleted(_) => WorkerTask::Delete,
        }
    }
}
