//! The client and the layer against a server in this process, over real sockets.

use axum::Router;
use axum::body::Body;
use axum::routing::get;
use http::{Request, StatusCode};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tidegate_client::{Client, Embedded, Limit, LimitLayer, OnFailure, Source};
use tidegate_core::FleetSecret;
use tidegate_node::clock::Clock;
use tidegate_node::{Engine, EngineOptions};
use tidegate_rules::RuleSet;
use tidegate_server::{App, Listener, Surface, serve};
use tokio::net::{TcpListener, UnixListener};
use tokio::sync::watch;
use tower_service::Service;

const RULES: &str = "namespace: api\nrules:\n  - { name: per-user, key: [user], limit: 2 per 1h }\n";
const PATIENT: Duration = Duration::from_secs(5);

/// A node that ends with its test.
struct Node {
    _stop: watch::Sender<bool>,
}

fn node(listener: Listener) -> Node {
    let secret = FleetSecret::BUILT_IN;
    let source = tidegate_rules::Source { name: "rules".to_owned(), text: RULES.as_bytes().to_vec() };
    let rules = RuleSet::parse(&[source], &secret).unwrap();
    let engine = Engine::new(EngineOptions { secret, keys_max: 10_000 }, rules);
    let app = App::new(Arc::new(engine), Arc::new(Clock::system()));
    let (stop, stopped) = watch::channel(false);
    tokio::spawn(serve(listener, Surface::Api, Arc::new(app), stopped, Duration::ZERO));
    Node { _stop: stop }
}

async fn tcp() -> (Node, Client) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    (node(Listener::Tcp(listener)), Client::tcp(address).deadline(PATIENT))
}

fn unix(name: &str) -> (Node, Client) {
    let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}-{}", std::process::id()));
    let _ = std::fs::remove_file(&path);
    let listener = UnixListener::bind(&path).unwrap();
    (node(Listener::Unix(listener)), Client::unix(path).deadline(PATIENT))
}

#[tokio::test]
async fn a_node_answers_over_tcp_and_over_a_unix_socket() {
    for (_node, client) in [tcp().await, unix("answers")] {
        for (allowed, remaining) in [(true, 1), (true, 0), (false, 0)] {
            let answer = client.check("api", &[("user", "42")], 1).await.unwrap();
            assert_eq!((answer.allowed, answer.source), (allowed, Source::Limiter));
            let limit = answer.strictest().unwrap();
            assert_eq!((limit.name.as_str(), limit.remaining), ("per-user", Some(remaining)));
            assert_eq!(answer.retry_after().is_some(), !allowed);
        }
        let given = client.limit("other", "me", (1, Duration::from_secs(60)), 1).await.unwrap();
        assert!(given.allowed);
        assert!(!client.limit("other", "me", (1, Duration::from_secs(60)), 1).await.unwrap().allowed);
    }
}

#[tokio::test]
async fn a_wrong_question_is_an_error_that_says_why() {
    let (_node, client) = tcp().await;
    let error = client.check("", &[], 1).await.unwrap_err();
    assert_eq!(error.status, 400);
    assert!(error.message.contains("namespace"), "{error}");
}

#[tokio::test]
async fn without_a_node_the_answer_is_what_was_chosen_for_that() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let silent = listener.local_addr().unwrap().to_string();
    // One refuses, one accepts and never answers.
    let gone = "127.0.0.1:1".to_owned();
    for address in [gone, silent] {
        for (chosen, allowed) in [(OnFailure::Allow, true), (OnFailure::Deny, false)] {
            let client = Client::tcp(address.clone()).deadline(Duration::from_millis(20)).on_failure(chosen);
            let answer = client.check("api", &[("user", "42")], 1).await.unwrap();
            assert_eq!((answer.allowed, answer.source), (allowed, Source::Failure), "{address}");
        }
    }
}

fn app<L: tidegate_client::Limiter>(limiter: L) -> Router {
    let limit_of = |request: &Request<Body>| {
        let user = request.headers().get("x-user")?.to_str().ok()?;
        Some(Limit::new("api").attribute("user", user))
    };
    Router::new().route("/", get(async || "hello")).layer(LimitLayer::new(limiter, limit_of))
}

async fn statuses(mut app: Router, user: Option<&str>) -> Vec<(StatusCode, Option<String>)> {
    let mut seen = Vec::new();
    for _ in 0..3 {
        let mut request = Request::builder().uri("/");
        if let Some(user) = user {
            request = request.header("x-user", user);
        }
        let response = app.call(request.body(Body::empty()).unwrap()).await.unwrap();
        let left = response.headers().get("x-ratelimit-remaining");
        assert_eq!(response.headers().contains_key("retry-after"), response.status() == 429);
        seen.push((response.status(), left.map(|left| left.to_str().unwrap().to_owned())));
    }
    seen
}

#[tokio::test]
async fn an_axum_app_is_limited_in_this_process_and_through_a_sidecar() {
    let (_node, client) = unix("layer");
    for app in [app(Embedded::from_yaml(RULES).unwrap()), app(client)] {
        let left = |text: &str| Some(text.to_owned());
        let (ok, denied) = (StatusCode::OK, StatusCode::TOO_MANY_REQUESTS);
        let limited = statuses(app.clone(), Some("42")).await;
        assert_eq!(limited, [(ok, left("1")), (ok, left("0")), (denied, left("0"))]);
        assert_eq!(statuses(app, None).await, [(ok, None), (ok, None), (ok, None)]);
    }
}

#[test]
fn bad_rules_are_told() {
    let error = Embedded::from_yaml("namespace: api\nrules:\n  - { name: x, limit: many }\n").unwrap_err();
    assert!(error.to_string().contains("limit"), "{error}");
}
