//! What is only shown: health, readiness, state, rules, and the front page.

use crate::client::Client;
use crate::node::Node;
use serde_json::json;

#[tokio::test]
async fn both_listeners_tell_that_they_are_alive_and_ready() {
    let node = Node::start().await;
    for address in [node.api, node.admin] {
        let mut client = Client::connect(address).await;
        let health = client.get("/healthz").await;
        assert_eq!((health.status, health.text().as_str()), (200, "ok\n"));
        let ready = client.get("/readyz?verbose").await;
        assert_eq!((ready.status, &ready.json()["ready"]), (200, &json!(true)));
    }
}

#[tokio::test]
async fn a_head_request_gets_the_head_of_the_answer() {
    let node = Node::start().await;
    let mut client = node.client().await;
    client.send(b"HEAD /healthz HTTP/1.1\r\nHost: t\r\n\r\n").await;
    let head = client.head().await.unwrap();
    assert_eq!((head.status, head.header("content-length")), (200, Some("3")));
    assert_eq!(client.get("/healthz").await.text(), "ok\n", "no body stands between the answers");
}

#[tokio::test]
async fn the_front_page_shows_a_command_that_works() {
    let node = Node::start().await;
    let page = node.client().await.get("/").await.text();
    assert!(page.contains("http://localhost/v1/limit"), "{page}");
    let body = page.split('\'').nth(1).expect("the command quotes its body");
    assert_eq!(node.answer("/v1/limit", body).await["allowed"], true);
}

#[tokio::test]
async fn the_admin_front_page_names_pages_that_are_there() {
    let node = Node::start().await;
    let page = node.get_admin("/").await;
    assert_eq!((page.status, page.header("content-type")), (200, Some("text/plain; charset=utf-8")));
    let text = page.text();
    let paths: Vec<&str> = text.split_whitespace().filter(|word| word.starts_with('/')).collect();
    assert_eq!(
        paths,
        [
            "/metrics",
            "/v1/state",
            "/v1/rules",
            "/v1/shadow",
            "/v1/top",
            "/v1/why",
            "/v1/history",
            "/healthz",
            "/readyz"
        ],
        "{text}"
    );
    for path in paths {
        // This node keeps no log to answer from.
        let status = if path == "/v1/why" { 503 } else { 200 };
        assert_eq!(node.get_admin(path).await.status, status, "{path}");
    }
}

#[tokio::test]
async fn metrics_count_in_prometheus_text() {
    let node = Node::start().await;
    node.answer("/v1/limit", r#"{"namespace":"a","identifier":"b","limit":1,"duration_ms":60000}"#).await;
    let text = node.get_admin("/metrics").await.text();
    let wanted = "# TYPE tidegate_requests_admitted_total counter\ntidegate_requests_admitted_total 1\n";
    assert!(text.contains(wanted), "{text}");
    assert!(text.contains("tidegate_keys 1\n"), "{text}");
}

#[tokio::test]
async fn state_counts_what_happened() {
    let node =
        Node::with_rules("namespace: api\nrules:\n  - { name: a, key: [user], limit: 1 per 1m }\n").await;
    for _ in 0..2 {
        node.answer("/v1/check", r#"{"namespace":"api","attributes":{"user":"1"}}"#).await;
    }
    let state = node.get_admin("/v1/state").await.json();
    for (field, expected) in [
        ("node", json!("node-1")),
        ("region", json!("local")),
        ("version", json!(env!("CARGO_PKG_VERSION"))),
        ("rule_version", json!(1)),
        ("namespaces", json!(1)),
        ("rules", json!(1)),
        ("overrides", json!(0)),
        ("keys", json!(1)),
        ("clock_steps", json!(0)),
    ] {
        assert_eq!(state[field], expected, "{field}");
    }
    assert_eq!(state["stats"]["requests_admitted"], 1);
    assert_eq!(state["stats"]["requests_denied"], 1);
    assert!(state["stats"]["connections_refused"].is_u64());
}

#[tokio::test]
async fn rules_are_shown_with_their_meaning() {
    let node = Node::with_rules(
        "namespace: api\nrules:\n  - { name: a, key: [user], limit: 10 per 1m, description: 'say \"hi\"' }\n",
    )
    .await;
    let rules = node.get_admin("/v1/rules").await.json();
    let rule = &rules["namespaces"][0]["rules"][0];
    assert_eq!((&rule["name"], &rule["description"]), (&json!("a"), &json!("say \"hi\"")));
    assert!(rule["meaning"].as_str().unwrap().contains("about 10 over a sliding 1 minute"), "{rule}");
    assert_eq!(rule["declared"], "rules.yaml:3");
}
