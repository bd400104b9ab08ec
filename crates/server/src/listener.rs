//! The accept loop of one listening socket.
//!
//! Never ends but by shutdown, and never spins: when the system has no more descriptors, it waits.

use crate::connection::{self, Closing};
use crate::counters::COUNTERS;
use crate::rota::Seated;
use crate::socket::{Listener, Socket};
use crate::{App, Surface};
use hyper_util::server::graceful::GracefulShutdown;
use std::io;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;
use tokio::task::{JoinError, JoinSet};

/// More are closed at once.
const CONNECTIONS_MAX: usize = 10_000;
const PAUSE_MIN: Duration = Duration::from_millis(1);
const PAUSE_MAX: Duration = Duration::from_secs(1);

/// Accepts until `shutdown` becomes true or its sender is gone, then answers what is in flight, for up to
/// `drain`, and returns. Wants a tokio runtime with timers and sockets, of one thread or of many.
pub async fn serve(
    mut listener: Listener,
    surface: Surface,
    app: Arc<App>,
    mut shutdown: watch::Receiver<bool>,
    drain: Duration,
) {
    let mut connections = JoinSet::new();
    let shut_down = shutdown.clone();
    let graceful = GracefulShutdown::new();
    let mut pause = Duration::ZERO;
    loop {
        tokio::select! {
            biased;
            _ = shutdown.wait_for(|stop| *stop) => break,
            Some(ended) = connections.join_next() => {
                note_end(&ended);
                // A descriptor is free again.
                pause = Duration::ZERO;
            }
            accepted = accept(&mut listener, pause) => match accepted {
                Err(error) => pause = note_failure(&error, pause),
                Ok(_) if connections.len() >= CONNECTIONS_MAX => COUNTERS.connections_refused.add_one(),
                Ok((socket, seated)) => {
                    pause = Duration::ZERO;
                    let closing = Closing { watcher: graceful.watcher(), shutdown: shut_down.clone() };
                    let served = connection::serve(socket, surface, Arc::clone(&app), closing);
                    connections.spawn(async move {
                        let _seated = seated;
                        served.await;
                    });
                }
            }
        }
    }
    drop(listener);
    if tokio::time::timeout(drain, graceful.shutdown()).await.is_err() {
        tracing::warn!(
            connections = connections.len(),
            "cut connections that were still busy after the drain"
        );
    }
}

async fn accept(listener: &mut Listener, pause: Duration) -> io::Result<(Socket, Seated)> {
    if !pause.is_zero() {
        tokio::time::sleep(pause).await;
    }
    listener.accept().await
}

/// Tells of a failed accept, once per series; returns how long to wait before the next.
fn note_failure(error: &io::Error, pause: Duration) -> Duration {
    COUNTERS.accept_failures.add_one();
    if pause.is_zero() {
        tracing::warn!(%error, "can't accept connections; trying again. If files run out, raise `ulimit -n`");
    }
    (pause * 2).clamp(PAUSE_MIN, PAUSE_MAX)
}

fn note_end(ended: &Result<(), JoinError>) {
    if let Err(error) = ended
        && error.is_panic()
    {
        tracing::error!(%error, "a connection's task panicked; its client saw the connection close");
    }
}
