//! Signals: SIGTERM and SIGINT stop the node, SIGHUP has it read its settings again.
//!
//! Registered before the node says that it runs, so that no signal meets the default action.

use std::io;
use tokio::signal::unix::{Signal, SignalKind, signal};

#[derive(Debug)]
pub(crate) struct Signals {
    terminate: Signal,
    interrupt: Signal,
    hangup: Signal,
}

/// What asked the node to stop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stop {
    Terminate,
    Interrupt,
}

/// What a signal asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Signalled {
    Stop(Stop),
    Reload,
}

impl Stop {
    /// As shells report a process that a signal ended.
    pub(crate) fn exit_code(self) -> u8 {
        match self {
            Stop::Interrupt => 128 + 2,
            Stop::Terminate => 128 + 15,
        }
    }
}

impl Signals {
    /// Within a runtime.
    pub(crate) fn register() -> io::Result<Self> {
        Ok(Signals {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
            hangup: signal(SignalKind::hangup())?,
        })
    }

    pub(crate) async fn next(&mut self) -> Signalled {
        tokio::select! {
            _ = self.terminate.recv() => Signalled::Stop(Stop::Terminate),
            _ = self.interrupt.recv() => Signalled::Stop(Stop::Interrupt),
            _ = self.hangup.recv() => Signalled::Reload,
        }
    }
}
