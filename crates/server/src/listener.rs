//! The accept loop of one listening socket.
//!
//! Never ends but by shutdown, and never spins: when the system has no more descriptors, it waits. A caller that
//! comes when there are too many is told so. At shutdown, whoever has connected already is still served.

use crate::budget::{ConnectionBudget, SWEEP_EVERY};
use crate::connection::{self, NewConnection, ShutdownSignal};
use crate::connection_balancer::ThreadSlot;
use crate::counters::COUNTERS;
use crate::for_caller;
use crate::socket::{Listener, Socket};
use crate::{App, Surface};
use hyper_util::server::graceful::GracefulShutdown;
use parking_lot::Mutex;
use std::io;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;
use tokio::task::{JoinError, JoinSet};
use tokio::time::{Instant, Interval, MissedTickBehavior};

/// Failed accepts are logged no more often.
const LOG_EVERY: Duration = Duration::from_secs(1);
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
    let mut connections = Connections::new(surface, app, listener.budget());
    let mut sweeps = sweeps();
    let are_tokens_required = connections.app.tokens.are_required();
    let mut pause = Duration::ZERO;
    loop {
        tokio::select! {
            biased;
            () = stopped(&mut shutdown) => break,
            Some(ended) = connections.tasks.join_next() => {
                log_end(&ended);
                // A descriptor is free again.
                pause = Duration::ZERO;
            }
            accepted = accept(&mut listener, pause) => match accepted {
                Err(error) => pause = log_failure(&error, pause),
                Ok((socket, seated)) => {
                    pause = Duration::ZERO;
                    connections.take(socket, seated);
                }
            },
            _ = sweeps.tick(), if are_tokens_required => connections.budget.sweep(&connections.app.tokens),
        }
        if connections.budget.is_exceeded() {
            // A connection that was closed for another one frees its descriptor now.
            tokio::task::yield_now().await;
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

/// What it borrows of the flag isn't held by whoever waits.
pub(crate) async fn stopped(shutdown: &mut watch::Receiver<bool>) {
    _ = shutdown.wait_for(|stop| *stop).await;
}

/// Of one listener.
struct Connections {
    surface: Surface,
    app: Arc<App>,
    budget: Arc<ConnectionBudget>,
    tasks: JoinSet<()>,
    graceful: GracefulShutdown,
    closing: watch::Sender<bool>,
}

impl Connections {
    fn new(surface: Surface, app: Arc<App>, budget: Arc<ConnectionBudget>) -> Self {
        let (tasks, graceful, closing) = (JoinSet::new(), GracefulShutdown::new(), watch::Sender::new(false));
        Connections { surface, app, budget, tasks, graceful, closing }
    }

    /// Serves it if there is room.
    fn take(&mut self, socket: Socket, seated: ThreadSlot) {
        let Some(place) = self.budget.admit(&self.app.tokens) else {
            COUNTERS.connections_refused.add_one();
            return socket.refuse(self.surface);
        };
        let closing = ShutdownSignal { watcher: self.graceful.watcher(), shutdown: self.closing.subscribe() };
        let (surface, app) = (self.surface, Arc::clone(&self.app));
        let registration = place.registration();
        let arrived = NewConnection { socket, surface, app, closing, place: (place, seated) };
        registration.served_by(self.tasks.spawn(for_caller::marked(connection::serve(Box::new(arrived)))));
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

/// The times at which a listener closes connections that took too long to authenticate.
pub(crate) fn sweeps() -> Interval {
    let mut sweeps = tokio::time::interval(SWEEP_EVERY);
    sweeps.set_missed_tick_behavior(MissedTickBehavior::Delay);
    sweeps
}

pub(crate) async fn accept(listener: &mut Listener, pause: Duration) -> io::Result<(Socket, ThreadSlot)> {
    if !pause.is_zero() {
        tokio::time::sleep(pause).await;
    }
    listener.accept().await
}

/// When a failed accept was last logged, by any listener of this process, and how many failed since.
static LOGGED: Mutex<(Option<Instant>, u64)> = Mutex::new((None, 0));

/// Counts a failed accept, and logs it unless one was logged within the last second; returns how long to wait before
/// the next.
pub(crate) fn log_failure(error: &io::Error, pause: Duration) -> Duration {
    COUNTERS.accept_failures.add_one();
    let (logged_at, failures) = &mut *LOGGED.lock();
    *failures += 1;
    let now = Instant::now();
    if logged_at.is_none_or(|at| now.duration_since(at) >= LOG_EVERY) {
        *logged_at = Some(now);
        let failures = std::mem::take(failures);
        tracing::warn!(
            %error,
            failures,
            fix = "if files run out, raise the limit on open files (`ulimit -n`, LimitNOFILE=)",
            "can't accept connections; trying again"
        );
    }
    (pause * 2).clamp(PAUSE_MIN, PAUSE_MAX)
}

fn log_end(ended: &Result<(), JoinError>) {
    if let Err(error) = ended
        && error.is_panic()
    {
        tracing::error!(%error, "a connection's task panicked; its client saw the connection close");
    }
}
