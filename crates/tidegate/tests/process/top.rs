//! `tidegate top` against running nodes.

use crate::support::{Directory, Node, request, rules_of, run};
use std::net::TcpListener;

#[test]
fn the_busiest_and_the_most_denied_callers_of_all_nodes_are_shown() {
    let directory = Directory::new();
    directory.write("rules.yaml", rules_of(2));
    let nodes = [(); 2].map(|()| Node::start(&directory, &["--data-dir", "none-of-it"]));
    for node in &nodes {
        for (user, requests) in [("rare", 1), ("busy", 12)] {
            let body = format!(r#"{{"namespace":"api","attributes":{{"user":"{user}"}}}}"#);
            node.allowed(requests, &body);
        }
    }
    let admin = nodes.each_ref().map(|node| format!("http://{}", node.admin));
    let of_nodes = ["top", "--admin", &admin[0], "--admin", &admin[1]];
    let top = |more: &[&str]| run(&directory, &[&of_nodes[..], more].concat(), &[]);
    let once = top(&["--once"]);
    assert_eq!(once.code, Some(0), "{}", once.stderr);
    let lines: Vec<&str> = once.stdout.lines().collect();
    assert!(lines[0].split_whitespace().eq(["caller", "requests/s", "denied/s"]), "{}", once.stdout);
    assert!(lines[1].starts_with("default/api/per-user busy "), "{}", once.stdout);
    assert!(once.stdout.contains("per-user rare"), "{}", once.stdout);
    // Without a terminal it is shown once, too.
    assert!(top(&["--denied"]).stdout.contains("per-user busy"));
    assert!(!top(&["--denied"]).stdout.contains("per-user rare"), "it was never denied");
    let json: serde_json::Value = serde_json::from_str(&top(&["--json", "--filter", "busy"]).stdout).unwrap();
    assert_eq!(json["callers"].as_array().map(Vec::len), Some(1), "{json}");
    let of_one = request(&nodes[0].admin, "GET", "/v1/top", "").1;
    let [one, both] =
        [&of_one["busiest"][0], &json["callers"][0]].map(|caller| caller["per_second"].as_f64());
    assert!(one > Some(0.0) && both > one, "{of_one} {json}");
}

#[test]
fn a_node_that_is_not_there_is_named() {
    let directory = Directory::new();
    let nobody = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let finished = run(&directory, &["top", "--once", "--admin", &format!("http://{nobody}")], &[]);
    assert_eq!(finished.code, Some(2));
    assert!(finished.stderr.contains(&nobody.to_string()), "{}", finished.stderr);
}
