//! The client and the layer against a server in this process, over real sockets.

use axum::Router;
use axum::body::Body;
use axum::routing::get;
use http::{Request, StatusCode};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tidegate_client::{
    CheckRequest, Client, Embedded, LimitLayer, OnFailure, RedisClient, ResponseSource, Tls,
};
use tidegate_core::FleetSecret;
use tidegate_node::clock::Clock;
use tidegate_node::{Engine, EngineOptions};
use tidegate_rules::RuleSet;
use tidegate_server::{
    App, Certificates, Listener, ListeningSocket, NewToken, Permissions, Surface, TlsFiles, TokenRecord,
    Tokens, serve,
};
use tidegate_testkit::Authority;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream, UnixListener};
use tokio::sync::watch;
use tower_service::Service;

const RULES: &str = "namespace: api\nrules:\n  - { name: per-user, key: [user], limit: 2 per 365d }\n";
const PATIENT: Duration = Duration::from_secs(5);

/// A node that ends with its test.
struct Node {
    _stop: watch::Sender<bool>,
}

fn node(listener: Listener, surface: Surface) -> Node {
    node_with(listener, surface, Tokens::not_required())
}

fn node_with(listener: Listener, surface: Surface, tokens: Tokens) -> Node {
    let secret = FleetSecret::BUILT_IN;
    let source = tidegate_rules::Source { name: "rules".to_owned(), text: RULES.as_bytes().to_vec() };
    let rules = RuleSet::parse(&[source], &secret).unwrap();
    let engine = Engine::new(EngineOptions { secret, keys_max: 10_000 }, rules);
    let app = App { tokens: Arc::new(tokens), ..App::new(Arc::new(engine), Arc::new(Clock::system())) };
    let (stop, stopped) = watch::channel(false);
    tokio::spawn(serve(listener, surface, Arc::new(app), stopped, Duration::ZERO));
    Node { _stop: stop }
}

async fn tcp() -> (Node, Client) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    (node(listener.into(), Surface::Api), Client::tcp(address).deadline(PATIENT))
}

fn unix(name: &str) -> (Node, Client) {
    let (listener, path) = socket(name);
    (node(ListeningSocket::Unix(listener).into(), Surface::Api), Client::unix(path).deadline(PATIENT))
}

fn socket(name: &str) -> (UnixListener, PathBuf) {
    let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}-{}", std::process::id()));
    let _ = std::fs::remove_file(&path);
    (UnixListener::bind(&path).unwrap(), path)
}

#[tokio::test]
async fn a_node_answers_over_tcp_and_over_a_unix_socket() {
    for (_node, client) in [tcp().await, unix("answers")] {
        for (allowed, remaining) in [(true, 1), (true, 0), (false, 0)] {
            let answer = client.check("api", &[("user", "42")], 1).await.unwrap();
            assert_eq!((answer.allowed, answer.source), (allowed, ResponseSource::Limiter));
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
async fn a_token_is_presented_by_either_client_and_never_shown() {
    let token = NewToken::generate().unwrap();
    let record = || TokenRecord {
        id: token.id,
        hash: token.hash(),
        tenant: "default".to_owned(),
        permissions: Permissions::ALL,
    };
    let http = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let resp = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let addresses = [&http, &resp].map(|listener| listener.local_addr().unwrap().to_string());
    let _nodes = [(http, Surface::Api), (resp, Surface::Resp)]
        .map(|(listener, surface)| node_with(listener.into(), surface, Tokens::required(vec![record()])));
    let http = || Client::tcp(addresses[0].clone()).deadline(PATIENT);
    assert_eq!(http().check("api", &[("user", "42")], 1).await.unwrap_err().status, 401);
    assert_eq!(http().token("not\none").check("api", &[("user", "42")], 1).await.unwrap_err().status, 401);
    let known = http().token(&token.reveal());
    assert!(known.check("api", &[("user", "42")], 1).await.unwrap().allowed);
    let resp = || RedisClient::tcp(addresses[1].clone()).deadline(PATIENT);
    assert!(resp().throttle("k", 1, (1, 60), 1).await.unwrap_err().starts_with("NOAUTH"));
    assert!(resp().token("wrong").throttle("k", 1, (1, 60), 1).await.unwrap_err().starts_with("WRONGPASS"));
    let known_too = resp().token(token.reveal());
    assert!(known_too.throttle("k", 1, (1, 60), 1).await.unwrap().allowed);
    assert!(known_too.throttle("k", 1, (1, 60), 1).await.unwrap().allowed, "on a connection that was kept");
    assert!(!format!("{known:?}{known_too:?}").contains(&token.reveal()[16..]));
}

#[tokio::test]
async fn a_node_that_speaks_tls_is_known_by_its_certificate() {
    let (authority, stranger) = (Authority::new(), Authority::new());
    let issued = authority.server();
    let directory = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("tls-{}", std::process::id()));
    std::fs::create_dir_all(&directory).unwrap();
    let write = |name: &str, text: &str| {
        std::fs::write(directory.join(name), text).unwrap();
        directory.join(name)
    };
    let files = TlsFiles {
        certificate: write("c.pem", &issued.certificate),
        key: write("k.pem", &issued.key),
        client_ca: Some(write("ca.pem", authority.pem())),
    };
    let tls = Arc::new(tidegate_server::ServerTls::new(Certificates::read(&files).unwrap()));
    std::fs::remove_dir_all(&directory).unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let _node = node(ListeningSocket::Tls(listener, tls).into(), Surface::Api);
    let client =
        |tls: &Tls| Client::tls(address.clone(), tls).unwrap().deadline(PATIENT).on_failure(OnFailure::Deny);
    let mine = authority.client();
    let known = Tls::trusting(authority.pem().as_bytes()).unwrap();
    let shown = known.clone().presenting(mine.certificate.as_bytes(), mine.key.as_bytes()).unwrap();
    for _ in 0..2 {
        let answer = client(&shown).check("api", &[("user", "42")], 1).await.unwrap();
        assert_eq!((answer.allowed, answer.source), (true, ResponseSource::Limiter));
    }
    let wrong = Tls::trusting(stranger.pem().as_bytes()).unwrap();
    for tls in [known, wrong.presenting(mine.certificate.as_bytes(), mine.key.as_bytes()).unwrap()] {
        let answer = client(&tls).check("api", &[("user", "42")], 1).await.unwrap();
        assert_eq!((answer.allowed, answer.source), (false, ResponseSource::Failure));
    }
    assert!(Tls::trusting(b"").is_err() && Client::tls("nowhere", &shown).is_err());
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
            assert_eq!((answer.allowed, answer.source), (allowed, ResponseSource::Failure), "{address}");
        }
    }
}

fn app<L: tidegate_client::Limiter>(limiter: L) -> Router {
    let limit_of = |request: &Request<Body>| {
        let user = request.headers().get("x-user")?.to_str().ok()?;
        Some(CheckRequest::new("api").attribute("user", user))
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

/// One status for each of three requests of a caller whose name is `user`.
async fn three(app: &Router, user: &str) -> Vec<u16> {
    let mut app = app.clone();
    let mut seen = Vec::new();
    for _ in 0..3 {
        let request = Request::builder().uri("/").header("x-user", user).body(Body::empty()).unwrap();
        seen.push(app.call(request).await.unwrap().status().as_u16());
    }
    seen
}

#[tokio::test]
async fn a_request_that_a_node_refuses_is_denied_and_a_refused_token_follows_the_choice() {
    let too_long = "x".repeat(17 << 10);
    let (_node, client) = tcp().await;
    let app_of_client = app(client.on_failure(OnFailure::Allow));
    assert_eq!(three(&app_of_client, &too_long).await, [429, 429, 429], "400 denies");
    let embedded = app(Embedded::from_yaml(RULES).unwrap());
    assert_eq!(three(&embedded, &too_long).await, [429, 429, 429]);

    for (choice, status) in [(OnFailure::Allow, 200), (OnFailure::Deny, 429)] {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let tokens = Tokens::required(Vec::new());
        let _node = node_with(listener.into(), Surface::Api, tokens);
        let client = Client::tcp(address).deadline(PATIENT).on_failure(choice);
        assert_eq!(three(&app(client), "42").await, [status; 3], "401 with {choice:?}");
    }
}

#[tokio::test]
async fn refusals_are_counted() {
    let (_node, client) = tcp().await;
    let too_long = "x".repeat(17 << 10);
    assert!(client.check("api", &[("user", &too_long)], 1).await.is_err());
    assert!(client.check("api", &[("user", "42")], 1).await.is_ok());
    assert_eq!(client.refusals(), 1);
}

#[test]
fn bad_rules_are_told() {
    let error = Embedded::from_yaml("namespace: api\nrules:\n  - { name: x, limit: many }\n").unwrap_err();
    assert!(error.to_string().contains("limit"), "{error}");
}

#[tokio::test]
async fn a_node_answers_over_the_redis_protocol() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let (unix, path) = socket("resp");
    let nodes = [ListeningSocket::Tcp(listener), ListeningSocket::Unix(unix)]
        .map(|at| node(at.into(), Surface::Resp));
    let clients = [RedisClient::tcp(address), RedisClient::unix(path)].map(|client| client.deadline(PATIENT));
    for (client, _node) in clients.iter().zip(&nodes) {
        let first = client.throttle("user123", 15, (30, 60), 1).await.unwrap();
        assert!(first.allowed && !first.is_failure && first.retry_after.is_none(), "{first:?}");
        let second_s = Duration::from_secs(2);
        assert_eq!((first.limit, first.remaining, first.reset_after), (16, 15, second_s));
        let denied = client.throttle("user123", 15, (30, 60), 16).await.unwrap();
        assert!(!denied.allowed && denied.remaining == 15, "{denied:?}");
        assert_eq!(denied.retry_after, Some(second_s));
        let never = client.throttle("user123", 15, (30, 60), 17).await.unwrap();
        assert_eq!((never.allowed, never.retry_after), (false, None), "no wait helps");
        let wrong = client.throttle("user123", 15, (0, 60), 1).await.unwrap_err();
        assert!(wrong.contains("zero rates"), "{wrong}");
        let together = (0..16).map(|_| client.throttle("together", 7, (1, 3600), 1));
        let mut allowed = 0;
        for answer in together.map(Box::pin) {
            allowed += usize::from(answer.await.unwrap().allowed);
        }
        assert_eq!(allowed, 8);
    }
}

const REPLY: &[u8] = b"*5\r\n:0\r\n:16\r\n:15\r\n:-1\r\n:2\r\n";

/// Takes one command; `false` when there is none.
async fn take_command(stream: &mut TcpStream) -> bool {
    let mut command = [0; 256];
    stream.read(&mut command).await.unwrap() > 0
}

#[tokio::test]
async fn a_connection_that_was_closed_while_idle_is_replaced() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let client = RedisClient::tcp(listener.local_addr().unwrap().to_string()).deadline(PATIENT);
    for _ in 0..3 {
        let serving = async {
            let (mut stream, _) = listener.accept().await.unwrap();
            assert!(take_command(&mut stream).await);
            stream.write_all(REPLY).await.unwrap();
        };
        let (answer, ()) = tokio::join!(client.throttle("k", 15, (30, 60), 1), serving);
        assert!(!answer.unwrap().is_failure);
        // Lets the runtime hear that the connection was closed.
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn what_may_have_been_decided_is_not_sent_again() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let client = RedisClient::tcp(listener.local_addr().unwrap().to_string()).deadline(PATIENT);
    let serving = async {
        let (mut stream, _) = listener.accept().await.unwrap();
        assert!(take_command(&mut stream).await);
        stream.write_all(REPLY).await.unwrap();
        // Decides the second one, and dies before it says so.
        assert!(take_command(&mut stream).await);
        drop(stream);
        let again = tokio::time::timeout(Duration::from_millis(50), listener.accept());
        assert!(again.await.is_err(), "it was sent again");
    };
    let asking = async {
        assert!(!client.throttle("k", 15, (30, 60), 1).await.unwrap().is_failure);
        assert!(client.throttle("k", 15, (30, 60), 1).await.unwrap().is_failure);
    };
    tokio::join!(asking, serving);
}
