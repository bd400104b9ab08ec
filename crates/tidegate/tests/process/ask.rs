//! `tidegate check` and `tidegate reset` against a running node.

use crate::support::{Directory, Finished, Node, rules_of, run};
use std::net::TcpListener;

fn node_with_rules(directory: &Directory) -> Node {
    directory.write("rules.yaml", rules_of(2));
    Node::start(directory, &[])
}

fn ask(node: &Node, arguments: &[&str]) -> Finished {
    let elsewhere = Directory::new();
    run(&elsewhere, &[arguments, &["--url", &node.url()]].concat(), &[])
}

#[test]
fn the_exit_code_says_allowed_or_denied() {
    let directory = Directory::new();
    let node = node_with_rules(&directory);
    let check = || ask(&node, &["check", "api", "user=42"]);
    let first = check();
    assert_eq!(first.code, Some(0), "{}", first.stderr);
    assert!(first.stdout.starts_with("allowed"), "{}", first.stdout);
    assert!(first.stdout.contains("per-user 42: allowed, 1 of 2 left"), "{}", first.stdout);
    assert_eq!(check().code, Some(0));
    let third = check();
    assert_eq!(third.code, Some(1));
    assert!(third.stdout.contains("per-user 42: denied, 0 of 2 left, retry in"), "{}", third.stdout);
    assert_eq!(ask(&node, &["check", "api", "user=43"]).code, Some(0), "another caller has its own");
}

#[test]
fn cost_nothing_looks_and_json_is_the_nodes_own() {
    let directory = Directory::new();
    let node = node_with_rules(&directory);
    let peek = ask(&node, &["check", "api", "user=42", "--cost", "0", "--json"]);
    let answer: serde_json::Value = serde_json::from_str(&peek.stdout).unwrap();
    assert_eq!((&answer["allowed"], &answer["limits"][0]["remaining"]), (&true.into(), &2.into()));
    assert_eq!(ask(&node, &["check", "api", "user=42", "--cost", "3"]).code, Some(1));
}

#[test]
fn a_reset_key_starts_afresh() {
    let directory = Directory::new();
    let node = node_with_rules(&directory);
    assert_eq!(ask(&node, &["check", "api", "user=42", "--cost", "2"]).code, Some(0));
    assert_eq!(ask(&node, &["check", "api", "user=42"]).code, Some(1));
    let reset = ask(&node, &["reset", "api", "user=42"]);
    assert_eq!((reset.code, reset.stdout.as_str()), (Some(0), "1 key was reset\n"));
    assert_eq!(ask(&node, &["check", "api", "user=42"]).code, Some(0));
}

#[test]
fn a_reset_of_nothing_says_why_that_may_be() {
    let directory = Directory::new();
    let node = node_with_rules(&directory);
    let reset = ask(&node, &["reset", "nope", "user=1"]);
    assert_eq!(reset.code, Some(0), "{}", reset.stderr);
    for part in ["nothing to start afresh", "no rule matches", "namespace is unknown"] {
        assert!(reset.stdout.contains(part), "no {part:?} in {}", reset.stdout);
    }
}

#[test]
fn a_node_is_found_by_its_settings_or_by_a_bare_address() {
    let directory = Directory::new();
    let node = node_with_rules(&directory);
    let asked = run(&directory, &["check", "api", "user=1", "--url", &node.http], &[]);
    assert_eq!(asked.code, Some(0), "{}", asked.stderr);
    let asked = run(&directory, &["check", "api", "user=2"], &[("TIDEGATE_LISTEN_HTTP", &node.http)]);
    assert_eq!(asked.code, Some(0), "{}", asked.stderr);
    directory.write("tidegate.toml", format!("listen.http = \"{}\"\n", node.http));
    let asked = run(&directory, &["reset", "api", "user=2"], &[]);
    assert_eq!((asked.code, asked.stdout.as_str()), (Some(0), "1 key was reset\n"), "{}", asked.stderr);
}

#[test]
fn a_blocked_caller_is_told_that_no_wait_helps() {
    let directory = Directory::new();
    directory.write("rules.yaml", rules_of(0));
    let node = Node::start(&directory, &[]);
    let asked = ask(&node, &["check", "api", "user=42"]);
    assert_eq!(asked.code, Some(1), "{}", asked.stderr);
    assert!(asked.stdout.contains("per-user 42: denied, blocked: no wait helps"), "{}", asked.stdout);
}

#[test]
fn a_question_that_makes_no_sense_is_an_error() {
    let directory = Directory::new();
    let node = node_with_rules(&directory);
    let cases: [(&[&str], &str); 4] = [
        (&["check", "api", "user"], "write it as name=value"),
        (&["check", "api", "user=1", "user=2"], "given twice"),
        (&["check", ""], "namespace"),
        (&["check", "api", "--cost", "x"], "--cost"),
    ];
    for (arguments, said) in cases {
        let asked = ask(&node, arguments);
        assert_eq!(asked.code, Some(2), "{arguments:?}");
        assert!(asked.stderr.contains(said), "{arguments:?}: {}", asked.stderr);
    }
}

#[test]
fn no_node_is_an_error_with_a_remedy() {
    let directory = Directory::new();
    // Bound and let go of: nobody listens there.
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let asked = run(&directory, &["check", "api", "--url", &format!("http://{free}")], &[]);
    assert_eq!(asked.code, Some(2));
    assert!(asked.stderr.contains("start one with `tidegate`"), "{}", asked.stderr);
    let asked = run(&directory, &["check", "api", "--url", "https://127.0.0.1"], &[]);
    assert_eq!(asked.code, Some(2));
    assert!(asked.stderr.contains("--ca PATH"), "{}", asked.stderr);
}
