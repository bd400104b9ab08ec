//! Keys that live in different slots, and slots that move: limits across them pass together or not at all,
//! and a cluster that grows under load is followed.

use crate::cluster::{connect_all, one_limit_each, slot_of, total_of_all};
use crate::fleet::{Limit, Member, PATIENT, fleet, wait_for};
use crate::load::{drain, while_calling};
use crate::support::{SOON, poll};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tidegate_testkit::RedisCluster;

#[test]
fn limits_on_different_shards_pass_together_or_not_at_all() {
    let cluster = wait_for(RedisCluster::start());
    let nodes = fleet(&cluster.urls(), 2, &PATIENT);
    let limits = one_limit_each(&cluster, "together");
    let admitted = connect_all(&cluster, &nodes, &limits);
    let totals = || -> Vec<u64> { limits.iter().map(|limit| total_of_all(&cluster, limit)).collect() };
    let before = totals();
    assert!(nodes[0].caller().ask_all(&limits).is_allowed());
    let one_more: Vec<u64> = before.iter().map(|total| total + 1).collect();
    poll("the counts of all three", SOON, || (totals() == one_more).then_some(()));

    assert_eq!(drain(&nodes[1..], &limits[2]), 39 - admitted[2]);
    let refused = nodes[0].caller().ask_all(&limits);
    assert!(!refused.is_allowed() && !refused.is_unverified(), "{}", refused.body);
    assert_eq!(drain(&nodes, &limits[0]), 39 - admitted[0], "nothing is held back");
    assert_eq!(drain(&nodes, &limits[1]), 39 - admitted[1]);
    poll("the counts of all three", SOON, || (totals() == [40; 3]).then_some(()));
}

/// Asks about each limit in turn until told that it is over. Says how many of each were admitted. Not so often that a
/// key is leased: what a lease holds was granted, and a limit that is lowered below it doesn't take it back.
#[expect(clippy::disallowed_methods, reason = "another process can't be given a clock: load has a rate")]
fn ask_in_turn(node: &Member, limits: &[Limit], is_over: &AtomicBool) -> Vec<u64> {
    let mut caller = node.caller();
    let mut allowed = vec![0; limits.len()];
    while !is_over.load(Ordering::Relaxed) {
        for (limit, count) in limits.iter().zip(&mut allowed) {
            *count += u64::from(caller.ask(limit).is_allowed());
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    allowed
}

/// Adds a primary and moves a slot of each of the others there.
fn grow(cluster: &mut RedisCluster, slots: &[u16]) -> SocketAddr {
    wait_for(async {
        let fourth = cluster.add_primary().await;
        for (from, slot) in slots.iter().enumerate() {
            cluster.move_slots(from, fourth, [*slot]).await;
        }
        cluster.primaries()[fourth].address()
    })
}

#[test]
fn a_fourth_primary_and_the_slots_that_move_there_are_followed() {
    let mut cluster = wait_for(RedisCluster::start());
    let nodes = fleet(&cluster.urls(), 2, &PATIENT);
    let limits = one_limit_each(&cluster, "moving");
    let before = connect_all(&cluster, &nodes, &limits);
    // Asked about all the time, and used up only in the end.
    let busy: Vec<Limit> = limits.iter().map(|limit| Limit { number: 1_000_000, ..limit.clone() }).collect();
    let slots: Vec<u16> = busy.iter().map(|limit| slot_of(&cluster, limit)).collect();
    let call = |node: &Member, is_over: &AtomicBool| ask_in_turn(node, &busy, is_over);
    let (allowed, fourth) = while_calling(&nodes, call, || {
        let fourth = grow(&mut cluster, &slots);
        for node in &nodes {
            node.wait_breaker(&fourth.to_string(), false, SOON);
        }
        fourth
    });
    println!("admitted while slots moved: {allowed:?}");
    for (index, limit) in busy.iter().enumerate() {
        let owner = wait_for(cluster.primary_of_slot(slots[index])).address();
        assert_eq!(owner, fourth);
        let admitted = before[index] + allowed.iter().map(|counts| counts[index]).sum::<u64>();
        // A grant that nobody heard of is the only difference, and is spent before anything else.
        let left = Limit { number: admitted + 50, ..limit.clone() };
        assert_eq!(drain(&nodes, &left), 50, "{}", limit.identifier);
    }
}
