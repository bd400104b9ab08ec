//! What is pushed is enforced everywhere, soon, and everybody can see by whom.

use crate::scene::{Follower, REACHED_WITHIN, Server};
use crate::support::{poll, request_with, rules_of};
use serde_json::json;
use std::time::{Duration, Instant};

/// The target, which `cargo bench --bench rules` measures, is half a second; a test shares its machine.
const SOON_ENOUGH: Duration = Duration::from_secs(2);

#[test]
#[expect(clippy::disallowed_methods, reason = "other processes can't be given a clock")]
fn a_push_is_enforced_by_every_node_behind_every_broker() {
    let control = Server::control();
    let brokers = [Server::broker(&[&control]), Server::broker(&[&control])];
    let nodes: Vec<Follower> =
        (0..4).map(|index| Follower::start(&[&brokers[index % 2], &brokers[(index + 1) % 2]], &[])).collect();
    let version = control.push(&rules_of(5));
    nodes.iter().for_each(|node| node.wait_version(version));
    for node in &nodes {
        assert_eq!(node.allowed(8, "alice"), 5);
    }
    for limit in [2, 7, 3] {
        let began = Instant::now();
        control.set_override(&json!({ "rule": "per-user", "user": format!("bob-{limit}"), "limit": limit }));
        let version = control.get("/v1/rules")["version"].as_u64().unwrap();
        nodes.iter().for_each(|node| node.wait_version(version));
        assert!(began.elapsed() < SOON_ENOUGH, "{:?}", began.elapsed());
        for node in &nodes {
            assert_eq!(node.allowed(8, &format!("bob-{limit}")), limit);
        }
    }
    poll("all nodes at the control plane", REACHED_WITHIN, || {
        let listed = control.get("/v1/nodes");
        let nodes = listed["nodes"].as_array()?;
        let of = |role: &str| {
            nodes.iter().filter(|node| node["role"] == role && node["is_connected"] == true).count()
        };
        let is_current = nodes.iter().all(|node| node["rule_version"] == listed["version"]);
        ((of("node"), of("broker")) == (4, 2) && is_current).then_some(())
    });
    let metrics = request_with(&nodes[0].node.admin, "GET /metrics", "", "");
    for name in
        ["tidegate_rule_staleness_seconds", "tidegate_rule_stream_connected 1", "tidegate_rule_version 4"]
    {
        assert!(metrics.contains(name), "{name} in {metrics}");
    }
    let state = nodes[0].node.state();
    assert_eq!(state["rules_stream"]["staleness"], "fresh", "{state}");
    assert_eq!(state["rules_stream"]["is_other_release"], false, "{state}");
}

#[test]
fn modes_and_what_overrides_say_travel_too() {
    let control = Server::control();
    let node = Follower::start(&[&control], &[]);
    control.push(&rules_of(3));
    control.set_override(&json!({ "rule": "per-user", "user": "free", "unlimited": true }));
    control.set_override(&json!({ "rule": "per-user", "user": "mallory", "limit": 0 }));
    let ended = json!({ "rule": "per-user", "user": "late", "limit": 9, "until": "2020-01-01T00:00:00Z" });
    control.set_override(&ended);
    let version = control.set_override(&json!({ "rule": "per-user", "user": "acme-*", "limit": 6 }));
    node.wait_version(version);
    let allowed = |user: &str| node.allowed(8, user);
    assert_eq!([allowed("free"), allowed("mallory"), allowed("late"), allowed("acme-1")], [8, 0, 3, 6]);
    node.wait_version(control.mode("shadow"));
    assert_eq!(allowed("mallory"), 8, "counted, and never denied");
    node.wait_version(control.mode("enforce"));
    assert_eq!(allowed("mallory"), 0);
}

#[test]
fn a_node_that_comes_later_gets_everything() {
    let control = Server::control();
    control.push(&rules_of(3));
    for number in 0..50 {
        control.set_override(&json!({ "rule": "per-user", "user": format!("user-{number}"), "limit": 5 }));
    }
    let broker = Server::broker(&[&control]);
    let node = Follower::start(&[&broker], &[]);
    node.wait_version(51);
    assert_eq!([node.allowed(8, "user-49"), node.allowed(8, "user-50")], [5, 3]);
}
