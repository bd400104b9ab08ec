//! gRPC, on the h2 crate itself: Envoy's rate limit service, health and reflection.
//!
//! A connection is one task. A call whose message has come, and that needs nobody's word, is answered within
//! it, without another task, a timer or a copy of the message; the rest gets tasks of their own, at most as
//! many as the connection may have streams. Clients that flood (resets, continuations, tiny frames) are cut
//! off by h2; the bounds are here.

mod call;
mod health;
mod keep_alive;
mod message;
mod reflection;
mod status;

use crate::App;
use crate::counters::COUNTERS;
use call::Context;
use h2::RecvStream;
use h2::server::{self, Connection, SendResponse};
use hyper::Request;
use hyper::body::Bytes;
use keep_alive::{KeepAlive, Look};
use smallvec::SmallVec;
use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::watch;

/// From the first byte to the end of HTTP/2's preface and settings.
const HANDSHAKE_MAX: Duration = Duration::from_secs(10);
const STREAMS_MAX: u32 = 256;
const HEADER_LIST_BYTES_MAX: u32 = 16 << 10;
/// What a client may send of one message, and of all, before it hears that there is room for more.
const STREAM_WINDOW_BYTES: u32 = 64 << 10;
const CONNECTION_WINDOW_BYTES: u32 = 256 << 10;
const FRAME_BYTES_MAX: u32 = 16 << 10;
/// Of answers that the client doesn't take, per stream.
const SEND_BUFFER_BYTES_MAX: usize = 16 << 10;
/// Streams that were reset and are still remembered; those that a client resets before they were looked at.
const RESET_STREAMS_MAX: usize = 64;
const PENDING_RESETS_MAX: usize = 20;
/// So that one connection doesn't keep the others waiting for long.
const CALLS_AT_ONCE_MAX: usize = 64;

type Calls = SmallVec<[(Request<RecvStream>, SendResponse<Bytes>); 1]>;

/// Serves a connection until its client closes it, is too slow, or `shutdown` becomes true.
pub(crate) async fn serve<S>(stream: S, app: Arc<App>, mut shutdown: watch::Receiver<bool>)
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let context = Context::new(app, shutdown.clone());
    let mut stopped = pin!(shutdown.wait_for(|stop| *stop));
    let handshake = tokio::time::timeout(HANDSHAKE_MAX, builder().handshake(stream));
    let connection = tokio::select! {
        biased;
        begun = handshake => match begun {
            Ok(Ok(connection)) => connection,
            Ok(Err(error)) => return tracing::debug!(%error, "a connection isn't HTTP/2"),
            Err(_) => return COUNTERS.connections_too_slow.add_one(),
        },
        _ = &mut stopped => return,
    };
    answer_all(connection, &context, async { _ = stopped.await }).await;
}

async fn answer_all<S>(
    mut connection: Connection<S, Bytes>,
    context: &Context,
    stopped: impl Future<Output = ()>,
) where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let mut keep_alive = KeepAlive::new(connection.ping_pong());
    let mut stopped = pin!(stopped);
    let mut closes = false;
    loop {
        tokio::select! {
            biased;
            calls = calls(&mut connection) => {
                let Some(calls) = calls else { return };
                keep_alive.note_call();
                for (request, respond) in calls {
                    call::answer(context, request, respond);
                }
            }
            () = &mut stopped, if !closes => {
                closes = true;
                connection.graceful_shutdown();
            }
            look = keep_alive.look(), if !closes => match look {
                Look::Alive => {}
                Look::Idle if connection.has_streams() => {}
                Look::Idle => {
                    closes = true;
                    connection.graceful_shutdown();
                }
                Look::Dead => return COUNTERS.connections_too_slow.add_one(),
            },
        }
    }
}

/// The calls that have come, at least one; `None` at the connection's end.
///
/// All are taken before the first is answered: looking for another one writes what was answered so far, and
/// the answers of calls that came together should leave together.
async fn calls<S>(connection: &mut Connection<S, Bytes>) -> Option<Calls>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let mut calls = Calls::new();
    poll_fn(|cx| {
        while calls.len() < CALLS_AT_ONCE_MAX {
            match connection.poll_accept(cx) {
                Poll::Ready(Some(Ok(call))) => calls.push(call),
                Poll::Ready(Some(Err(error))) => {
                    tracing::debug!(%error, "a connection ended with an error");
                    return Poll::Ready(None);
                }
                Poll::Ready(None) => return Poll::Ready(None),
                Poll::Pending if calls.is_empty() => return Poll::Pending,
                Poll::Pending => break,
            }
        }
        Poll::Ready(Some(std::mem::take(&mut calls)))
    })
    .await
}

/// What fuzzing calls: any bytes as a body, and as the message in one, without a connection.
#[cfg(feature = "fuzz")]
pub(crate) fn fuzz(app: &App, caller: &crate::access::Caller, body: &[u8]) {
    use crate::envoy;
    for message in [message::only(body).ok(), Some(body)].into_iter().flatten() {
        if let Ok(asked) = envoy::decode(message) {
            let _ = envoy::try_decide(app, caller, &asked, |verdict| {
                let framed = message::framed(|out| envoy::encode(verdict, out));
                assert!(message::only(&framed).is_ok(), "what is answered is a message");
            });
        }
        let _ = reflection::reply(message);
    }
    let mut rest = body.to_vec();
    while let Ok(Some(_)) = message::take_first(&mut rest) {}
}

fn builder() -> server::Builder {
    let mut builder = server::Builder::new();
    builder
        .max_concurrent_streams(STREAMS_MAX)
        .max_header_list_size(HEADER_LIST_BYTES_MAX)
        .initial_window_size(STREAM_WINDOW_BYTES)
        .initial_connection_window_size(CONNECTION_WINDOW_BYTES)
        .max_frame_size(FRAME_BYTES_MAX)
        .max_send_buffer_size(SEND_BUFFER_BYTES_MAX)
        .max_concurrent_reset_streams(RESET_STREAMS_MAX)
        .max_pending_accept_reset_streams(PENDING_RESETS_MAX);
    builder
}
