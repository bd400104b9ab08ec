//! The fleet's secret: who has none finds it in the store, and the store finds it again where it was lost. A node with
//! another one serves, tells why it is alone, and leaves the store as it is.

use crate::fleet::{Limit, Member, PATIENT, fleet, pause, wait_for};
use crate::load::{drain, rush};
use crate::store::command;
use crate::support::{Directory, SOON, poll};
use std::time::Duration;
use tidegate_testkit::{FaultProxy, ProxyFault, Redis, RespValue};

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
    let RespValue::Array(names) = command(redis, &["KEYS", "*"]) else { panic!("no list of names") };
    let mut names: Vec<String> = names.iter().filter_map(RespValue::text).collect();
    // Made by the second heartbeat of a node that belongs here.
    names.retain(|name| !name.ends_with(":proven"));
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
    for fault in [ProxyFault::Refuse, ProxyFault::None] {
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

/// Where the store keeps the secret, and where nodes name it by its fingerprint.
const STORED: &str = "tidegate:{nodes}:fleet-secret";
const MARKER: &str = "tidegate:{nodes}:secret";

fn without_a_setting(directory: Directory, redis: &Redis) -> Member {
    Member::start_in(directory, &[&["--origin-url", &redis.url()], &PATIENT[..]].concat())
}

fn source(member: &Member) -> String {
    member.node.state()["fleet_secret"].as_str().expect("a source").to_owned()
}

fn stored(redis: &Redis) -> Option<String> {
    command(redis, &["GET", STORED]).text()
}

#[test]
fn nodes_without_a_setting_agree_and_give_a_store_its_secret_back() {
    let redis = wait_for(Redis::start());
    let nodes = [1, 2].map(|_| without_a_setting(Directory::new(), &redis));
    nodes.iter().for_each(Member::wait_joined);
    nodes.iter().for_each(|node| node.wait_live_nodes(2, SOON));
    assert_eq!(nodes.each_ref().map(source), ["store", "store"]);
    let limit = Limit::strict("ours", 20);
    assert_eq!(rush(&nodes, 1, 5, &limit).allowed + drain(&nodes, &limit), 20);

    let secret = stored(&redis).expect("a stored secret");
    let digits = secret.strip_prefix("1:").expect("a version");
    let file = nodes[0].directory.path("data/fleet.secret");
    assert_eq!(std::fs::read_to_string(&file).expect("a copy").trim_end(), secret);
    let mode =
        std::os::unix::fs::PermissionsExt::mode(&std::fs::metadata(&file).expect("a file").permissions());
    assert_eq!(mode & 0o777, 0o600);
    assert!(
        nodes
            .iter()
            .all(|node| !node.log().contains(digits) && !node.node.state().to_string().contains(digits))
    );

    command(&redis, &["FLUSHALL"]);
    poll("the secret is back", SOON, || (stored(&redis)? == secret).then_some(()));
    let third = without_a_setting(Directory::new(), &redis);
    third.wait_live_nodes(3, SOON);
    assert_eq!(source(&third), "store");
}

#[test]
fn a_directory_gives_a_store_its_secret_back_when_all_nodes_are_gone() {
    let redis = wait_for(Redis::start());
    let directory = Directory::new();
    let kept = "1:000102030405060708090a0b0c0d0e0f";
    std::fs::create_dir(directory.path("data")).expect("a directory");
    directory.write("data/fleet.secret", kept);
    let node = without_a_setting(directory, &redis);
    node.wait_joined();
    assert_eq!((stored(&redis).as_deref(), source(&node).as_str()), (Some(kept), "store"));
}

#[test]
fn a_store_of_the_built_in_key_keeps_it() {
    let redis = wait_for(Redis::start());
    let built_in = format!("{:016x}", tidegate_core::FleetSecret::BUILT_IN.fingerprint());
    command(&redis, &["SET", MARKER, &built_in]);
    let node = without_a_setting(Directory::new(), &redis);
    node.wait_joined();
    node.wait_logged("keys are hashed with the built-in key");
    assert_eq!((source(&node).as_str(), stored(&redis)), ("built_in", None));
    assert_eq!(problem(&node), None);
}
