//! One connection, from its first byte to its last: hyper's HTTP/1.1 with our bounds.

use crate::counters::COUNTERS;
use crate::progress::Progress;
use crate::service;
use crate::transport::Transport;
use crate::{App, Surface};
use hyper::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::server::graceful::Watcher;
use std::convert::Infallible;
use std::sync::Arc;
use tokio::net::TcpStream;

const HEADERS_MAX: usize = 64;
const HEADER_BYTES_MAX: usize = 16 << 10;

/// Serves a connection until its client closes it, is too slow, or the listener shuts down.
pub(crate) async fn serve(stream: TcpStream, surface: Surface, app: Arc<App>, watcher: Watcher) {
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(%error, "a connection ended before it began");
        return;
    }
    let progress = Arc::new(Progress::default());
    let transport = Transport::new(stream, Arc::clone(&progress));
    let answered = Arc::clone(&progress);
    let service = service_fn(move |request: Request<Incoming>| {
        let (app, progress) = (Arc::clone(&app), Arc::clone(&answered));
        async move { Ok::<_, Infallible>(service::answer(&app, surface, &progress, request).await) }
    });
    let connection = watcher.watch(builder().serve_connection(transport, service));
    tokio::select! {
        biased;
        ended = connection => {
            if let Err(error) = ended {
                tracing::debug!(%error, "a connection ended with an error");
            }
        }
        () = progress.until_too_slow() => COUNTERS.connections_too_slow.add_one(),
    }
}

fn builder() -> http1::Builder {
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
