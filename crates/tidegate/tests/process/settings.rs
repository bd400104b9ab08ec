//! Where settings come from, and which wins.

use crate::support::{Directory, Node, run};

/// The row of a key in `--print-config`: value and place.
fn row(printed: &str, key: &str) -> (String, String) {
    let line = printed.lines().find(|line| line.split_whitespace().next() == Some(key)).unwrap();
    let (value, place) = line[key.len()..].trim().split_once("  ").unwrap();
    (value.to_owned(), place.trim().to_owned())
}

#[test]
fn a_flag_beats_the_environment_which_beats_the_file() {
    let directory = Directory::new();
    directory.write("tidegate.toml", "region = \"file\"\nnode = \"file\"\n\n[log]\nlevel = \"warn\"\n");
    let environment = [("TIDEGATE_NODE", "environment"), ("TIDEGATE_LOG_LEVEL", "error")];
    let printed = run(&directory, &["serve", "--print-config", "--log-level", "off"], &environment);
    assert_eq!(printed.code, Some(0), "{}", printed.stderr);
    let rows = ["region", "node", "log.level", "listen.http"].map(|key| row(&printed.stdout, key));
    let expected = [
        ("file", "tidegate.toml:1"),
        ("environment", "environment TIDEGATE_NODE"),
        ("off", "flag --log-level"),
        ("127.0.0.1:8080", "default"),
    ];
    assert_eq!(rows, expected.map(|(value, place)| (value.to_owned(), place.to_owned())));
}

#[test]
fn a_bad_value_that_is_overridden_does_no_harm() {
    let directory = Directory::new();
    directory.write("tidegate.toml", "region = \"NOT A REGION\"\n");
    assert_eq!(run(&directory, &["--print-config", "--region", "fine"], &[]).code, Some(0));
}

#[test]
fn a_file_elsewhere_is_named_by_a_flag() {
    let directory = Directory::new();
    directory.write("tidegate.toml", "region = \"default-file\"\n");
    directory.write("other.toml", "# dotted keys are the same\nmemory.max_keys = 5_000\n");
    let printed = run(&directory, &["serve", "--config", "other.toml", "--print-config"], &[]);
    assert_eq!(row(&printed.stdout, "memory.max_keys"), ("5000".into(), "other.toml:2".into()));
    assert_eq!(row(&printed.stdout, "region").1, "default");
}

#[test]
fn a_value_may_come_from_a_file_of_its_own() {
    let directory = Directory::new();
    directory.write("the-region", "from-a-file\n");
    let printed = run(&directory, &["--print-config"], &[("TIDEGATE_REGION_FILE", "the-region")]);
    let place = "file \"the-region\" of environment TIDEGATE_REGION_FILE";
    assert_eq!(row(&printed.stdout, "region"), ("from-a-file".into(), place.into()), "{}", printed.stderr);
}

#[test]
fn a_node_runs_by_all_three_at_once() {
    let directory = Directory::new();
    directory.write("tidegate.toml", "region = \"from-file\"\n");
    let node =
        Node::start_with(&directory, &["--log-format", "text"], &[("TIDEGATE_NODE", "from-environment")]);
    let state = node.state();
    assert_eq!((&state["region"], &state["node"]), (&"from-file".into(), &"from-environment".into()));
}
