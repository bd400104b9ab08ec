//! Tokens on a control plane: a tenant sees and changes its own.

use crate::scene::{Follower, Server};
use crate::support::{Directory, Finished, Node, parse, request_with, request_within, run};
use crate::{RULES, ready, tidegate};
use serde_json::{Value, json};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// For a push behind others' large ones, on a machine under load.
const PATIENCE: Duration = Duration::from_secs(60);

const ACME: &str =
    "tenant: acme\nnamespace: api\nrules:\n  - { name: acme-only, key: [user], limit: 5 per 1m }\n";

fn token(directory: &Directory, tenant: &str, permissions: &str) -> String {
    let file = directory.path("tokens.toml").display().to_string();
    let made = run(
        directory,
        &["token", "new", "--tenant", tenant, "--permissions", permissions, "--auth-tokens", &file],
        &[],
    );
    let found = made.stdout.split_whitespace().find(|word| word.starts_with("tg_"));
    found.unwrap_or_else(|| panic!("{}{}", made.stdout, made.stderr)).to_owned()
}

#[test]
fn a_tenant_neither_sees_nor_changes_what_is_anothers() {
    let directory = Directory::new();
    let operator = token(&directory, "default", "admin");
    let acme = token(&directory, "acme", "admin");
    let reader = token(&directory, "acme", "read");
    let checker = token(&directory, "acme", "check");
    let server = ready(Server::with_tokens(&directory.path("tokens.toml").display().to_string()));
    directory.write("rules.yaml", RULES);
    directory.write("acme.yaml", ACME);
    let rules = |token: &str, arguments: &[&str]| -> Finished {
        tidegate(&directory, &server, &[&["rules"], arguments, &["--token", token]].concat())
    };
    assert_eq!(rules(&operator, &["push", "rules.yaml", "--yes", "--reason", "secret plans"]).code, Some(0));
    assert_eq!(rules(&acme, &["push", "acme.yaml", "--yes"]).code, Some(0));
    let refused = rules(&acme, &["push", "rules.yaml", "--yes"]);
    assert!(refused.code == Some(1) && refused.stderr.contains("tenant default"), "{}", refused.stderr);
    for arguments in [
        &["mode", "off", "--yes"][..],
        &["override", "set", "api", "per-user", "user=bob", "--limit", "1", "--tenant", "default", "--yes"],
        &["reset", "api", "per-user", "user=bob", "--tenant", "default", "--yes"],
        &["get", "api", "--overrides", "--tenant", "default"],
        &["history", "--tenant", "default"],
        &["backup"],
    ] {
        let said = rules(&acme, arguments);
        assert_eq!(said.code, Some(1), "{arguments:?}: {}{}", said.stdout, said.stderr);
    }
    for arguments in [&["get"][..], &["history"], &["export"], &["history", "2"]] {
        let said = rules(&reader, arguments);
        assert_eq!(said.code, Some(0), "{arguments:?}: {}", said.stderr);
        for others in ["per-user", "mallory", "secret plans", "1  20"] {
            assert!(!said.stdout.contains(others), "{arguments:?} shows {others}: {}", said.stdout);
        }
    }
    assert!(rules(&reader, &["history", "1"]).stderr.contains("no version 1"));
    assert!(rules(&reader, &["push", "acme.yaml", "--yes"]).stderr.contains("lacks the permission `admin`"));
    assert!(rules(&checker, &["get"]).stderr.contains("lacks the permission `read`"));
    assert!(rules("tg_000000000000_x", &["get"]).stderr.contains("not known"));
    // All of one's own, and back: never anybody else's.
    directory.write("web.yaml", ACME.replace("namespace: api", "namespace: web"));
    assert_eq!(rules(&acme, &["push", "web.yaml", "--all", "--yes"]).code, Some(0));
    assert_eq!(rules(&acme, &["rollback", "0", "--yes"]).code, Some(0));
    let left = rules(&operator, &["get"]).stdout;
    assert!(left.contains("per-user") && !left.contains("acme-only"), "{left}");
    let plain = |line: &str| -> (u16, Value) { parse(&request_with(&server.address, line, "", "")) };
    assert_eq!(plain("GET /v1/rules").0, 401);
    assert_eq!(plain("GET /metrics").0, 401);
}

#[test]
fn without_tokens_only_loopback_is_listened_on() {
    let directory = Directory::new();
    let refused = run(&directory, &["control", "--listen", "0.0.0.0:0"], &[]);
    assert!(refused.code == Some(2) && refused.stderr.contains("control.listen"), "{}", refused.stderr);
    assert!(refused.stderr.contains("auth.tokens"), "{}", refused.stderr);
}

#[test]
fn what_concerns_all_tenants_is_the_operators_and_history_names_the_token() {
    let directory = Directory::new();
    let (operator, acme) = (token(&directory, "default", "admin"), token(&directory, "acme", "admin"));
    let server = ready(Server::with_tokens(&directory.path("tokens.toml").display().to_string()));
    directory.write("rules.yaml", RULES);
    directory.write("acme.yaml", ACME);
    for (token, file) in [(&operator, "rules.yaml"), (&acme, "acme.yaml")] {
        let push = ["rules", "push", file, "--yes", "--token", token];
        assert_eq!(tidegate(&directory, &server, &push).code, Some(0));
    }
    let get = |path: &str, token: &str| -> (u16, Value) {
        let header = format!("Authorization: Bearer {token}\r\n");
        parse(&request_with(&server.address, &format!("GET {path}"), &header, ""))
    };
    let state = get("/v1/state", &acme).1;
    assert_eq!(
        (&state["tenant"], &state["namespaces"], &state["rules"]),
        (&"acme".into(), &1.into(), &1.into())
    );
    for others in ["followers", "problem", "upstream"] {
        assert!(state.get(others).is_none(), "{state}");
    }
    let state = get("/v1/state", &operator).1;
    assert_eq!((&state["namespaces"], &state["followers"]), (&2.into(), &0.into()));
    let author = get("/v1/rules/history", &acme).1["history"][0]["author"].as_str().unwrap().to_owned();
    assert!(author.ends_with(&format!(", token {}, tenant acme", &acme[3..15])), "{author}");
}

/// A namespace with so many rules.
fn many(tenant: &str, rules: usize) -> String {
    (0..rules).fold(format!("tenant: {tenant}\nnamespace: {tenant}-bulk\nrules:\n"), |text, rule| {
        text + &format!("- {{ name: r{rule}, key: [u], when: {{ p: v{rule} }}, limit: 9 per 365d }}\n")
    })
}

#[test]
fn two_hostile_tenants_dont_hinder_an_honest_one() {
    let directory = Directory::new();
    let tokens = ["default", "mallory", "trudy", "honest"].map(|tenant| token(&directory, tenant, "admin"));
    let [operator, mallory, trudy, honest] = &tokens;
    let server = ready(Server::with_tokens(&directory.path("tokens.toml").display().to_string()));
    let ask = |token: &str, line: &str, body: &Value| -> (u16, Value) {
        let header = format!("Authorization: Bearer {token}\r\n");
        let body = if body.is_null() { String::new() } else { body.to_string() };
        parse(&request_within(PATIENCE, &server.address, line, &header, &body))
    };
    let push = |token: &str, text: &str| {
        ask(token, "POST /v1/rules", &json!({ "files": [{ "name": "rules.yaml", "text": text }] }))
    };
    assert_eq!(push(operator, RULES).0, 200);
    let own_directory = Directory::new();
    let environment = [("TIDEGATE_TOKEN", operator.as_str())];
    let node = Node::start_with(&own_directory, &["--rules-control", &server.url()], &environment);
    let node = Follower { node, directory: own_directory };
    let own = |limit: u32| {
        format!(
            "tenant: honest\nnamespace: api\nrules: [{{ name: own, key: [user], limit: {limit} per 365d }}]\n"
        )
    };
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for (name, token, other) in [("mallory", mallory, "trudy"), ("trudy", trudy, "mallory")] {
            let (push, is_over) = (&push, &is_over);
            scope.spawn(move || {
                let wrong = format!("tenant: {name}\nnamespace: x\nrules: [{{ name: a }}]\n");
                let texts =
                    [many(name, 3000), many(name, 26_000), wrong, many("honest", 1), many(name, 2000)];
                for round in 0.. {
                    for (text, is_taken) in texts.iter().zip([true, false, false, false, true]) {
                        let (status, answer) = push(token, text);
                        // Two at once, or a queue that is full: what it asks for is none of the others' trouble.
                        assert!((status == 200) == is_taken || [409, 503].contains(&status), "{answer}");
                        let answer = answer.to_string();
                        for others in ["own", "per-user", other, &format!("{other}-bulk")] {
                            assert!(!answer.contains(&format!("\"{others}")), "{name} is told {answer}");
                        }
                    }
                    if round > 0 && is_over.load(Ordering::Relaxed) {
                        break;
                    }
                }
            });
        }
        let mut last = 0;
        for limit in 1..=5 {
            let (status, answer) = push(honest, &own(limit));
            assert_eq!(status, 200, "{answer}");
            let version = answer["version"].as_u64().unwrap();
            let (status, heard) = ask(honest, &format!("GET /v1/rules/watch?after={last}"), &Value::Null);
            assert_eq!(status, 200, "{heard}");
            let (status, read) = ask(honest, "GET /v1/rules", &Value::Null);
            assert_eq!(status, 200, "{read}");
            assert!(read.to_string().contains(&format!("limit: {limit} per 365d")), "{read}");
            for said in [&answer, &heard, &read] {
                for others in ["mallory", "trudy", "per-user"] {
                    assert!(!said.to_string().contains(others), "the honest one is told {said}");
                }
            }
            node.wait_version(version);
            last = version;
        }
        is_over.store(true, Ordering::Relaxed);
    });
    assert_eq!(node.allowed(101, "bob"), 100, "the operators' rules are in force");
}
