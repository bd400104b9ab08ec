//! What a limiter says about a request.

use serde::Deserialize;
use std::time::Duration;

/// The response to a check: whether the request may pass, and the state of each limit.
#[derive(Clone, PartialEq, Eq, Debug, Deserialize)]
pub struct CheckResponse {
    pub allowed: bool,
    /// Every limit that was looked at.
    #[serde(default)]
    pub limits: Vec<LimitStatus>,
    #[serde(skip)]
    pub source: ResponseSource,
}

/// Names who decided a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum ResponseSource {
    /// A node, or the limiter in this process.
    #[default]
    Limiter,
    /// Nobody could be asked in time: what was chosen for that case.
    Failure,
}

/// The state of one limit after a check.
#[derive(Clone, PartialEq, Eq, Debug, Deserialize)]
pub struct LimitStatus {
    /// The rule's; empty for a limit that was given in the request.
    pub name: String,
    pub identifier: String,
    /// `None`: unlimited.
    pub limit: Option<u64>,
    pub remaining: Option<u64>,
    /// When the whole limit is back, in milliseconds since 1970.
    pub reset_ms: Option<u64>,
    /// `None` on a denial: no wait helps.
    pub retry_after_ms: Option<u64>,
    pub allowed: bool,
    /// Never denies.
    pub shadow: bool,
}

impl CheckResponse {
    pub(crate) fn of_failure(allowed: bool) -> Self {
        CheckResponse { allowed, limits: Vec::new(), source: ResponseSource::Failure }
    }

    /// After how long the request would pass if nobody else came; `None` when it was allowed, or when no wait
    /// helps.
    pub fn retry_after(&self) -> Option<Duration> {
        if self.allowed {
            return None;
        }
        let waits = self.denying().map(|limit| limit.retry_after_ms);
        waits.collect::<Option<Vec<u64>>>()?.into_iter().max().map(Duration::from_millis)
    }

    /// The limit that denied the request, or that has least left.
    pub fn strictest(&self) -> Option<&LimitStatus> {
        let told = self.limits.iter().filter(|limit| !limit.shadow && limit.limit.is_some());
        told.min_by_key(|limit| (limit.allowed, limit.remaining))
    }

    fn denying(&self) -> impl Iterator<Item = &LimitStatus> {
        self.limits.iter().filter(|limit| !limit.shadow && !limit.allowed)
    }
}
