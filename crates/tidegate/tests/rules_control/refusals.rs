//! Who may follow, and what a broker isn't.

use crate::scene::Server;
use crate::support::{Directory, Node, poll, request, run};
use serde_json::json;

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
        [(None, Some("no token")), (Some(&tenant), Some("about all tenants")), (Some(&operator), None)]
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
