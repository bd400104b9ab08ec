//! The OpenAPI document against the node that serves it: schemathesis sends what the document allows and what it
//! doesn't, and compares every answer with it.

use crate::support::{Directory, Node, request};
use std::path::Path;
use tidegate_testkit::schemathesis;

const RULES: &str = "namespace: api
rules:
  - { name: per-user, key: [user], limit: 3 per 1m }
  - { name: per-org, key: [org], rate: 5/s, on_missing: deny }
";
/// What the other listener answers.
const ADMIN_PATHS: &str =
    "^/(metrics|v1/state|v1/rules|v1/shadow|v1/top|v1/why|v1/history|v1/control/[a-z]+)$";

/// Runs it on some of the paths; fails with all that it found.
fn check(node: &Node, base: &str, filter: [&str; 2]) {
    let hooks = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/process");
    let document = format!("{}/openapi.json", node.url());
    let found = schemathesis(&document, base, &hooks, Path::new(env!("CARGO_TARGET_TMPDIR")), &filter);
    found.unwrap_or_else(|found| panic!("{found}"));
}

#[test]
fn every_answer_is_as_the_document_says() {
    let directory = Directory::new();
    directory.write("rules.yaml", RULES);
    let node = Node::start(&directory, &["--forward-auth-accept", "user, org"]);
    check(&node, &node.url(), ["--exclude-path-regex", ADMIN_PATHS]);
    check(&node, &format!("http://{}", node.admin), ["--include-path-regex", ADMIN_PATHS]);
    assert_eq!(request(&node.http, "GET", "/readyz", "").0, 200, "it lived through all of it");
}
