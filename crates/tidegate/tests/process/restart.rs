//! What a node that is alone remembers when it is started again, and that nothing on its disk keeps it from
//! starting.

use crate::support::{Directory, Node, SOON, poll, request, run};
use rustix::process::Signal;
use serde_json::Value;
use std::fs;
use std::time::SystemTime;

const SNAPSHOT: &str = "data/counts.snapshot";
// Long enough that a test hardly ever meets the end of a period.
const WINDOW: &str = r#"{"namespace":"demo","identifier":"me","limit":5,"duration_ms":2592000000}"#;
const RATE: &str = r#"{"namespace":"demo","identifier":"me","rate_per_s":0.001,"burst":5}"#;
const RULES: &str = "namespace: api
place_by: org
rules:
  - { name: monthly, key: [org], limit: 5 per month }
  - { name: weekly, key: [user], limit: 5 per week, time_zone: Asia/Kathmandu }
";
const CHECK: &str = r#"{"namespace":"api","attributes":{"user":"42","org":"acme"}}"#;

fn ask(node: &Node, path: &str, body: &str) -> Value {
    let (status, answer) = request(&node.http, "POST", path, body);
    assert_eq!(status, 200, "{answer}");
    answer
}

/// Spends a limit of five, and gives the denial after it.
fn use_up(node: &Node, path: &str, body: &str) -> Value {
    for _ in 0..5 {
        assert_eq!(ask(node, path, body)["allowed"], true);
    }
    denial(node, path, body)
}

fn denial(node: &Node, path: &str, body: &str) -> Value {
    let answer = ask(node, path, body);
    assert_eq!(answer["allowed"], false, "{answer}");
    answer
}

/// When each limit of an answer is whole again.
fn resets(answer: &Value) -> Vec<u64> {
    let limits = answer["limits"].as_array().unwrap();
    limits.iter().map(|limit| limit["reset_ms"].as_u64().unwrap()).collect()
}

fn stop(mut node: Node) {
    node.process.signal(Signal::TERM);
    assert_eq!(node.process.exit_code(SOON), Some(0));
}

fn wait_for_log(directory: &Directory, text: &str) {
    poll(text, SOON, || directory.read("stderr").contains(text).then_some(()));
}

#[test]
fn a_limit_that_is_used_up_stays_so_over_an_orderly_restart() {
    let directory = Directory::new();
    directory.write("rules.yaml", RULES);
    let questions = [("/v1/limit", WINDOW), ("/v1/limit", RATE), ("/v1/check", CHECK)];
    let node = Node::start(&directory, &[]);
    let before = questions.map(|(path, body)| resets(&use_up(&node, path, body)));
    stop(node);
    let node = Node::start(&directory, &[]);
    let after = questions.map(|(path, body)| resets(&denial(&node, path, body)));
    assert_eq!(after, before);
    stop(node);
    let node = Node::start(&directory, &[]);
    assert_eq!(
        questions.map(|(path, body)| resets(&denial(&node, path, body))),
        before,
        "and over another one"
    );
}

#[test]
fn a_crash_loses_no_more_than_what_came_after_the_last_save() {
    let directory = Directory::new();
    let mut node = Node::start(&directory, &["--data-save-every-ms", "50"]);
    let before = resets(&use_up(&node, "/v1/limit", WINDOW));
    // The first may have begun before the requests.
    let saved = || fs::metadata(directory.path(SNAPSHOT)).and_then(|file| file.modified()).ok();
    let next_after =
        |last: Option<SystemTime>| poll("a save", SOON, || saved().filter(|at| Some(*at) != last));
    let first = next_after(saved());
    next_after(Some(first));
    node.process.signal(Signal::KILL);
    assert_eq!(node.process.exit_code(SOON), None);
    let node = Node::start(&directory, &[]);
    assert_eq!(resets(&denial(&node, "/v1/limit", WINDOW)), before);
}

#[test]
fn a_directory_that_cannot_be_written_is_a_warning_and_no_more() {
    let directory = Directory::new();
    directory.write("occupied", "not a directory");
    let node = Node::start(&directory, &["--data-dir", "occupied/data"]);
    wait_for_log(&directory, "name another one by data.dir");
    use_up(&node, "/v1/limit", WINDOW);
    stop(node);
    let log = directory.read("stderr");
    assert!(log.contains("occupied/data/counts.snapshot"), "{log}");
    assert_eq!(log.matches("counts can't be saved").count(), 1, "{log}");
}

#[test]
fn a_snapshot_that_cannot_be_used_is_set_aside() {
    let directory = Directory::new();
    directory.write("secret", "a secret of at least 16 bytes");
    let node = Node::start(&directory, &[]);
    use_up(&node, "/v1/limit", WINDOW);
    stop(node);

    let node = Node::start(&directory, &["--cluster-secret-file", "secret"]);
    wait_for_log(&directory, "it was written with another secret");
    assert_eq!(ask(&node, "/v1/limit", WINDOW)["allowed"], true);
    stop(node);

    fs::rename(directory.path("data/counts.snapshot.refused"), directory.path(SNAPSHOT)).unwrap();
    let mut bytes = fs::read(directory.path(SNAPSHOT)).unwrap();
    bytes.truncate(bytes.len() - 1);
    fs::write(directory.path(SNAPSHOT), bytes).unwrap();
    let node = Node::start(&directory, &[]);
    wait_for_log(&directory, "it is damaged or cut off");
    assert_eq!(ask(&node, "/v1/limit", WINDOW)["allowed"], true);
}

#[test]
fn a_second_node_in_the_same_directory_keeps_out_of_the_firsts_counts() {
    let directory = Directory::new();
    let first = Node::start(&directory, &[]);
    poll("the first save", SOON, || directory.path(SNAPSHOT).exists().then_some(()));
    let before = resets(&use_up(&first, "/v1/limit", WINDOW));
    let second = Node::start(&directory, &[]);
    wait_for_log(&directory, "give each node a data.dir of its own");
    assert_eq!(ask(&second, "/v1/limit", WINDOW)["allowed"], true);
    stop(first);
    let third = Node::start(&directory, &[]);
    assert_eq!(resets(&denial(&third, "/v1/limit", WINDOW)), before);
}

#[test]
fn a_node_that_shares_its_counts_keeps_none() {
    let directory = Directory::new();
    // Nobody answers there: it starts all the same.
    let node = Node::start(&directory, &["--origin-url", "redis://127.0.0.1:1"]);
    ask(&node, "/v1/limit", WINDOW);
    stop(node);
    assert!(!directory.path("data/counts.snapshot").exists());
}

#[test]
fn the_settings_are_shown_and_checked() {
    let directory = Directory::new();
    let printed = run(&directory, &["--print-config", "--data-dir", "elsewhere"], &[]);
    assert!(printed.stdout.contains("elsewhere") && printed.stdout.contains("data.save_every_ms"));
    let refused = run(&directory, &["serve", "--data-save-every-ms", "0"], &[]);
    assert!(refused.stderr.contains("data.save_every_ms = \"0\""), "{}", refused.stderr);
    assert!(refused.stderr.contains("write a whole number from 10 to 86400000"), "{}", refused.stderr);
}
