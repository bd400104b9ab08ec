//! Nodes whose machines' clocks are wrong count in the same cells: they follow the time of their store.

use crate::fleet::{Limit, Member, PATIENT, faketime, wait_for};
use crate::support::{Directory, Node};
use tidegate_testkit::Redis;

/// A node whose machine's clock is off by so many days. The windows of these tests are a year long.
fn join_off_by(days: i32, url: &str) -> Member {
    let (library, offset) = (faketime(), format!("{days:+}d"));
    let directory = Directory::new();
    directory.write("fleet-secret", "the-secret-of-skewed-nodes");
    let arguments = [&["--cluster-secret-file", "fleet-secret", "--origin-url", url], &PATIENT[..]].concat();
    let environment = [
        ("LD_PRELOAD", library.as_str()),
        ("FAKETIME", offset.as_str()),
        ("FAKETIME_DONT_FAKE_MONOTONIC", "1"),
    ];
    let node = Node::start_with(&directory, &arguments, &environment);
    let member = Member { node, directory };
    member.wait_joined();
    member
}

#[test]
fn nodes_whose_clocks_differ_by_more_than_a_window_share_its_limit() {
    let redis = wait_for(Redis::start());
    let nodes = [0, -400, 400].map(|days| join_off_by(days, &redis.url()));
    nodes[1].wait_logged("this node follows the store's");
    nodes[2].wait_logged("this node follows the store's");
    let limit = Limit::strict("shared by skewed clocks", 20);
    let mut callers: Vec<_> = nodes.iter().map(Member::caller).collect();
    let admitted = (0..30).flat_map(|_| 0..3).filter(|node| callers[*node].ask(&limit).is_allowed()).count();
    assert_eq!(admitted, 20);
    // And a cell that a node wrote whose clock is behind is there for the others.
    let spent = Limit::strict("spent by a node that is behind", 5);
    assert_eq!((0..8).filter(|_| callers[1].ask(&spent).is_allowed()).count(), 5);
    assert!([0, 2].iter().all(|node| !callers[*node].ask(&spent).is_allowed()));
}
