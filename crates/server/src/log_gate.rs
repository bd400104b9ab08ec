//! Keeps a message that a caller can cause from filling the log: it passes at most once a minute.

use std::sync::atomic::{AtomicU64, Ordering};
use tidegate_core::Nanos;

const INTERVAL: Nanos = Nanos::from_secs(60);

#[derive(Debug)]
pub(crate) struct LogGate {
    /// Nanoseconds since 1970 before which nothing passes.
    closed_until: AtomicU64,
}

impl LogGate {
    pub(crate) const fn new() -> Self {
        LogGate { closed_until: AtomicU64::new(0) }
    }

    /// Returns whether a message may be logged now. Of several threads that ask at once, one gets `true`.
    pub(crate) fn passes(&self, now: Nanos) -> bool {
        let closed_until = self.closed_until.load(Ordering::Relaxed);
        if now.get() < closed_until {
            return false;
        }
        let next = now.get().saturating_add(INTERVAL.get());
        self.closed_until.compare_exchange(closed_until, next, Ordering::Relaxed, Ordering::Relaxed).is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_message_passes_in_a_minute() {
        let gate = LogGate::new();
        let passed = |second| gate.passes(Nanos::from_secs(second));
        assert_eq!([1000, 1000, 1059, 1060, 1061].map(passed), [true, false, false, true, false]);
    }
}
