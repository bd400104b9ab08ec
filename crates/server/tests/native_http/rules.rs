//! Requests that rules limit.

use crate::node::Node;
use serde_json::{Value, json};

const RULES: &str = r#"
namespace: api
rules:
  - { name: per-user, key: [user], limit: 2 per 1m }
  - { name: search, key: [user, endpoint], when: { endpoint: "/search*" }, limit: 1 per 1m, shadow: true }
  - { name: per-net, key: [ip/64], limit: 5 per 1m }
overrides:
  - { rule: per-user, user: "vip", unlimited: true }
  - { rule: per-user, user: "big-*", limit: 100 per 1m }
  - { rule: per-user, user: "mallory", limit: 0 }
---
namespace: strict
rules:
  - { name: needs-org, key: [org], limit: 5 per 1m, on_missing: deny }
---
namespace: quiet
mode: "off"
rules:
  - { name: never, key: [user], limit: 0 per 1m }
"#;

async fn check(node: &Node, attributes: Value) -> Value {
    let body = json!({"namespace": "api", "attributes": attributes});
    node.answer("/v1/check", &body.to_string()).await
}

#[tokio::test]
async fn a_rule_limits_each_of_its_callers() {
    let node = Node::with_rules(RULES).await;
    for allowed in [true, true, false] {
        let answer = check(&node, json!({"user": "42"})).await;
        assert_eq!(answer["allowed"], allowed);
        assert_eq!(
            (&answer["limits"][0]["name"], &answer["limits"][0]["identifier"]),
            (&json!("per-user"), &json!("42"))
        );
    }
    assert_eq!(check(&node, json!({"user": "43"})).await["allowed"], true);
    assert_eq!(check(&node, json!({"user": 42})).await["allowed"], false, "a number is compared as text");
    let long = r#"{"namespace":"api","attributes":{"user":12345678901234567890123}}"#;
    let answer = node.answer("/v1/check", long).await;
    assert_eq!(answer["limits"][0]["identifier"], "12345678901234567890123", "as it is written");
    assert_eq!(check(&node, json!({"user": true})).await["limits"][0]["identifier"], "true");
}

#[tokio::test]
async fn a_long_value_is_counted_whole_and_shown_short() {
    let node = Node::with_rules(RULES).await;
    let one = format!("{}1", "x".repeat(16_383));
    let two = format!("{}2", "x".repeat(16_383));
    for allowed in [true, true, false] {
        assert_eq!(check(&node, json!({"user": one})).await["allowed"], allowed);
    }
    let answer = check(&node, json!({"user": two})).await;
    assert_eq!(answer["allowed"], true, "its last character makes it another caller");
    let shown = format!("{}…", "x".repeat(511));
    assert_eq!(answer["limits"][0]["identifier"], shown);
    let limit = json!({"namespace": "n", "identifier": two, "limit": 1, "duration_ms": 60_000});
    let answer = node.answer("/v1/limit", &limit.to_string()).await;
    assert_eq!((&answer["allowed"], &answer["limits"][0]["identifier"]), (&json!(true), &json!(shown)));
}

#[tokio::test]
async fn overrides_lift_change_and_block() {
    let node = Node::with_rules(RULES).await;
    let vip = check(&node, json!({"user": "vip"})).await;
    let expected = json!({
        "name": "per-user", "identifier": "vip", "limit": null, "remaining": null, "reset_ms": null,
        "retry_after_ms": 0, "unlimited": true, "allowed": true, "shadow": false,
    });
    assert_eq!(vip["limits"][0], expected);
    assert_eq!(check(&node, json!({"user": "big-corp"})).await["limits"][0]["remaining"], 99);
    let blocked = check(&node, json!({"user": "mallory"})).await;
    assert_eq!(blocked["allowed"], false);
    assert_eq!(blocked["limits"][0]["retry_after_ms"], Value::Null);
}

#[tokio::test]
async fn a_shadow_rule_reports_a_denial_and_denies_nothing() {
    let node = Node::with_rules(RULES).await;
    let attributes = json!({"user": "7", "endpoint": "/search/x"});
    check(&node, attributes.clone()).await;
    let answer = check(&node, attributes).await;
    assert_eq!(answer["allowed"], true);
    let shadow = &answer["limits"][1];
    assert_eq!(
        (&shadow["name"], &shadow["shadow"], &shadow["allowed"]),
        (&json!("search"), &json!(true), &json!(false))
    );
    assert_eq!(shadow["identifier"], "7,/search/x");
}

#[tokio::test]
async fn a_missing_attribute_is_named_by_the_rule_that_denies_for_it() {
    let node = Node::with_rules(RULES).await;
    let answer = node.answer("/v1/check", r#"{"namespace":"strict","attributes":{"plan":"team"}}"#).await;
    assert_eq!(answer["allowed"], false);
    let limit = &answer["limits"][0];
    assert_eq!(
        (&limit["missing"], &limit["limit"], &limit["retry_after_ms"]),
        (&json!("org"), &Value::Null, &Value::Null)
    );
}

#[tokio::test]
async fn addresses_of_one_network_are_one_caller() {
    let node = Node::with_rules(RULES).await;
    check(&node, json!({"ip": "2001:db8::1"})).await;
    let answer = check(&node, json!({"ip": "2001:db8::2"})).await;
    assert_eq!(answer["limits"][0]["remaining"], 3);
}

#[tokio::test]
async fn what_no_rule_limits_is_allowed_and_says_so() {
    let node = Node::with_rules(RULES).await;
    for (namespace, reason) in
        [("api", "no rule matches"), ("nowhere", "unknown namespace"), ("quiet", "namespace is off")]
    {
        let body = json!({"namespace": namespace, "attributes": {"colour": "red"}}).to_string();
        let answer = node.answer("/v1/check", &body).await;
        assert_eq!(answer["reason"], reason);
        assert_eq!((&answer["allowed"], &answer["limits"]), (&json!(true), &json!([])));
    }
}

#[tokio::test]
async fn a_callers_keys_are_reset_by_its_attributes() {
    let node = Node::with_rules(RULES).await;
    for _ in 0..2 {
        check(&node, json!({"user": "42", "ip": "192.0.2.1"})).await;
    }
    let body = r#"{"namespace":"api","attributes":{"user":"42","ip":"192.0.2.1"}}"#;
    assert_eq!(node.answer("/v1/reset", body).await, json!({"reset": 2}));
    assert_eq!(check(&node, json!({"user": "42"})).await["limits"][0]["remaining"], 1);
}

#[tokio::test]
async fn an_answer_names_the_value_that_isnt_an_address() {
    let node = Node::with_rules(
        "namespace: api\nrules:\n  - { name: net, key: [ip/64], limit: 2 per 1h, on_missing: skip }\n---\n\
         namespace: strict\nrules:\n  - { name: outside, key: [], when: { ip: 0.0.0.0/0 }, limit: 0 per 1h, class: abuse }\n",
    )
    .await;
    for (ip, allowed) in [("6.6.6.6, 7.7.7.7", true), ("garbage", true), ("other", false)] {
        let answer = check(&node, json!({"ip": ip})).await;
        assert_eq!(answer["allowed"], allowed, "{ip}: all of them share one counter");
        assert_eq!(answer["limits"][0]["malformed"], "ip");
        assert_eq!(answer["limits"][0]["identifier"], "malformed");
    }
    let honest = check(&node, json!({"ip": "1.2.3.4:5000"})).await;
    assert_eq!((&honest["allowed"], &honest["limits"][0]["identifier"]), (&json!(true), &json!("1.2.3.4")));
    assert_eq!(honest["limits"][0]["malformed"], Value::Null);
    for ip in ["garbage", "6.6.6.6, 7.7.7.7"] {
        let body = json!({"namespace": "strict", "attributes": {"ip": ip}});
        let answer = node.answer("/v1/check", &body.to_string()).await;
        assert_eq!((&answer["allowed"], &answer["limits"][0]["malformed"]), (&json!(false), &json!("ip")));
        assert_eq!(answer["limits"][0]["missing"], Value::Null);
    }
}
