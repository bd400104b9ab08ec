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
    had_call: bool,
    waits_for_pong: bool,
    looks_idle: u32,
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
        // The first look comes at once, and finds this.
        KeepAlive { pings, looks, had_call: true, waits_for_pong: false, looks_idle: 0 }
    }

    #[inline]
    pub(super) fn note_call(&mut self) {
        self.had_call = true;
    }

    /// Waits for the next look, and looks.
    pub(super) async fn look(&mut self) -> Look {
        self.looks.tick().await;
        let had_call = std::mem::take(&mut self.had_call);
        let Some(pings) = &mut self.pings else { return Look::Alive };
        if self.waits_for_pong {
            let pong = poll_fn(|cx| Poll::Ready(pings.poll_pong(cx).is_ready())).await;
            if !pong && !had_call {
                return Look::Dead;
            }
            self.waits_for_pong = !pong;
        }
        if had_call {
            self.looks_idle = 0;
            return Look::Alive;
        }
        self.looks_idle += 1;
        if self.looks_idle >= LOOKS_WHILE_IDLE {
            return Look::Idle;
        }
        if !self.waits_for_pong {
            self.waits_for_pong = pings.send_ping(Ping::opaque()).is_ok();
        }
        Look::Alive
    }
}
