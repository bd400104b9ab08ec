//! Unkey's `limit` and `multiLimit`: what they say, what they charge, and what they refuse.

use crate::client::{Reply, post_bytes};
use crate::node::{Node, START_MS};
use serde_json::{Value, json};

const MINUTE_MS: u64 = 60_000;

pub(crate) async fn post(node: &Node, operation: &str, body: &Value) -> Reply {
    node.post(&format!("/v2/ratelimit.{operation}"), &body.to_string()).await
}

/// The data of an operation that succeeds.
pub(crate) async fn data(node: &Node, operation: &str, body: Value) -> Value {
    let reply = post(node, operation, &body).await;
    assert_eq!(reply.status, 200, "{body}: {}", reply.text());
    let answer = reply.json();
    assert_eq!(answer["meta"]["requestId"].as_str(), reply.header("x-request-id"), "{answer}");
    answer["data"].clone()
}

/// The error of one that doesn't, once its form was checked.
pub(crate) async fn error(node: &Node, operation: &str, body: Value) -> Value {
    let reply = post(node, operation, &body).await;
    let answer = reply.json();
    let error = &answer["error"];
    assert_eq!(error["status"], reply.status, "{answer}");
    assert_eq!(answer["meta"]["requestId"].as_str(), reply.header("x-request-id"), "{answer}");
    assert_eq!(reply.header("content-type"), Some("application/json"), "its clients look at nothing else");
    for field in ["title", "detail", "type"] {
        assert!(error[field].as_str().is_some_and(|text| !text.is_empty()), "{field}: {answer}");
    }
    assert_eq!(error["errors"].is_array(), reply.status == 400, "{answer}");
    error.clone()
}

pub(crate) fn check(identifier: &str, limit: u64, cost: u64) -> Value {
    json!({"namespace": "api", "identifier": identifier, "limit": limit, "duration": MINUTE_MS, "cost": cost})
}

#[tokio::test]
async fn a_limit_admits_counts_and_denies_in_unkeys_words() {
    let node = Node::start().await;
    let end = START_MS + MINUTE_MS;
    let body = json!({"namespace": "api", "identifier": "u", "limit": 2, "duration": MINUTE_MS});
    let first = data(&node, "limit", body.clone()).await;
    assert_eq!(first, json!({"limit": 2, "remaining": 1, "reset": end, "success": true}));
    assert_eq!(data(&node, "limit", body.clone()).await["remaining"], 0);
    let denied = data(&node, "limit", body.clone()).await;
    assert_eq!((&denied["success"], &denied["remaining"]), (&json!(false), &json!(0)));
    let peek = data(&node, "limit", check("u", 2, 0)).await;
    assert_eq!((&peek["success"], &peek["remaining"]), (&json!(true), &json!(0)), "cost 0 only looks");
}

#[tokio::test]
async fn whoever_is_denied_passes_at_reset_and_not_before() {
    let node = Node::start().await;
    data(&node, "limit", check("u", 10, 10)).await;
    node.advance_ms(30_000);
    let denied = data(&node, "limit", check("u", 10, 3)).await;
    let reset = denied["reset"].as_u64().unwrap();
    // Of the ten, 3 are over when three tenths and a bit of the next minute are.
    assert!((START_MS + MINUTE_MS..START_MS + 2 * MINUTE_MS).contains(&reset), "{denied}");
    node.advance_ms(reset - 1 - (START_MS + 30_000));
    assert_eq!(data(&node, "limit", check("u", 10, 3)).await["success"], false);
    node.advance_ms(1);
    assert_eq!(data(&node, "limit", check("u", 10, 3)).await["success"], true);
    let never = data(&node, "limit", check("u", 10, 11)).await;
    assert_eq!(never["success"], false);
    assert_eq!(never["reset"], START_MS + 2 * MINUTE_MS, "no wait helps: the end of the window");
}

/// PEERS.md: current, previous, elapsed, cost, limit.
#[tokio::test]
async fn unkeys_own_table_of_decisions_holds() {
    for (current, previous, elapsed_ms, cost, passes, remaining) in [
        (9, 0, 0, 1, true, 0),
        (10, 0, 0, 0, true, 0),
        (10, 0, 0, 1, false, 0),
        (5, 10, 30_000, 1, false, 0),
        (5, 10, 59_400, 1, true, 4),
        (0, 0, 0, 100, false, 10),
    ] {
        let node = Node::start().await;
        if previous > 0 {
            data(&node, "limit", check("u", 100, previous)).await;
        }
        node.advance_ms(MINUTE_MS + elapsed_ms);
        if current > 0 {
            data(&node, "limit", check("u", 100, current)).await;
        }
        let told = data(&node, "limit", check("u", 10, cost)).await;
        assert_eq!((&told["success"], &told["remaining"]), (&json!(passes), &json!(remaining)), "{told}");
    }
}

#[tokio::test]
async fn several_limits_are_charged_all_or_none_and_each_says_how_it_stands() {
    let node = Node::start().await;
    let both = json!([check("wide", 10, 2), check("narrow", 1, 1)]);
    let passed = data(&node, "multiLimit", both.clone()).await;
    let end = START_MS + MINUTE_MS;
    assert_eq!(
        passed,
        json!({"passed": true, "limits": [
            {"namespace": "api", "identifier": "wide", "limit": 10, "remaining": 8, "reset": end, "passed": true},
            {"namespace": "api", "identifier": "narrow", "limit": 1, "remaining": 0, "reset": end, "passed": true},
        ]})
    );
    for _ in 0..3 {
        let denied = data(&node, "multiLimit", both.clone()).await;
        assert_eq!(denied["passed"], false);
        let [wide, narrow] = [&denied["limits"][0], &denied["limits"][1]];
        assert_eq!((&wide["passed"], &wide["remaining"]), (&json!(true), &json!(8)), "nothing was taken");
        assert_eq!((&narrow["passed"], &narrow["remaining"]), (&json!(false), &json!(0)));
    }
}

#[tokio::test]
async fn names_that_look_alike_when_they_are_joined_are_apart() {
    let node = Node::start().await;
    for (namespace, identifier) in [("a-b", "c"), ("a", "b-c"), ("a", "b"), ("a", "B")] {
        let body =
            json!({"namespace": namespace, "identifier": identifier, "limit": 1, "duration": MINUTE_MS});
        assert_eq!(data(&node, "limit", body.clone()).await["success"], true, "{body}");
        assert_eq!(data(&node, "limit", body.clone()).await["success"], false, "{body}");
    }
}

#[tokio::test]
async fn five_hundred_and_twelve_characters_of_four_bytes_are_a_name() {
    let node = Node::start().await;
    let name = "😀".repeat(512);
    let mut body = check(&name, 1, 1);
    body["namespace"] = json!(name);
    assert_eq!(data(&node, "limit", body.clone()).await["success"], true);
    assert_eq!(data(&node, "limit", body.clone()).await["success"], false);
    body["identifier"] = json!(format!("{}é", "😀".repeat(511)));
    assert_eq!(data(&node, "limit", body.clone()).await["success"], true, "the last character counts");
    body["identifier"] = json!("😀".repeat(513));
    assert_eq!(error(&node, "limit", body).await["errors"][0]["location"], "body.identifier");
}

#[tokio::test]
async fn two_costs_of_two_to_the_sixty_second_do_not_wrap() {
    let node = Node::start().await;
    let large = 1_u64 << 62;
    for limit in [(1_u64 << 63) - 1, 10] {
        let body = check(&format!("u{limit}"), limit, large);
        let [first, second] = [data(&node, "limit", body.clone()).await, data(&node, "limit", body).await];
        assert_eq!(first["success"], limit > large, "{first}");
        assert_eq!(second["success"], false, "{second}");
    }
    let both = json!([check("v", 10, large), check("v", 10, large)]);
    assert_eq!(data(&node, "multiLimit", both).await["passed"], false);
}

#[tokio::test]
async fn the_counts_are_those_of_the_native_limit() {
    let node = Node::start().await;
    data(&node, "limit", check("u", 5, 3)).await;
    let native = r#"{"namespace":"api","identifier":"u","limit":5,"duration_ms":60000}"#;
    assert_eq!(node.answer("/v1/limit", native).await["limits"][0]["remaining"], 1);
    assert_eq!(node.answer("/v1/reset", native).await["reset"], 1);
    assert_eq!(data(&node, "limit", check("u", 5, 1)).await["remaining"], 4);
}

#[tokio::test]
async fn what_is_wrong_is_said_in_unkeys_envelope() {
    let node = Node::start().await;
    let input = "https://unkey.com/docs/errors/unkey/application/invalid_input";
    let bad = error(&node, "limit", check("u", 0, 1)).await;
    assert_eq!((&bad["title"], &bad["type"]), (&json!("Bad Request"), &json!(input)));
    assert_eq!(bad["errors"][0]["location"], "body.limit");
    assert!(bad["errors"][0]["fix"].is_string() && bad["errors"][0]["message"].is_string());
    let bad = error(&node, "multiLimit", json!([check("u", 5, 1), {"namespace": "api"}])).await;
    assert_eq!(bad["errors"][0]["location"], "body[1].identifier");
    assert_eq!(data(&node, "limit", check("u", 5, 1)).await["remaining"], 4, "nothing was charged");
    let wrong = node.client().await.get("/v2/ratelimit.limit").await;
    assert_eq!((wrong.status, wrong.header("allow")), (405, Some("POST")));
    assert_eq!(wrong.json()["error"]["status"], 405);
    let unknown = post(&node, "lmit", &json!({})).await;
    assert_eq!(unknown.status, 404);
    assert!(unknown.json()["error"]["detail"].as_str().unwrap().contains("`/v2/ratelimit.limit`"));
    let other = node.post("/v2/keys.verifyKey", "{}").await;
    assert_eq!((other.status, &other.json()["error"]["title"]), (404, &json!("Not Found")));
    let large = node.post("/v2/ratelimit.limit", &" ".repeat((1 << 20) + 1)).await;
    assert_eq!((large.status, &large.json()["error"]["title"]), (413, &json!("Payload Too Large")));
}

#[tokio::test]
async fn a_root_key_is_ignored_and_an_idempotency_key_makes_a_retry_free() {
    let node = Node::start().await;
    let bytes = post_bytes("/v2/ratelimit.limit", check("u", 5, 1).to_string().as_bytes());
    let headers =
        "POST /v2/ratelimit.limit HTTP/1.1\r\nAuthorization: Bearer unkey_x\r\nIdempotency-Key: k\r\n";
    let bytes = String::from_utf8(bytes).unwrap().replace("POST /v2/ratelimit.limit HTTP/1.1\r\n", headers);
    let mut client = node.client().await;
    for is_repeated in [None, Some("true"), Some("true")] {
        client.send(bytes.as_bytes()).await;
        let reply = client.reply().await;
        assert_eq!(reply.header("idempotency-replayed"), is_repeated, "{}", reply.text());
        assert_eq!(reply.json()["data"]["remaining"], 4);
    }
    assert_eq!(data(&node, "limit", check("u", 5, 1)).await["remaining"], 3);
}
