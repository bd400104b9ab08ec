//! Limits that requests bring along: they limit, recover, hold together, are reported to and reset.

use crate::node::{Node, START_MS};
use serde_json::{Value, json};

const SLIDING: &str = r#"{"namespace":"api","identifier":"42","limit":3,"duration_ms":60000}"#;
const GCRA: &str = r#"{"namespace":"api","identifier":"42","rate_per_s":0.5,"burst":3}"#;
const FIXED: &str =
    r#"{"namespace":"api","identifier":"42","limit":3,"duration_ms":60000,"algorithm":"fixed"}"#;

#[tokio::test]
async fn a_limit_denies_and_admits_again_after_exactly_its_retry_after() {
    for body in [SLIDING, GCRA, FIXED] {
        let node = Node::start().await;
        node.advance_ms(12_345);
        for remaining in [2, 1, 0] {
            let answer = node.answer("/v1/limit", body).await;
            assert_eq!(
                (&answer["allowed"], &answer["limits"][0]["remaining"]),
                (&json!(true), &json!(remaining))
            );
            assert_eq!(answer["limits"][0]["retry_after_ms"], 0);
        }
        let denied = node.answer("/v1/limit", body).await;
        assert_eq!(denied["allowed"], false, "{body}");
        let wait_ms = denied["limits"][0]["retry_after_ms"].as_u64().unwrap();
        node.advance_ms(wait_ms - 1);
        assert_eq!(node.answer("/v1/limit", body).await["allowed"], false, "{body}: a millisecond early");
        node.advance_ms(1);
        assert_eq!(node.answer("/v1/limit", body).await["allowed"], true, "{body}: after the wait");
    }
}

#[tokio::test]
async fn an_answer_has_the_fields_that_the_interface_promises() {
    let node = Node::start().await;
    let answer = node.answer("/v1/limit", SLIDING).await;
    let id = answer["request_id"].as_str().unwrap();
    assert_eq!(id.len(), 16);
    let expected = json!({
        "allowed": true,
        "limits": [{
            "name": "", "identifier": "42", "limit": 3, "remaining": 2,
            "reset_ms": answer["limits"][0]["reset_ms"], "retry_after_ms": 0, "allowed": true, "shadow": false,
        }],
        "rule_version": 1, "request_id": id, "path": "local",
    });
    assert_eq!(answer, expected);
    let reset_ms = answer["limits"][0]["reset_ms"].as_u64().unwrap();
    assert!((START_MS + 60_000..=START_MS + 120_000).contains(&reset_ms), "{reset_ms}");
}

#[tokio::test]
async fn a_denial_says_when_to_come_back_in_its_body_and_not_in_a_header() {
    let node = Node::start().await;
    for _ in 0..3 {
        assert_eq!(node.post("/v1/limit", GCRA).await.header("retry-after"), None);
    }
    let denied = node.post("/v1/limit", GCRA).await;
    assert_eq!(denied.status, 200, "a denial is an answer");
    // To HTTP a 200 is a success: clients and proxies would wait before their next request.
    assert_eq!(denied.header("retry-after"), None);
    assert_eq!(denied.json()["limits"][0]["retry_after_ms"], 2000);
    let hopeless = r#"{"namespace":"api","identifier":"42","rate_per_s":0.5,"burst":3,"cost":4}"#;
    let denied = node.post("/v1/limit", hopeless).await;
    assert_eq!(denied.header("retry-after"), None);
    assert_eq!(denied.json()["limits"][0]["retry_after_ms"], Value::Null, "no wait helps");
}

#[tokio::test]
async fn a_cost_of_zero_only_looks() {
    let node = Node::start().await;
    let peek = SLIDING.replace('}', r#","cost":0}"#);
    for _ in 0..5 {
        assert_eq!(node.answer("/v1/limit", &peek).await["limits"][0]["remaining"], 3);
    }
    assert_eq!(node.key_count().await, 0, "looking makes no entry");
}

#[tokio::test]
async fn the_largest_numbers_are_counted_exactly() {
    let node = Node::start().await;
    let body = r#"{"namespace":"n","identifier":"i","limit":9007199254740992,"duration_ms":31622400000,"cost":9007199254740991}"#;
    let answer = node.answer("/v1/limit", body).await;
    assert_eq!(answer["limits"][0]["limit"], 9_007_199_254_740_992_u64);
    assert_eq!(answer["limits"][0]["remaining"], 1);
}

fn pair(first_limit: u64, second_limit: u64) -> String {
    let limit = |identifier, limit| {
        json!({"namespace": "n", "identifier": identifier, "limit": limit, "duration_ms": 60000, "class": "free",
               "accuracy": "exact", "scope": "region"})
    };
    json!({ "limits": [limit("a", first_limit), limit("b", second_limit)] }).to_string()
}

#[tokio::test]
async fn many_limits_are_charged_all_or_none() {
    let node = Node::start().await;
    for _ in 0..2 {
        assert_eq!(node.answer("/v1/limit-many", &pair(10, 2)).await["allowed"], true);
    }
    for _ in 0..5 {
        let denied = node.answer("/v1/limit-many", &pair(10, 2)).await;
        assert_eq!(denied["allowed"], false);
        assert_eq!(denied["limits"][0]["allowed"], true);
        assert_eq!(denied["limits"][0]["remaining"], 8, "the first limit was not charged");
        assert_eq!(denied["limits"][1]["allowed"], false);
    }
}

#[tokio::test]
async fn a_hundred_limits_are_answered_in_their_order() {
    let node = Node::start().await;
    let limit = |index| json!({"namespace": "n", "identifier": format!("i{index}"), "limit": index + 1, "duration_ms": 1000});
    let body = json!({ "limits": (0..100).map(limit).collect::<Vec<_>>() }).to_string();
    let answer = node.answer("/v1/limit-many", &body).await;
    for index in 0..100 {
        assert_eq!(answer["limits"][index]["identifier"], format!("i{index}"));
        assert_eq!(answer["limits"][index]["remaining"], index);
    }
}

#[tokio::test]
async fn a_report_charges_whatever_the_limit_says() {
    let mut waits_ms = Vec::new();
    for cost in [3, 30] {
        let node = Node::start().await;
        let report = SLIDING.replace('}', &format!(r#","cost":{cost}}}"#));
        let answer = node.answer("/v1/report", &report).await;
        assert_eq!(answer["limits"][0]["remaining"], 0);
        let wait_ms =
            node.answer("/v1/limit", SLIDING).await["limits"][0]["retry_after_ms"].as_u64().unwrap();
        node.advance_ms(wait_ms - 1);
        assert_eq!(node.answer("/v1/limit", SLIDING).await["allowed"], false);
        node.advance_ms(1);
        assert_eq!(node.answer("/v1/limit", SLIDING).await["allowed"], true);
        waits_ms.push(wait_ms);
    }
    assert!(waits_ms[0] < waits_ms[1], "what was overdrawn is waited for: {waits_ms:?}");
}

#[tokio::test]
async fn a_report_is_never_told_to_come_back() {
    let node = Node::start().await;
    let reply = node.post("/v1/report", &FIXED.replace('}', r#","cost":5}"#)).await;
    assert_eq!(reply.json()["allowed"], false, "it would not have passed");
    assert_eq!(reply.header("retry-after"), None);
    assert_eq!(node.answer("/v1/limit", FIXED).await["allowed"], false, "but it was charged");
}

#[tokio::test]
async fn a_report_takes_each_form_of_body() {
    let node = Node::start().await;
    for body in [SLIDING, &pair(1, 1), r#"{"namespace":"api","attributes":{}}"#] {
        node.answer("/v1/report", body).await;
    }
    assert_eq!(node.key_count().await, 3);
}

#[tokio::test]
async fn a_reset_starts_a_key_afresh() {
    let node = Node::start().await;
    let window = r#"{"namespace":"api","identifier":"42","duration_ms":60000}"#;
    let rate = r#"{"namespace":"api","identifier":"42","rate_per_s":7}"#;
    for (body, reset) in [(SLIDING, window), (GCRA, rate), (FIXED, FIXED)] {
        assert_eq!(node.answer("/v1/reset", reset).await, json!({"reset": 0}), "nothing to reset yet");
        for _ in 0..4 {
            node.answer("/v1/limit", body).await;
        }
        assert_eq!(node.answer("/v1/reset", reset).await, json!({"reset": 1}));
        assert_eq!(node.answer("/v1/limit", body).await["limits"][0]["remaining"], 2, "{body}");
    }
}

#[tokio::test]
async fn hostile_identifiers_come_back_as_they_were() {
    let node = Node::start().await;
    let hostile = [
        "\"",
        "\\",
        "\\\"",
        "😀",
        "\u{2028}\u{2029}",
        "</script>",
        "a b",
        "ünïcödé",
        "%00",
        "{}[]:,",
        "\u{feff}x",
    ];
    for identifier in hostile {
        let body =
            json!({"namespace": identifier, "identifier": identifier, "limit": 1, "duration_ms": 1000});
        let answer = node.answer("/v1/limit", &body.to_string()).await;
        assert_eq!(answer["limits"][0]["identifier"], identifier);
        assert_eq!(answer["allowed"], true, "{identifier} has a counter of its own");
        let escaped: String = identifier.encode_utf16().map(|unit| format!("\\u{unit:04x}")).collect();
        let body =
            format!(r#"{{"namespace":"{escaped}","identifier":"{escaped}","limit":1,"duration_ms":1000}}"#);
        assert_eq!(
            node.answer("/v1/limit", &body).await["allowed"],
            false,
            "the same, however it is written"
        );
    }
}

#[tokio::test]
async fn a_callers_request_id_is_echoed_and_another_is_made_up() {
    let node = Node::start().await;
    let mut client = node.client().await;
    for (given, is_kept) in [("my-id-1", true), ("has space", false)] {
        let head = format!(
            "POST /v1/limit HTTP/1.1\r\nHost: t\r\nX-Request-Id: {given}\r\nContent-Length: {}\r\n\r\n{SLIDING}",
            SLIDING.len()
        );
        client.send(head.as_bytes()).await;
        let reply = client.reply().await;
        let id = reply.header("x-request-id").unwrap().to_owned();
        assert_eq!(reply.json()["request_id"], *id);
        assert_eq!(id == given, is_kept);
    }
}

#[tokio::test]
async fn a_request_that_asks_its_region_counts_once_among_those_that_come_often() {
    let rules =
        "namespace: api\nrules:\n  - { name: exact, key: [user], limit: 1000 per 1h, accuracy: exact }\n";
    let node = Node::in_a_region(rules).await;
    let [check, auth] = ["ann", "bob"];
    for _ in 0..20 {
        let body = format!("{{\"namespace\":\"api\",\"attributes\":{{\"user\":\"{check}\"}}}}");
        let answer = node.answer("/v1/check", &body).await;
        assert_eq!(answer["path"], "unverified", "it asked, and nobody answered: {answer}");
        let mut client = node.client().await;
        let line = "GET /auth?namespace=api&attributes=user HTTP/1.1";
        client.send(format!("{line}\r\nHost: localhost\r\nX-Tidegate-User: {auth}\r\n\r\n").as_bytes()).await;
        assert_eq!(client.reply().await.status, 204);
        node.advance_ms(100);
    }
    let top = node.get_admin("/v1/top").await.json();
    let per_second = |name: &str| {
        let busiest = top["busiest"].as_array().expect("a list");
        let caller = busiest.iter().find(|caller| caller["identifier"] == name);
        caller.and_then(|caller| caller["per_second"].as_f64()).unwrap_or_else(|| panic!("no {name}: {top}"))
    };
    // One in so many is taken, so which of the two it is of is chance.
    let both = per_second(check) + per_second(auth);
    assert!((14.0..=26.0).contains(&both), "they came twenty times a second together: {top}");
}
