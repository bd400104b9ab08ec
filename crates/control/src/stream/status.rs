//! How following goes, for operators: metrics, `/v1/state`, `/readyz`, and the logs.

use super::{STALE_ALARM, STALE_WARNING};
use std::sync::Arc;
use tidegate_core::Nanos;

/// Whether the rules in force may be old.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub enum Staleness {
    #[default]
    Fresh,
    /// For more than [`STALE_WARNING`].
    Warning,
    /// For more than [`STALE_ALARM`].
    Alarm,
}

impl Staleness {
    pub fn of(stale_for: Nanos) -> Self {
        match stale_for {
            stale if stale > STALE_ALARM => Staleness::Alarm,
            stale if stale > STALE_WARNING => Staleness::Warning,
            _ => Staleness::Fresh,
        }
    }

    pub const fn word(self) -> &'static str {
        match self {
            Staleness::Fresh => "fresh",
            Staleness::Warning => "warning",
            Staleness::Alarm => "alarm",
        }
    }
}

/// Whom it follows now.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FollowedServer {
    pub name: Arc<str>,
    pub software: Arc<str>,
    /// The version of the protocol that both speak.
    pub protocol: u32,
    /// Its software or its protocol is of another release.
    pub is_other_release: bool,
}

/// A follower's standing at one time.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Status {
    /// In force.
    pub version: u64,
    /// The newest that a server said it has.
    pub head: u64,
    /// Which of the servers it uses, or tries.
    pub server: usize,
    pub following: Option<FollowedServer>,
    /// When it was last known that the rules in force are the newest of all.
    pub confirmed_at: Nanos,
    /// Bytes of a snapshot that is being loaded, and of how many.
    pub loading: Option<(u64, u64)>,
    /// A change or a snapshot that was refused, and why; until a later one is in force.
    pub refused: Option<(u64, String)>,
    /// Why there is no connection.
    pub problem: Option<String>,
    pub connects: u64,
    pub changes: u64,
    pub snapshots: u64,
    pub refusals: u64,
    pub gaps: u64,
}

impl Status {
    pub fn stale_for(&self, now: Nanos) -> Nanos {
        now.minus(self.confirmed_at)
    }

    /// What is in force is newer than what its server has.
    pub fn is_ahead(&self) -> bool {
        self.following.is_some() && self.version > self.head
    }

    /// What only grows, by name.
    pub fn counters(&self) -> [(&'static str, u64); 5] {
        [
            ("rule_stream_connects", self.connects),
            ("rule_changes_applied", self.changes),
            ("rule_snapshots_loaded", self.snapshots),
            ("rule_changes_refused", self.refusals),
            ("rule_stream_gaps", self.gaps),
        ]
    }
}
