//! Whatever the body is, the answer is 200 or 4xx, and the node goes on.

use crate::node::Node;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use std::cell::RefCell;

const PATHS: [&str; 8] = [
    "/v1/check",
    "/v1/limit",
    "/v1/limit-many",
    "/v1/report",
    "/v1/reset",
    "/v2/ratelimit.limit",
    "/v2/ratelimit.multiLimit",
    "/v2/ratelimit.setOverride",
];

const VALID: [&str; 6] = [
    r#"{"namespace":"api","identifier":"u*","limit":100,"duration":60000}"#,
    r#"[{"namespace":"api","identifier":"u","limit":100,"duration":60000,"cost":2}]"#,
    r#"{"namespace":"api","attributes":{"user":"42","n":1.5e3,"b":true},"cost":1}"#,
    r#"{"namespace":"api","identifier":"4\u00e92","limit":100,"duration_ms":60000,"cost":1,"class":"free"}"#,
    r#"{"namespace":"api","identifier":"\ud83d\ude00","rate_per_s":0.5,"burst":3,"accuracy":"exact"}"#,
    r#"{"limits":[{"namespace":"a","identifier":"b","limit":1,"duration_ms":1000},{"namespace":"a","identifier":"c","rate_per_s":2}]}"#,
];

/// Bytes of any kind; valid bodies with some bytes replaced; and pieces of JSON in any order.
fn body() -> impl Strategy<Value = Vec<u8>> {
    let replaced = (0..VALID.len(), proptest::collection::vec((any::<usize>(), any::<u8>()), 1..4)).prop_map(
        |(index, replacements)| {
            let mut body = VALID[index].as_bytes().to_vec();
            for (place, byte) in replacements {
                let place = place % body.len();
                body[place] = byte;
            }
            body
        },
    );
    let pieces = prop_oneof![
        Just("{"),
        Just("}"),
        Just("["),
        Just("]"),
        Just(":"),
        Just(","),
        Just("\"limits\""),
        Just("\"cost\""),
        Just("\"namespace\""),
        Just("\"a\""),
        Just("1"),
        Just("-0"),
        Just("1e999"),
        Just("null"),
        Just("\"\\u"),
    ];
    prop_oneof![
        proptest::collection::vec(any::<u8>(), 0..300),
        replaced,
        proptest::collection::vec(pieces, 0..12).prop_map(|pieces| pieces.concat().into_bytes()),
    ]
}

#[test]
fn no_body_gives_a_5xx_or_ends_the_node() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let node = runtime.block_on(Node::start());
    let client = RefCell::new(runtime.block_on(node.client()));
    let mut runner = TestRunner::new(Config { cases: 3000, ..Config::default() });
    let outcome = runner.run(&(0..PATHS.len(), body()), |(path, body)| {
        let reply = runtime.block_on(client.borrow_mut().post(PATHS[path], &body));
        prop_assert!(matches!(reply.status, 200 | 400), "{}: {}", reply.status, reply.text());
        prop_assert!(reply.json().is_object());
        Ok(())
    });
    outcome.unwrap();
}
