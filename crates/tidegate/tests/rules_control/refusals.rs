//! Who may follow, and what a broker isn't.

use crate::scene::{Follower, REACHED_WITHIN, Server};
use crate::support::{Directory, Node, poll, request, rules_of, run};
use serde_json::json;
use std::io::{Read, Write};
use tidegate_testkit::Authority;

#[test]
fn a_broker_has_no_rules_of_its_own() {
    let control = Server::control();
    let broker = Server::broker(&[&control]);
    let body = json!({ "mode": "off" }).to_string();
    let (status, answer) = request(&broker.address, "POST", "/v1/rules/mode", &body);
    assert_eq!(status, 404, "{answer}");
    assert!(answer["error"]["fix"].as_str().unwrap().contains("control plane"), "{answer}");
    let upstream = broker.get("/v1/state")["upstream"].clone();
    assert_eq!(upstream["servers"], json!([control.url()]));
}

#[test]
fn following_needs_an_operators_token_where_there_are_tokens() {
    let directory = Directory::new();
    let token = |tenant: &str| {
        let arguments =
            ["token", "new", "--tenant", tenant, "--permissions", "read", "--auth-tokens", "tokens.toml"];
        run(&directory, &arguments, &[]).stdout.trim().to_owned()
    };
    let (operator, tenant) = (token("default"), token("acme"));
    let tokens = directory.path("tokens.toml").display().to_string();
    let control = Server::with_tokens(&tokens);
    for (token, problem) in
        [(None, Some("no token")), (Some(&tenant), Some("concerns all tenants")), (Some(&operator), None)]
    {
        let own = Directory::new();
        let environment: Vec<(&str, &str)> =
            token.map(|token| ("TIDEGATE_TOKEN", token.as_str())).into_iter().collect();
        let node = Node::start_with(&own, &["--rules-control", &control.url()], &environment);
        let stream = || node.state()["rules_stream"].clone();
        poll("what the server says", crate::scene::REACHED_WITHIN, || match problem {
            Some(problem) => stream()["problem"].as_str()?.contains(problem).then_some(()),
            None => (stream()["is_connected"] == true).then_some(()),
        });
    }
}

#[test]
fn a_follower_whose_token_is_revoked_gets_no_more_rules() {
    let directory = Directory::new();
    let token = |permissions: &str| {
        let arguments = [
            "token",
            "new",
            "--tenant",
            "default",
            "--permissions",
            permissions,
            "--auth-tokens",
            "tokens.toml",
        ];
        run(&directory, &arguments, &[]).stdout.trim().to_owned()
    };
    let (followers, own) = (token("read"), token("read,admin"));
    let tokens = directory.path("tokens.toml").display().to_string();
    let control = Server::with_tokens(&tokens);
    let environment = [("TIDEGATE_TOKEN", followers.as_str())];
    let home = Directory::new();
    let node = Node::start_with(&home, &["--rules-control", &control.url()], &environment);
    let stream = || node.state()["rules_stream"].clone();
    poll("the stream", REACHED_WITHIN, || (stream()["is_connected"] == true).then_some(()));
    // Somebody who waits for news, with the same token.
    let mut waiting = crate::support::connect(&control.address);
    waiting.set_read_timeout(Some(REACHED_WITHIN)).unwrap();
    let line = "GET /v1/rules/watch HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n";
    waiting.write_all(format!("{line}Authorization: Bearer {followers}\r\n\r\n").as_bytes()).unwrap();

    let revoked =
        run(&directory, &["token", "revoke", &followers[3..15], "--auth-tokens", "tokens.toml"], &[]);
    assert_eq!(revoked.code, Some(0), "{}", revoked.stderr);
    poll("the end of the stream", REACHED_WITHIN, || {
        stream()["problem"].as_str()?.contains("revoked").then_some(())
    });
    let mut answer = String::new();
    waiting.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 401"), "{answer}");
    home.write("rules.yaml", rules_of(3));
    let push = ["rules", "push", "rules.yaml", "--yes", "--control", &control.url()];
    let pushed = run(&home, &push, &[("TIDEGATE_TOKEN", &own)]);
    assert_eq!(pushed.code, Some(0), "{}", pushed.stderr);
    assert_eq!(stream()["version"].as_u64().unwrap_or(0), 0);
    assert!(stream()["is_connected"] != true);
}

#[test]
fn rules_come_over_tls_from_whom_the_authority_vouches_for() {
    let (authority, stranger) = (Authority::new(), Authority::new());
    let issued = authority.server();
    let directory = Directory::new();
    directory.write("server.pem", &issued.certificate);
    directory.write("server.key", &issued.key);
    let control = Server::with_tls(directory);
    let own = Directory::new();
    own.write("ca.pem", authority.pem());
    own.write("stranger.pem", stranger.pem());
    own.write("rules.yaml", rules_of(3));
    let url = format!("https://{}", control.address);
    // It listens before it has read its store, and says so.
    poll("the first rules", REACHED_WITHIN, || {
        let push = ["rules", "push", "rules.yaml", "--yes", "--control", &url, "--ca", "ca.pem"];
        let pushed = run(&own, &push, &[]);
        let is_early = pushed.stderr.contains("aren't read from the store yet");
        assert!(is_early || pushed.code == Some(0), "{}", pushed.stderr);
        (!is_early).then_some(())
    });
    let followed_by = |ca: &str| format!("{url}?ca={}", own.path(ca).display());

    let node = Follower::start_in(Directory::new(), &followed_by("ca.pem"), &[]);
    node.wait_version(1);
    assert_eq!(node.allowed(5, "somebody"), 3);

    let node = Follower::start_in(Directory::new(), &followed_by("stranger.pem"), &[]);
    let problem = poll("the refusal", REACHED_WITHIN, || {
        node.node.state()["rules_stream"]["problem"].as_str().map(str::to_owned)
    });
    assert!(problem.contains("certificate"), "{problem}");
    assert_eq!(node.version(), 0);
}
