//! Which of a request's limits are recorded in the decision log: chosen before anything is written.

/// The answers of a request that are recorded.
#[derive(Clone, Copy)]
pub(crate) enum RecordSelection {
    /// It was denied: by those of its limits that denied it, from this item on.
    Denials { from: usize },
    /// It passed, and a rule says how often such requests are recorded.
    ByRules,
    /// It passed, and is one of the sample.
    Sampled,
}
