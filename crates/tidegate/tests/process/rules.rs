//! Rules from files: in force at the start, reloaded when they change, kept when the change is bad; and
//! `tidegate rules check`.

use crate::support::{CHECK, Directory, Node, SOON, poll, rules_of, run};
use std::fs;
use std::os::unix::fs::symlink;

fn wait_for_version(node: &Node, version: u64) {
    poll("the changed rules", SOON, || (node.state()["rule_version"] == version).then_some(()));
}

#[test]
fn rules_limit_and_are_reloaded_when_the_file_changes() {
    let directory = Directory::new();
    directory.write("rules.yaml", rules_of(3));
    let node = Node::start(&directory, &[]);
    assert!(node.banner.contains("rules  rules.yaml: 1 rule in 1 namespace\n"), "{}", node.banner);
    assert_eq!(node.allowed(10, CHECK), 3);
    directory.write("rules.yaml", rules_of(5));
    wait_for_version(&node, 2);
    assert_eq!(node.allowed(10, CHECK), 2, "what was admitted before still counts");
}

#[test]
fn a_swapped_config_map_is_followed() {
    let directory = Directory::new();
    let version = |name: &str, limit| {
        fs::create_dir_all(directory.path(name)).unwrap();
        fs::write(directory.path(name).join("api.yaml"), rules_of(limit)).unwrap();
    };
    version("rules/..1", 1);
    symlink("..1", directory.path("rules/..data")).unwrap();
    symlink("..data/api.yaml", directory.path("rules/api.yaml")).unwrap();
    let node = Node::start(&directory, &["--rules-file", "rules"]);
    assert_eq!(node.allowed(5, CHECK), 1);
    version("rules/..2", 4);
    symlink("..2", directory.path("rules/..data_new")).unwrap();
    fs::rename(directory.path("rules/..data_new"), directory.path("rules/..data")).unwrap();
    wait_for_version(&node, 2);
    assert_eq!(node.allowed(5, CHECK), 3);
}

#[test]
fn a_bad_change_keeps_the_old_rules_and_says_so() {
    let directory = Directory::new();
    directory.write("rules.yaml", rules_of(2));
    let node = Node::start(&directory, &[]);
    directory.write("rules.yaml", "namespace: api\nrules: [{ name: a, key: [user], limit: ten }]\n");
    poll("the refusal", SOON, || (node.state()["stats"]["rule_reload_failures"] == 1).then_some(()));
    assert_eq!(node.state()["rule_version"], 1);
    assert!(node.state()["rules_problem"].as_str().unwrap().contains("rules.yaml:2:"), "{}", node.state());
    assert_eq!(node.allowed(5, CHECK), 2);
    assert!(directory.read("stderr").contains("rules.yaml:2:"), "{}", directory.read("stderr"));
    directory.write("rules.yaml", rules_of(3));
    wait_for_version(&node, 2);
    assert_eq!(node.state()["rules_problem"], serde_json::Value::Null, "it is mended");
    assert_eq!(node.allowed(5, CHECK), 1);
}

#[test]
fn good_rules_are_told_in_plain_words() {
    let directory = Directory::new();
    directory.write("rules.yaml", rules_of(10));
    for arguments in [&["rules", "check"][..], &["rules", "check", "rules.yaml"]] {
        let checked = run(&directory, arguments, &[]);
        assert_eq!(checked.code, Some(0), "{}", checked.stderr);
        assert!(
            checked.stdout.contains("per-user: about 10 over a sliding 365 days, for each user"),
            "{}",
            checked.stdout
        );
        assert!(!checked.stdout.contains('\u{1b}'), "colours are for terminals");
    }
}

#[test]
fn the_rules_to_check_come_from_the_settings_too() {
    let directory = Directory::new();
    directory.write("other.yaml", rules_of(10));
    let checked = run(&directory, &["rules", "check"], &[("TIDEGATE_RULES_FILE", "other.yaml")]);
    assert_eq!(checked.code, Some(0), "{}", checked.stderr);
    assert!(checked.stdout.contains("other.yaml: 1 rule"), "{}", checked.stdout);
}

#[test]
fn every_error_of_bad_rules_is_told_with_its_place() {
    let directory = Directory::new();
    directory.write("bad.yaml", "namespace: api\nrules:\n  - name: a\n    limit: ten\n    clas: paid\n");
    let checked = run(&directory, &["rules", "check", "bad.yaml"], &[]);
    assert_eq!(checked.code, Some(1));
    for part in ["bad.yaml:4:12: rules[0].limit", "bad.yaml:5:5: rules[0].clas", "did you mean `class`"] {
        assert!(checked.stderr.contains(part), "no {part:?} in {}", checked.stderr);
    }
}

#[test]
fn nothing_to_check_is_another_exit_code_than_bad() {
    let directory = Directory::new();
    let checked = run(&directory, &["rules", "check"], &[]);
    assert_eq!(checked.code, Some(2));
    assert!(checked.stderr.contains("there is no rules.yaml"), "{}", checked.stderr);
    assert_eq!(run(&directory, &["rules", "check", "missing.yaml"], &[]).code, Some(2));
}

const ENVOY_FILE: &str = "\
domain: edge
descriptors:
  - key: user
    rate_limit: { unit: year, requests_per_unit: 3 }
  - key: user
    value: status-page
    rate_limit: { unlimited: true }
  - key: path
    value: /files/*
    share_threshold: true
    rate_limit: { unit: year, requests_per_unit: 2 }
";

#[test]
fn an_envoy_file_becomes_rules_that_limit_alike() {
    let directory = Directory::new();
    directory.write("config.yaml", ENVOY_FILE);
    let imported = run(&directory, &["rules", "import-envoy", "config.yaml"], &[]);
    assert_eq!((imported.code, imported.stderr.as_str()), (Some(0), ""));
    directory.write("rules.yaml", &imported.stdout);
    let checked = run(&directory, &["rules", "check"], &[]);
    assert_eq!(checked.code, Some(0), "{}", checked.stderr);
    assert!(checked.stdout.contains("rules.yaml: 2 rules, 1 override: valid"), "{}", checked.stdout);
    let node = Node::start(&directory, &[]);
    assert_limits_of_envoy_file(&node);
}

#[test]
fn an_envoy_file_limits_as_it_is_and_is_reloaded() {
    let directory = Directory::new();
    directory.write("config.yaml", ENVOY_FILE);
    let node = Node::start(&directory, &["--rules-file", "config.yaml"]);
    assert!(node.banner.contains("rules  config.yaml: 3 rules in 1 namespace\n"), "{}", node.banner);
    assert_limits_of_envoy_file(&node);
    directory.write("config.yaml", ENVOY_FILE.replace("requests_per_unit: 3", "requests_per_unit: 4"));
    wait_for_version(&node, 2);
    let body = r#"{"namespace":"edge","attributes":{"user":"42"}}"#;
    assert_eq!(node.allowed(5, body), 1, "what was admitted before still counts");
}

fn assert_limits_of_envoy_file(node: &Node) {
    let of =
        |name: &str, value: &str| format!(r#"{{"namespace":"edge","attributes":{{"{name}":"{value}"}}}}"#);
    assert_eq!(node.allowed(5, &of("user", "42")), 3);
    assert_eq!(node.allowed(5, &of("user", "43")), 3);
    assert_eq!(node.allowed(5, &of("user", "status-page")), 5);
    assert_eq!(node.allowed(1, &of("path", "/files/a")), 1);
    assert_eq!(node.allowed(5, &of("path", "/files/b")), 1);
    assert_eq!(node.allowed(5, &of("path", "/other")), 5);
}

#[test]
fn what_cant_be_imported_prints_nothing_and_says_why() {
    let directory = Directory::new();
    directory.write("config.yaml", ENVOY_FILE.replace("key: path", "key: a path"));
    directory.write("bad.yaml", ENVOY_FILE.replace("unit: year", "unit: eon"));
    for (file, part) in [
        (
            "config.yaml",
            "config.yaml:8:5: a path=/files/*: \"a path\" isn't an attribute's name; use 1 to 64",
        ),
        (
            "bad.yaml",
            "bad.yaml:4:25: descriptors[0].rate_limit.unit: \"eon\" isn't a unit; use one of: second",
        ),
    ] {
        let imported = run(&directory, &["rules", "import-envoy", file], &[]);
        assert_eq!((imported.code, imported.stdout.as_str()), (Some(1), ""));
        assert!(imported.stderr.contains(part), "{}", imported.stderr);
    }
    assert_eq!(run(&directory, &["rules", "import-envoy", "missing.yaml"], &[]).code, Some(2));
}
