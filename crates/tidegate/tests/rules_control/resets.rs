//! A reset reaches every node, and moves a key on once.

use crate::scene::{Follower, REACHED_WITHIN, Server};
use crate::support::{Directory, poll, rules_of};
use rustix::process::Signal;
use std::time::Duration;
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
    // Of class `abuse`: what can't be verified, on a busy machine, is denied and comes again.
    let rules = rules_of(20).replace("per 365d", "per 365d, class: abuse");
    let version = control.push(&rules);
    nodes.iter().for_each(|node| node.wait_version(version));
    spend(&nodes, 20);
    // One of them stands still, and hears of it when the others have done it long ago.
    let (late, others) = nodes.split_last().unwrap();
    late.node.process.signal(Signal::STOP);
    let version = control.reset("alice");
    others.iter().for_each(|node| node.wait_version(version));
    spend(others, 20);
    late.node.process.signal(Signal::CONT);
    late.wait_version(version);
    let deadline = tokio::time::Instant::now() + Duration::from_secs(2);
    while tokio::time::Instant::now() < deadline {
        let admitted: usize = nodes.iter().map(|node| node.allowed(1, "alice")).sum();
        assert_eq!(admitted, 0, "what was admitted after the reset stays spent");
    }
}

/// Nobody of a region was there when it was ordered, and the changes since are no longer to be had one by one.
#[test]
fn a_region_that_comes_back_by_a_file_carries_a_reset_out_once() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let redis = runtime.block_on(Redis::start());
    let control = Server::control();
    let arguments = ["--origin-url", &redis.url(), "--origin-timeout-ms", "1000"];
    let nodes: Vec<Follower> = (0..2).map(|_| Follower::start(&[&control], &arguments)).collect();
    let version = control.push(&rules_of(20).replace("per 365d", "per 365d, class: abuse"));
    nodes.iter().for_each(|node| node.wait_version(version));
    spend(&nodes, 20);
    let directories: Vec<Directory> = nodes.into_iter().map(|Follower { directory, .. }| directory).collect();

    let version = control.reset("alice");
    let control = control.restart_without_files();
    let restart = |directory| Follower::start_in(directory, &control.url(), &arguments);
    let nodes: Vec<Follower> = directories.into_iter().map(restart).collect();
    nodes.iter().for_each(|node| node.wait_version(version));
    assert!(nodes.iter().all(|node| node.snapshots() == 1), "by files, and not by changes");
    spend(&nodes, 20);

    // One that has nothing on its disk is told of everything, and does none of it again.
    let late = Follower::start(&[&control], &arguments);
    late.wait_version(version);
    let deadline = tokio::time::Instant::now() + Duration::from_secs(2);
    while tokio::time::Instant::now() < deadline {
        let admitted: usize = nodes.iter().chain([&late]).map(|node| node.allowed(1, "alice")).sum();
        assert_eq!(admitted, 0, "what was admitted after the reset stays spent");
    }
}

#[test]
fn a_lone_node_that_was_away_hears_of_a_reset_once_through_a_broker() {
    let control = Server::control();
    let node = Follower::start(&[&control], &[]);
    node.wait_version(control.push(&rules_of(3)));
    assert_eq!(node.allowed(5, "alice"), 3);
    // Its counts outlive it, as do its rules.
    let Follower { node: mut process, directory } = node;
    process.process.signal(Signal::TERM);
    assert_eq!(process.process.exit_code(REACHED_WITHIN), Some(0));

    let version = control.reset("alice");
    let control = control.restart_without_files();
    let broker = Server::broker(&[&control]);
    let node = Follower::start_in(directory, &broker.url(), &[]);
    node.wait_version(version);
    poll("a fresh start", REACHED_WITHIN, || (node.allowed(1, "alice") == 1).then_some(()));
    assert_eq!(node.allowed(5, "alice"), 2);
    // The next connection tells it again.
    let connects = node.connects();
    let broker = broker.restart();
    poll("another connection", REACHED_WITHIN, || (node.connects() > connects).then_some(()));
    node.wait_version(control.mode("enforce").max(version));
    assert_eq!((node.allowed(5, "alice"), broker.get("/v1/state")["role"].as_str()), (0, Some("broker")));
}

/// Asks until so many were admitted, and then some: there are no more.
fn spend(nodes: &[Follower], limit: usize) {
    let mut admitted = 0;
    poll("the whole limit", REACHED_WITHIN, || {
        admitted += nodes.iter().map(|node| node.allowed(1, "alice")).sum::<usize>();
        (admitted >= limit).then_some(())
    });
    admitted += nodes.iter().map(|node| node.allowed(5, "alice")).sum::<usize>();
    assert_eq!(admitted, limit);
}
