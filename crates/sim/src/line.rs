//! A node's connection to one server, as `crates/origin/src/redis` keeps it: given up when nothing came for some
//! timeouts, and made anew in the background. While there is none, a call fails at once, and the server hears nothing.
//!
//! Follows `link.rs`, `connection_task.rs` and `backoff.rs` there. Must never be asked by anything that real nodes decide.

use crate::random::Random;
use tidegate_core::Nanos;

/// Calls that waited in vain while nothing at all came, for this many timeouts: the connection is dead.
const QUIET_TIMEOUTS: u64 = 3;
/// Something comes, but no answer in time: after this many timeouts a new connection is worth a try.
const UNANSWERED_TIMEOUTS: u64 = 20;
/// An attempt to connect takes so long at most.
pub(crate) const CONNECT_TIMEOUT: Nanos = Nanos::from_millis(500);
const FIRST_WAIT_MS: u64 = 50;
const LAST_WAIT_MS: u64 = 333;

#[derive(Debug)]
pub(crate) struct Line {
    is_up: bool,
    /// Since when calls time out, and since when nothing came.
    trouble: Option<(Nanos, Nanos)>,
    /// What never answered isn't connected again at once.
    was_useful: bool,
    wait_ms: u64,
    /// Of an attempt to connect.
    attempt: u32,
    is_dialing: bool,
}

impl Default for Line {
    fn default() -> Self {
        Line {
            is_up: true,
            trouble: None,
            was_useful: true,
            wait_ms: FIRST_WAIT_MS,
            attempt: 0,
            is_dialing: false,
        }
    }
}

impl Line {
    pub(crate) fn is_up(&self) -> bool {
        self.is_up
    }

    pub(crate) fn answered(&mut self) {
        (self.trouble, self.was_useful) = (None, true);
    }

    /// An answer came that nobody waits for any more.
    pub(crate) fn replied(&mut self, now: Nanos) {
        if let Some((_, quiet_since)) = &mut self.trouble {
            *quiet_since = now;
        }
    }

    /// A call timed out. Says whether that was enough: then the connection is given up.
    pub(crate) fn timed_out(&mut self, now: Nanos, timeout: Nanos) -> bool {
        let began = now.minus(timeout);
        let (since, quiet_since) = *self.trouble.get_or_insert((began, began));
        let lasts = |from: Nanos, timeouts: u64| now.minus(from).get() >= timeout.get() * timeouts;
        let is_hopeless = lasts(quiet_since, QUIET_TIMEOUTS) || lasts(since, UNANSWERED_TIMEOUTS);
        self.is_up && is_hopeless
    }

    pub(crate) fn dials(&mut self) {
        self.is_dialing = true;
    }

    /// The attempt that is under way.
    pub(crate) fn dialing(&self) -> Option<u32> {
        self.is_dialing.then_some(self.attempt)
    }

    /// There is no connection; says how long to wait before the next attempt.
    pub(crate) fn waits(&mut self, random: &mut Random) -> Nanos {
        if std::mem::take(&mut self.was_useful) {
            self.wait_ms = FIRST_WAIT_MS;
        }
        (self.is_up, self.is_dialing, self.trouble) = (false, false, None);
        self.attempt = self.attempt.wrapping_add(1);
        let wait_ms = self.wait_ms + random.below(self.wait_ms / 2 + 1);
        self.wait_ms = (self.wait_ms * 2).min(LAST_WAIT_MS);
        Nanos::from_millis(wait_ms)
    }

    pub(crate) fn connected(&mut self) {
        (self.is_up, self.is_dialing) = (true, false);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TIMEOUT: Nanos = Nanos::from_millis(50);

    fn at(millis: u64) -> Nanos {
        Nanos::from_millis(1_000_000 + millis)
    }

    #[test]
    fn many_timeouts_at_once_are_not_many_in_a_row() {
        let mut line = Line::default();
        assert!((0..100).all(|_| !line.timed_out(at(50), TIMEOUT)));
        assert!(!line.timed_out(at(149), TIMEOUT) && line.timed_out(at(150), TIMEOUT));
        let mut slow = Line::default();
        for millis in (50..1_000).step_by(50) {
            assert!(!slow.timed_out(at(millis), TIMEOUT), "something comes, at {millis} ms");
            slow.replied(at(millis));
        }
        assert!(slow.timed_out(at(1_000), TIMEOUT), "but no answer");
    }

    #[test]
    fn waits_grow_to_half_a_second_and_start_again_after_an_answer() {
        let (mut line, mut random) = (Line::default(), Random::new(1));
        for expected_ms in [50, 100, 200, 333, 333] {
            let wait = line.waits(&mut random);
            let longest = Nanos::from_millis(expected_ms * 3 / 2);
            assert!((Nanos::from_millis(expected_ms)..=longest).contains(&wait), "{wait:?} {expected_ms}");
            assert!(!line.is_up());
            line.connected();
        }
        line.answered();
        assert!(line.is_up() && line.waits(&mut random) <= Nanos::from_millis(75));
    }
}
