//! Nodes that start while their store is away: `free` limits are shared by as many nodes as there were before.

use crate::fleet::{Limit, Member, fleet, pause, wait_for};
use crate::support::{SOON, poll};
use std::time::Duration;
use tidegate_core::Nanos;
use tidegate_testkit::Redis;

/// Admissions a second that the limit is for, over all nodes.
const PER_S: u64 = 10;
const SECONDS: u64 = 3;

/// How many pass at all of these nodes, each asked again and again for a while.
fn passed(members: &[Member], limit: &Limit) -> u64 {
    let mut callers: Vec<_> = members.iter().map(Member::caller).collect();
    let mut passed = 0;
    for _ in 0..SECONDS * 50 {
        for caller in &mut callers {
            passed += u64::from(caller.ask(limit).is_allowed());
        }
        pause(Duration::from_millis(20));
    }
    passed
}

#[test]
fn nodes_that_restart_in_an_outage_share_free_limits_as_before() {
    let redis = wait_for(Redis::start());
    let url = redis.url();
    let mut members = fleet(&url, 3, &[]);
    for member in &members {
        let is_kept = || (member.directory.read("data/live-nodes").trim() == "3").then_some(());
        poll("the number of nodes to be kept", SOON, is_kept);
    }
    redis.kill();
    members.iter_mut().for_each(|member| member.restart(&url));
    let limit = Limit { period: Nanos::from_secs(60), ..Limit::new("free", 60 * PER_S) };
    let passed_again = passed(&members, &limit.exact().class("free"));
    // Four thirds of the rate, and what each node admits at once; the loop takes longer on a busy machine.
    let most = 2 * PER_S * SECONDS + 10;
    assert!((1..=most).contains(&passed_again), "{passed_again} passed, {most} at most");
}

#[test]
fn a_node_that_knows_of_no_fleet_starts_with_a_small_share() {
    let redis = wait_for(Redis::start());
    let url = redis.url();
    redis.kill();
    let alone = [Member::start(&url, &[])];
    let limit = Limit { period: Nanos::from_secs(60), ..Limit::new("free", 60 * PER_S) };
    let passed = passed(&alone, &limit.exact().class("free"));
    assert!((1..=PER_S).contains(&passed), "{passed} passed");
}
