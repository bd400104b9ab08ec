//! The accept loop of one listening socket.
//!
//! Never ends but by shutdown, and never spins: when the system has no more descriptors, it waits. A caller that
//! comes when there are too many is told so. At shutdown, whoever has connected already is still served.

use crate::connection::{self, Arrived, Closing};
use crate::counters::COUNTERS;
use crate::rota::Seated;
use crate::socket::{Listener, Socket};
use crate::{App, Surface};
use hyper_util::server::graceful::GracefulShutdown;
use std::io;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{OwnedSemaphorePermit, watch};
use tokio::task::{JoinError, JoinSet};

/// Operators have room of their own, so that they can look when callers have none left.
const ADMIN_CONNECTIONS_MAX: usize = 256;
const PAUSE_MIN: Duration = Duration::from_millis(1);
const PAUSE_MAX: Duration = Duration::from_secs(1);
/// At shutdown: for how long a connection that waits in the system's queue is looked for, and how many are taken.
const LAST_ACCEPT_MAX: Duration = Duration::from_millis(5);
const LAST_ACCEPTS: usize = 1024;
/// How long after the last accept connections hear of the shutdown: a request may be on its way on any of them.
const LAST_REQUEST_MAX: Duration = Duration::from_millis(200);

/// Accepts until `shutdown` becomes true or its sender is gone, then answers what is in flight, for up to
/// `drain`, and returns. Wants a tokio runtime with timers and sockets, of one thread or of many.
pub async fn serve(
    mut listener: Listener,
    surface: Surface,
    app: Arc<App>,
    mut shutdown: watch::Receiver<bool>,
    drain: Duration,
) {
    let mut connections = Connections::new(surface, app);
    let mut pause = Duration::ZERO;
    loop {
        tokio::select! {
            biased;
            _ = shutdown.wait_for(|stop| *stop) => break,
            Some(ended) = connections.tasks.join_next() => {
                note_end(&ended);
                // A descriptor is free again.
                pause = Duration::ZERO;
            }
            accepted = accept(&mut listener, pause) => match accepted {
                Err(error) => pause = note_failure(&error, pause),
                Ok((socket, seated)) => {
                    pause = Duration::ZERO;
                    connections.take(socket, seated);
                }
            }
        }
    }
    for _ in 0..LAST_ACCEPTS {
        let accepted = tokio::time::timeout(LAST_ACCEPT_MAX, listener.accept()).await;
        let Ok(Ok((socket, seated))) = accepted else { break };
        connections.take(socket, seated);
    }
    drop(listener);
    connections.close(drain).await;
}

/// Of one listener.
struct Connections {
    surface: Surface,
    app: Arc<App>,
    tasks: JoinSet<()>,
    graceful: GracefulShutdown,
    closing: watch::Sender<bool>,
}

impl Connections {
    fn new(surface: Surface, app: Arc<App>) -> Self {
        let graceful = GracefulShutdown::new();
        Connections { surface, app, tasks: JoinSet::new(), graceful, closing: watch::Sender::new(false) }
    }

    /// Serves it if there is room.
    fn take(&mut self, socket: Socket, seated: Seated) {
        let Ok(permit) = self.permit() else {
            COUNTERS.connections_refused.add_one();
            return socket.refuse(self.surface);
        };
        let closing = Closing { watcher: self.graceful.watcher(), shutdown: self.closing.subscribe() };
        let (surface, app) = (self.surface, Arc::clone(&self.app));
        let arrived = Arrived { socket, surface, app, closing, place: (permit, seated) };
        self.tasks.spawn(connection::serve(Box::new(arrived)));
    }

    fn permit(&self) -> Result<Option<OwnedSemaphorePermit>, NoRoom> {
        match self.surface {
            Surface::Admin if self.tasks.len() < ADMIN_CONNECTIONS_MAX => Ok(None),
            Surface::Admin => Err(NoRoom),
            _ => Arc::clone(&self.app.connections).try_acquire_owned().map(Some).map_err(|_| NoRoom),
        }
    }

    async fn close(self, drain: Duration) {
        let Connections { mut tasks, graceful, closing, .. } = self;
        let closed = async {
            let all_ended = async { while tasks.join_next().await.is_some() {} };
            // Over at once when nobody is there.
            let _ = tokio::time::timeout(LAST_REQUEST_MAX, all_ended).await;
            closing.send_replace(true);
            graceful.shutdown().await;
        };
        if tokio::time::timeout(drain, closed).await.is_err() {
            let connections = tasks.len();
            tracing::warn!(connections, "cut connections that were still busy after the drain");
        }
    }
}

struct NoRoom;

pub(crate) async fn accept(listener: &mut Listener, pause: Duration) -> io::Result<(Socket, Seated)> {
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
