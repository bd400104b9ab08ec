//! Another store while the node runs: SIGHUP reads `origin.url` again, and the new store hears everything.

use crate::fleet::{Limit, Member, PATIENT, pause, wait_for};
use crate::store::total_of;
use crate::support::{Directory, SOON, poll};
use rustix::process::Signal;
use std::time::Duration;
use tidegate_testkit::{FaultProxy, ProxyFault, Redis};

/// A node whose store is named by its file.
fn start(url: &str) -> Member {
    let directory = Directory::new();
    directory.write("tidegate.toml", settings(url));
    let member = Member::start_with_secret(directory, &PATIENT);
    member.wait_joined();
    member
}

fn settings(url: &str) -> String {
    format!("[origin]\nurl = \"{url}\"\n")
}

fn change(member: &Member, url: &str) {
    member.directory.write("tidegate.toml", settings(url));
    member.node.process.signal(Signal::HUP);
}

fn limits(count: usize) -> Vec<Limit> {
    (0..count).map(|number| Limit::new(&format!("moved-{number}"), 1000)).collect()
}

#[test]
fn the_new_store_hears_everything_within_seconds() {
    let (old, new) = wait_for(async { (Redis::start().await, Redis::start().await) });
    let nodes = [start(&old.url()), start(&old.url())];
    nodes.iter().for_each(|node| node.wait_live_nodes(2, SOON));
    let limits = limits(60);
    for node in &nodes {
        let mut caller = node.caller();
        for (number, limit) in limits.iter().enumerate() {
            for _ in 0..=number % 3 {
                assert!(caller.ask(limit).is_allowed());
            }
        }
    }
    // A disaster: nothing is left of the old one.
    old.kill();
    nodes.iter().for_each(|node| change(node, &new.url()));
    for (number, limit) in (0..).zip(&limits) {
        let expected = 2 * (1 + number % 3);
        poll("everything in the new store", SOON, || (total_of(&new, limit) == expected).then_some(()));
    }
    for node in &nodes {
        node.wait_logged("SIGHUP: origin.url changed");
        node.wait_live_nodes(2, SOON);
    }
    // Whoever comes new agrees with those who came over.
    let fresh = Member::join(&new.url(), &PATIENT);
    let exact = limits[2].clone().exact();
    let (first, answer) = fresh.ask_until_verified(&exact);
    assert_eq!(answer.remaining(), 1000 - 6 - first);
    let (second, answer) = nodes[0].ask_until_verified(&exact);
    assert_eq!(answer.remaining(), 1000 - 6 - first - second);
}

/// Keys whose sync is on its way to the old store while it is replaced are no exception.
#[test]
fn the_new_store_hears_of_keys_that_were_being_published() {
    let (old, new) = wait_for(async { (Redis::start().await, Redis::start().await) });
    let proxy = wait_for(FaultProxy::start(old.address()));
    let node = start(&format!("redis://{}", proxy.address()));
    let limits = limits(120);
    let mut caller = node.caller();
    // Seen by the old store before; the last admission of each is what is on its way.
    limits.iter().for_each(|limit| assert!(caller.ask(limit).is_allowed()));
    proxy.set(ProxyFault::Latency(Duration::from_millis(15)));
    for (number, limit) in limits.iter().enumerate() {
        assert!(caller.ask(limit).is_allowed());
        if number == limits.len() / 2 {
            change(&node, &new.url());
        }
        pause(Duration::from_millis(1));
    }
    let missing = || limits.iter().filter(|limit| total_of(&new, limit) != 2).count();
    poll("everything in the new store", SOON, || (missing() == 0).then_some(()));
}

#[test]
fn a_wrong_address_changes_nothing_and_the_log_says_why() {
    let redis = wait_for(Redis::start());
    let node = start(&redis.url());
    let limit = Limit::new("stays", 1000).exact();
    let (mut admitted, _) = node.ask_until_verified(&limit);
    let wrong = [
        ("redis://:correct-horse@h:port", "the port isn't a number"),
        ("nowhere", "the scheme is missing"),
        ("memory:", "from or to memory: needs a restart"),
    ];
    for (url, words) in wrong {
        change(&node, url);
        node.wait_logged(words);
        admitted += node.ask_until_verified(&limit).0;
    }
    assert!(!node.log().contains("correct-horse"), "{}", node.log());
    node.directory.write("tidegate.toml", "origin.url = [1]\n");
    node.node.process.signal(Signal::HUP);
    node.wait_logged("type array");
    change(&node, &redis.url());
    node.wait_logged("origin.url is unchanged");
    poll("the old one's counts", SOON, || (total_of(&redis, &limit) == admitted).then_some(()));
}
