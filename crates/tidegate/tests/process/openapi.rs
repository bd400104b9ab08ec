//! The OpenAPI document against the node that serves it: schemathesis sends what the document allows and what it
//! doesn't, and compares every answer with it.

use crate::support::{Directory, Node, request};
use std::path::Path;
use std::process::Command;
use tidegate_testkit::wheel;

const SCHEMATHESIS: &str = "schemathesis==4.32.5";
/// For each operation, beside one for each bound of each field.
const EXAMPLES: &str = "10";
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
    let package = wheel("schemathesis", SCHEMATHESIS, &[]).unwrap();
    let hooks = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/process");
    let modules = std::env::join_paths([package, hooks]).unwrap();
    let mut command = Command::new("python3");
    command.env("PYTHONPATH", modules).env("SCHEMATHESIS_HOOKS", "schemathesis_hooks");
    command.env("PYTHONDONTWRITEBYTECODE", "1").current_dir(env!("CARGO_TARGET_TMPDIR"));
    command.args(["-m", "schemathesis.cli", "run", &format!("{}/openapi.json", node.url()), "--url", base]);
    command.args(filter).args(["--phases", "examples,coverage,fuzzing", "--max-examples", EXAMPLES]);
    command.args(["--generation-deterministic", "--continue-on-failure"]);
    command.args(["--workers", "2", "--request-timeout", "10", "--no-color", "--warnings", "off"]);
    let output = command.output().expect("python3 is installed");
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{said}\n{}", String::from_utf8_lossy(&output.stderr));
    assert!(said.contains("generated"), "nothing was sent: {said}");
}

#[test]
fn every_answer_is_as_the_document_says() {
    let directory = Directory::new();
    directory.write("rules.yaml", RULES);
    let node = Node::start(&directory, &[]);
    check(&node, &node.url(), ["--exclude-path-regex", ADMIN_PATHS]);
    check(&node, &format!("http://{}", node.admin), ["--include-path-regex", ADMIN_PATHS]);
    assert_eq!(request(&node.http, "GET", "/readyz", "").0, 200, "it lived through all of it");
}
