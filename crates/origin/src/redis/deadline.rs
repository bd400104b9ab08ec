//! When a call has to be over.
//!
//! It is set once, when the call begins; whatever the call then waits for, it waits no longer than this.

use crate::OriginError;
use std::time::Duration;
use tokio::time::Instant;

#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Deadline {
    began: Instant,
    timeout: Duration,
}

impl Deadline {
    pub(super) fn after(timeout: Duration) -> Self {
        Deadline::from(Instant::now(), timeout)
    }

    pub(super) fn from(began: Instant, timeout: Duration) -> Self {
        Deadline { began, timeout }
    }

    pub(super) fn began(self) -> Instant {
        self.began
    }

    pub(super) fn timeout(self) -> Duration {
        self.timeout
    }

    pub(super) fn at(self) -> Instant {
        self.began + self.timeout
    }

    pub(super) fn missed(self) -> OriginError {
        OriginError::Timeout { waited_ms: u64::try_from(self.timeout.as_millis()).unwrap_or(u64::MAX) }
    }
}
