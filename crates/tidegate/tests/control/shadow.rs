//! `shadow: true`: what it would have done, before it does.

use crate::scene::Server;
use crate::support::{Directory, Node, request};
use crate::{done, ready};

#[test]
fn the_report_names_the_callers_that_a_limit_would_hit() {
    let directory = Directory::new();
    directory.write(
        "rules.yaml",
        "namespace: api\nrules:\n  - { name: new-limit, key: [user], limit: 2 per 365d, shadow: true }\n",
    );
    let nodes = [(); 2].map(|()| Node::start(&directory, &["--data-dir", "none-of-it"]));
    for node in &nodes {
        for (user, requests) in [("quiet", 2), ("busy", 5), ("busiest", 9)] {
            let body = format!(r#"{{"namespace":"api","attributes":{{"user":"{user}"}}}}"#);
            assert_eq!(node.allowed(requests, &body), usize::try_from(requests).unwrap(), "nobody is denied");
        }
    }
    let server = ready(Server::control());
    let admin = nodes.each_ref().map(|node| format!("http://{}", node.admin));
    let arguments = ["rules", "shadow-report", "--admin", &admin[0], "--admin", &admin[1]];
    let report = done(&directory, &server, &arguments);
    let lines: Vec<Vec<&str>> = report.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(lines[0].join(" "), "default/api/new-limit: would have denied 20 requests", "{report}");
    assert_eq!(
        (&lines[1][..], &lines[2][..], lines.len()),
        (&["14", "busiest"][..], &["6", "busy"][..], 3),
        "{report}"
    );
    let json: serde_json::Value =
        serde_json::from_str(&done(&directory, &server, &[&arguments[..], &["--json"]].concat())).unwrap();
    assert_eq!(json["rules"][0]["callers"][0]["identifier"], "busiest");
    assert_eq!(request(&nodes[0].admin, "GET", "/v1/shadow", "").1["rules"][0]["denials"], 10);
}
