//! Tokens on a control plane: a tenant sees and changes its own.

use crate::scene::Server;
use crate::support::{Directory, Finished, parse, request_with, run};
use crate::{RULES, ready, tidegate};
use serde_json::Value;

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
