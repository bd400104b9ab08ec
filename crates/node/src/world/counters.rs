//! What was done for the world tier, for operators. Nothing is dropped without a count here.

use crate::stats::Counter;

#[derive(Debug, Default)]
pub struct WorldCounters {
    /// Publish requests that this node enqueued, and those that were rejected because the queue was full.
    pub publish_requests: Counter,
    pub publish_requests_refused: Counter,
    /// Keys that found no room in the index: the others don't hear of them from this node.
    pub keys_refused: Counter,
    /// Requests of class `abuse` that were told to wait until the others have heard.
    pub credit_waits: Counter,
    pub rows_published: Counter,
    pub publish_errors: Counter,
    /// Rows that the store refused, each for a reason of its own: those that were published and those that were merged.
    pub rows_refused: Counter,
    pub rows_imported: Counter,
    pub import_errors: Counter,
    /// Cells that nobody here had counted in when they were imported.
    pub cells_imported: Counter,
    /// Counts of other regions that are more than is plausible, and count as the most that is.
    pub implausible_rows: Counter,
    /// Cells that were forgotten to make room for others.
    pub cells_dropped: Counter,
    /// Publish requests that the worker dropped for lack of room.
    pub publish_requests_dropped: Counter,
    /// Rows of the table of counts that were written from the log.
    pub rows_merged: Counter,
    pub rows_deleted: Counter,
    /// Rows of this region that the store lost, and that were published again.
    pub rows_lost: Counter,
}

impl WorldCounters {
    pub fn counts_by_name(&self) -> [(&'static str, u64); 16] {
        [
            ("world_letters", self.publish_requests.get()),
            ("world_letters_refused", self.publish_requests_refused.get()),
            ("world_keys_refused", self.keys_refused.get()),
            ("world_credit_waits", self.credit_waits.get()),
            ("world_rows_published", self.rows_published.get()),
            ("world_publish_errors", self.publish_errors.get()),
            ("world_rows_refused", self.rows_refused.get()),
            ("world_rows_imported", self.rows_imported.get()),
            ("world_import_errors", self.import_errors.get()),
            ("world_cells_imported", self.cells_imported.get()),
            ("world_implausible_rows", self.implausible_rows.get()),
            ("world_cells_dropped", self.cells_dropped.get()),
            ("world_letters_dropped", self.publish_requests_dropped.get()),
            ("world_rows_merged", self.rows_merged.get()),
            ("world_rows_deleted", self.rows_deleted.get()),
            ("world_rows_lost", self.rows_lost.get()),
        ]
    }
}
