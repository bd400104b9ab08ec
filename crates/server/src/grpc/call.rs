//! One call: which method it names, its message, its answer.

use crate::App;
use crate::access::{self, Caller, LastCaller, Permission};
use crate::body::BYTES_MAX;
use crate::budget::Registration;
use crate::counters::COUNTERS;
use crate::envoy;
use crate::for_caller;
use crate::grpc::message::{self, BodyProgress, BufferedBytes};
use crate::grpc::status::{self, Failure, GrpcCode};
use crate::grpc::{health, reflection};
use crate::log_gate::LogGate;
use crate::refusal::excerpt;
use crate::trace::{self, TraceContext};
use h2::RecvStream;
use h2::server::SendResponse;
use hyper::body::Bytes;
use hyper::header::CONTENT_TYPE;
use hyper::{Method, Request, StatusCode};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{self, Waker};
use tokio::sync::watch;

/// Calls of a connection that need no token and may last: watches of the health, and reflection.
const LASTING_CALLS_MAX: usize = 16;

/// What a call is answered from.
#[derive(Clone)]
pub(super) struct Context {
    pub(super) app: Arc<App>,
    shared: Arc<Shared>,
    pub(super) shutdown: watch::Receiver<bool>,
}

/// What the calls of a connection share.
struct Shared {
    last_caller: LastCaller,
    held: BufferedBytes,
    /// The same of calls that need no token.
    held_of_anybody: BufferedBytes,
    lasting_calls: AtomicUsize,
}

impl Context {
    pub(super) fn new(app: Arc<App>, shutdown: watch::Receiver<bool>, registration: Registration) -> Self {
        let shared = Shared {
            last_caller: LastCaller::of(registration),
            held: BufferedBytes::of_callers(),
            held_of_anybody: BufferedBytes::of_anybody(),
            lasting_calls: AtomicUsize::new(0),
        };
        Context { app, shared: Arc::new(shared), shutdown }
    }

    /// What messages that need no token are held in.
    pub(super) fn held_of_anybody(&self) -> &BufferedBytes {
        &self.shared.held_of_anybody
    }

    /// Counts a call that needs no token and may last; fails when the connection has enough of those.
    fn lasting_call(&self) -> Result<LastingCall, Failure> {
        let call = LastingCall(Arc::clone(&self.shared));
        if self.shared.lasting_calls.fetch_add(1, Ordering::Relaxed) < LASTING_CALLS_MAX {
            return Ok(call);
        }
        let message =
            format!("a connection has at most {LASTING_CALLS_MAX} watches and reflection streams at once");
        Err(Failure::new(GrpcCode::ResourceExhausted, message))
    }
}

/// A call that needs no token and may last, until it is dropped.
pub(super) struct LastingCall(Arc<Shared>);

impl Drop for LastingCall {
    fn drop(&mut self) {
        self.0.lasting_calls.fetch_sub(1, Ordering::Relaxed);
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Rpc {
    ShouldRateLimit,
    HealthCheck,
    HealthWatch,
    Reflection,
}

impl Rpc {
    fn at(path: &str) -> Option<Self> {
        match path {
            "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit" => Some(Rpc::ShouldRateLimit),
            "/grpc.health.v1.Health/Check" => Some(Rpc::HealthCheck),
            "/grpc.health.v1.Health/Watch" => Some(Rpc::HealthWatch),
            "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo"
            | "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo" => Some(Rpc::Reflection),
            _ => None,
        }
    }
}

/// Answers a call: at once if it can be, or in a task of its own.
pub(super) fn answer(context: &Context, request: Request<RecvStream>, mut respond: SendResponse<Bytes>) {
    if let Some(status) = not_grpc(&request) {
        COUNTERS.requests_refused.add_one();
        return status::send_http(&mut respond, status);
    }
    let Some(rpc) = Rpc::at(request.uri().path()) else {
        return fail(&mut respond, &unknown(request.uri().path()));
    };
    let needed = if rpc == Rpc::ShouldRateLimit { Some(Permission::Check) } else { None };
    let presented = access::presented(request.headers());
    let caller = match context.shared.last_caller.permitted(&context.app.tokens, presented, needed) {
        Ok(caller) => caller,
        Err(refusal) => {
            access::report_refused(&context.app, &refusal);
            return fail(&mut respond, &refusal.into());
        }
    };
    let trace = TraceContext::of(request.headers());
    let mut body = request.into_body();
    match rpc {
        Rpc::ShouldRateLimit => match message::arrived(&mut body) {
            BodyProgress::Whole(bytes) => should_rate_limit(context, caller, bytes, trace, respond),
            BodyProgress::Part(first) => {
                let context = context.clone();
                for_caller::spawn(async move {
                    match message::whole(body, &first, &context.shared.held, BYTES_MAX).await {
                        Ok(bytes) => should_rate_limit(&context, caller, bytes.into(), trace, respond),
                        Err(failure) => deny(&context.app, &mut respond, &failure),
                    }
                });
            }
        },
        Rpc::HealthCheck => drop(for_caller::spawn(health::check(context.clone(), body, respond))),
        Rpc::HealthWatch | Rpc::Reflection => {
            let counted = match context.lasting_call() {
                Ok(counted) => counted,
                Err(failure) => return fail(&mut respond, &failure),
            };
            let context = context.clone();
            for_caller::spawn(async move {
                match rpc {
                    Rpc::HealthWatch => health::watch(context, body, respond).await,
                    _ => reflection::answer(context, body, respond).await,
                }
                drop(counted);
            });
        }
    }
}

fn should_rate_limit(
    context: &Context,
    caller: Arc<Caller>,
    body: Bytes,
    trace: Option<Box<TraceContext>>,
    respond: SendResponse<Bytes>,
) {
    let mut answering = Box::pin(decide(Arc::clone(&context.app), caller, body, trace, respond));
    // Nearly always nobody waits. A call that must ask its region goes on in a task of its own, so that the calls after
    // it don't wait for it.
    let is_answered = answering.as_mut().poll(&mut task::Context::from_waker(Waker::noop())).is_ready();
    if !is_answered {
        for_caller::spawn(answering);
    }
}

async fn decide(
    app: Arc<App>,
    caller: Arc<Caller>,
    body: Bytes,
    trace: Option<Box<TraceContext>>,
    mut respond: SendResponse<Bytes>,
) {
    let asking = async {
        let asked = envoy::decode(message::only(&body)?)?;
        Ok::<_, Failure>(envoy::decide(&app, &caller, &asked, framed).await?)
    };
    let (outcome, trace) = trace::during(trace, asking).await;
    match outcome {
        Ok(framed) => {
            status::send_traced_message(&mut respond, framed, trace.and_then(|trace| trace.header()));
        }
        Err(failure) => deny(&app, &mut respond, &failure),
    }
}

fn framed(verdict: &envoy::Verdict<'_>) -> Vec<u8> {
    message::framed(|out| envoy::encode(verdict, out))
}

/// Answers a rate limit request that can't be judged with OVER_LIMIT, and its reason in the metadata.
///
/// A failed call would admit it: Envoy passes a request whose call failed, unless `failure_mode_deny` is set, and a
/// caller who sends an over-long path could make every one of its calls fail.
#[cold]
fn deny(app: &App, respond: &mut SendResponse<Bytes>, failure: &Failure) {
    static GATE: LogGate = LogGate::new();
    if !matches!(failure.code, GrpcCode::InvalidArgument | GrpcCode::ResourceExhausted) {
        return fail(respond, failure);
    }
    COUNTERS.requests_unjudged.add_one();
    if GATE.passes(app.clock.now().now) {
        tracing::warn!("a rate limit request over gRPC can't be judged and was denied: {}", failure.message);
    }
    status::send_denial(respond, message::framed(envoy::encode_denial), failure);
}

#[cold]
pub(super) fn fail(respond: &mut SendResponse<Bytes>, failure: &Failure) {
    COUNTERS.requests_refused.add_one();
    status::send_failure(respond, failure);
}

/// With which HTTP status a request is refused that isn't a call.
pub(super) fn not_grpc(request: &Request<RecvStream>) -> Option<StatusCode> {
    if *request.method() != Method::POST {
        return Some(StatusCode::METHOD_NOT_ALLOWED);
    }
    let content_type = request.headers().get(CONTENT_TYPE).map_or(&b""[..], |value| value.as_bytes());
    match content_type.strip_prefix(b"application/grpc") {
        Some([] | [b'+' | b';', ..]) => None,
        _ => Some(StatusCode::UNSUPPORTED_MEDIA_TYPE),
    }
}

#[cold]
fn unknown(path: &str) -> Failure {
    let message = format!(
        "there is no method `{}`; there are envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit, \
         grpc.health.v1.Health and grpc.reflection",
        excerpt(path)
    );
    Failure::new(GrpcCode::Unimplemented, message)
}
