//! Whether a connection's client is still there, and still needs it.
//!
//! Looks every twenty seconds: where no call came, a ping goes out, and whoever hasn't answered it by the next
//! look is gone, or stuck within a frame, or takes no answers. Calls only set a flag.

use h2::{Ping, PingPong};
use std::future::poll_fn;
use std::task::Poll;
use std::time::Duration;
use tokio::time::{Interval, MissedTickBehavior, interval};

const CHECK_EVERY: Duration = Duration::from_secs(20);
/// Ten minutes: proxies keep their connections for as long as they are used now and then.
const IDLE_CHECKS_MAX: u32 = 30;

pub(super) struct KeepAlive {
    pings: Option<PingPong>,
    checks: Interval,
    watch: Watch,
}

/// The result of a keep-alive check.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum KeepAliveCheck {
    Alive,
    /// No call for ten minutes.
    Idle,
    Dead,
}

impl KeepAlive {
    pub(super) fn new(pings: Option<PingPong>) -> Self {
        let mut checks = interval(CHECK_EVERY);
        checks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        // The first look comes at once, and finds what looks like a call.
        KeepAlive { pings, checks, watch: Watch { had_call: true, ..Watch::default() } }
    }

    #[inline]
    pub(super) fn record_call(&mut self) {
        self.watch.had_call = true;
    }

    /// Waits for the next check, and makes it.
    pub(super) async fn check(&mut self) -> KeepAliveCheck {
        self.checks.tick().await;
        let Some(pings) = &mut self.pings else { return KeepAliveCheck::Alive };
        if self.watch.waits_for_pong {
            self.watch.waits_for_pong = poll_fn(|cx| Poll::Ready(pings.poll_pong(cx).is_pending())).await;
        }
        let look = self.watch.look();
        if look == KeepAliveCheck::Alive && self.watch.wants_ping() {
            self.watch.waits_for_pong = pings.send_ping(Ping::opaque()).is_ok();
        }
        look
    }
}

/// What was seen since the look before.
#[derive(Debug, Default)]
struct Watch {
    had_call: bool,
    waits_for_pong: bool,
    /// In a row, without a call.
    checks_idle: u32,
}

impl Watch {
    fn look(&mut self) -> KeepAliveCheck {
        if std::mem::take(&mut self.had_call) {
            self.checks_idle = 0;
            return KeepAliveCheck::Alive;
        }
        self.checks_idle += 1;
        match self.checks_idle {
            _ if self.waits_for_pong => KeepAliveCheck::Dead,
            IDLE_CHECKS_MAX.. => KeepAliveCheck::Idle,
            _ => KeepAliveCheck::Alive,
        }
    }

    fn wants_ping(&self) -> bool {
        self.checks_idle > 0 && !self.waits_for_pong
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_silent_client_is_pinged_and_one_that_doesnt_answer_is_dead() {
        let mut watch = Watch { had_call: true, ..Watch::default() };
        assert_eq!((watch.look(), watch.wants_ping()), (KeepAliveCheck::Alive, false));
        assert_eq!((watch.look(), watch.wants_ping()), (KeepAliveCheck::Alive, true));
        watch.waits_for_pong = true;
        assert_eq!(watch.look(), KeepAliveCheck::Dead);
    }

    #[test]
    fn a_call_is_as_good_as_a_pong() {
        let mut watch = Watch { had_call: true, waits_for_pong: true, checks_idle: 1 };
        assert_eq!((watch.look(), watch.wants_ping()), (KeepAliveCheck::Alive, false));
    }

    #[test]
    fn a_client_that_answers_pings_and_never_calls_is_idle_after_ten_minutes() {
        let mut watch = Watch::default();
        for _ in 1..IDLE_CHECKS_MAX {
            assert_eq!(watch.look(), KeepAliveCheck::Alive);
        }
        assert_eq!(watch.look(), KeepAliveCheck::Idle);
        watch.had_call = true;
        assert_eq!(watch.look(), KeepAliveCheck::Alive);
        assert_eq!(watch.checks_idle, 0);
    }
}
