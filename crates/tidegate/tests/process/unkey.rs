//! Unkey's own clients against a real node, and what is left of overrides when it is started again.

use crate::support::{Directory, Node, SOON, request};
use rustix::process::Signal;
use serde_json::{Value, json};
use std::path::Path;
use std::process::Command;
use tidegate_testkit::{unkey_for_node, unkey_for_python};

/// Runs a script to its end; it says "fine", or what wasn't.
fn run(command: &mut Command) {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let (said, complained) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert_eq!(said, "fine\n", "{complained}");
}

fn script(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/process/unkey").join(name);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

#[test]
fn the_npm_package_works_with_only_the_base_url_changed() {
    let folder = unkey_for_node().unwrap();
    let directory = Directory::new();
    let node = Node::start(&directory, &[]);
    // As text: packages are looked for where it runs, not where it is kept.
    let arguments = ["--input-type=module", "--eval", &script("ratelimit.mjs"), "--", &node.url()];
    run(Command::new("node").args(arguments).current_dir(folder));
}

#[test]
fn the_python_package_works_with_only_the_server_url_changed() {
    let package = unkey_for_python().unwrap();
    let directory = Directory::new();
    let node = Node::start(&directory, &[]);
    let arguments = ["-c", &script("ratelimit.py"), &node.url()];
    run(Command::new("python3").args(arguments).env("PYTHONPATH", package));
}

fn post(node: &Node, operation: &str, body: &Value) -> Value {
    let (status, answer) =
        request(&node.http, "POST", &format!("/v2/ratelimit.{operation}"), &body.to_string());
    assert_eq!(status, 200, "{operation} {body}: {answer}");
    answer["data"].clone()
}

fn setting(identifier: &str, limit: u64) -> Value {
    json!({"namespace": "api", "identifier": identifier, "limit": limit, "duration": 60_000})
}

fn listed(node: &Node) -> Value {
    post(node, "listOverrides", &json!({"namespace": "api", "limit": 100}))
}

#[test]
fn overrides_outlive_a_crash_and_an_orderly_end() {
    let directory = Directory::new();
    let mut node = Node::start(&directory, &[]);
    for (identifier, limit) in [("vip_*", 500), ("mallory", 0), ("gone", 1), ("vip_*", 600)] {
        post(&node, "setOverride", &setting(identifier, limit));
    }
    post(&node, "deleteOverride", &json!({"namespace": "api", "identifier": "gone"}));
    let before = listed(&node);
    assert_eq!(before.as_array().map(Vec::len), Some(2), "{before}");
    for (signal, code) in [(Signal::KILL, None), (Signal::TERM, Some(0)), (Signal::KILL, None)] {
        node.process.signal(signal);
        assert_eq!(node.process.exit_code(SOON), code);
        node = Node::start(&directory, &[]);
        assert_eq!(listed(&node), before);
    }
    assert_eq!(post(&node, "limit", &setting("vip_1", 10))["limit"], 600);
    assert_eq!(post(&node, "limit", &setting("mallory", 10))["success"], false);
    // And what is set now is kept beside them.
    post(&node, "setOverride", &setting("new", 3));
    node.process.signal(Signal::KILL);
    node.process.exit_code(SOON);
    let node = Node::start(&directory, &[]);
    assert_eq!(listed(&node).as_array().map(Vec::len), Some(3));
}

#[test]
fn overrides_are_in_force_where_they_can_not_be_kept() {
    let directory = Directory::new();
    directory.write("occupied", "not a directory");
    let node = Node::start(&directory, &["--data-dir", "occupied/data"]);
    post(&node, "setOverride", &setting("u", 7));
    assert_eq!(post(&node, "limit", &setting("u", 10))["limit"], 7);
    let log = directory.read("stderr");
    assert!(
        log.contains("overrides can't be saved") && log.contains("occupied/data/overrides.jsonl"),
        "{log}"
    );
}
