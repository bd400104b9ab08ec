//! Overrides that are set through Unkey's API at one node, in the whole fleet.

use crate::scene::{Follower, Server};
use crate::support::{Node, poll, request};
use serde_json::{Value, json};
use std::time::Duration;

fn post(node: &Node, operation: &str, body: &Value) -> (u16, Value) {
    let (status, answer) =
        request(&node.http, "POST", &format!("/v2/ratelimit.{operation}"), &body.to_string());
    (status, if status == 200 { answer["data"].clone() } else { answer["error"].clone() })
}

fn limit_of(node: &Node, identifier: &str) -> (Value, Value) {
    let body =
        json!({"namespace": "emails", "identifier": identifier, "limit": 10, "duration": 60_000, "cost": 0});
    let (status, data) = post(node, "limit", &body);
    assert_eq!(status, 200, "{data}");
    (data["limit"].clone(), data["overrideId"].clone())
}

/// Waits until a node's limit for somebody is this, for as long as that may take.
fn reached(node: &Node, identifier: &str, limit: u64) {
    const WITHIN: Duration = Duration::from_secs(1);
    poll("the override", WITHIN, || (limit_of(node, identifier).0 == limit).then_some(()));
}

fn setting(identifier: &str, limit: u64, duration: u64) -> Value {
    json!({"namespace": "emails", "identifier": identifier, "limit": limit, "duration": duration})
}

fn named(identifier: &str) -> Value {
    json!({"namespace": "emails", "identifier": identifier})
}

#[test]
fn an_override_set_at_one_node_is_in_force_at_all_of_them_within_a_second() {
    let control = Server::control();
    let version =
        control.push("namespace: api\nrules:\n  - { name: per-user, key: [user], limit: 5 per 1m }\n");
    let [here, there] = [(), ()].map(|()| Follower::start(&[&control], &[]));
    for follower in [&here, &there] {
        follower.wait_version(version);
    }
    // Both know it at once, exact ones and patterns; at the node that was told with the answer.
    for (identifier, of, limit, duration) in [
        ("vip_7", "vip_7", 500, 60_000),
        ("vip_*", "vip_8", 50, 60_000),
        ("vip_7", "vip_7", 700, 3_600_000),
        ("mallory", "mallory", 0, 60_000),
    ] {
        let (status, data) = post(&here.node, "setOverride", &setting(identifier, limit, duration));
        assert_eq!(status, 200, "{data}");
        let (known, id) = limit_of(&here.node, of);
        assert_eq!(
            (known, &id),
            (json!(limit), &data["overrideId"]),
            "{identifier} at the node that was told"
        );
        reached(&there.node, of, limit);
        assert_eq!(limit_of(&there.node, of).1, id, "the same id everywhere");
    }
    assert_eq!(limit_of(&there.node, "somebody").0, 10, "others keep the request's own limit");
    // A blocked caller is denied at the other node.
    let mut blocked = setting("mallory", 10, 60_000);
    blocked["cost"] = json!(1);
    assert_eq!(post(&there.node, "limit", &blocked).1["success"], false);
    // What was set is told as it was set, by any node.
    let (_, data) = post(&there.node, "getOverride", &named("vip_7"));
    assert_eq!((&data["limit"], &data["duration"]), (&json!(700), &json!(3_600_000)), "{data}");
    let (_, listed) = post(&there.node, "listOverrides", &json!({"namespace": "emails", "limit": 2}));
    let texts: Vec<&str> =
        listed.as_array().unwrap().iter().map(|one| one["identifier"].as_str().unwrap()).collect();
    assert_eq!(texts, ["mallory", "vip_*"]);
    let (_, data) = post(&there.node, "getOverride", &named("mallory"));
    assert_eq!((&data["limit"], &data["duration"]), (&json!(0), &json!(60_000)), "{data}");
    // It is an override of a rule: people see it, and a push of other rules leaves it.
    let pushed =
        control.push("namespace: api\nrules:\n  - { name: per-user, key: [user], limit: 6 per 1m }\n");
    there.wait_version(pushed);
    assert_eq!(limit_of(&there.node, "vip_7").0, 700);
    // Deleted at the other one.
    let (status, data) = post(&there.node, "deleteOverride", &named("vip_7"));
    assert_eq!(status, 200, "{data}");
    assert_eq!(limit_of(&there.node, "vip_7").0, 50, "the pattern is next");
    reached(&here.node, "vip_7", 50);
    assert_eq!(post(&here.node, "deleteOverride", &named("vip_7")).0, 404);
}

#[test]
fn overrides_stay_in_force_while_the_control_plane_is_away_and_changes_are_refused() {
    let mut control = Server::control();
    let version =
        control.push("namespace: api\nrules:\n  - { name: per-user, key: [user], limit: 5 per 1m }\n");
    let follower = Follower::start(&[&control], &[]);
    follower.wait_version(version);
    assert_eq!(post(&follower.node, "setOverride", &setting("vip", 500, 60_000)).0, 200);
    control.kill();
    assert_eq!(limit_of(&follower.node, "vip").0, 500);
    let (status, error) = post(&follower.node, "setOverride", &setting("vip", 600, 60_000));
    assert_eq!((status, &error["status"]), (503, &json!(503)), "{error}");
    assert!(error["detail"].as_str().unwrap().contains("the control plane at"), "{error}");
    assert_eq!(limit_of(&follower.node, "vip").0, 500);
}

#[test]
fn what_a_node_kept_by_itself_stays_in_force_below_the_fleets() {
    let directory = crate::support::Directory::new();
    let alone = Node::start(&directory, &[]);
    assert_eq!(post(&alone, "setOverride", &setting("old", 77, 60_000)).0, 200);
    drop(alone);
    let control = Server::control();
    let version =
        control.push("namespace: api\nrules:\n  - { name: per-user, key: [user], limit: 5 per 1m }\n");
    let follower = Follower::start_in(directory, &control.url(), &[]);
    follower.wait_version(version);
    assert_eq!(limit_of(&follower.node, "old").0, 77);
    assert_eq!(post(&follower.node, "setOverride", &setting("old", 88, 60_000)).0, 200);
    assert_eq!(limit_of(&follower.node, "old").0, 88);
    assert_eq!(post(&follower.node, "deleteOverride", &named("old")).0, 200);
    assert_eq!(limit_of(&follower.node, "old").0, 10, "both are gone");
}
