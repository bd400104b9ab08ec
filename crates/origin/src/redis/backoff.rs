//! How long to wait before the next attempt, and chance to keep nodes from attempting all at once.
//!
//! Never on the path of a call: only tasks in the background wait here.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::time::Duration;

const FIRST_MS: u64 = 50;
/// Half of it again is added by chance: no wait is longer than half a second, and neither is an attempt. While a
/// store is away, `paid` callers are admitted unseen: what a quick return costs is less.
const LAST_MS: u64 = 333;

#[derive(Debug)]
pub(super) struct Backoff {
    next_ms: u64,
}

impl Backoff {
    pub(super) fn new() -> Self {
        Backoff { next_ms: FIRST_MS }
    }

    /// Each wait is twice the one before, and up to half of it longer by chance.
    pub(super) fn wait(&mut self) -> Duration {
        let wait_ms = self.next_ms;
        self.next_ms = (wait_ms * 2).min(LAST_MS);
        Duration::from_millis(between(wait_ms, wait_ms + wait_ms / 2))
    }

    pub(super) fn succeeded(&mut self) {
        self.next_ms = FIRST_MS;
    }
}

/// The period, a fifth longer or shorter by chance.
pub(super) fn jittered(period_ms: u64) -> Duration {
    let fifth_ms = period_ms / 5;
    Duration::from_millis(between(period_ms - fifth_ms, period_ms + fifth_ms))
}

/// By chance, evenly enough. The standard library's hash keys are random: no generator of our own is needed.
fn between(low: u64, high: u64) -> u64 {
    low + RandomState::new().build_hasher().finish() % (high - low + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_grow_from_50_ms_to_half_a_second_and_start_again_after_success() {
        let mut backoff = Backoff::new();
        for expected_ms in [50, 100, 200, 333, 333] {
            let wait_ms = u64::try_from(backoff.wait().as_millis()).unwrap();
            assert!((expected_ms..=expected_ms * 3 / 2).contains(&wait_ms), "{wait_ms} {expected_ms}");
        }
        backoff.succeeded();
        assert!(backoff.wait() <= Duration::from_millis(75));
    }

    #[test]
    fn jitter_stays_within_a_fifth() {
        for _ in 0..1000 {
            let wait = jittered(5000);
            assert!(wait >= Duration::from_secs(4) && wait <= Duration::from_secs(6), "{wait:?}");
        }
        assert_eq!(jittered(0), Duration::ZERO);
    }
}
