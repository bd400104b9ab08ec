//! Whether a connection's client keeps up: asked every few seconds, told by a flag that reads and writes set.
//!
//! A timer per request would cost more than the decision; this costs two relaxed stores. It bounds how long
//! a client may take over a request, its head and its body alike, and how long it may idle.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

/// How long a client may take.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Patience {
    pub(crate) look_every: Duration,
    /// From a request's first byte to its answer.
    pub(crate) looks_while_owing: u32,
    pub(crate) looks_while_idle: u32,
}

impl Patience {
    /// Ten seconds for a request, and a bit more than the 60 for which most clients keep an idle connection:
    /// better that they close it.
    pub(crate) const HTTP: Patience =
        Patience { look_every: Duration::from_secs(2), looks_while_owing: 5, looks_while_idle: 40 };
    /// Of a control plane: a push waits for a database, and who watches waits for a push.
    pub(crate) const CONTROL: Patience =
        Patience { look_every: Duration::from_secs(2), looks_while_owing: 30, looks_while_idle: 40 };
}

#[derive(Debug, Default)]
pub(crate) struct Progress {
    /// Bytes have come that no answer was written for.
    has_unanswered: AtomicBool,
    answers: AtomicU64,
    lingers: AtomicBool,
}

impl Progress {
    #[inline]
    pub(crate) fn read(&self) {
        self.has_unanswered.store(true, Ordering::Relaxed);
    }

    #[inline]
    pub(crate) fn wrote(&self) {
        self.has_unanswered.store(false, Ordering::Relaxed);
        // One task reads and writes a connection, so nothing is lost between the load and the store.
        self.answers.store(self.answers.load(Ordering::Relaxed).wrapping_add(1), Ordering::Relaxed);
    }

    /// Asks that the connection, when it closes, first takes what the client still sends.
    pub(crate) fn linger(&self) {
        self.lingers.store(true, Ordering::Relaxed);
    }

    pub(crate) fn lingers(&self) -> bool {
        self.lingers.load(Ordering::Relaxed)
    }

    /// Returns once the client is too slow.
    pub(crate) async fn until_too_slow(&self, patience: Patience) {
        let mut watch = Watch::default();
        while !watch.is_too_slow(self, patience) {
            tokio::time::sleep(patience.look_every).await;
        }
    }
}

/// What was seen so far.
#[derive(Debug, Default)]
struct Watch {
    answers: u64,
    checks_unanswered: u32,
    checks_idle: u32,
}

impl Watch {
    /// One look.
    fn is_too_slow(&mut self, progress: &Progress, patience: Patience) -> bool {
        let answers = progress.answers.load(Ordering::Relaxed);
        if answers != self.answers {
            *self = Watch { answers, ..Watch::default() };
        } else if progress.has_unanswered.load(Ordering::Relaxed) {
            self.checks_unanswered += 1;
        } else {
            self.checks_idle += 1;
        }
        self.checks_unanswered > patience.looks_while_owing || self.checks_idle > patience.looks_while_idle
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn looks_until_too_slow(progress: &Progress) -> u32 {
        let mut watch = Watch::default();
        (1..100).find(|_| watch.is_too_slow(progress, Patience::HTTP)).unwrap_or(0)
    }

    #[test]
    fn a_started_request_has_ten_seconds_and_an_idle_client_eighty() {
        let progress = Progress::default();
        assert_eq!(looks_until_too_slow(&progress), Patience::HTTP.looks_while_idle + 1);
        progress.read();
        assert_eq!(looks_until_too_slow(&progress), Patience::HTTP.looks_while_owing + 1);
    }

    #[test]
    fn a_client_that_gets_answers_is_never_too_slow() {
        let progress = Progress::default();
        let mut watch = Watch::default();
        for _ in 0..1000 {
            progress.read();
            assert!(!watch.is_too_slow(&progress, Patience::HTTP));
            progress.wrote();
            assert!(!watch.is_too_slow(&progress, Patience::HTTP));
        }
    }
}
