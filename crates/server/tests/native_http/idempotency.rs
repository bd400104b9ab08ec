//! A request that is sent again with the same `Idempotency-Key`.

use crate::client::Reply;
use crate::node::Node;

const LIMIT: &str = r#"{"namespace":"n","identifier":"i","limit":2,"duration_ms":60000}"#;

async fn post(node: &Node, key: &str, body: &str) -> Reply {
    let mut client = node.client().await;
    let length = body.len();
    let head = format!(
        "POST /v1/limit HTTP/1.1\r\nHost: localhost\r\nIdempotency-Key: {key}\r\nContent-Length: {length}\r\n\r\n"
    );
    client.send((head + body).as_bytes()).await;
    client.reply().await
}

#[tokio::test]
async fn a_retry_is_answered_alike_and_charged_once() {
    let node = Node::start().await;
    let first = post(&node, "k1", LIMIT).await;
    assert_eq!(first.header("idempotency-replayed"), None);
    node.advance_ms(59_000);
    for _ in 0..5 {
        let again = post(&node, "k1", LIMIT).await;
        assert_eq!((again.status, again.text()), (200, first.text()));
        assert_eq!(again.header("idempotency-replayed"), Some("true"));
    }
    let second = post(&node, "k2", LIMIT).await.json();
    assert_eq!((&second["allowed"], &second["limits"][0]["remaining"]), (&true.into(), &0.into()));
}

#[tokio::test]
async fn a_denial_is_repeated_and_a_wrong_key_is_refused() {
    let node = Node::start().await;
    post(&node, "a", LIMIT).await;
    post(&node, "b", LIMIT).await;
    let denied = post(&node, "c", LIMIT).await;
    let again = post(&node, "c", LIMIT).await;
    assert_eq!(denied.json()["allowed"], false);
    assert_eq!((again.text(), again.header("idempotency-replayed")), (denied.text(), Some("true")));
    let other = LIMIT.replace("\"limit\":2", "\"limit\":3");
    for (key, body, part) in [("c", other.as_str(), "another request"), ("", LIMIT, "1 to 255")] {
        let refused = post(&node, key, body).await;
        assert_eq!(refused.status, 400, "{key}");
        assert!(refused.text().contains(part), "{}", refused.text());
    }
}

#[tokio::test]
async fn a_denial_is_repeated_only_until_it_says_that_the_request_would_pass() {
    let node = Node::start().await;
    let limit = r#"{"namespace":"n","identifier":"i","rate_per_s":0.5,"burst":1}"#;
    assert_eq!(post(&node, "a", limit).await.json()["allowed"], true);
    let denied = post(&node, "b", limit).await.json();
    assert_eq!((&denied["allowed"], &denied["limits"][0]["retry_after_ms"]), (&false.into(), &2000.into()));
    node.advance_ms(1_900);
    assert_eq!(post(&node, "b", limit).await.json(), denied);
    node.advance_ms(200);
    assert_eq!(post(&node, "b", limit).await.json()["allowed"], true);
}
