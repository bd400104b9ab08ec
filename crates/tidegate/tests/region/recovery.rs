//! A store that lost data: nodes notice, publish again what they know, and nobody is granted what was spent before.
//!
//! `strict` limits (`exact`, class `abuse`) never admit more than their number, whoever asks and whatever was lost.

use crate::fleet::{Algorithm, Limit, Member, PATIENT, fleet, pause, wait_for};
use crate::store::command;
use crate::support::{SOON, poll};
use rustix::process::Signal;
use std::time::Duration;
use tidegate_testkit::{Redis, Sentinel};

const LONG: Duration = Duration::from_secs(10);

/// How many of so many requests one node admits.
fn admitted(node: &Member, limit: &Limit, requests: u64) -> u64 {
    let mut caller = node.caller();
    (0..requests).map(|_| u64::from(caller.ask(limit).is_allowed())).sum()
}

/// What the node says of the data of its first shard.
fn data(node: &Member) -> String {
    node.origin()["shards"][0]["data"].as_str().unwrap_or_default().to_owned()
}

fn wait_data(node: &Member, data_is: &str) {
    poll(&format!("data that is {data_is}"), LONG, || (data(node) == data_is).then_some(()));
}

fn wait_recovered(nodes: &[Member]) {
    for node in nodes {
        node.wait_logged("the store has recovered");
        wait_data(node, "healthy");
    }
}

fn join(redis: &Redis) -> Member {
    Member::join(&redis.url(), &PATIENT)
}

/// Spends a strict limit of 10 on one node, loses data, and lets nodes that never saw the key ask at once and later.
fn spent_limits_stay_spent(lose: impl Fn(&Redis)) {
    let redis = wait_for(Redis::start());
    let nodes = fleet(&redis.url(), 2, &PATIENT);
    let limits: Vec<Limit> = (0..5).map(|index| Limit::strict(&format!("idle {index}"), 10)).collect();
    for limit in &limits {
        assert_eq!(admitted(&nodes[0], limit, 12), 10);
    }
    lose(&redis);
    let at_once: u64 = limits.iter().map(|limit| admitted(&nodes[1], limit, 5)).sum();
    assert_eq!(at_once, 0, "a node that never asked about these");
    wait_recovered(&nodes);
    let cold = join(&redis);
    wait_data(&cold, "healthy");
    let later: u64 = limits.iter().map(|limit| admitted(&cold, limit, 5)).sum();
    assert_eq!(later, 0, "a node that joins when all has recovered");
    let fresh = Limit::strict("fresh", 3);
    assert_eq!(admitted(&cold, &fresh, 5), 3, "it grants as before");
}

#[test]
fn idle_keys_stay_spent_when_the_store_is_emptied() {
    spent_limits_stay_spent(|redis| drop(command(redis, &["FLUSHALL"])));
}

#[test]
fn idle_keys_stay_spent_when_the_store_is_restarted_empty() {
    spent_limits_stay_spent(|redis| wait_for(redis.restart()));
}

#[test]
fn idle_keys_stay_spent_when_an_older_snapshot_takes_the_stores_place() {
    let redis = wait_for(Redis::start());
    let nodes = fleet(&redis.url(), 2, &PATIENT);
    let limit = Limit::strict("snapshot", 10);
    assert_eq!(admitted(&nodes[0], &limit, 4), 4);
    let snapshot = wait_for(redis.snapshot()).unwrap();
    assert_eq!(admitted(&nodes[0], &limit, 12), 6);
    wait_for(redis.restart_from(&snapshot)).unwrap();
    wait_recovered(&nodes);
    assert_eq!(admitted(&nodes[1], &limit, 5), 0);
}

#[test]
fn idle_keys_stay_spent_when_a_replica_that_lags_is_promoted() {
    let group = wait_for(Sentinel::start());
    let nodes = fleet(&group.url(), 2, &PATIENT);
    let limit = Limit::strict("lagging", 10);
    assert_eq!(admitted(&nodes[0], &limit, 4), 4);
    let [primary, _] = group.servers();
    command(primary, &["ACL", "SETUSER", "default", "-psync", "-sync", "-replconf"]);
    command(primary, &["CLIENT", "KILL", "TYPE", "replica"]);
    assert_eq!(admitted(&nodes[0], &limit, 12), 6);
    let before = wait_for(group.kill_primary());
    wait_for(group.wait_replaced(before));
    wait_recovered(&nodes);
    assert_eq!(admitted(&nodes[1], &limit, 5), 0);
}

/// A store that was marked as new has lost nothing; one that wasn't may have.
#[test]
fn a_new_store_is_recovering_until_it_is_marked() {
    let redis = wait_for(Redis::start());
    command(&redis, &["FLUSHALL"]);
    let first = join(&redis);
    wait_data(&first, "recovering");
    assert_eq!(admitted(&first, &Limit::strict("new", 3), 2), 0, "it can't tell what was lost");
    wait_data(&first, "healthy");
    assert_eq!(admitted(&first, &Limit::strict("new", 3), 5), 3);

    let marked = wait_for(Redis::start());
    command(&marked, &["FLUSHALL"]);
    let init = crate::support::run(&first.directory, &["origin", "init", &marked.url()], &[]);
    assert_eq!(
        (init.code, init.stdout.as_str()),
        (Some(0), "marked 1 server: nodes may start\n"),
        "{}",
        init.stderr
    );
    let node = join(&marked);
    wait_data(&node, "healthy");
    assert!(!node.log().contains("lost data"), "{}", node.log());
    assert_eq!(admitted(&node, &Limit::strict("new", 3), 5), 3);
}

/// What only the survivors remember of a node grows by what each of them admits.
#[test]
fn survivors_that_grow_at_the_same_time_keep_to_the_limit() {
    let redis = wait_for(Redis::start());
    let mut nodes = fleet(&redis.url(), 3, &PATIENT);
    let limit = Limit::new("survivors", 1_000);
    assert_eq!(admitted(&nodes[0], &limit, 600), 600);
    for node in &nodes[1..] {
        assert!(node.ask(&limit).is_allowed());
    }
    drop(nodes.remove(0));
    command(&redis, &["FLUSHALL"]);
    wait_recovered(&nodes);
    let (mut first, mut second) = (nodes[0].caller(), nodes[1].caller());
    let mut total = 602;
    for _ in 0..100 {
        for caller in [&mut first, &mut second] {
            total += (0..5).map(|_| u64::from(caller.ask(&limit).is_allowed())).sum::<u64>();
        }
        pause(Duration::from_millis(10));
    }
    println!("{total} of 1,000");
    assert!((980..=1_050).contains(&total), "{total} of 1,000");
}

/// No fault at all: a key that was ever reset is asked about in its newest epoch.
#[test]
fn a_key_that_was_reset_keeps_to_its_limit_on_nodes_that_join_later() {
    let redis = wait_for(Redis::start());
    let nodes = fleet(&redis.url(), 2, &PATIENT);
    let limit = Limit::strict("once reset", 20);
    assert_eq!(admitted(&nodes[0], &limit, 25), 20);
    assert_eq!(nodes[0].caller().post("/v1/reset", &limit.json()).status, 200);
    let cold = join(&redis);
    let mut admissions = 0;
    for _ in 0..10 {
        for node in [&cold, &nodes[1], &nodes[0]] {
            let answer = node.ask(&limit);
            assert!(!answer.is_unverified(), "{}", answer.body);
            admissions += u64::from(answer.is_allowed());
        }
    }
    assert_eq!(admissions, 20);
}

/// A node that stood still reads in the log which keys were reset meanwhile.
#[test]
fn a_node_that_stood_still_learns_of_resets() {
    let redis = wait_for(Redis::start());
    let nodes = fleet(&redis.url(), 2, &PATIENT);
    let limit = Limit::strict("missed", 4);
    assert_eq!(admitted(&nodes[1], &limit, 6), 4);
    nodes[1].node.process.signal(Signal::STOP);
    assert_eq!(nodes[0].caller().post("/v1/reset", &limit.json()).status, 200);
    for index in 0..1_100 {
        let other = Limit::strict(&format!("other {index}"), 4);
        assert_eq!(nodes[0].caller().post("/v1/reset", &other.json()).status, 200);
    }
    nodes[1].node.process.signal(Signal::CONT);
    poll("an admission after the reset", SOON, || nodes[1].ask(&limit).is_allowed().then_some(()));
    assert!(nodes[1].log().contains("may have missed resets"), "more were missed than the log keeps");
}

/// Nobody carries a reset out again because the store lost it.
#[test]
fn a_reset_survives_a_loss_of_data() {
    let redis = wait_for(Redis::start());
    let nodes = fleet(&redis.url(), 2, &PATIENT);
    let limit = Limit::strict("reset and lost", 20);
    assert_eq!(admitted(&nodes[0], &limit, 25), 20);
    assert_eq!(nodes[0].caller().post("/v1/reset", &limit.json()).status, 200);
    assert_eq!(admitted(&nodes[1], &limit, 15), 15);
    command(&redis, &["FLUSHALL"]);
    let cold = join(&redis);
    wait_recovered(&nodes);
    wait_data(&cold, "healthy");
    assert_eq!(admitted(&cold, &limit, 25) + admitted(&nodes[0], &limit, 10), 5);
}

/// A node of another fleet doesn't take over a store that lost its data, whoever comes first.
#[test]
fn a_node_with_another_secret_does_not_lock_the_fleet_out_of_an_emptied_store() {
    let redis = wait_for(Redis::start());
    let nodes = fleet(&redis.url(), 2, &PATIENT);
    let directory = crate::support::Directory::new();
    directory.write("secret", "another-fleet-s-secret");
    let url = redis.url();
    let arguments = [&["--origin-url", &url, "--cluster-secret-file", "secret"], &PATIENT[..]].concat();
    let stranger = Member::start_in(directory, &arguments);
    stranger.wait_logged("another fleet secret");
    nodes.iter().for_each(|node| node.node.process.signal(Signal::STOP));
    command(&redis, &["FLUSHALL"]);
    stranger.wait_logged("doesn't take the store over");
    nodes.iter().for_each(|node| node.node.process.signal(Signal::CONT));
    wait_recovered(&nodes);
    let limit = Limit::strict("ours", 5);
    let total: u64 = nodes.iter().map(|node| admitted(node, &limit, 5)).sum();
    assert_eq!(total, 5);
}

/// A node of another fleet that was never refused finds the emptied store first, while the whole fleet stands still.
#[test]
fn a_new_node_with_another_secret_gives_an_emptied_store_back_to_its_fleet() {
    let redis = wait_for(Redis::start());
    let nodes = fleet(&redis.url(), 2, &PATIENT);
    // As old as the fleet has to be: older than the other one's time alone.
    pause(Duration::from_secs(4));
    nodes.iter().for_each(|node| node.node.process.signal(Signal::STOP));
    command(&redis, &["FLUSHALL"]);
    let directory = crate::support::Directory::new();
    directory.write("secret", "another-fleet-s-secret");
    let url = redis.url();
    let arguments = [&["--origin-url", &url, "--cluster-secret-file", "secret"], &PATIENT[..]].concat();
    let stranger = Member::start_in(directory, &arguments);
    stranger.wait_logged("the origin answers");
    pause(Duration::from_millis(1_200));
    nodes.iter().for_each(|node| node.node.process.signal(Signal::CONT));
    stranger.wait_logged("another fleet secret");
    nodes.iter().for_each(|node| wait_data(node, "healthy"));
    let limit = Limit::strict("given back", 5);
    let total: u64 = nodes.iter().map(|node| admitted(node, &limit, 5)).sum();
    assert_eq!(total, 5);
}

/// A peek asks where the node knows nothing, and leaves nothing behind.
#[test]
fn a_peek_tells_what_other_nodes_spent() {
    let redis = wait_for(Redis::start());
    let nodes = fleet(&redis.url(), 2, &PATIENT);
    let limit = Limit::new("peeked", 100);
    assert_eq!(admitted(&nodes[0], &limit, 40), 40);
    let peek = limit.clone().cost(0);
    poll("a peek of what was published", SOON, || {
        let fresh = join(&redis);
        wait_data(&fresh, "healthy");
        let answer = fresh.ask(&peek);
        (answer.is_allowed() && answer.remaining() == 60).then_some(())
    });
    let key = command(&redis, &["KEYS", "tidegate:*:0:*"]);
    let cells: Vec<String> = key.items().iter().filter_map(tidegate_testkit::RespValue::text).collect();
    assert_eq!(cells.len(), 1, "{cells:?}");
    let owners = command(&redis, &["HGET", &cells[0], "n"]).text();
    assert_eq!(owners.as_deref(), Some("1"), "who only looked owns nothing");
}

/// What a limit of 10, all of it spent, admits on a node that never saw it while the store recovers: how many, and how many
/// of them were verified.
fn admitted_while_recovering(class: &'static str) -> (u64, u64) {
    let redis = wait_for(Redis::start());
    let nodes = fleet(&redis.url(), 2, &PATIENT);
    let limit = Limit::new("spent", 10).exact().class(class);
    assert_eq!(admitted(&nodes[0], &limit, 12), 10);
    command(&redis, &["FLUSHALL"]);
    wait_data(&nodes[1], "recovering");
    let mut caller = nodes[1].caller();
    let answers: Vec<_> = (0..40).map(|_| caller.ask(&limit)).collect();
    let allowed = answers.iter().filter(|answer| answer.is_allowed());
    let verified = allowed.clone().filter(|answer| !answer.is_unverified()).count();
    let count = allowed.count();
    assert_eq!(admitted(&nodes[0], &limit, 5), 0, "who knows the key denies by itself");
    wait_recovered(&nodes);
    let later: u64 = nodes.iter().map(|node| admitted(node, &limit, 5)).sum();
    assert_eq!(later, 0, "all that was admitted is counted when the store has recovered");
    (u64::try_from(count).unwrap(), u64::try_from(verified).unwrap())
}

#[test]
fn paid_admits_at_most_a_limit_on_each_node_that_does_not_know_the_key_while_the_store_recovers() {
    assert_eq!(admitted_while_recovering("paid"), (10, 0), "all of them unverified");
}

#[test]
fn free_admits_at_most_its_nodes_share_while_the_store_recovers() {
    let (count, verified) = admitted_while_recovering("free");
    // Half of the fleet, and half as much again.
    assert!((1..=8).contains(&count) && verified == 0, "{count} admitted, {verified} of them verified");
}

#[test]
fn abuse_admits_nothing_that_cannot_be_verified_while_the_store_recovers() {
    assert_eq!(admitted_while_recovering("abuse"), (0, 0));
}

/// No loss of a whole store: the key is restored by the next sync of a node that knows it, and until then a node that
/// doesn't may admit the limit once more.
#[test]
fn a_key_that_was_deleted_is_restored_by_a_node_that_knows_it() {
    let redis = wait_for(Redis::start());
    let nodes = fleet(&redis.url(), 3, &PATIENT);
    nodes.iter().for_each(|node| wait_data(node, "healthy"));
    let limit = Limit::strict("deleted", 10);
    assert_eq!(admitted(&nodes[0], &limit, 4), 4);
    for name in crate::store::names_of(&redis, &limit) {
        command(&redis, &["DEL", &name]);
    }
    // The first ask shows the loss: it isn't verified, and what the node knows is counted again.
    admitted(&nodes[0], &limit, 1);
    poll("a node that is asked and verified", LONG, || {
        wait_data(&nodes[1], "healthy");
        (crate::store::total_of(&redis, &limit) >= 4).then_some(())
    });
    let later = admitted(&nodes[1], &limit, 15) + admitted(&nodes[2], &limit, 5);
    assert!((5..=6).contains(&later), "{later} of the 5 or 6 that are left");
    assert!(!nodes[1].log().contains("the store lost data"), "one key is no loss of a store");
}

/// A request of three nodes takes six of twenty each. Then the store forgets the key, and each node asks on: what the store
/// grants before all nodes have told it what they know is denied, and stays denied.
fn what_was_granted_before_all_was_restored_is_spent_by_nobody(
    algorithm: Algorithm,
    lose: impl Fn(&Redis, &Limit),
) {
    let redis = wait_for(Redis::start());
    let nodes = fleet(&redis.url(), 3, &PATIENT);
    nodes.iter().for_each(|node| wait_data(node, "healthy"));
    let limits: Vec<Limit> = (0..3)
        .map(|index| Limit::strict(&format!("granted {index}"), 20).algorithm(algorithm).cost(6))
        .collect();
    for limit in limits {
        let before: u64 = nodes.iter().map(|node| 6 * admitted(node, &limit, 1)).sum();
        assert_eq!(before, 18, "all of it fits");
        let is_stored = || (crate::store::total_of(&redis, &limit) >= 18).then_some(());
        if algorithm != Algorithm::Gcra {
            poll("a store that counts all", SOON, is_stored);
        }
        lose(&redis, &limit);
        let mut after = 0;
        for _ in 0..3 {
            after += nodes.iter().map(|node| 6 * admitted(node, &limit, 1)).sum::<u64>();
        }
        nodes.iter().for_each(|node| wait_data(node, "healthy"));
        let one = limit.cost(1);
        for _ in 0..4 {
            after += nodes.iter().map(|node| admitted(node, &one, 1)).sum::<u64>();
        }
        assert!(before + after <= 20, "{before} before and {after} after, {algorithm:?}");
    }
}

fn delete(redis: &Redis, limit: &Limit) {
    for name in crate::store::names_of(redis, limit) {
        command(redis, &["DEL", &name]);
    }
}

#[test]
fn a_window_that_was_deleted_while_nodes_ask_keeps_to_its_limit() {
    what_was_granted_before_all_was_restored_is_spent_by_nobody(Algorithm::Fixed, delete);
}

#[test]
fn a_bucket_that_was_deleted_while_nodes_ask_keeps_to_its_burst() {
    what_was_granted_before_all_was_restored_is_spent_by_nobody(Algorithm::Gcra, delete);
}

#[test]
fn a_bucket_keeps_to_its_burst_when_its_store_is_emptied_while_nodes_ask() {
    what_was_granted_before_all_was_restored_is_spent_by_nobody(Algorithm::Gcra, |redis, _| {
        command(redis, &["FLUSHALL"]);
    });
}

/// Nodes that know little of a key publish something right after the loss: the store has their counts again, and nobody
/// else's.
#[test]
fn a_publish_after_a_loss_does_not_hide_it() {
    let redis = wait_for(Redis::start());
    let nodes = fleet(&redis.url(), 3, &PATIENT);
    for round in 0..4 {
        nodes.iter().for_each(|node| wait_data(node, "healthy"));
        let limit = Limit::strict(&format!("published {round}"), 300);
        let before: u64 = [(1, 1), (2, 1), (0, 280)]
            .map(|(node, units)| admitted(&nodes[node], &limit, units))
            .iter()
            .sum();
        assert_eq!(before, 282, "all of it fits");
        command(&redis, &["FLUSHALL"]);
        for node in &nodes[1..] {
            assert_eq!(node.caller().post("/v1/report", &limit.json()).status, 200);
        }
        pause(Duration::from_millis(60));
        let after: u64 = nodes[1..].iter().map(|node| admitted(node, &limit, 150)).sum();
        assert!(before + after <= 300, "{before} before and {after} after");
        pause(Duration::from_millis(500));
    }
}

#[test]
fn a_node_that_stops_right_after_a_loss_gives_back_what_it_knows() {
    let redis = wait_for(Redis::start());
    let mut nodes = fleet(&redis.url(), 2, &PATIENT);
    nodes.iter().for_each(|node| wait_data(node, "healthy"));
    let limits: Vec<Limit> = (0..10).map(|index| Limit::strict(&format!("stopped {index}"), 10)).collect();
    for limit in &limits {
        assert_eq!(admitted(&nodes[0], limit, 10), 10);
    }
    command(&redis, &["FLUSHALL"]);
    nodes[0].node.process.signal(Signal::TERM);
    assert_eq!(nodes[0].node.process.exit_code(LONG), Some(0));
    nodes[1].wait_logged("the store has recovered");
    wait_data(&nodes[1], "healthy");
    let later: u64 = limits.iter().map(|limit| admitted(&nodes[1], limit, 5)).sum();
    assert_eq!(later, 0, "the other node restored them");
}

/// The node that carried a reset out isn't the only one that remembers it.
#[test]
fn a_reset_survives_the_node_that_carried_it_out() {
    let redis = wait_for(Redis::start());
    let mut nodes = fleet(&redis.url(), 2, &PATIENT);
    nodes.iter().for_each(|node| wait_data(node, "healthy"));
    let limits: Vec<Limit> = (0..8).map(|index| Limit::strict(&format!("outlived {index}"), 20)).collect();
    for limit in &limits {
        assert_eq!(admitted(&nodes[0], limit, 10) + admitted(&nodes[1], limit, 10), 20);
        assert_eq!(nodes[0].caller().post("/v1/reset", &limit.json()).status, 200);
    }
    // The other node reads of it with its next heartbeat.
    pause(Duration::from_secs(1));
    nodes[0].node.process.signal(Signal::TERM);
    assert_eq!(nodes[0].node.process.exit_code(LONG), Some(0));
    command(&redis, &["FLUSHALL"]);
    nodes[1].wait_logged("the store has recovered");
    wait_data(&nodes[1], "healthy");
    let cold = join(&redis);
    wait_data(&cold, "healthy");
    for limit in &limits {
        let after = admitted(&cold, limit, 25) + admitted(&nodes[1], limit, 25);
        assert_eq!(after, 20, "{}", limit.identifier);
    }
}
