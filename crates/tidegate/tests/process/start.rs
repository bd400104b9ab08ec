//! What keeps a node from starting, beside its settings.

use crate::support::{Directory, Node, run};

#[test]
fn a_taken_address_is_told_with_a_free_one_to_try() {
    let directory = Directory::new();
    let node = Node::start(&directory, &[]);
    let other = Directory::new();
    let started = run(&other, &["serve", "--listen-http", &node.http, "--listen-admin", "127.0.0.1:0"], &[]);
    assert_eq!(started.code, Some(1));
    for part in ["listen.http", &node.http, "choose another address: --listen-http 127.0.0.1:"] {
        assert!(started.stderr.contains(part), "no {part:?} in {}", started.stderr);
    }
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
