//! Without a control plane, without brokers, after restarts: what is enforced stays.

use crate::scene::{Follower, REACHED_WITHIN, Server};
use crate::support::{poll, rules_of};
use serde_json::json;

#[test]
fn enforcement_outlives_control_plane_brokers_and_restarts() {
    let mut control = Server::control();
    let mut broker = Server::broker(&[&control]);
    let node = Follower::start(&[&broker], &[]);
    control.push(&rules_of(3));
    let version = control.set_override(&json!({ "rule": "per-user", "user": "vip", "limit": 6 }));
    node.wait_version(version);
    control.kill();
    assert_eq!([node.allowed(8, "a"), node.allowed(8, "vip")], [3, 6]);
    broker.kill();
    assert_eq!([node.allowed(8, "b"), node.allowed(4, "vip")], [3, 0]);
    // The node comes back while nobody is there.
    let Follower { node: old, directory } = node;
    drop(old);
    let node = Follower::start_in(directory, &broker.url(), &[]);
    assert_eq!(node.version(), version, "from its file, before anybody was asked");
    assert_eq!([node.allowed(8, "c"), node.allowed(8, "vip-2")], [3, 3]);
    let stream = node.node.state()["rules_stream"].clone();
    assert_eq!(stream["is_connected"], false, "{stream}");
    // A broker alone has its own file to serve from.
    let broker = broker.restart();
    poll("the broker", REACHED_WITHIN, || {
        (node.node.state()["rules_stream"]["is_connected"] == true).then_some(())
    });
    assert_eq!(broker.get("/v1/state")["version"], version);
    let control = control.restart();
    let version = control.set_override(&json!({ "rule": "per-user", "user": "vip", "limit": 1 }));
    node.wait_version(version);
    assert_eq!(node.allowed(8, "vip"), 1, "a lone node's counts were its own, and are gone with kill -9");
}

#[test]
fn a_node_moves_on_to_the_next_broker() {
    let control = Server::control();
    let mut brokers = vec![Server::broker(&[&control]), Server::broker(&[&control])];
    let node = Follower::start(&[&brokers[0], &brokers[1]], &[]);
    node.wait_version(control.push(&rules_of(3)));
    for _ in 0..2 {
        let used = node.node.state()["rules_stream"]["server"].as_str().unwrap().to_owned();
        let index = brokers.iter().position(|broker| broker.url() == used).unwrap();
        let broker = brokers.remove(index);
        let version = {
            let mut broker = broker;
            broker.kill();
            let version = control.set_override(&json!({ "rule": "per-user", "user": used, "limit": 1 }));
            node.wait_version(version);
            brokers.push(broker.restart());
            version
        };
        assert!(node.version() >= version);
    }
    assert!(node.log().contains("the next server is tried"), "{}", node.log());
}

#[test]
fn a_node_with_two_sources_of_rules_is_told_which_to_remove() {
    let directory = crate::support::Directory::new();
    directory.write("rules.yaml", rules_of(1));
    let arguments = ["serve", "--rules-file", "rules.yaml", "--rules-control", "http://127.0.0.1:1"];
    let finished = crate::support::run(&directory, &arguments, &[]);
    assert_eq!(finished.code, Some(2));
    assert!(finished.stderr.contains("remove rules.file, or rules.control"), "{}", finished.stderr);
}
