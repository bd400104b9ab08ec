//! What keeps a node from starting, beside its settings.

use crate::support::{Directory, Node, SOON, poll, request, run, start};
use std::net::TcpStream;

#[test]
fn a_taken_address_is_told_with_ports_that_are_free() {
    let directory = Directory::new();
    let node = Node::start(&directory, &[]);
    let other = Directory::new();
    let started = run(&other, &["serve", "--listen-http", &node.http, "--listen-admin", "127.0.0.1:0"], &[]);
    assert_eq!(started.code, Some(1));
    for part in ["listen.http", &node.http, "use four ports that are free now: --port-base "] {
        assert!(started.stderr.contains(part), "no {part:?} in {}", started.stderr);
    }
    // What it suggests works, for all listeners.
    let base = started.stderr.rsplit("--port-base ").next().unwrap().trim();
    let _second = start(&other, &["serve", "--port-base", base], &[]);
    let first: u16 = base.parse().unwrap();
    for port in first..first + 4 {
        poll("a listener", SOON, || TcpStream::connect(("127.0.0.1", port)).ok());
    }
    let admin = format!("127.0.0.1:{}", first + 3);
    assert_eq!(request(&admin, "GET", "/v1/state", "").0, 200);
    // Commands know where it listens, too.
    let check = run(&other, &["check", "api", "user=42"], &[("TIDEGATE_PORT_BASE", base)]);
    assert_eq!(check.code, Some(0), "{}", check.stderr);
}

#[test]
fn a_listener_that_is_off_takes_no_port() {
    let directory = Directory::new();
    let quiet = [
        "serve",
        "--listen-http",
        "127.0.0.1:0",
        "--listen-grpc=off",
        "--listen-resp=off",
        "--listen-admin=off",
    ];
    let _node = start(&directory, &quiet, &[]);
    let banner =
        poll("the banner", SOON, || Some(directory.read("stdout")).filter(|text| text.contains("curl")));
    for line in ["  grpc   off", "  resp   off", "  admin  off"] {
        assert!(banner.lines().any(|other| other == line), "no {line:?} in {banner}");
    }
    assert!(!banner.contains("redis-cli"), "{banner}");
    let http = banner.lines().find_map(|line| line.strip_prefix("  http   http://")).unwrap();
    assert_eq!(request(http, "POST", "/v1/check", crate::support::CHECK).0, 200);
}

#[test]
fn bad_rules_at_the_start_are_told_whole() {
    let directory = Directory::new();
    directory.write(
        "rules.yaml",
        "namespace: api\nrules:\n  - name: a\n    limit: ten\n  - name: a\n    rate: x\n",
    );
    let started = run(&directory, &["serve"], &[]);
    assert_eq!(started.code, Some(1));
    for part in ["rules.yaml:4:12", "rules.yaml:6:11", "tidegate rules check"] {
        assert!(started.stderr.contains(part), "no {part:?} in {}", started.stderr);
    }
}

#[test]
fn a_rules_file_that_was_named_must_be_there() {
    let directory = Directory::new();
    let started = run(&directory, &["serve", "--rules-file", "missing.yaml"], &[]);
    assert_eq!(started.code, Some(1));
    assert!(
        started.stderr.contains("rules.file") && started.stderr.contains("missing.yaml"),
        "{}",
        started.stderr
    );
}

#[test]
fn an_unknown_flag_is_told_with_the_one_meant() {
    let directory = Directory::new();
    let started = run(&directory, &["serve", "--listen-htp", "127.0.0.1:0"], &[]);
    assert_eq!(started.code, Some(2));
    assert!(started.stderr.contains("--listen-http"), "{}", started.stderr);
}
