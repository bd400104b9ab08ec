//! `tidegate why` over all nodes of a region, through their broker and through the control plane above it.

use crate::scene::{Follower, REACHED_WITHIN, Server};
use crate::support::{Directory, parse, poll, request_with, rules_of, start};
use serde_json::Value;

fn denied(answer: &Value) -> Vec<&str> {
    let decisions = answer["decisions"].as_array().unwrap_or_else(|| panic!("{answer}"));
    decisions.iter().filter_map(|decision| decision["node"].as_str()).collect()
}

/// A command to its end; its code and what it printed.
fn tidegate(arguments: &[&str]) -> (Option<i32>, String) {
    let directory = Directory::new();
    let code = start(&directory, arguments, &[]).exit_code(REACHED_WITHIN);
    (code, directory.read("stdout") + &directory.read("stderr"))
}

/// All of them are known where they are asked.
fn wait_known(server: &Server, count: usize) {
    poll("all nodes are known", REACHED_WITHIN, || {
        let nodes = server.get("/v1/nodes");
        let is_node = |node: &&Value| node["role"] == "node" && node["is_connected"] == true;
        (nodes["nodes"].as_array()?.iter().filter(is_node).count() == count).then_some(())
    });
}

#[test]
fn a_caller_is_found_at_whichever_node_denied_it() {
    let control = Server::control();
    let broker = Server::broker(&[&control]);
    let names = ["n0", "n1", "n2"];
    let nodes = names.map(|name| Follower::start(&[&broker], &["--node", name]));
    let direct = Follower::start(&[&control], &["--node", "direct", "--log-decisions", "none"]);
    let version = control.push(&rules_of(1));
    nodes.iter().chain([&direct]).for_each(|node| node.wait_version(version));
    wait_known(&control, 4);
    for node in &nodes[..2] {
        assert_eq!(node.allowed(2, "alice"), 1);
    }
    // More than fits one part of an answer.
    for user in 0..60 {
        assert_eq!(nodes[2].allowed(2, &format!("user-{user}")), 1);
    }
    let ask = |server: &Server, arguments: &[&str]| {
        let url = server.url();
        let flags = [&["why", "--json", "--control", &url], arguments].concat();
        let (_, said) = tidegate(&flags);
        serde_json::from_str::<Value>(&said).unwrap_or_else(|_| panic!("{said}"))
    };
    for (server, asked) in [(&broker, 3), (&control, 4)] {
        let answer = ask(server, &["--identifier", "alice"]);
        let mut found = denied(&answer);
        found.sort_unstable();
        assert_eq!(found, ["n0", "n1"], "{answer}");
        assert_eq!((&answer["nodes"]["asked"], &answer["nodes"]["answered"]), (&asked.into(), &3.into()));
        let answer = ask(server, &["--rule", "per-user", "--limit", "50"]);
        assert_eq!((denied(&answer).len(), &answer["is_cut"]), (50, &true.into()));
        let whole = ask(server, &["--rule", "per-user", "--limit", "1000"]);
        assert_eq!((denied(&whole).len(), &whole["is_cut"]), (62, &false.into()));
    }
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/why.md");
    let page = std::fs::read_to_string(page).unwrap();
    let line =
        page.lines().find(|line| line.starts_with("tidegate why") && line.contains("--control")).unwrap();
    let line =
        line.replace("http://127.0.0.1:7070", &broker.url()).replace("--identifier 42", "--identifier alice");
    let words: Vec<&str> = line.split(' ').skip(1).collect();
    let (code, said) = tidegate(&words);
    assert_eq!((code, said.matches("denied a request").count()), (Some(0), 2), "{said}");
    let problem = &ask(&control, &["--identifier", "alice"])["nodes"]["problems"][0];
    assert_eq!(problem["node"], "direct", "{problem}");
    let (code, said) = tidegate(&["why", "--control", &control.url(), "--identifier", "bob"]);
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("Only 3 of 4 nodes answered") && said.contains("keeps no decision log"), "{said}");
    let (status, answer) = parse(&request_with(&control.address, "GET /v1/why?identifer=1", "", ""));
    assert_eq!((status, &answer["error"]["code"]), (400, &"unknown_field".into()), "{answer}");
}

#[test]
fn a_node_that_doesnt_answer_is_named() {
    let control = Server::control();
    let (well, stuck) = (
        Follower::start(&[&control], &["--node", "well"]),
        Follower::start(&[&control], &["--node", "stuck"]),
    );
    let version = control.push(&rules_of(1));
    [&well, &stuck].iter().for_each(|node| node.wait_version(version));
    wait_known(&control, 2);
    assert_eq!(well.allowed(2, "alice"), 1);
    // Its connection stays open, and it says nothing any more.
    stuck.node.process.signal(rustix::process::Signal::STOP);
    let answer = control.get("/v1/why?identifier=alice");
    stuck.node.process.signal(rustix::process::Signal::CONT);
    assert_eq!(denied(&answer), ["well"]);
    assert_eq!(answer["nodes"]["silent"], serde_json::json!(["stuck"]), "{answer}");
}
