//! One live connection to a server: sends commands in one write and waits for their answers, up to a deadline.
//!
//! `connection.rs` does the work. What is added here is the end of connections over which nothing comes any
//! more.

use super::connection::{CallFailure, Connection};
use super::deadline::Deadline;
use super::dial::Connected;
use super::wire::{Commands, Value};
use crate::OriginError;
use parking_lot::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::sync::Notify;
use tokio::time::Instant;

/// Calls that waited in vain while nothing at all came, for this many timeouts: the connection is dead.
const QUIET_TIMEOUTS: u32 = 3;
/// Something comes, but no answer in time: after this many timeouts a new connection is worth a try.
const UNANSWERED_TIMEOUTS: u32 = 20;

#[derive(Debug)]
pub(super) struct Link {
    connection: Connection,
    in_trouble: AtomicBool,
    trouble: Mutex<Option<Trouble>>,
    was_useful: AtomicBool,
    condemned: Notify,
}

/// Timeouts since the last answer.
#[derive(Clone, Copy, PartialEq, Debug)]
struct Trouble {
    /// When the first call began that timed out.
    since: Instant,
    /// Since when nothing came, as far as timeouts have shown.
    quiet_since: Instant,
    received_bytes: u64,
}

impl Link {
    pub(super) fn new(connected: &Connected) -> Self {
        Link {
            connection: connected.connection.clone(),
            in_trouble: AtomicBool::new(false),
            trouble: Mutex::new(None),
            was_useful: AtomicBool::new(false),
            condemned: Notify::new(),
        }
    }

    /// The answers, one for each command; a server's error is an answer too.
    pub(super) async fn send(
        &self,
        commands: &Commands,
        deadline: Deadline,
    ) -> Result<Vec<Value>, OriginError> {
        let received_bytes = self.connection.received_bytes();
        match self.connection.send(commands, deadline.at()).await {
            Ok(answers) => {
                self.answered(&answers);
                Ok(answers)
            }
            Err(CallFailure::Lost(cause)) => Err(OriginError::Unreachable { cause }),
            Err(CallFailure::Nonsense(what)) => Err(OriginError::Nonsense { what }),
            Err(CallFailure::TimeIsOver) => {
                self.timed_out(deadline, received_bytes);
                Err(deadline.missed())
            }
        }
    }

    fn answered(&self, answers: &[Value]) {
        if !self.was_useful() && answers.iter().any(|answer| !matches!(answer, Value::ServerError(_))) {
            self.was_useful.store(true, Ordering::Relaxed);
        }
        if self.in_trouble.load(Ordering::Relaxed) {
            let mut trouble = self.trouble.lock();
            *trouble = None;
            self.in_trouble.store(false, Ordering::Relaxed);
        }
    }

    fn timed_out(&self, deadline: Deadline, received_bytes_before: u64) {
        let mut trouble = self.trouble.lock();
        let next = Trouble::after_timeout(
            *trouble,
            deadline,
            received_bytes_before,
            self.connection.received_bytes(),
        );
        *trouble = Some(next);
        self.in_trouble.store(true, Ordering::Relaxed);
        if next.is_hopeless(deadline.at(), deadline.timeout()) {
            self.condemn();
        }
    }

    /// Whether it was of any use: what only refused, or never answered, isn't connected again at once.
    pub(super) fn was_useful(&self) -> bool {
        self.was_useful.load(Ordering::Relaxed)
    }

    /// Gives the connection up; its connection task closes it and makes another.
    pub(super) fn condemn(&self) {
        self.condemned.notify_one();
    }

    pub(super) async fn is_condemned(&self) {
        self.condemned.notified().await;
    }
}

impl Trouble {
    fn after_timeout(
        before: Option<Trouble>,
        deadline: Deadline,
        received_bytes_before: u64,
        received_bytes: u64,
    ) -> Trouble {
        let since = deadline.began();
        let first = Trouble { since, quiet_since: since, received_bytes: received_bytes_before };
        let mut trouble = before.unwrap_or(first);
        if trouble.received_bytes != received_bytes {
            trouble.received_bytes = received_bytes;
            trouble.quiet_since = deadline.at();
        }
        trouble
    }

    fn is_hopeless(&self, now: Instant, timeout: Duration) -> bool {
        now.saturating_duration_since(self.quiet_since) >= timeout * QUIET_TIMEOUTS
            || now.saturating_duration_since(self.since) >= timeout * UNANSWERED_TIMEOUTS
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TIMEOUT: Duration = Duration::from_millis(50);

    fn deadline(began: Instant) -> Deadline {
        Deadline::from(began, TIMEOUT)
    }

    #[test]
    fn many_timeouts_at_once_are_not_many_in_a_row() {
        let start = Instant::now();
        let mut trouble = None;
        for _ in 0..100 {
            trouble = Some(Trouble::after_timeout(trouble, deadline(start), 7, 7));
        }
        assert!(!trouble.unwrap().is_hopeless(start + TIMEOUT, TIMEOUT));
        let trouble = Trouble::after_timeout(trouble, deadline(start + TIMEOUT * 2), 7, 7);
        assert!(trouble.is_hopeless(start + TIMEOUT * 3, TIMEOUT));
    }

    #[test]
    fn late_answers_keep_a_connection_for_a_second() {
        let start = Instant::now();
        let mut trouble = None;
        for turn in 0..20_u32 {
            let deadline = deadline(start + TIMEOUT * turn);
            let now = Trouble::after_timeout(trouble, deadline, u64::from(turn), u64::from(turn) + 1);
            assert_eq!(now.is_hopeless(deadline.at(), TIMEOUT), turn == 19, "{turn}");
            trouble = Some(now);
        }
    }
}
