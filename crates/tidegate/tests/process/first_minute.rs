//! A stranger's first minute: start it, paste the line that it prints, be limited.

use crate::support::{CHECK, Directory, Node, SOON, poll, request, rules_of};

#[test]
fn the_line_to_try_is_limited_at_the_sixth_time() {
    let directory = Directory::new();
    let node = Node::start(&directory, &[]);
    let line = node.banner.lines().find(|line| line.contains("curl")).unwrap();
    assert!(line.contains(&format!("{}/v1/limit", node.url())), "{line}");
    let body = line.split('\'').nth(1).unwrap();
    let answers: Vec<bool> = (0..6)
        .map(|_| {
            let (status, answer) = request(&node.http, "POST", "/v1/limit", body);
            assert_eq!(status, 200);
            answer["allowed"].as_bool().unwrap()
        })
        .collect();
    assert_eq!(answers, [true, true, true, true, true, false]);
}

#[test]
fn the_banner_says_what_runs() {
    let directory = Directory::new();
    let node = Node::start(&directory, &["--region", "here", "--node", "n-1", "--memory-max-keys", "12345"]);
    let first = format!("tidegate {}, node n-1, region here", env!("CARGO_PKG_VERSION"));
    assert_eq!(node.banner.lines().next(), Some(first.as_str()));
    assert!(node.banner.contains("rules  none (create rules.yaml"), "{}", node.banner);
    assert!(node.banner.contains("keys   at most 12,345 (memory.max_keys)"), "{}", node.banner);
    let dashboard = format!("  http://{} in a browser: the dashboard", node.admin);
    assert!(node.banner.lines().any(|line| line == dashboard), "{}", node.banner);
    let data =
        "  data   data; the log of decisions in data/decisions takes 1024 MB at most (log.decisions_max_mb)";
    assert!(node.banner.lines().any(|line| line == data), "{}", node.banner);
    assert_eq!(node.state()["node"], "n-1");
}

#[test]
fn a_rules_file_that_is_created_later_is_found() {
    let directory = Directory::new();
    let node = Node::start(&directory, &[]);
    assert_eq!(node.allowed(3, CHECK), 3);
    directory.write("rules.yaml", rules_of(1));
    poll("the created rules", SOON, || (node.state()["rule_version"] == 2).then_some(()));
    assert_eq!(node.allowed(3, CHECK), 1);
}
