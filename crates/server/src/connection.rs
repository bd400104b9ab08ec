//! One connection, from its first byte to its last: to its front end, and for HTTP/1.1 hyper with our bounds.

use crate::access::LastCaller;
use crate::counters::COUNTERS;
use crate::pipeline::{self, Ended};
use crate::plain::PlainHttp;
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
use std::sync::Arc;
use tokio::sync::watch;

const HEADERS_MAX: usize = 64;
const HEADER_BYTES_MAX: usize = 16 << 10;

/// How a connection hears that its listener shuts down, and how that waits for its end: it does until the
/// watcher is dropped.
pub(crate) struct Closing {
    pub(crate) watcher: Watcher,
    pub(crate) shutdown: watch::Receiver<bool>,
}

/// Serves a connection until its client closes it, is too slow, or the listener shuts down.
pub(crate) async fn serve(socket: Socket, surface: Surface, app: Arc<App>, closing: Closing) {
    if let Err(error) = socket.set_nodelay() {
        tracing::debug!(%error, "a connection ended before it began");
        return;
    }
    let Closing { watcher, mut shutdown } = closing;
    // Boxed, all of them, so that none is kept as large as the largest.
    let socket = tokio::select! {
        biased;
        proven = Box::pin(socket.proven(surface)) => match proven {
            Some(socket) => socket,
            None => return,
        },
        _ = shutdown.wait_for(|stop| *stop) => return,
    };
    match surface {
        Surface::Admin => Box::pin(serve_http(socket, surface, app, watcher)).await,
        Surface::Api => Box::pin(serve_api(socket, app, watcher, shutdown)).await,
        Surface::ApiAndGrpc => match Box::pin(preface::tell(socket)).await {
            Some((socket, Protocol::Http2)) => {
                Box::pin(grpc::serve(socket, app, shutdown)).await;
                drop(watcher);
            }
            Some((socket, Protocol::Http1)) => {
                Box::pin(serve_api(socket, app, watcher, shutdown)).await;
            }
            None => {}
        },
        Surface::Grpc => {
            Box::pin(grpc::serve(socket, app, shutdown)).await;
            drop(watcher);
        }
        Surface::Resp => {
            Box::pin(resp::serve(socket, app, shutdown)).await;
            drop(watcher);
        }
    }
}

/// Plain requests first; from the first other one on, all of hyper.
async fn serve_api(mut socket: Socket, app: Arc<App>, watcher: Watcher, shutdown: watch::Receiver<bool>) {
    let mut session = PlainHttp::default();
    let plain = Box::pin(pipeline::serve(&mut socket, &mut session, &app, shutdown)).await;
    if let Ended::HandedOver(first) = plain {
        let socket = Socket::LookedAt { first, rest: Box::new(socket) };
        Box::pin(serve_http(socket, Surface::Api, app, watcher)).await;
    }
}

async fn serve_http(socket: Socket, surface: Surface, app: Arc<App>, watcher: Watcher) {
    let progress = Arc::new(Progress::default());
    let transport = Transport::new(socket, Arc::clone(&progress));
    // Lent, not cloned for each request: all threads would count in the same place.
    let (app, answered, last_caller) = (&*app, &*progress, &LastCaller::default());
    let service = service_fn(move |request: Request<Incoming>| async move {
        Ok::<_, Infallible>(service::answer(app, surface, answered, last_caller, request).await)
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

    fn bytes3<A, B, C, F: Future>(_: impl Fn(A, B, C) -> F) -> usize {
        size_of::<F>()
    }

    fn bytes4<A, B, C, D, F: Future>(_: impl Fn(A, B, C, D) -> F) -> usize {
        size_of::<F>()
    }

    /// Ten thousand idle clients hold ten thousand of these.
    #[test]
    fn what_a_connection_keeps_while_it_waits_is_small() {
        assert!(bytes4(serve) < 1024);
        assert!(bytes4(serve_http) < 2048);
        assert!(bytes3(resp::serve::<Socket>) < 1024);
        // Most of it is h2's.
        assert!(bytes3(grpc::serve::<Socket>) < 2560);
    }
}
