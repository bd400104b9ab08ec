//! One call: which method it names, its message, its answer.

use crate::App;
use crate::access::{self, Caller, LastCaller, Permission};
use crate::counters::COUNTERS;
use crate::envoy;
use crate::grpc::message::{self, Arrived, Held};
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
use tidegate_decisions::Trace;
use tidegate_node::journal;
use tokio::sync::watch;

/// What the calls of a connection share.
#[derive(Clone)]
pub(super) struct Context {
    pub(super) app: Arc<App>,
    last_caller: Arc<LastCaller>,
    pub(super) held: Arc<Held>,
    pub(super) shutdown: watch::Receiver<bool>,
}

impl Context {
    pub(super) fn new(app: Arc<App>, shutdown: watch::Receiver<bool>) -> Self {
        Context { app, last_caller: Arc::default(), held: Arc::default(), shutdown }
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
    let caller = match context.last_caller.permitted(&context.app.tokens, presented, needed) {
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
            Arrived::Whole(bytes) => should_rate_limit(context, caller, bytes, trace, respond),
            Arrived::Part(first) => {
                let context = context.clone();
                tokio::spawn(async move {
                    match message::whole(body, &first, &context.held).await {
                        Ok(bytes) => should_rate_limit(&context, caller, bytes.into(), trace, respond),
                        Err(failure) => deny(&context.app, &mut respond, &failure),
                    }
                });
            }
        },
        Rpc::HealthCheck => drop(tokio::spawn(health::check(context.clone(), body, respond))),
        Rpc::HealthWatch => drop(tokio::spawn(health::watch(context.clone(), body, respond))),
        Rpc::Reflection => drop(tokio::spawn(reflection::answer(context.clone(), body, respond))),
    }
}

fn should_rate_limit(
    context: &Context,
    caller: Arc<Caller>,
    body: Bytes,
    trace: Option<Box<TraceContext>>,
    mut respond: SendResponse<Bytes>,
) {
    let of = trace.as_ref().map_or(Trace::NONE, |trace| trace.parent());
    let tried = journal::traced(of, || {
        let message = message::only(&body)?;
        let asked = envoy::decode(message)?;
        match envoy::try_decide(&context.app, &caller, &asked, framed) {
            Some(told) => Ok(Some(told?)),
            None => Ok(None),
        }
    });
    match tried {
        Ok(Some(framed)) => status::send_message(&mut respond, framed),
        Ok(None) => drop(tokio::spawn(ask_first(Arc::clone(&context.app), caller, body, trace, respond))),
        Err(failure) => deny(&context.app, &mut respond, &failure),
    }
}

/// The region has to be asked: the same from the beginning, in a task that may wait.
async fn ask_first(
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
