//! Keys that live in different slots, and slots that move: limits across them pass together or not at all,
//! and a cluster that grows under load is followed.

use crate::cluster::{one_limit_each, slot_of, total_of_all, wait_connected};
use crate::fleet::{Limit, PATIENT, fleet, wait_for};
use crate::load::{drain, rush};
use crate::support::{SOON, poll};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use tidegate_testkit::RedisCluster;

#[test]
fn limits_on_different_shards_pass_together_or_not_at_all() {
    let cluster = wait_for(RedisCluster::start());
    let nodes = fleet(&cluster.urls(), 2, &PATIENT);
    let limits = one_limit_each(&cluster, "together");
    nodes.iter().for_each(|node| wait_connected(node, &limits));
    let wait_totals = |expected: [u64; 3]| {
        poll("the counts", SOON, || {
            let totals: Vec<u64> = limits.iter().map(|limit| total_of_all(&cluster, limit)).collect();
            (totals == expected).then_some(())
        });
    };
    // Each node has asked about each once.
    wait_totals([2, 2, 2]);
    assert!(nodes[0].caller().ask_all(&limits).is_allowed());
    wait_totals([3, 3, 3]);

    assert_eq!(drain(&nodes[1..], &limits[2]), 37);
    let refused = nodes[0].caller().ask_all(&limits);
    assert!(!refused.is_allowed() && !refused.is_unverified(), "{}", refused.body);
    assert_eq!(drain(&nodes, &limits[0]), 37, "nothing is held back");
    assert_eq!(drain(&nodes, &limits[1]), 37);
    wait_totals([40, 40, 40]);
}

#[test]
fn a_fourth_primary_and_the_slots_that_move_there_are_followed() {
    let mut cluster = wait_for(RedisCluster::start());
    let nodes = fleet(&cluster.urls(), 2, &PATIENT);
    let limits = one_limit_each(&cluster, "moving");
    nodes.iter().for_each(|node| wait_connected(node, &limits));
    // Asked about all the time, and used up only in the end.
    let busy: Vec<Limit> =
        limits.iter().map(|limit| Limit { number: 100_000, ..limit.clone() }).collect();
    let slots: Vec<u16> = busy.iter().map(|limit| slot_of(&cluster, limit)).collect();
    let is_over = AtomicBool::new(false);
    let mut allowed = vec![2; busy.len()];
    thread::scope(|scope| {
        let callers: Vec<_> = nodes
            .iter()
            .map(|node| {
                scope.spawn(|| {
                    let mut caller = node.caller();
                    let mut allowed = vec![0; busy.len()];
                    while !is_over.load(Ordering::Relaxed) {
                        for (limit, count) in busy.iter().zip(&mut allowed) {
                            *count += u64::from(caller.ask(limit).is_allowed());
                        }
                    }
                    allowed
                })
            })
            .collect();
        let moved = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            wait_for(async {
                let fourth = cluster.add_primary().await;
                for (from, slot) in slots.iter().enumerate() {
                    cluster.move_slots(from, fourth, [*slot]).await;
                }
            });
            let address = cluster.primaries()[3].address().to_string();
            for node in &nodes {
                poll("the fourth shard", SOON, || (node.is_open(&address) == Some(false)).then_some(()));
            }
        }));
        is_over.store(true, Ordering::Relaxed);
        for caller in callers {
            for (sum, count) in allowed.iter_mut().zip(caller.join().unwrap()) {
                *sum += count;
            }
        }
        moved.unwrap_or_else(|failure| std::panic::resume_unwind(failure));
    });
    println!("admitted while slots moved: {allowed:?}");
    for (limit, allowed) in busy.iter().zip(allowed) {
        let owner = wait_for(cluster.primary_of_slot(slot_of(&cluster, limit))).address();
        assert_eq!(owner, cluster.primaries()[3].address());
        // A grant that nobody heard of is the only difference, and is spent before anything else.
        let left = Limit { number: allowed + 50, ..limit.clone() };
        let more = rush(&nodes, 1, 30, &left).allowed + drain(&nodes, &left);
        assert_eq!(more, 50, "{}", limit.identifier);
    }
}
