//! Whether a connection's client is still there, and still needs it.
//!
//! Looks every twenty seconds: where no call came, a ping goes out, and whoever hasn't answered it by the next
//! look is gone, or stuck within a frame, or takes no answers. Calls only set a flag.

use h2::{Ping, PingPong};
use std::future::poll_fn;
use std::task::Poll;
use std::time::Duration;
use tokio::time::{Interval, MissedTickBehavior, interval};

const LOOK_EVERY: Duration = Duration::from_secs(20);
/// Ten minutes: proxies keep their connections for as long as they are used now and then.
const LOOKS_WHILE_IDLE: u32 = 30;

pub(super) struct KeepAlive {
    pings: Option<PingPong>,
    looks: Interval,
    watch: Watch,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Look {
    Alive,
    /// No call for ten minutes.
    Idle,
    Dead,
}

impl KeepAlive {
    pub(super) fn new(pings: Option<PingPong>) -> Self {
        let mut looks = interval(LOOK_EVERY);
        looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        // The first look comes at once, and finds what looks like a call.
        KeepAlive { pings, looks, watch: Watch { had_call: true, ..Watch::default() } }
    }

    #[inline]
    pub(super) fn note_call(&mut self) {
        self.watch.had_call = true;
    }

    /// Waits for the next look, and looks.
    pub(super) async fn look(&mut self) -> Look {
        self.looks.tick().await;
        let Some(pings) = &mut self.pings else { return Look::Alive };
        if self.watch.waits_for_pong {
            self.watch.waits_for_pong = poll_fn(|cx| Poll::Ready(pings.poll_pong(cx).is_pending())).await;
        }
        let look = self.watch.look();
        if look == Look::Alive && self.watch.wants_ping() {
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
    looks_idle: u32,
}

impl Watch {
    fn look(&mut self) -> Look {
        if std::mem::take(&mut self.had_call) {
            self.looks_idle = 0;
            return Look::Alive;
        }
        self.looks_idle += 1;
        match self.looks_idle {
            _ if self.waits_for_pong => Look::Dead,
            LOOKS_WHILE_IDLE.. => Look::Idle,
            _ => Look::Alive,
        }
    }

    fn wants_ping(&self) -> bool {
        self.looks_idle > 0 && !self.waits_for_pong
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_silent_client_is_pinged_and_one_that_doesnt_answer_is_dead() {
        let mut watch = Watch { had_call: true, ..Watch::default() };
        assert_eq!((watch.look(), watch.wants_ping()), (Look::Alive, false));
        assert_eq!((watch.look(), watch.wants_ping()), (Look::Alive, true));
        watch.waits_for_pong = true;
        assert_eq!(watch.look(), Look::Dead);
    }

    #[test]
    fn a_call_is_as_good_as_a_pong() {
        let mut watch = Watch { had_call: true, waits_for_pong: true, looks_idle: 1 };
        assert_eq!((watch.look(), watch.wants_ping()), (Look::Alive, false));
    }

    #[test]
    fn a_client_that_answers_pings_and_never_calls_is_idle_after_ten_minutes() {
        let mut watch = Watch::default();
        for _ in 1..LOOKS_WHILE_IDLE {
            assert_eq!(watch.look(), Look::Alive);
        }
        assert_eq!(watch.look(), Look::Idle);
        watch.had_call = true;
        assert_eq!(watch.look(), Look::Alive);
        assert_eq!(watch.looks_idle, 0);
    }
}
