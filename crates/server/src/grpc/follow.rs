//! The stream that rules reach nodes by, served: `tidegate.control.v1.Rules/Follow`.
//!
//! What is sent is decided by `tidegate_control::stream`; here are the bytes. Nothing is taken from there before the
//! client has room for it, so that one that is slow holds no more than a message.

use crate::access::{self, Caller, LastCaller, Permission, Tokens};
use crate::body::BYTES_MAX;
use crate::budget::Registration;
use crate::counters::COUNTERS;
use crate::for_caller;
use crate::grpc::call;
use crate::grpc::message::{BufferedBytes, IncomingBody};
use crate::grpc::status::{self, Failure, GrpcCode};
use crate::refusal::excerpt;
use h2::server::SendResponse;
use h2::{Reason, RecvStream, SendStream};
use hyper::Request;
use hyper::body::Bytes;
use std::collections::VecDeque;
use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tidegate_control::stream::{FOLLOW_PATH, Feed, FollowerMessage, Hello, PROTOCOL, Subscriber};
use tokio::sync::watch;
use tokio::time::timeout;

/// From the call's headers to the client's first message.
const HELLO_MAX: Duration = Duration::from_secs(5);
/// A client that takes nothing for so long isn't there.
const STUCK_MAX: Duration = Duration::from_secs(30);
/// Asked for at once: a chunk, or some hundred changes.
const ROOM_BYTES: usize = 64 << 10;
/// Small messages that leave in one frame.
const JOINED_BYTES_MAX: usize = 64 << 10;

/// What the calls of a connection share.
pub(super) struct RulesService {
    feed: Arc<Feed>,
    tokens: Arc<Tokens>,
    last_caller: LastCaller,
    held: Arc<BufferedBytes>,
    shutdown: watch::Receiver<bool>,
}

impl RulesService {
    pub(super) fn new(
        feed: Arc<Feed>,
        tokens: Arc<Tokens>,
        shutdown: watch::Receiver<bool>,
        registration: Registration,
    ) -> Self {
        let (last_caller, held) = (LastCaller::of(registration), Arc::new(BufferedBytes::of_callers()));
        RulesService { feed, tokens, last_caller, held, shutdown }
    }

    /// Rules of all tenants go down: that is for tenant `default` alone.
    fn permitted(&self, request: &Request<RecvStream>) -> Result<Arc<Caller>, Failure> {
        let presented = access::presented(request.headers());
        let caller = self.last_caller.permitted(&self.tokens, presented, Some(Permission::Read))?;
        caller.require_operator()?;
        Ok(caller)
    }

    pub(super) fn answer(&self, request: Request<RecvStream>, mut respond: SendResponse<Bytes>) {
        if let Some(status) = call::not_grpc(&request) {
            COUNTERS.requests_refused.add_one();
            return status::send_http(&mut respond, status);
        }
        if request.uri().path() != FOLLOW_PATH {
            let message =
                format!("there is no method `{}`; there is {FOLLOW_PATH}", excerpt(request.uri().path()));
            return call::fail(&mut respond, &Failure::new(GrpcCode::Unimplemented, message));
        }
        let caller = match self.permitted(&request) {
            Ok(caller) => caller,
            Err(failure) => return call::fail(&mut respond, &failure),
        };
        let (feed, held, tokens) = (Arc::clone(&self.feed), Arc::clone(&self.held), Arc::clone(&self.tokens));
        let shutdown = self.shutdown.clone();
        for_caller::spawn(async move {
            let revoked = async { tokens.until_revoked(&caller, Permission::Read).await.into() };
            serve(&feed, &held, request.into_body(), respond, shutdown, revoked).await;
        });
    }
}

/// Serves a follower until it leaves, is stuck, its token is `revoked`, or the process shuts down.
async fn serve(
    feed: &Arc<Feed>,
    held: &BufferedBytes,
    body: RecvStream,
    mut respond: SendResponse<Bytes>,
    mut shutdown: watch::Receiver<bool>,
    revoked: impl Future<Output = Failure>,
) {
    let Some(mut stream) = status::begin(&mut respond) else { return };
    let mut incoming = IncomingBody::new(body, held, BYTES_MAX);
    let served = async {
        let hello = match timeout(HELLO_MAX, first_message(&mut incoming)).await {
            Ok(hello) => hello?,
            Err(_) => return Err(Failure::new(GrpcCode::DeadlineExceeded, "no hello came within 5 s")),
        };
        let subscriber = feed.subscribe(&hello, feed.clock().now());
        converse(feed, subscriber, &mut incoming, &mut stream).await
    };
    let outcome = tokio::select! {
        biased;
        failure = revoked => Err(failure),
        outcome = served => outcome,
        _ = shutdown.wait_for(|stop| *stop) => {
            Err(Failure::new(GrpcCode::Unavailable, "the server shuts down; follow another one"))
        }
    };
    match outcome {
        Ok(StreamEnd::Left) => status::end(&mut stream),
        Ok(StreamEnd::Stuck) => stream.send_reset(Reason::CANCEL),
        Err(failure) => status::end_with(&mut stream, &failure),
    }
}

/// How a conversation ends that nothing was wrong with.
enum StreamEnd {
    Left,
    Stuck,
}

async fn first_message(incoming: &mut IncomingBody<'_>) -> Result<Hello, Failure> {
    loop {
        if let Some(message) = incoming.take()? {
            return match decode(message)? {
                FollowerMessage::Hello(hello) if PROTOCOL.common(hello.protocol).is_some() => Ok(hello),
                FollowerMessage::Hello(hello) => Err(too_far(&hello)),
                _ => Err(Failure::new(GrpcCode::InvalidArgument, "the first message must be a hello")),
            };
        }
        if !incoming.more().await? {
            return Err(Failure::new(GrpcCode::InvalidArgument, "the stream ended without a hello"));
        }
    }
}

fn too_far(hello: &Hello) -> Failure {
    let message = format!(
        "this server ({}) speaks versions {} to {} of the protocol, and {} ({}) {} to {}; update the older of the two",
        env!("CARGO_PKG_VERSION"),
        PROTOCOL.oldest,
        PROTOCOL.newest,
        hello.node,
        hello.software,
        hello.protocol.oldest,
        hello.protocol.newest,
    );
    Failure::new(GrpcCode::FailedPrecondition, message)
}

fn decode(message: Vec<u8>) -> Result<FollowerMessage, Failure> {
    FollowerMessage::decode(&message.into())
        .map_err(|malformed| Failure::new(GrpcCode::InvalidArgument, malformed.0))
}

async fn converse(
    feed: &Feed,
    mut subscriber: Subscriber,
    incoming: &mut IncomingBody<'_>,
    stream: &mut SendStream<Bytes>,
) -> Result<StreamEnd, Failure> {
    let (clock, mut changes) = (feed.clock(), feed.changes());
    let mut outgoing = SendBuffer::default();
    loop {
        if outgoing.is_empty() {
            changes.mark_unchanged();
            subscriber.fill(clock.now(), ROOM_BYTES, &mut outgoing.taken);
            outgoing.join();
        }
        tokio::select! {
            biased;
            heard = incoming.more() => {
                if !heard? {
                    return Ok(StreamEnd::Left);
                }
                while let Some(message) = incoming.take()? {
                    subscriber.receive(decode(message)?, clock.now());
                }
            }
            sent = timeout(STUCK_MAX, poll_fn(|cx| outgoing.poll_send(stream, cx))), if !outgoing.is_empty() => {
                match sent {
                    Ok(true) => {}
                    Ok(false) => return Ok(StreamEnd::Left),
                    Err(_) => return Ok(StreamEnd::Stuck),
                }
            }
            () = tokio::time::sleep_until(clock.instant(subscriber.wakes_at(clock.now()))), if outgoing.is_empty() => {}
            // Where changes come in quick succession, the time that they are gathered for is waited out first.
            _ = changes.changed(), if outgoing.is_empty() && !subscriber.gathers(clock.now()) => {}
        }
    }
}

/// What was taken and isn't sent yet.
#[derive(Default)]
struct SendBuffer {
    taken: Vec<Bytes>,
    frames: VecDeque<Bytes>,
}

impl SendBuffer {
    fn is_empty(&self) -> bool {
        self.frames.is_empty()
    }

    /// Many small messages leave as one frame; a large one is shared by all who are sent it, and isn't copied.
    fn join(&mut self) {
        let mut joined = Vec::new();
        for message in self.taken.drain(..) {
            if joined.len() + message.len() <= JOINED_BYTES_MAX {
                joined.extend_from_slice(&message);
                continue;
            }
            if !joined.is_empty() {
                self.frames.push_back(std::mem::take(&mut joined).into());
            }
            self.frames.push_back(message);
        }
        if !joined.is_empty() {
            self.frames.push_back(joined.into());
        }
    }

    /// Sends the first frame, or as much of it as there is room for; false when the client is gone.
    fn poll_send(&mut self, stream: &mut SendStream<Bytes>, cx: &mut Context<'_>) -> Poll<bool> {
        let Some(first) = self.frames.front_mut() else { return Poll::Ready(true) };
        if let Poll::Ready(_reset) = stream.poll_reset(cx) {
            return Poll::Ready(false);
        }
        stream.reserve_capacity(first.len());
        let capacity = match stream.capacity() {
            0 => match ready!(stream.poll_capacity(cx)) {
                Some(Ok(capacity)) => capacity,
                Some(Err(_)) | None => return Poll::Ready(false),
            },
            capacity => capacity,
        };
        let piece = first.split_to(capacity.min(first.len()));
        if first.is_empty() {
            self.frames.pop_front();
        }
        Poll::Ready(stream.send_data(piece, false).is_ok())
    }
}
