//! `tidegate why` over all nodes of a region, through their broker and through the control plane above it.

use crate::scene::{Follower, REACHED_WITHIN, Server};
use crate::support::{Directory, Node, parse, poll, request_with, rules_of, run, start};
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

fn token(directory: &Directory, tenant: &str, permissions: &str) -> String {
    let flags =
        ["token", "new", "--tenant", tenant, "--permissions", permissions, "--auth-tokens", "tokens.toml"];
    let made = run(directory, &flags, &[]);
    let found = made.stdout.split_whitespace().find(|word| word.starts_with("tg_"));
    found.unwrap_or_else(|| panic!("{}{}", made.stdout, made.stderr)).to_owned()
}

#[test]
fn a_tenant_sees_its_own_and_no_nodes() {
    let directory = Directory::new();
    let operator = token(&directory, "default", "admin");
    let [acme, other] = ["acme", "other"].map(|tenant| token(&directory, tenant, "check,read"));
    let tokens = directory.path("tokens.toml").display().to_string();
    let control = Server::with_tokens(&tokens);
    let bearer = |token: &str| format!("Authorization: Bearer {token}\r\n");
    let of = |tenant: &str| {
        format!(
            "tenant: {tenant}\nnamespace: api\nrules:\n  - {{ name: of-{tenant}, key: [user], limit: 0 per 1h }}\n"
        )
    };
    let text = format!("{}---\n{}", of("acme"), of("other"));
    let push = serde_json::json!({ "files": [{ "name": "rules.yaml", "text": text }] }).to_string();
    let version = poll("a push", REACHED_WITHIN, || {
        let (status, answer) =
            parse(&request_with(&control.address, "POST /v1/rules", &bearer(&operator), &push));
        assert!(status == 200 || status == 503, "{answer}");
        answer["version"].as_u64()
    });
    let home = Directory::new();
    let flags = ["--rules-control", &control.url(), "--auth-tokens", &tokens, "--node", "n1"];
    let node = Node::start_with(&home, &flags, &[("TIDEGATE_TOKEN", &operator)]);
    poll("the rules", REACHED_WITHIN, || {
        let state = parse(&request_with(&node.admin, "GET /v1/state", &bearer(&operator), "")).1;
        (state["rules_stream"]["version"] == version).then_some(())
    });
    for tenant in [&acme, &other] {
        let body = r#"{"namespace":"api","attributes":{"user":"42"}}"#;
        let (_, answer) = parse(&request_with(&node.http, "POST /v1/check", &bearer(tenant), body));
        assert_eq!(answer["allowed"], false, "{answer}");
    }
    let ask = |token: &str, query: &str| {
        parse(&request_with(&control.address, &format!("GET /v1/why?{query}"), &bearer(token), "")).1
    };
    for query in ["identifier=42", "tenant=other", ""] {
        let answer = ask(&acme, query);
        let tenants: Vec<&Value> =
            answer["decisions"].as_array().unwrap().iter().map(|decision| &decision["tenant"]).collect();
        assert_eq!(tenants, ["acme"], "{query}: {answer}");
        assert!(!answer.to_string().contains("n1") && answer["nodes"]["silent"].is_null(), "{answer}");
    }
    assert_eq!(denied(&ask(&operator, "identifier=42")), ["n1", "n1"]);
    let checker = token(&directory, "acme", "check");
    poll("the new token is known", REACHED_WITHIN, || {
        let answer = ask(&checker, "");
        (answer["error"]["code"] == "forbidden").then_some(())
    });
}

#[test]
fn a_change_of_the_rules_is_in_the_trace_of_who_made_it() {
    let directory = Directory::new();
    directory.write("tidegate.toml", "[otlp]\nendpoint = \"http://127.0.0.1:1\"\n");
    let control = Server::configured(directory);
    let push = serde_json::json!({ "files": [{ "name": "rules.yaml", "text": rules_of(1) }] }).to_string();
    let trace = "4bf92f3577b34da6a3ce929d0e0e4736";
    let header = format!("traceparent: 00-{trace}-00f067aa0ba902b7-01\r\n");
    let pushed = poll("a push", REACHED_WITHIN, || {
        let said = request_with(&control.address, "POST /v1/rules", &header, &push);
        said.starts_with("HTTP/1.1 200").then_some(said)
    });
    assert!(pushed.contains(&format!("traceparent: 00-{trace}-")), "{pushed}");
    let read = request_with(&control.address, "GET /v1/rules", &header, "");
    assert!(!read.contains("traceparent"), "only changes have spans: {read}");
}
