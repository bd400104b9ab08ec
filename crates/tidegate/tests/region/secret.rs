//! A node with another secret than its store was set up with: it serves, tells why it is alone, and leaves the
//! store as it is.

use crate::fleet::{Limit, Member, PATIENT, fleet, pause, wait_for};
use crate::load::{drain, rush};
use crate::store::command;
use crate::support::{Directory, SOON, poll};
use std::time::Duration;
use tidegate_testkit::{Fault, FaultProxy, Redis, Reply};

fn with_secret(url: &str, secret: &str) -> Member {
    let directory = Directory::new();
    directory.write("secret", secret);
    Member::start_in(
        directory,
        &[&["--origin-url", url, "--cluster-secret-file", "secret"], &PATIENT[..]].concat(),
    )
}

fn problem(member: &Member) -> Option<String> {
    member.origin()["problem"].as_str().map(str::to_owned)
}

fn names(redis: &Redis) -> Vec<String> {
    let Reply::Array(names) = command(redis, &["KEYS", "*"]) else { panic!("no list of names") };
    let mut names: Vec<String> = names.iter().filter_map(Reply::text).collect();
    names.sort();
    names
}

#[test]
fn a_node_with_another_secret_stays_alone_and_says_why() {
    let redis = wait_for(Redis::start());
    let proxy = wait_for(FaultProxy::start(redis.address()));
    let first = &fleet(&redis.url(), 1, &PATIENT)[0];
    let limit = Limit::new("whose", 1000).exact();
    assert!(first.ask(&limit).is_allowed());

    let stranger = with_secret(&format!("redis://{}", proxy.address()), "another-fleet-s-secret");
    let told = poll("a problem in the state", SOON, || problem(&stranger));
    assert!(told.contains("another fleet secret"), "{told}");
    stranger.wait_logged("give all nodes of the region the same cluster.secret_file");
    assert!(!stranger.log().contains("another-fleet-s-secret"), "{}", stranger.log());

    let before = names(&redis);
    for _ in 0..20 {
        let answer = stranger.ask(&limit);
        assert!(answer.is_allowed() && answer.is_unverified(), "{}", answer.body);
    }
    // It doesn't forget why, nor begins to send, when it can't be told for a while.
    for fault in [Fault::Refuse, Fault::None] {
        proxy.set(fault);
        // Several heartbeats long.
        for _ in 0..30 {
            stranger.ask(&limit);
            assert!(problem(&stranger).is_some(), "the store is still another fleet's");
            pause(Duration::from_millis(50));
        }
    }
    assert_eq!(names(&redis), before, "nothing is published");
    assert_eq!(first.live_nodes(), 1);
}

#[test]
fn nodes_with_the_same_secret_agree() {
    let redis = wait_for(Redis::start());
    let nodes = [1, 2].map(|_| with_secret(&redis.url(), "the-secret-of-this-fleet"));
    nodes.iter().for_each(Member::wait_joined);
    let limit = Limit::strict("ours", 20);
    assert_eq!(rush(&nodes, 1, 5, &limit).allowed + drain(&nodes, &limit), 20);
    assert!(nodes.iter().all(|node| problem(node).is_none()));
}
