//! What a worker begins, and what comes of it.

use tidegate_core::{CellId, WorldView};
use tidegate_origin::{CellTotal, KeyError, OriginError, PublishRequest, Reset, WorldCell};
use tidegate_world::{
    Cursor, ImportPage, JoinReply, JoinRequest, MergeReport, OwnerId, PublishReply, Row, StoredCounts,
    WorldError,
};

/// Something to be done, now.
#[derive(Clone, PartialEq, Debug)]
pub enum Step {
    Join(JoinRequest),
    DequeuePublishRequests {
        most: u16,
    },
    Totals(Vec<CellId>),
    Publish(OwnerId, Vec<Row>),
    Import(Cursor),
    /// Tell the origin what the world has.
    Write(Vec<WorldCell>),
    /// Tell the nodes how the world stands.
    PublishView(WorldView),
    /// Tell the nodes which keys were reset elsewhere.
    PublishResets(Vec<Reset>),
    /// Ask the store what it has of the region's own rows.
    Check(OwnerId, Vec<CellId>),
    /// Bring the store's log into its table.
    Merge,
    Delete,
}

/// The result of a step.
#[derive(Clone, PartialEq, Debug)]
pub enum StepResult {
    Joined(Result<JoinReply, WorldError>),
    PublishRequests(Result<Vec<PublishRequest>, OriginError>),
    Totals(Result<Vec<Result<CellTotal, KeyError>>, OriginError>),
    Published(Result<PublishReply, WorldError>),
    Imported(Result<ImportPage, WorldError>),
    Written(Result<Vec<Result<u64, KeyError>>, OriginError>),
    PublishedView(Result<(), OriginError>),
    PublishedResets(Result<(), OriginError>),
    Checked(Result<StoredCounts, WorldError>),
    Merged(Result<MergeReport, WorldError>),
    Deleted(Result<u64, WorldError>),
}

/// A kind of step. At most one step of each kind runs at a time.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum WorkerTask {
    Join,
    Dequeue,
    Publish,
    Import,
    Write,
    PublishView,
    Resets,
    Check,
    Merge,
    Delete,
}

impl Step {
    /// Whether the region's origin is asked; else the world store is.
    pub fn is_at_origin(&self) -> bool {
        match self {
            Step::DequeuePublishRequests { .. }
            | Step::Totals(_)
            | Step::Write(_)
            | Step::PublishView(_)
            | Step::PublishResets(_) => true,
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
    pub(super) fn task(&self) -> WorkerTask {
        match self {
            StepResult::Joined(_) => WorkerTask::Join,
            StepResult::PublishRequests(_) => WorkerTask::Dequeue,
            StepResult::Totals(_) | StepResult::Published(_) => WorkerTask::Publish,
            StepResult::Imported(_) => WorkerTask::Import,
            StepResult::Written(_) => WorkerTask::Write,
            StepResult::PublishedView(_) => WorkerTask::PublishView,
            StepResult::PublishedResets(_) => WorkerTask::Resets,
            StepResult::Checked(_) => WorkerTask::Check,
            StepResult::Merged(_) => WorkerTask::Merge,
            StepResult::Deleted(_) => WorkerTask::Delete,
        }
    }
}
