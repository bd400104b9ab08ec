//! Plain requests are answered beneath hyper, all others by it: nobody can tell by the answer.

use crate::client::Reply;
use crate::node::Node;

const RULES: &str = r#"
namespace: api
rules:
  - { name: per-user, key: [user], limit: 2 per 1m }
"#;
const LIMIT: &str = r#"{"namespace":"n","identifier":"i","limit":2,"duration_ms":60000}"#;
const MANY: &str = r#"{"limits":[{"namespace":"n","identifier":"a","limit":2,"duration_ms":60000},{"namespace":"n","identifier":"b","rate_per_s":1,"burst":1}]}"#;
const CHECK: &str = r#"{"namespace":"api","attributes":{"user":"42"}}"#;

/// An answer without what differs between any two: the second in which it was written.
fn told(reply: Reply) -> (u16, Vec<(String, String)>, String) {
    let text = reply.text();
    let mut headers = reply.headers;
    for (name, value) in &mut headers {
        if name == "date" {
            *value = value.len().to_string();
        }
    }
    headers.sort();
    (reply.status, headers, text)
}

async fn answers(
    node: &Node,
    head: &str,
    body: &str,
    extra: &str,
    times: usize,
) -> Vec<impl PartialEq + std::fmt::Debug + use<>> {
    let mut client = node.client().await;
    let length = if body.is_empty() { String::new() } else { format!("Content-Length: {}\r\n", body.len()) };
    let request =
        format!("{head} HTTP/1.1\r\nHost: localhost\r\nX-Request-Id: same\r\n{extra}{length}\r\n{body}");
    let mut answers = Vec::new();
    for _ in 0..times {
        client.send(request.as_bytes()).await;
        answers.push(told(client.reply().await));
    }
    answers
}

#[tokio::test]
async fn plain_and_other_requests_are_answered_alike() {
    let cases = [
        ("POST /v1/limit", LIMIT),
        ("POST /v1/limit-many", MANY),
        ("POST /v1/check", CHECK),
        ("POST /v1/report", CHECK),
        ("GET /auth?namespace=api", ""),
        ("GET /auth?namespace=nobody", ""),
        ("GET /auth", ""),
        ("GET /auth?namespace=api&cost=x", ""),
        ("POST /v1/limit", "{"),
        ("POST /v1/limit", r#"{"namespace":"n","identifier":"i","limit":-1,"duration_ms":60000}"#),
        ("POST /v1/check", LIMIT),
        ("POST /v1/nothing", LIMIT),
        ("GET /v1/limit", ""),
    ];
    for (head, body) in cases {
        let (one, other) = (Node::with_rules(RULES).await, Node::with_rules(RULES).await);
        let plain = answers(&one, head, body, "X-Tidegate-User: 42\r\n", 3).await;
        // A header that only hyper knows.
        let usual = answers(&other, head, body, "X-Tidegate-User: 42\r\nTE: trailers\r\n", 3).await;
        assert_eq!(plain, usual, "{head} {body}");
    }
}

#[tokio::test]
async fn a_connection_may_go_from_plain_requests_to_others_within_one_write() {
    let node = Node::start().await;
    let mut client = node.client().await;
    let plain = format!("POST /v1/limit HTTP/1.1\r\nContent-Length: {}\r\n\r\n{LIMIT}", LIMIT.len());
    let other = "GET /healthz HTTP/1.1\r\nHost: t\r\n\r\n";
    client.send(format!("{plain}{other}{plain}{other}").as_bytes()).await;
    assert_eq!(client.reply().await.json()["limits"][0]["remaining"], 1);
    assert_eq!(client.reply().await.text(), "ok\n");
    assert_eq!(client.reply().await.json()["limits"][0]["remaining"], 0);
    assert_eq!(client.reply().await.text(), "ok\n");
}

#[tokio::test]
async fn the_last_answer_before_a_shutdown_says_that_it_is() {
    let node = Node::start().await;
    let (mut client, mut idle) = (node.client().await, node.client().await);
    let request = format!("POST /v1/limit HTTP/1.1\r\nContent-Length: {}\r\n\r\n{LIMIT}", LIMIT.len());
    let (begun, rest) = request.split_at(40);
    client.send(begun.as_bytes()).await;
    // The server has read that by the time that it answers another connection.
    assert_eq!(node.post("/v1/limit", LIMIT).await.status, 200);
    node.stop.send(true).unwrap();
    // Whoever is idle is told at the same time.
    assert!(idle.is_closed().await);
    client.send(rest.as_bytes()).await;
    let reply = client.reply().await;
    assert_eq!((reply.status, reply.header("connection")), (200, Some("close")));
    assert!(client.is_closed().await);
}
