//! gRPC, on the h2 crate itself: Envoy's rate limit service, health and reflection; and on the control plane's
//! listener, the stream that rules are followed by.
//!
//! A connection is one task. A call whose message has come, and that needs nobody's word, is answered within
//! it, without another task, a timer or a copy of the message; the rest gets tasks of their own, at most as
//! many as the connection may have streams. Clients that flood (resets, continuations, tiny frames) are cut
//! off by h2; the bounds are here.

mod call;
mod follow;
mod health;
mod keep_alive;
mod message;
mod reflection;
mod status;

use crate::App;
use crate::access::Tokens;
use crate::budget::Registration;
use crate::counters::COUNTERS;
use call::Context;
use follow::RulesService;
use h2::RecvStream;
use h2::server::{self, Connection, SendResponse};
use hyper::Request;
use hyper::body::Bytes;
use keep_alive::{KeepAlive, KeepAliveCheck};
use smallvec::SmallVec;
use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;
use tidegate_control::stream::Feed;
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
/// The same where rules are followed: some chunks of a snapshot.
const RULES_SEND_BUFFER_BYTES_MAX: usize = 256 << 10;
/// Streams that were reset and are still remembered.
const RESET_STREAMS_MAX: usize = 64;
/// Streams that a client resets before they were looked at. Many: the client is a proxy, which resets a call for every
/// caller that hangs up. Ending its connection would fail the calls of all others, and Envoy admits what failed.
const PENDING_RESETS_MAX: usize = 10_000;
/// So that one connection doesn't keep the others waiting for long.
const CALLS_AT_ONCE_MAX: usize = 64;

type Calls = SmallVec<[(Request<RecvStream>, SendResponse<Bytes>); 1]>;

/// Serves a connection until its client closes it, is too slow, or `shutdown` becomes true.
pub(crate) async fn serve<S>(
    stream: S,
    app: Arc<App>,
    mut shutdown: watch::Receiver<bool>,
    registration: Registration,
) where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let context = Context::new(app, shutdown.clone(), registration);
    let begun = Box::pin(begin(builder(), stream, shutdown.clone()));
    let Some(mut connection) = begun.await else { return };
    let answer = |request, respond| call::answer(&context, request, respond);
    let stopped = pin!(async move { _ = shutdown.wait_for(|stop| *stop).await });
    answer_all(&mut connection, &answer, stopped).await;
}

/// The same for those who follow the rules.
pub(crate) async fn serve_rules<S>(
    stream: S,
    feed: Arc<Feed>,
    tokens: Arc<Tokens>,
    mut shutdown: watch::Receiver<bool>,
    registration: Registration,
) where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let mut builder = builder();
    builder.max_send_buffer_size(RULES_SEND_BUFFER_BYTES_MAX);
    let service = RulesService::new(feed, tokens, shutdown.clone(), registration);
    let begun = Box::pin(begin(builder, stream, shutdown.clone()));
    let Some(mut connection) = begun.await else { return };
    let answer = |request, respond| service.answer(request, respond);
    let stopped = pin!(async move { _ = shutdown.wait_for(|stop| *stop).await });
    answer_all(&mut connection, &answer, stopped).await;
}

/// Boxed by its callers, so that its room is free again once it is over.
async fn begin<S>(
    builder: server::Builder,
    stream: S,
    mut shutdown: watch::Receiver<bool>,
) -> Option<Connection<S, Bytes>>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    tokio::select! {
        biased;
        begun = tokio::time::timeout(HANDSHAKE_MAX, builder.handshake(stream)) => match begun {
            Ok(Ok(connection)) => Some(connection),
            Ok(Err(error)) => {
                tracing::debug!(%error, "a connection isn't HTTP/2");
                None
            }
            Err(_) => {
                COUNTERS.connections_too_slow.add_one();
                None
            }
        },
        _ = shutdown.wait_for(|stop| *stop) => None,
    }
}

/// All of it is borrowed: of what it is given, a future may keep room twice.
async fn answer_all<S>(
    connection: &mut Connection<S, Bytes>,
    answer: &impl Fn(Request<RecvStream>, SendResponse<Bytes>),
    mut stopped: Pin<&mut impl Future<Output = ()>>,
) where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let mut keep_alive = KeepAlive::new(connection.ping_pong());
    let mut closes = false;
    loop {
        tokio::select! {
            biased;
            is_open = poll_fn(|cx| poll_calls(connection, answer, cx)) => {
                if !is_open {
                    return;
                }
                keep_alive.record_call();
            }
            () = stopped.as_mut(), if !closes => {
                closes = true;
                connection.graceful_shutdown();
            }
            look = keep_alive.check(), if !closes => match look {
                KeepAliveCheck::Alive => {}
                KeepAliveCheck::Idle if connection.has_streams() => {}
                KeepAliveCheck::Idle => {
                    closes = true;
                    connection.graceful_shutdown();
                }
                KeepAliveCheck::Dead => return COUNTERS.connections_too_slow.add_one(),
            },
        }
    }
}

/// Answers the calls that have come, at least one; false at the connection's end.
///
/// All are taken before the first is answered: looking for another one writes what was answered so far, and
/// the answers of calls that came together should leave together. They are on the stack meanwhile, not in the
/// connection's future: ten thousand idle ones would keep room for a call each.
fn poll_calls<S>(
    connection: &mut Connection<S, Bytes>,
    answer: &impl Fn(Request<RecvStream>, SendResponse<Bytes>),
    cx: &mut std::task::Context<'_>,
) -> Poll<bool>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let mut calls = Calls::new();
    let mut is_open = true;
    while is_open && calls.len() < CALLS_AT_ONCE_MAX {
        match connection.poll_accept(cx) {
            Poll::Ready(Some(Ok(call))) => calls.push(call),
            Poll::Ready(Some(Err(error))) => {
                tracing::debug!(%error, "a connection ended with an error");
                is_open = false;
            }
            Poll::Ready(None) => is_open = false,
            Poll::Pending if calls.is_empty() => return Poll::Pending,
            Poll::Pending => break,
        }
    }
    if is_open {
        calls.into_iter().for_each(|(request, respond)| answer(request, respond));
    }
    Poll::Ready(is_open)
}

/// What fuzzing calls: any bytes as a body, and as the message in one, without a connection.
#[cfg(feature = "fuzz")]
pub(crate) fn fuzz(app: &App, caller: &crate::access::Caller, body: &[u8]) {
    use crate::envoy;
    for message in [message::only(body).ok(), Some(body)].into_iter().flatten() {
        if let Ok(asked) = envoy::decode(message) {
            let deciding = std::pin::pin!(envoy::decide(app, caller, &asked, |verdict| {
                let framed = message::framed(|out| envoy::encode(verdict, out));
                assert!(message::only(&framed).is_ok(), "what is answered is a message");
            }));
            let mut context = std::task::Context::from_waker(std::task::Waker::noop());
            assert!(deciding.poll(&mut context).is_ready(), "a node that is alone asks nobody");
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
