//! A node that requires rules: not ready before they have come, from a control plane or from its own disk.

use crate::scene::{Follower, REACHED_WITHIN, Server};
use crate::support::{Directory, poll, request, rules_of};

fn readiness(node: &Follower) -> (u16, Option<String>) {
    let (status, answer) = request(&node.node.admin, "GET", "/readyz", "");
    (status, answer["reason"].as_str().map(str::to_owned))
}

#[test]
fn a_fresh_node_is_ready_when_its_first_rules_have_come() {
    let control = Server::control();
    let node = Follower::start(&[&control], &[]);
    let (status, reason) = readiness(&node);
    assert_eq!(status, 503);
    assert!(reason.is_some_and(|reason| reason.contains("rules.require")));
    assert_eq!(node.allowed(2, "somebody"), 2, "it decides meanwhile");
    control.push(&rules_of(3));
    poll("readiness", REACHED_WITHIN, || (readiness(&node) == (200, None)).then_some(()));
    assert_eq!(node.allowed(5, "another"), 3);

    // What it has on its disk is enough, wherever the control plane is.
    drop(control);
    let Follower { node: process, directory } = node;
    drop(process);
    let again = Follower::start_in(directory, "http://127.0.0.1:9", &[]);
    assert_eq!(readiness(&again), (200, None));
}

#[test]
fn a_node_that_requires_none_is_ready_at_once() {
    let node = Follower::start_in(Directory::new(), "http://127.0.0.1:9", &["--rules-require", "false"]);
    assert_eq!(readiness(&node), (200, None));
}
