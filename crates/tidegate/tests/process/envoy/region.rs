//! Calls that have to ask the region first: two nodes, one Redis, and a rule that is exact.

use crate::envoy::client::Client;
use crate::envoy::proto::Ask;
use crate::support::{Directory, Node, SOON, poll};
use tidegate_testkit::Redis;

const RULES: &str =
    "namespace: api\nrules:\n  - { name: exact, key: [user], limit: 10 per 1h, accuracy: exact }\n";

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
