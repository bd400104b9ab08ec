//! How many nodes there are: each hears of a join, a leave and a death.

use crate::fleet::{Member, fleet, wait_for};
use crate::store::command;
use crate::support::{SOON, poll};
use rustix::process::Signal;
use std::time::Duration;
use tidegate_testkit::{Redis, RespValue};
use tokio::time::Instant;

/// Two seconds, and what a busy machine takes.
const SEEN_WITHIN: Duration = Duration::from_secs(4);

fn registered(redis: &Redis) -> RespValue {
    command(redis, &["ZCARD", "tidegate:{nodes}:alive"])
}

#[test]
fn joins_and_deaths_are_known_within_two_seconds() {
    let redis = wait_for(Redis::start());
    let nodes = fleet(&redis.url(), 2, &[]);
    let began = Instant::now();
    let mut third = Member::start(&redis.url(), &[]);
    for node in nodes.iter().chain([&third]) {
        node.wait_live_nodes(3, SEEN_WITHIN);
    }
    println!("a join was known after {:?}", began.elapsed());

    third.node.process.signal(Signal::KILL);
    assert_eq!(third.node.process.exit_code(SOON), None, "killed");
    let began = Instant::now();
    nodes.iter().for_each(|node| node.wait_live_nodes(2, SEEN_WITHIN));
    println!("a death was known after {:?}", began.elapsed());
}

#[test]
fn a_node_that_leaves_says_so() {
    let redis = wait_for(Redis::start());
    let mut nodes = fleet(&redis.url(), 3, &[]);
    let mut leaving = nodes.pop().unwrap();
    leaving.node.process.signal(Signal::TERM);
    assert_eq!(leaving.node.process.exit_code(SOON), Some(0), "{}", leaving.log());
    // Not when its last heartbeat has become too old: at once.
    assert_eq!(registered(&redis), RespValue::Integer(2));
    let began = Instant::now();
    nodes.iter().for_each(|node| node.wait_live_nodes(2, SEEN_WITHIN));
    println!("a leave was known after {:?}", began.elapsed());
}

/// An incarnation of its own: what the earlier one published still counts, and nobody is counted twice.
#[test]
fn a_node_that_starts_again_is_another_one() {
    let redis = wait_for(Redis::start());
    let nodes = fleet(&redis.url(), 2, &["--node", "always-the-same"]);
    assert_eq!(nodes[0].live_nodes(), 2);
    poll("two in the store", SOON, || (registered(&redis) == RespValue::Integer(2)).then_some(()));
}
