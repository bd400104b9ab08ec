//! What fuzzing calls: any bytes as everything that a caller can send, up to the decision and its answer.
//!
//! One node for all inputs, with few keys, so that its table is full at times; a second passes with each input,
//! so that it isn't always. Whatever is answered must be well-formed, and whatever is refused the caller's fault.

use crate::access::{Caller, LastCaller, Permission};
use crate::cross_site::Guard;
use crate::decide;
use crate::envoy::{self, JsonRequest};
use crate::refusal::Refusal;
use crate::request_id::RequestId;
use crate::route::Call;
use crate::{
    App, ForwardAuth, MappedHeader, cross_site, fast_path, forward_auth, grpc, idempotency, resp, unkey,
};
use hyper::header::{HeaderName, HeaderValue};
use hyper::{HeaderMap, Request};
use serde::de::IgnoredAny;
use std::pin::pin;
use std::sync::{Arc, LazyLock};
use std::task::{Context, Poll, Waker};
use tidegate_core::{FleetSecret, Nanos};
use tidegate_node::clock::{Clock, ManualTime};
use tidegate_node::{Engine, EngineOptions};
use tidegate_rules::{RuleSet, Source};

const KEYS_MAX: usize = 1000;
const OUR_RULES: &str = r#"
namespace: api
rules:
  - { name: per-user, key: [user], limit: 3 per 1m }
  - { name: rate, key: [user], rate: 2/s, burst: 5 }
  - { name: search, key: [user, endpoint], when: { endpoint: "/search*" }, limit: 10 per 1h }
  - { name: watched, key: [ip/24], limit: 1 per 1m, shadow: true }
  - { name: strict, key: [org], limit: 5 per day, on_missing: deny, charge: always }
overrides:
  - { rule: per-user, user: "vip-*", unlimited: true }
"#;
const THEIR_RULES: &str = r#"
domain: edge
descriptors:
  - key: user
    rate_limit: { unit: minute, requests_per_unit: 3, name: user, replaces: [{ name: all }] }
  - key: path
    value: "files/*"
    share_threshold: true
    quota_mode: true
    rate_limit: { unit: hour, requests_per_unit: 2, name: all }
"#;

struct Fuzzed {
    app: App,
    time: ManualTime,
}

static FUZZED: LazyLock<Fuzzed> = LazyLock::new(|| {
    let secret = FleetSecret::BUILT_IN;
    let sources = [("ours.yaml", OUR_RULES), ("theirs.yaml", THEIR_RULES)]
        .map(|(name, text)| Source { name: name.to_owned(), text: text.as_bytes().to_vec() });
    let rules = RuleSet::parse(&sources, &secret).unwrap_or_else(|errors| panic!("{errors}"));
    let engine = Engine::new(EngineOptions { secret, keys_max: KEYS_MAX }, rules);
    let (clock, time) = Clock::manual(Nanos::from_secs(1_800_000_000));
    let forward_auth = ForwardAuth {
        accepted: ["user", "path", "namespace", "cost"].map(str::to_owned).into(),
        mapped: MappedHeader::parse_list("user=X-User, ip=X-Real-IP").unwrap_or_default(),
    };
    Fuzzed { app: App { forward_auth, ..App::new(Arc::new(engine), Arc::new(clock)) }, time }
});

/// The node, a second later.
fn app() -> &'static App {
    let Fuzzed { app, time } = &*FUZZED;
    time.advance(Nanos::from_secs(1));
    let now = app.clock.now();
    let shard = usize::try_from(now.now.get() / Nanos::PER_SECOND).unwrap_or(0) % app.engine.shard_count();
    app.engine.sweep(shard, now);
    app
}

fn anybody() -> Arc<Caller> {
    match LastCaller::default().permitted(&app().tokens, None, Some(Permission::Check)) {
        Ok(caller) => caller,
        Err(refusal) => panic!("no tokens, and {refusal:?}"),
    }
}

/// Of a node that is alone nothing waits.
fn ready<T>(future: impl Future<Output = T>) -> T {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(value) => value,
        Poll::Pending => panic!("a node that is alone made a caller wait"),
    }
}

fn assert_json(bytes: &[u8]) {
    let parsed: Result<serde_json::Value, _> = serde_json::from_slice(bytes);
    assert!(parsed.is_ok(), "not JSON: {}", String::from_utf8_lossy(bytes));
}

fn assert_refusal(refusal: &Refusal) {
    assert!(refusal.code.status().is_client_error(), "{refusal:?}");
    assert_json(&refusal.to_json());
}

/// What our own reader takes must be JSON to others too.
fn assert_was_json(body: &[u8]) {
    let parsed: Result<IgnoredAny, _> = serde_json::from_slice(body);
    assert!(parsed.is_ok(), "taken, and not JSON: {}", String::from_utf8_lossy(body));
}

/// The first byte names the call, the rest is its body.
pub fn native_json(bytes: &[u8]) {
    let Some((call, body)) = bytes.split_first() else { return };
    let calls = [Call::Check, Call::Limit, Call::LimitMany, Call::Report, Call::Reset];
    let call = calls[usize::from(*call) % calls.len()];
    match ready(decide::decide(app(), &anybody(), call, body, "id")) {
        Ok(reply) => {
            assert_was_json(body);
            assert_json(&reply.body);
        }
        Err(refusal) => assert_refusal(&refusal),
    }
}

/// The first byte names Unkey's operation, the rest is its body, or a line of the file of overrides.
pub fn unkey_json(bytes: &[u8]) {
    let Some((operation, body)) = bytes.split_first() else { return };
    match ready(unkey::fuzz(app(), *operation, body)) {
        Ok(answer) => {
            assert_was_json(body);
            answer.iter().for_each(|answer| assert_json(answer));
        }
        Err(refusal) => {
            assert_refusal(&refusal);
            assert_json(&unkey::refusal_json(&refusal, &RequestId::of(&HeaderMap::new())));
        }
    }
}

pub fn envoy_json(body: &[u8]) {
    let request = match JsonRequest::read(body) {
        Ok(request) => request,
        Err(refusal) => return assert_refusal(&refusal),
    };
    assert_was_json(body);
    match ready(envoy::decide(app(), &anybody(), &request.asked(), envoy::to_json)) {
        Ok(answer) => assert_json(&answer),
        Err(refusal) => assert_refusal(&refusal),
    }
}

pub fn envoy_grpc(body: &[u8]) {
    grpc::fuzz(app(), &anybody(), body);
}

pub fn resp_commands(input: &[u8]) {
    resp::fuzz(app(), input);
}

pub fn plain_http(input: &[u8]) {
    fast_path::fuzz(app(), input);
}

/// A line with the target, then a header on each line.
pub fn headers(bytes: &[u8]) {
    let mut lines = bytes.split(|byte| *byte == b'\n');
    let Ok(mut request) = Request::get(lines.next().unwrap_or_default()).body(()) else { return };
    for line in lines.take(64) {
        let Some(colon) = line.iter().position(|byte| *byte == b':') else { continue };
        let name = HeaderName::from_bytes(&line[..colon]);
        if let (Ok(name), Ok(value)) = (name, HeaderValue::from_bytes(&line[colon + 1..])) {
            request.headers_mut().append(name, value);
        }
    }
    let (head, ()) = request.into_parts();
    for guard in [Guard::Forwarded, Guard::Origin, Guard::Host] {
        cross_site::refuse(guard, &app().tokens, &head.headers)
            .unwrap_or_else(|refusal| assert_refusal(&refusal));
    }
    if let Err(refusal) = idempotency::key(&head.headers) {
        assert_refusal(&refusal);
    }
    let id = RequestId::of(&head.headers);
    assert!(!id.as_str().is_empty());
    match ready(forward_auth::answer(app(), &anybody(), &head, id)) {
        Ok(answer) => assert!(matches!(answer.status().as_u16(), 204 | 429)),
        Err(refusal) => assert_refusal(&refusal),
    }
}

/// The setting that maps headers to attributes.
pub fn mapped_headers(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    if let Ok(list) = MappedHeader::parse_list(text) {
        let shown = list.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
        assert_eq!(MappedHeader::parse_list(&shown), Ok(list));
    }
}
