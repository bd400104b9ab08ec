//! One connection, from its first byte to its last: to its front end, and for HTTP/1.1 hyper with our bounds.

use crate::access::LastCaller;
use crate::budget::{ConnectionSlot, Registration};
use crate::connection_balancer::ThreadSlot;
use crate::counters::COUNTERS;
use crate::fast_path::FastPath;
use crate::pipeline::{self, PipelineEnd};
use crate::preface::{self, Protocol};
use crate::progress::{Patience, Progress};
use crate::socket::Socket;
use crate::transport::Transport;
use crate::{App, Surface};
use crate::{grpc, resp, service};
use hyper::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::server::graceful::Watcher;
use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use tokio::sync::watch;

const HEADERS_MAX: usize = 64;
const HEADER_BYTES_MAX: usize = 16 << 10;

/// How a connection hears that its listener shuts down, and how that waits for its end: it does until the
/// watcher is dropped.
pub(crate) struct ShutdownSignal {
    pub(crate) watcher: Watcher,
    pub(crate) shutdown: watch::Receiver<bool>,
}

/// A connection that has just come. Boxed on its way: of what a future is given, it keeps room twice.
pub(crate) struct NewConnection {
    pub(crate) socket: Socket,
    pub(crate) surface: Surface,
    pub(crate) app: Arc<App>,
    pub(crate) closing: ShutdownSignal,
    /// Held until the connection ends.
    pub(crate) place: (ConnectionSlot, ThreadSlot),
}

/// Serves a connection until its client closes it, is too slow, or the listener shuts down.
pub(crate) async fn serve(arrived: Box<NewConnection>) {
    let NewConnection { socket, surface, app, closing, place } = unboxed(arrived);
    let ShutdownSignal { watcher, shutdown } = closing;
    // Boxed, all of them, so that none is kept as large as the largest.
    if let Some(socket) = Box::pin(begun(socket, surface, shutdown.clone())).await {
        let (kept, serving) =
            on_surface(socket, surface, app, ShutdownSignal { watcher, shutdown }, place.0.registration());
        serving.await;
        drop(kept);
    }
    drop(place);
}

/// And the box is gone: taken apart in place, it would stay until the connection ends.
#[expect(clippy::boxed_local, reason = "to be freed here")]
fn unboxed(arrived: Box<NewConnection>) -> NewConnection {
    *arrived
}

/// A socket that can be read from; `None` when that has come to nothing.
async fn begun(socket: Socket, surface: Surface, mut shutdown: watch::Receiver<bool>) -> Option<Socket> {
    if let Err(error) = socket.set_nodelay() {
        tracing::debug!(%error, "a connection ended before it began");
        return None;
    }
    tokio::select! {
        biased;
        proven = socket.proven(surface) => proven,
        _ = shutdown.wait_for(|stop| *stop) => None,
    }
}

type Serving = Pin<Box<dyn Future<Output = ()> + Send>>;

/// How a connection of a surface is served; with it the watcher, where that isn't told of each request.
fn on_surface(
    socket: Socket,
    surface: Surface,
    app: Arc<App>,
    closing: ShutdownSignal,
    registration: Registration,
) -> (Option<Watcher>, Serving) {
    let ShutdownSignal { watcher, shutdown } = closing;
    match surface {
        Surface::Admin => (None, Box::pin(serve_http(socket, surface, app, watcher, registration))),
        Surface::Api => (None, Box::pin(serve_api(socket, app, watcher, shutdown, registration))),
        Surface::ApiAndGrpc => (None, Box::pin(serve_protocol(socket, app, watcher, shutdown, registration))),
        Surface::Grpc => (Some(watcher), Box::pin(grpc::serve(socket, app, shutdown, registration))),
        Surface::Resp => (Some(watcher), Box::pin(resp::serve(socket, app, shutdown, registration))),
    }
}

/// Serves a connection by the protocol that was detected.
async fn serve_protocol(
    socket: Socket,
    app: Arc<App>,
    watcher: Watcher,
    shutdown: watch::Receiver<bool>,
    registration: Registration,
) {
    match Box::pin(preface::detect(socket)).await {
        Some((socket, Protocol::Http2)) => {
            Box::pin(grpc::serve(socket, app, shutdown, registration)).await;
            drop(watcher);
        }
        Some((socket, Protocol::Http1)) => {
            Box::pin(serve_api(socket, app, watcher, shutdown, registration)).await;
        }
        None => {}
    }
}

/// Plain requests first; from the first other one on, all of hyper.
async fn serve_api(
    mut socket: Socket,
    app: Arc<App>,
    watcher: Watcher,
    shutdown: watch::Receiver<bool>,
    registration: Registration,
) {
    let mut session = FastPath::new(registration.clone());
    let plain = Box::pin(pipeline::serve(&mut socket, &mut session, &app, shutdown)).await;
    if let PipelineEnd::HandedOver(first) = plain {
        let socket = Socket::LookedAt { first, rest: Box::new(socket) };
        Box::pin(serve_http(socket, Surface::Api, app, watcher, registration)).await;
    }
}

async fn serve_http(
    socket: Socket,
    surface: Surface,
    app: Arc<App>,
    watcher: Watcher,
    registration: Registration,
) {
    let face = (surface, socket.is_unix());
    let progress = Arc::new(Progress::default());
    let transport = Transport::new(socket, Arc::clone(&progress));
    // Lent, not cloned for each request: all threads would count in the same place.
    let (app, answered, last_caller) = (&*app, &*progress, &LastCaller::of(registration));
    let service = service_fn(move |request: Request<Incoming>| async move {
        Ok::<_, Infallible>(service::answer(app, face, answered, last_caller, request).await)
    });
    let connection = watcher.watch(builder().serve_connection(transport, service));
    tokio::select! {
        biased;
        ended = connection => {
            if let Err(error) = ended {
                tracing::debug!(%error, "a connection ended with an error");
            }
        }
        () = progress.until_too_slow(Patience::HTTP) => COUNTERS.connections_too_slow.add_one(),
    }
}

pub(crate) fn builder() -> http1::Builder {
    let mut builder = http1::Builder::new();
    builder
        .max_headers(HEADERS_MAX)
        .max_header_size(HEADER_BYTES_MAX)
        // `progress.rs` bounds this, without a timer per request.
        .header_read_timeout(None)
        // Not `pipeline_flush`: hyper then keeps an answer back while any byte of what follows is unread.
        .half_close(true);
    builder
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes1<A, F: Future>(_: impl Fn(A) -> F) -> usize {
        size_of::<F>()
    }

    fn bytes4<A, B, C, D, F: Future>(_: impl Fn(A, B, C, D) -> F) -> usize {
        size_of::<F>()
    }

    fn bytes5<A, B, C, D, E, F: Future>(_: impl Fn(A, B, C, D, E) -> F) -> usize {
        size_of::<F>()
    }

    /// Ten thousand idle clients hold ten thousand of these.
    #[test]
    fn what_a_connection_keeps_while_it_waits_is_small() {
        assert!(bytes1(serve) < 256);
        assert!(bytes5(serve_http) < 2048);
        assert!(bytes4(resp::serve::<Socket>) < 1024);
        // Most of it is h2's.
        assert!(bytes4(grpc::serve::<Socket>) < 1856);
    }
}
