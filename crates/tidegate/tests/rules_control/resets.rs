//! A reset reaches every node, and moves a key on once.

use crate::scene::{Follower, REACHED_WITHIN, Server};
use crate::support::{poll, rules_of};
use tidegate_testkit::Redis;

#[test]
fn a_lone_nodes_caller_starts_afresh() {
    let control = Server::control();
    let node = Follower::start(&[&control], &[]);
    node.wait_version(control.push(&rules_of(3)));
    assert_eq!([node.allowed(5, "alice"), node.allowed(5, "bob")], [3, 3]);
    control.reset("alice");
    poll("a fresh start", REACHED_WITHIN, || (node.allowed(1, "alice") == 1).then_some(()));
    assert_eq!([node.allowed(5, "alice"), node.allowed(1, "bob")], [2, 0]);
}

#[test]
fn a_region_carries_a_reset_out_once_however_many_nodes_hear_of_it() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let redis = runtime.block_on(Redis::start());
    let control = Server::control();
    let arguments = ["--origin-url", &redis.url(), "--origin-timeout-ms", "1000"];
    let nodes: Vec<Follower> = (0..4).map(|_| Follower::start(&[&control], &arguments)).collect();
    let version = control.push(&rules_of(20));
    nodes.iter().for_each(|node| node.wait_version(version));
    let spent: usize = nodes.iter().map(|node| node.allowed(10, "alice")).sum();
    assert_eq!(spent, 20);
    let version = control.reset("alice");
    nodes.iter().for_each(|node| node.wait_version(version));
    // All four carry it out within moments; what the first admits after it must stay spent.
    poll("a fresh start", REACHED_WITHIN, || (nodes[0].allowed(1, "alice") == 1).then_some(()));
    let mut admitted = 1;
    let deadline = tokio::time::Instant::now() + std::time::Duration::from_secs(2);
    while tokio::time::Instant::now() < deadline {
        admitted += nodes.iter().map(|node| node.allowed(1, "alice")).sum::<usize>();
    }
    assert_eq!(admitted, 20, "each further reset would have admitted more");
}
