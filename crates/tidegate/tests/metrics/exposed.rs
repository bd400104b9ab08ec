//! Every kind of node exposes what the document says it does, and nothing else, in a form that promtool accepts.

use crate::scene::{Follower, REACHED_WITHIN, Server};
use crate::scrape::Scrape;
use crate::support::{CHECK, Directory, Node, poll, request, rules_of};
use crate::table::{names_of, rows};
use crate::wait_for;
use std::time::Duration;
use tidegate_testkit::Redis;

const EVERY: [&str; 2] = ["Every node", "Nodes with a decision log"];
const REGION: &str = "Nodes that share their counts with a region";
/// What a busy machine may take for what should be a few seconds.
const SEEN_WITHIN: Duration = Duration::from_secs(30);
const PATIENT: [&str; 2] = ["--origin-timeout-ms", "1000"];

/// Compares names, kinds and meanings with those of the document.
fn compare(scrape: &Scrape, sections: &[&str]) {
    scrape.check();
    let (exposed, rows) = (scrape.families(), rows());
    let names: Vec<&String> = exposed.keys().collect();
    let documented = names_of(sections);
    assert_eq!(names, documented.iter().collect::<Vec<_>>(), "left: exposed; right: docs/metrics.md");
    for (name, (meaning, kind)) in &exposed {
        assert_eq!((meaning, kind), (&rows[name].meaning, &rows[name].kind), "{name}");
    }
}

#[test]
fn a_node_alone() {
    let directory = Directory::new();
    directory.write("rules.yaml", rules_of(3));
    let node = Node::start(&directory, &[]);
    assert_eq!(node.allowed(5, CHECK), 3);
    request(&node.http, "POST", "/v1/report", CHECK);
    let scrape = Scrape::of(&node.admin);
    compare(&scrape, &EVERY);
    let rule = [r#"tenant="default",namespace="api",rule="per-user""#];
    let with = |label| [rule[0], label];
    assert_eq!(scrape.sum("tidegate_decisions_total", &with(r#"outcome="allowed",path="local""#)), 3.0);
    assert_eq!(scrape.sum("tidegate_decisions_total", &with(r#"outcome="denied",path="local""#)), 2.0);
    assert_eq!(scrape.sum("tidegate_decisions_total", &with(r#"outcome="reported""#)), 1.0);
    assert_eq!(scrape.sum("tidegate_near_limit_decisions_total", &rule), 1.0, "the last that passed");
    assert_eq!(scrape.sum("tidegate_requests_denied_total", &[]), 2.0);
    assert!(scrape.sum("tidegate_decision_duration_seconds_count", &[r#"asked="false""#]) >= 1.0);
    assert!(scrape.sum("tidegate_keys_max", &[]) > scrape.sum("tidegate_keys", &[]));
}

#[test]
fn counts_of_a_rule_outlive_a_change_of_the_rules() {
    let directory = Directory::new();
    directory.write("rules.yaml", rules_of(3));
    let node = Node::start(&directory, &[]);
    assert_eq!(node.allowed(2, CHECK), 2);
    directory.write("rules.yaml", rules_of(100));
    poll("the new rules", REACHED_WITHIN, || (node.state()["rule_version"] == 2).then_some(()));
    assert_eq!(node.allowed(3, CHECK), 3);
    let scrape = Scrape::of(&node.admin);
    assert_eq!(scrape.sum("tidegate_decisions_total", &[r#"rule="per-user""#]), 5.0);
    assert_eq!(scrape.sum("tidegate_rule_reloads_total", &[]), 1.0);
}

#[test]
fn a_node_of_a_region() {
    let redis = wait_for(Redis::start());
    let directory = Directory::new();
    directory.write("rules.yaml", rules_of(3));
    let node = Node::start(&directory, &[&["--origin-url", &redis.url()], &PATIENT[..]].concat());
    poll("a check by the store", REACHED_WITHIN, || {
        let (_, answer) = request(&node.http, "POST", "/v1/check", CHECK);
        (answer["path"] != "unverified").then_some(())
    });
    let scrape = Scrape::of(&node.admin);
    compare(&scrape, &[&EVERY[..], &[REGION]].concat());
    let shard = format!("shard=\"{}\"", redis.address());
    assert!(scrape.sum("tidegate_origin_operations_total", &[&shard]) >= 1.0);
    assert!(scrape.sum("tidegate_origin_operation_duration_seconds_count", &[&shard]) >= 1.0);
    assert!(scrape.sum("tidegate_origin_asks_total", &[r#"reason="cold""#]) >= 1.0);
    assert!(scrape.sum("tidegate_decision_duration_seconds_count", &[r#"asked="true""#]) >= 1.0);
    assert_eq!(scrape.sum("tidegate_breaker_open", &[&shard]), 0.0);
    redis.kill();
    let scrape = poll("an open breaker", SEEN_WITHIN, || {
        let body =
            r#"{"namespace":"n","identifier":"i","limit":100000,"duration_ms":3600000,"accuracy":"exact"}"#;
        request(&node.http, "POST", "/v1/limit", body);
        let scrape = Scrape::of(&node.admin);
        (scrape.sum("tidegate_breaker_open", &[&shard]) == 1.0).then_some(scrape)
    });
    assert!(scrape.sum("tidegate_origin_errors_total", &[&shard]) >= 5.0);
    let unverified = [r#"rule="given",outcome="allowed",path="unverified""#];
    assert!(scrape.sum("tidegate_decisions_total", &unverified) >= 1.0);
    compare(&scrape, &[&EVERY[..], &[REGION]].concat());
}

#[test]
fn a_node_of_a_world() {
    let redis = wait_for(Redis::start());
    let directory = Directory::new();
    let world = ["--region", "eu", "--world-url", "sqlite:world.db", "--world-interval-ms", "1000"];
    let node = Node::start(&directory, &[&["--origin-url", &redis.url()], &PATIENT[..], &world].concat());
    let scrape = poll("a worker that has published and imported", SEEN_WITHIN, || {
        let body = r#"{"namespace":"n","identifier":"i","limit":9,"duration_ms":31536000000}"#;
        request(&node.http, "POST", "/v1/limit", body);
        let scrape = Scrape::of(&node.admin);
        let ages = ["tidegate_world_import_age_seconds", "tidegate_world_publish_age_seconds"];
        ages.iter().all(|age| scrape.has(age)).then_some(scrape)
    });
    compare(&scrape, &[&EVERY[..], &[REGION, "Nodes in a world", "The world worker"]].concat());
    assert_eq!(scrape.sum("tidegate_world_worker", &[]), 1.0);
    assert_eq!(scrape.sum("tidegate_node_info", &[r#"region="eu""#]), 1.0);
}

#[test]
fn a_node_that_follows_and_whom_it_follows() {
    let control = Server::control();
    control.push(&rules_of(3));
    let broker = Server::broker(&[&control]);
    let follower = Follower::start(&[&broker], &[]);
    follower.wait_version(1);
    compare(
        &Scrape::of(&follower.node.admin),
        &[&EVERY[..], &["Nodes with rules of a control plane"]].concat(),
    );
    let scrape = Scrape::of(&control.address);
    compare(&scrape, &["A control plane or broker"]);
    assert_eq!(scrape.sum("tidegate_control_rule_version", &[]), 1.0);
    let scrape = Scrape::of(&broker.address);
    scrape.check();
    assert!(!scrape.has("tidegate_control_follows_store"), "it has none");
}
