//! Wrong bodies, each answered with 4xx, the field, the remedy, quickly, and with no state changed.

use crate::client::{Client, Reply};
use crate::node::Node;
use serde_json::json;
use std::time::Duration;

/// A path and a body, and the status, code and field of the answer.
type Wrong = (&'static str, Vec<u8>, u16, &'static str, Option<&'static str>);

const LIMIT: &str = "/v1/limit";
const MANY: &str = "/v1/limit-many";
const CHECK: &str = "/v1/check";

/// Bodies of `/v1/limit`, after `"namespace":"n","identifier":"i"`.
const LIMITS: &[(&str, &str, &str)] = &[
    (r#""duration_ms":1000"#, "missing_field", "limit"),
    (r#""limit":5"#, "missing_field", "duration_ms"),
    (r#""limit":-1,"duration_ms":1000"#, "out_of_range", "limit"),
    (r#""limit":-0,"duration_ms":1000"#, "out_of_range", "limit"),
    (r#""limit":1.5,"duration_ms":1000"#, "not_an_integer", "limit"),
    (r#""limit":5.0,"duration_ms":1000"#, "not_an_integer", "limit"),
    (r#""limit":1e3,"duration_ms":1000"#, "not_an_integer", "limit"),
    (r#""limit":1e308,"duration_ms":1000"#, "out_of_range", "limit"),
    (r#""limit":1e400,"duration_ms":1000"#, "out_of_range", "limit"),
    (r#""limit":1e-400,"duration_ms":1000"#, "not_an_integer", "limit"),
    (r#""limit":9007199254740993,"duration_ms":1000"#, "out_of_range", "limit"),
    (r#""limit":9223372036854775808,"duration_ms":1000"#, "out_of_range", "limit"),
    (r#""limit":18446744073709551616,"duration_ms":1000"#, "out_of_range", "limit"),
    (r#""limit":NaN,"duration_ms":1000"#, "wrong_type", "limit"),
    (r#""limit":Infinity,"duration_ms":1000"#, "wrong_type", "limit"),
    (r#""limit":-Infinity,"duration_ms":1000"#, "wrong_type", "limit"),
    (r#""limit":"5","duration_ms":1000"#, "wrong_type", "limit"),
    (r#""limit":true,"duration_ms":1000"#, "wrong_type", "limit"),
    (r#""limit":null,"duration_ms":1000"#, "wrong_type", "limit"),
    (r#""limit":[5],"duration_ms":1000"#, "wrong_type", "limit"),
    (r#""limit":{},"duration_ms":1000"#, "wrong_type", "limit"),
    (r#""limit":0x10,"duration_ms":1000"#, "wrong_type", "limit"),
    (r#""limit":1_000,"duration_ms":1000"#, "wrong_type", "limit"),
    (r#""limit":05,"duration_ms":1000"#, "wrong_type", "limit"),
    (r#""limit":+5,"duration_ms":1000"#, "wrong_type", "limit"),
    (r#""limit":5,"duration_ms":999"#, "out_of_range", "duration_ms"),
    (r#""limit":5,"duration_ms":0"#, "out_of_range", "duration_ms"),
    (r#""limit":5,"duration_ms":31622400001"#, "out_of_range", "duration_ms"),
    (r#""limit":5,"duration_ms":"1m""#, "wrong_type", "duration_ms"),
    (r#""limit":5,"duration_ms":1000,"cost":-1"#, "out_of_range", "cost"),
    (r#""limit":5,"duration_ms":1000,"cost":1.5"#, "not_an_integer", "cost"),
    (r#""limit":5,"duration_ms":1000,"cost":9007199254740993"#, "out_of_range", "cost"),
    (r#""limit":5,"duration_ms":1000,"cost":"1""#, "wrong_type", "cost"),
    (r#""limit":5,"duration_ms":1000,"costs":1"#, "unknown_field", "costs"),
    (r#""limit":5,"duration":1000"#, "unknown_field", "duration"),
    (r#""limit":5,"durationMs":1000"#, "unknown_field", "durationMs"),
    (r#""limit":5,"duration_ms":1000,"attributes":{}"#, "unknown_field", "attributes"),
    (r#""limit":5,"duration_ms":1000,"":1"#, "unknown_field", ""),
    (r#""limit":5,"limit":6,"duration_ms":1000"#, "duplicate_field", "limit"),
    (r#""limit":5,"duration_ms":1000,"\u006cimit":6"#, "duplicate_field", "limit"),
    (r#""limit":5,"duration_ms":1000,"burst":2"#, "conflicting_fields", "burst"),
    (r#""rate_per_s":0.00001,"burst":200000"#, "out_of_range", "burst"),
    (r#""limit":5,"duration_ms":1000,"rate_per_s":2"#, "conflicting_fields", "limit"),
    (r#""duration_ms":1000,"rate_per_s":2"#, "conflicting_fields", "duration_ms"),
    (r#""algorithm":"fixed","rate_per_s":2"#, "conflicting_fields", "algorithm"),
    (r#""rate_per_s":0"#, "out_of_range", "rate_per_s"),
    (r#""rate_per_s":-0.5"#, "out_of_range", "rate_per_s"),
    (r#""rate_per_s":1000000001"#, "out_of_range", "rate_per_s"),
    (r#""rate_per_s":1e308"#, "out_of_range", "rate_per_s"),
    (r#""rate_per_s":0.0000000001"#, "not_exact", "rate_per_s"),
    (r#""rate_per_s":0.333333333333333333"#, "not_exact", "rate_per_s"),
    (r#""rate_per_s":"0.5""#, "wrong_type", "rate_per_s"),
    (r#""rate_per_s":NaN"#, "wrong_type", "rate_per_s"),
    (r#""rate_per_s":2,"burst":-1"#, "out_of_range", "burst"),
    (r#""rate_per_s":2,"burst":2.5"#, "not_an_integer", "burst"),
    (r#""limit":5,"duration_ms":1000,"algorithm":"gcra""#, "unknown_value", "algorithm"),
    (r#""limit":5,"duration_ms":1000,"accuracy":"exactly""#, "unknown_value", "accuracy"),
    (r#""limit":5,"duration_ms":1000,"class":"Paid""#, "unknown_value", "class"),
    (r#""limit":5,"duration_ms":1000,"scope":"global""#, "unknown_value", "scope"),
    (r#""limit":5,"duration_ms":1000,"class":1"#, "wrong_type", "class"),
    (r#""limit":5,"duration_ms":1000,"scope":null"#, "wrong_type", "scope"),
];

/// Whole bodies of `/v1/limit`.
const BODIES: &[(&str, &str, Option<&str>)] = &[
    ("", "empty_body", None),
    (" \r\n\t", "empty_body", None),
    ("{}", "missing_field", Some("namespace")),
    (r#"{"namespace":"n","limit":5,"duration_ms":1000}"#, "missing_field", Some("identifier")),
    (r#"{"identifier":"i","limit":5,"duration_ms":1000}"#, "missing_field", Some("namespace")),
    (r#"{"namespace":"","identifier":"i","limit":5,"duration_ms":1000}"#, "invalid_text", Some("namespace")),
    (r#"{"namespace":"n","identifier":"","limit":5,"duration_ms":1000}"#, "invalid_text", Some("identifier")),
    (r#"{"namespace":"n\u0000","identifier":"i"}"#, "invalid_text", Some("namespace")),
    (r#"{"namespace":"n","identifier":"a\nb"}"#, "invalid_text", Some("identifier")),
    (r#"{"namespace":"n","identifier":"a\u0085b"}"#, "invalid_text", Some("identifier")),
    (r#"{"namespace":7,"identifier":"i"}"#, "wrong_type", Some("namespace")),
    (r#"{"namespace":"n","identifier":42}"#, "wrong_type", Some("identifier")),
    (r#"{"namespace":"n","identifier":null}"#, "wrong_type", Some("identifier")),
    ("{\"namespace\":\"n\u{0}\"}", "invalid_json", None),
    ("{\"namespace\":\"a\tb\"}", "invalid_json", None),
    (r#"{"namespace":"\ud800"}"#, "invalid_json", None),
    (r#"{"namespace":"\udc00\ud800"}"#, "invalid_json", None),
    (r#"{"namespace":"\x41"}"#, "invalid_json", None),
    (r#"{"namespace":"n"#, "invalid_json", None),
    (r#"{"namespace":"#, "wrong_type", Some("namespace")),
    (r#"{"namespace" "n"}"#, "invalid_json", None),
    (r#"{"namespace":"n",}"#, "invalid_json", None),
    (r#"{"namespace":"n" "identifier":"i"}"#, "invalid_json", None),
    (r#"{namespace:"n"}"#, "invalid_json", None),
    (r#"{'namespace':'n'}"#, "invalid_json", None),
    ("namespace=n&identifier=i", "wrong_type", None),
    ("// a comment\n{}", "invalid_json", None),
    ("\u{feff}{}", "invalid_json", None),
    ("[]", "wrong_type", None),
    ("null", "wrong_type", None),
    ("42", "wrong_type", None),
    ("\"text\"", "wrong_type", None),
    (r#"{"namespace":"n","identifier":"i","limit":5,"duration_ms":1000}x"#, "invalid_json", None),
    (r#"{"namespace":"n","identifier":"i","limit":5,"duration_ms":1000}{}"#, "invalid_json", None),
    (r#"{"limits":[]}"#, "unknown_field", Some("limits")),
];

/// Bodies of `/v1/limit-many`.
const MANIES: &[(&str, &str, Option<&str>)] = &[
    ("{}", "missing_field", Some("limits")),
    (r#"{"limits":[]}"#, "too_many", Some("limits")),
    (r#"{"limits":{}}"#, "wrong_type", Some("limits")),
    (r#"{"limits":null}"#, "wrong_type", Some("limits")),
    (r#"{"limits":[5]}"#, "wrong_type", Some("limits[0]")),
    (r#"{"limits":[[]]}"#, "wrong_type", Some("limits[0]")),
    (r#"{"limits":[{}]}"#, "missing_field", Some("limits[0].namespace")),
    (r#"{"limits":[{"limits":[]}]}"#, "unknown_field", Some("limits[0].limits")),
    (
        r#"{"limits":[{"namespace":"n","identifier":"i","rate_per_s":1},{"namespace":"n","identifier":"i","rate_per_s":1,"cost":1.5}]}"#,
        "not_an_integer",
        Some("limits[1].cost"),
    ),
    (
        r#"{"limits":[{"namespace":"n","identifier":"i","rate_per_s":1},{"namespace":"n","identifier":"i"}]}"#,
        "missing_field",
        Some("limits[1].limit"),
    ),
    (r#"{"limits":[{"namespace":"n"},]}"#, "invalid_json", None),
    (r#"{"limits":[{"namespace":"n"}"#, "invalid_json", None),
    (r#"{"limits":[],"namespace":"n"}"#, "too_many", Some("limits")),
];

/// Bodies of `/v1/check`.
const CHECKS: &[(&str, &str, Option<&str>)] = &[
    (r#"{"attributes":{}}"#, "missing_field", Some("namespace")),
    (r#"{"namespace":"n"}"#, "missing_field", Some("attributes")),
    (r#"{"namespace":"n","attributes":[]}"#, "wrong_type", Some("attributes")),
    (r#"{"namespace":"n","attributes":null}"#, "wrong_type", Some("attributes")),
    (r#"{"namespace":"n","attributes":"user=1"}"#, "wrong_type", Some("attributes")),
    (r#"{"namespace":"n","attributes":{"user":null}}"#, "wrong_type", Some("attributes.user")),
    (r#"{"namespace":"n","attributes":{"user":["1"]}}"#, "wrong_type", Some("attributes.user")),
    (r#"{"namespace":"n","attributes":{"user":{"id":1}}}"#, "wrong_type", Some("attributes.user")),
    (r#"{"namespace":"n","attributes":{"user":NaN}}"#, "wrong_type", Some("attributes.user")),
    (r#"{"namespace":"n","attributes":{"user":01}}"#, "invalid_json", None),
    (r#"{"namespace":"n","attributes":{"user":1e}}"#, "invalid_json", None),
    (r#"{"namespace":"n","attributes":{"user":truthy}}"#, "invalid_json", None),
    (r#"{"namespace":"n","attributes":{"":"1"}}"#, "invalid_text", Some("attributes.")),
    (r#"{"namespace":"n","attributes":{"us\u0000er":"1"}}"#, "invalid_text", Some("attributes.us\u{0}er")),
    (r#"{"namespace":"n","attributes":{"a":"1","a":"2"}}"#, "duplicate_field", Some("attributes.a")),
    (r#"{"namespace":"n","attributes":{},"attributes":{}}"#, "duplicate_field", Some("attributes")),
    (r#"{"namespace":"n","attributes":{},"cost":2e0}"#, "not_an_integer", Some("cost")),
    (r#"{"namespace":"n","attributes":{},"identifier":"i"}"#, "unknown_field", Some("identifier")),
    (r#"{"namespace":"n","attributs":{}}"#, "unknown_field", Some("attributs")),
];

/// Bodies of `/v1/report` and `/v1/reset`, which take any form, but one at a time.
const MIXED: &[(&str, &str, Option<&str>)] = &[
    ("{}", "missing_field", Some("namespace")),
    (r#"{"namespace":"n","attributes":{},"identifier":"i"}"#, "conflicting_fields", Some("identifier")),
    (r#"{"namespace":"n","limits":[{"namespace":"n"}]}"#, "conflicting_fields", Some("namespace")),
    (r#"{"namespace":"n","identifier":"i"}"#, "missing_field", None),
    (r#"{"namespace":"n","identifier":"i","colour":1}"#, "unknown_field", Some("colour")),
];

fn table() -> Vec<Wrong> {
    let mut table: Vec<Wrong> = Vec::new();
    for (rest, code, field) in LIMITS {
        let body = format!(r#"{{"namespace":"n","identifier":"i",{rest}}}"#);
        table.push((LIMIT, body.into_bytes(), 400, code, Some(field)));
    }
    let whole =
        [(LIMIT, BODIES), (MANY, MANIES), (CHECK, CHECKS), ("/v1/report", MIXED), ("/v1/reset", MIXED)];
    for (path, rows) in whole {
        for (body, code, field) in rows {
            table.push((path, body.as_bytes().to_vec(), 400, code, *field));
        }
    }
    table.extend(large_and_binary());
    table
}

fn large_and_binary() -> Vec<Wrong> {
    let limit = |namespace: &str, identifier: &str| json!({"namespace": namespace, "identifier": identifier, "limit": 5, "duration_ms": 1000});
    let bytes = |value: serde_json::Value| value.to_string().into_bytes();
    let attributes = |count: usize| {
        let pairs = (0..count).map(|index| (format!("a{index}"), json!("1")));
        bytes(json!({"namespace": "n", "attributes": serde_json::Map::from_iter(pairs)}))
    };
    let many = |count: usize| bytes(json!({ "limits": vec![limit("n", "i"); count] }));
    vec![
        (LIMIT, bytes(limit("n", &"x".repeat(16_385))), 400, "invalid_text", Some("identifier")),
        (LIMIT, bytes(limit("n", &"é".repeat(8_193))), 400, "invalid_text", Some("identifier")),
        (LIMIT, bytes(limit(&"x".repeat(129), "i")), 400, "invalid_text", Some("namespace")),
        (LIMIT, bytes(limit("n", &"x".repeat(1_000_000))), 400, "invalid_text", Some("identifier")),
        (LIMIT, vec![b' '; 1 << 20], 400, "empty_body", None),
        (LIMIT, vec![b' '; (1 << 20) + 1], 413, "body_too_large", None),
        (LIMIT, vec![b'['; 1 << 20], 400, "wrong_type", None),
        (LIMIT, b"{\"a\":".repeat(200_000), 400, "unknown_field", Some("a")),
        (LIMIT, vec![0; 100], 400, "invalid_json", None),
        (LIMIT, b"{\"namespace\":\"\xff\xfe\"}".to_vec(), 400, "invalid_utf8", None),
        (LIMIT, b"{\"namespace\":\"\xed\xa0\x80\"}".to_vec(), 400, "invalid_utf8", None),
        (LIMIT, b"{\"namespace\":\"\xc0\x80\"}".to_vec(), 400, "invalid_utf8", None),
        (LIMIT, "{}".encode_utf16().flat_map(u16::to_le_bytes).collect(), 400, "invalid_json", None),
        (MANY, many(101), 400, "too_many", Some("limits")),
        (
            MANY,
            [b"{\"limits\":".to_vec(), vec![b'['; 500_000]].concat(),
            400,
            "wrong_type",
            Some("limits[0]"),
        ),
        (CHECK, attributes(65), 400, "too_many", Some("attributes")),
        (CHECK, attributes(10_000), 400, "too_many", Some("attributes")),
        (
            CHECK,
            bytes(json!({"namespace": "n", "attributes": {"x".repeat(65): "1"}})),
            400,
            "invalid_text",
            None,
        ),
        (
            CHECK,
            bytes(json!({"namespace": "n", "attributes": {"user": "x".repeat(16_385)}})),
            400,
            "invalid_text",
            Some("attributes.user"),
        ),
        (
            CHECK,
            format!(r#"{{"namespace":"n","attributes":{{"user":{}}}}}"#, "1".repeat(16_385)).into_bytes(),
            400,
            "invalid_text",
            Some("attributes.user"),
        ),
        (
            CHECK,
            [br#"{"namespace":"n","attributes":{"a":"#.to_vec(), b"{\"a\":".repeat(100_000)].concat(),
            400,
            "wrong_type",
            Some("attributes.a"),
        ),
    ]
}

/// Sends a request on a connection of its own. A busy machine may be slow once: the best of three counts.
async fn post_in_time(node: &Node, path: &str, body: &[u8]) -> Reply {
    for _ in 0..3 {
        let mut client: Client = node.client().await;
        if let Ok(reply) = tokio::time::timeout(Duration::from_millis(50), client.post(path, body)).await {
            return reply;
        }
    }
    panic!("no answer within 50 ms, three times: {}", String::from_utf8_lossy(&body[..body.len().min(200)]));
}

const VALID: &str = r#"{"namespace":"n","identifier":"i","limit":5,"duration_ms":1000,"cost":0}"#;

#[tokio::test]
async fn wrong_requests_are_refused_with_field_and_remedy_and_change_nothing() {
    let node = Node::start().await;
    node.answer("/v1/limit", &VALID.replace(r#""cost":0"#, r#""cost":2"#)).await;
    let before = node.answer("/v1/limit", VALID).await["limits"].clone();
    let table = table();
    assert!(table.len() >= 80, "{}", table.len());
    for (path, body, status, code, field) in table {
        let reply = post_in_time(&node, path, &body).await;
        let shown =
            format!("{path} {}: {}", String::from_utf8_lossy(&body[..body.len().min(200)]), reply.text());
        assert_eq!(reply.status, status, "{shown}");
        let error = &reply.json()["error"];
        assert_eq!(error["code"], code, "{shown}");
        assert!(error["message"].as_str().is_some_and(|message| message.len() > 10), "{shown}");
        assert!(error["fix"].as_str().is_some_and(|fix| fix.len() > 5), "{shown}");
        if let Some(field) = field {
            assert_eq!(error["field"], field, "{shown}");
        }
        assert!(reply.body.len() < 1000, "a refusal doesn't send back what it got: {shown}");
        assert_eq!(node.key_count().await, 1, "{shown}");
        assert_eq!(node.answer("/v1/limit", VALID).await["limits"], before, "{shown}");
    }
}

#[tokio::test]
async fn a_refusal_tells_how_to_write_it_instead() {
    let node = Node::start().await;
    for (wrong, fix) in [
        (r#""limit":5.0,"duration_ms":1000"#, "write it as 5"),
        (r#""limit":1e3,"duration_ms":1000"#, "write it as 1000"),
        (r#""limit":"5","duration_ms":1000"#, "write the number without quotes"),
        (r#""limit":5,"duration_m":1000"#, "did you mean `duration_ms`?"),
        (r#""limit":5,"duration":1000"#, "did you mean `duration_ms`?"),
        (r#""limit":5,"duration_ms":1000,"class":"fre""#, "did you mean `free`?"),
    ] {
        let reply = node.post("/v1/limit", &format!(r#"{{"namespace":"n","identifier":"i",{wrong}}}"#)).await;
        assert_eq!(reply.json()["error"]["fix"], fix);
    }
    let reply = node.post("/v1/check", r#"{"namespace":"n","user":"42"}"#).await;
    let fix = "use one of: namespace, attributes, cost; what rules go by belongs into `attributes`";
    assert_eq!(reply.json()["error"]["fix"], fix);
}

#[tokio::test]
async fn a_reset_isnt_told_to_give_a_number_that_it_doesnt_need() {
    let node = Node::start().await;
    let body = r#"{"namespace":"d","identifier":"x"}"#;
    let error = node.post("/v1/reset", body).await.json()["error"].clone();
    assert_eq!(error["field"], "duration_ms");
    let fix = error["fix"].as_str().unwrap();
    assert!(fix.contains("`limit` isn't needed") && !fix.contains("give `limit`"), "{fix}");
}

#[tokio::test]
async fn invalid_json_is_shown_with_its_line_and_column() {
    let node = Node::start().await;
    let reply = node.post("/v1/limit", "{\n  \"namespace\": \"é\" \"identifier\": 1\n}").await;
    let message = reply.json()["error"]["message"].as_str().unwrap().to_owned();
    assert!(message.contains("line 2, column 20"), "{message}");
}
