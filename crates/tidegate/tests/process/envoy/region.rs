//! Calls that have to ask the region first: two nodes, one Redis, and a rule that is exact.

use crate::envoy::client::{Client, SHOULD_RATE_LIMIT, framed};
use crate::envoy::proto::Ask;
use crate::support::{Directory, Node, SOON, poll, request};
use tidegate_testkit::Redis;

const RULES: &str =
    "namespace: api\nrules:\n  - { name: exact, key: [user], limit: 10 per 365d, accuracy: exact }\n";

#[test]
fn two_nodes_admit_what_the_rule_says_together() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let redis = runtime.block_on(Redis::start());
    let started = || {
        let directory = Directory::new();
        directory.write("rules.yaml", RULES);
        // The usual 5 ms are what a busy machine may take by itself.
        let arguments = ["--origin-url", &redis.url(), "--origin-timeout-ms", "1000"];
        let node = Node::start_with(&directory, &arguments, &[("TIDEGATE_LOG_LEVEL", "info")]);
        poll("an origin that answers", SOON, || {
            directory.read("stderr").contains("the origin answers").then_some(())
        });
        let client = Client::connect(&node.grpc);
        (directory, node, client)
    };
    let nodes = [started(), started()];
    let ask = Ask::of("api", &[&[("user", "1")]]);
    let admitted = (0..30).filter(|turn| !nodes[turn % 2].2.ask(&ask).is_over).count();
    assert_eq!(admitted, 10);
}

/// With a collector that isn't there: nothing waits for it.
#[test]
fn a_call_that_asks_is_told_its_span_and_a_denial_is_logged_with_its_trace() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let redis = runtime.block_on(Redis::start());
    let directory = Directory::new();
    directory.write("rules.yaml", RULES.replace("10 per", "1 per"));
    let arguments = ["--origin-url", &redis.url(), "--origin-timeout-ms", "1000"];
    let arguments = [&arguments[..], &["--otlp-endpoint", "http://127.0.0.1:1", "--otlp-interval-ms", "100"]];
    let node = Node::start_with(&directory, &arguments.concat(), &[("TIDEGATE_LOG_LEVEL", "info")]);
    poll("an origin that answers", SOON, || {
        directory.read("stderr").contains("the origin answers").then_some(())
    });
    let client = Client::connect(&node.grpc);
    let message = framed(&Ask::of("api", &[&[("user", "1")]]).encoded());
    let call = |parent: &str| {
        let request = http::Request::post(format!("http://node{SHOULD_RATE_LIMIT}"));
        let request = request.header("content-type", "application/grpc").header("traceparent", parent);
        let reply = client.exchange(request.body(()).unwrap(), &[&message]);
        assert_eq!((reply.http, reply.code), (200, Some(0)), "{reply:?}");
        reply.trace_parent
    };
    let trace = "4bf92f3577b34da6a3ce929d0e0e4736";
    let told = call(&format!("00-{trace}-00f067aa0ba902b7-01")).expect("it asked");
    assert!(told.starts_with(&format!("00-{trace}-")) && told.ends_with("-01"), "{told}");
    assert_eq!(call(&format!("00-{trace}-00f067aa0ba902b7-00")), None, "not sampled");
    assert_eq!(call("nonsense"), None);
    let decisions = poll("the denials", SOON, || {
        let (_, answer) = request(&node.admin, "GET", "/v1/why?rule=exact", "");
        Some(answer["decisions"].clone()).filter(|found| found.as_array().is_some_and(|all| all.len() == 2))
    });
    let traced: Vec<bool> = decisions.as_array().unwrap().iter().map(|one| one["trace"] == trace).collect();
    assert_eq!(traced, [false, true], "the newest first: {decisions}");
}
