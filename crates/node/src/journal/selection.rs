//! Which of a request's limits are recorded in the decision log: chosen before anything is written.

/// The answers of a request that are recorded.
#[derive(Clone, Copy)]
pub(crate) enum RecordSelection {
    /// Records the denials of a denied request, from this item on.
    Denials { from: usize },
    /// Records an admitted request as often as its rules' `log` requires.
    ByRules,
    /// Records an admitted request that the sample chose.
    Sampled,
}
