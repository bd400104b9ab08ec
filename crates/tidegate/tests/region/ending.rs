//! Nodes that end, are killed or stand still: what they admitted is in the store, and what others admitted
//! meanwhile is known to them before they decide.

use crate::fleet::{Answer, Limit, Member, PATIENT, fleet, pause, wait_for};
use crate::load::drain;
use crate::store::total_of;
use crate::support::{SOON, poll};
use rustix::process::Signal;
use std::time::Duration;
use tidegate_testkit::{FaultProxy, ProxyFault, Redis};
use tokio::time::Instant;

/// What a node that has just started finds spent, its own requests not counted.
fn found_by_a_fresh_node(url: &str, limit: &Limit) -> u64 {
    let fresh = Member::join(url, &PATIENT);
    let (own, answer) = fresh.ask_until_verified(&limit.clone().exact());
    limit.number - answer.remaining() - own
}

fn terminate(member: &mut Member) {
    member.node.process.signal(Signal::TERM);
    assert_eq!(member.node.process.exit_code(SOON), Some(0), "{}", member.log());
}

fn admit(member: &Member, limit: &Limit, requests: u64) {
    let mut caller = member.caller();
    for _ in 0..requests {
        let answer = caller.ask(limit);
        assert!(answer.is_allowed(), "{}", answer.body);
    }
}

#[test]
fn a_node_that_is_told_to_stop_publishes_what_is_left() {
    let redis = wait_for(Redis::start());
    for turn in 0..5 {
        let limit = Limit::new(&format!("told-{turn}"), 1000);
        let mut node = Member::join(&redis.url(), &PATIENT);
        admit(&node, &limit, 40);
        terminate(&mut node);
        assert_eq!(found_by_a_fresh_node(&redis.url(), &limit), 40);
    }
}

/// What was admitted while an earlier publish was on its way is left when that is answered.
#[test]
fn a_node_that_is_told_to_stop_publishes_also_what_came_after_the_last_publish() {
    let redis = wait_for(Redis::start());
    let proxy = wait_for(FaultProxy::start(redis.address()));
    proxy.set(ProxyFault::Latency(Duration::from_millis(8)));
    let url = format!("redis://{}", proxy.address());
    for turn in 0..5 {
        let limit = Limit::new(&format!("behind-{turn}"), 1000);
        let mut node = Member::join(&url, &PATIENT);
        // Half of the credit is published at once, 125 of 999 / 4; the rest follows that publish.
        admit(&node, &limit, 200);
        terminate(&mut node);
        assert_eq!(found_by_a_fresh_node(&redis.url(), &limit), 200);
    }
}

/// A key that was never asked about is published in two steps: the first answer tells what it owns already.
#[test]
fn a_node_that_is_told_to_stop_publishes_also_what_it_never_asked_about() {
    let redis = wait_for(Redis::start());
    for turn in 0..5 {
        let limit = Limit { accuracy: "async", ..Limit::new(&format!("billed-{turn}"), 1000) };
        let mut node = Member::join(&redis.url(), &PATIENT);
        admit(&node, &limit, 40);
        terminate(&mut node);
        assert_eq!(found_by_a_fresh_node(&redis.url(), &limit), 40);
    }
}

#[test]
fn a_killed_node_loses_nothing_that_was_published_before() {
    let redis = wait_for(Redis::start());
    for turn in 0..3 {
        let limit = Limit::new(&format!("killed-{turn}"), 1000);
        let mut node = Member::join(&redis.url(), &PATIENT);
        admit(&node, &limit, 40);
        let admitted = Instant::now();
        poll("a publish of everything", SOON, || (total_of(&redis, &limit) == 40).then_some(()));
        println!("published within {:?}", admitted.elapsed());
        assert!(admitted.elapsed() < Duration::from_secs(1), "100 ms, and what a busy machine takes");
        node.node.process.signal(Signal::KILL);
        assert_eq!(node.node.process.exit_code(SOON), None, "killed");
        assert_eq!(found_by_a_fresh_node(&redis.url(), &limit), 40);
    }
}

/// The request waits in the node's socket while it stands still: it is the first thing that the node decides.
fn first_answer_after(stopped: &Member, limit: &Limit, meanwhile: impl FnOnce()) -> Answer {
    let mut caller = stopped.caller();
    assert!(caller.ask(limit).is_allowed(), "the connection is in use");
    stopped.node.process.signal(Signal::STOP);
    meanwhile();
    caller.send("/v1/limit", &limit.json());
    let began = Instant::now();
    stopped.node.process.signal(Signal::CONT);
    let (status, body) = caller.receive();
    Answer { status, body, took: began.elapsed() }
}

#[test]
fn a_node_that_stood_still_decides_rightly_at_once() {
    let redis = wait_for(Redis::start());
    let fresh_ms = 1000;
    let arguments = [&PATIENT[..], &["--origin-fresh-ms", "1000"]].concat();
    let nodes = fleet(&redis.url(), 3, &arguments);
    let limit = Limit::new("stopped", 200);
    let answer = first_answer_after(&nodes[0], &limit, || {
        let began = Instant::now();
        assert!(drain(&nodes[1..], &limit.clone().exact()) >= 198);
        // Its view has to be old: a younger one has its credit.
        pause(Duration::from_millis(2 * fresh_ms).saturating_sub(began.elapsed()));
    });
    assert!(!answer.is_allowed(), "{}", answer.body);
    // And it goes on as before.
    assert_eq!(drain(&nodes, &limit.clone().exact()), 0);
    nodes.iter().for_each(|node| node.wait_live_nodes(3, SOON));
    let other = Limit::new("afterwards", 1000);
    admit(&nodes[0], &other, 10);
}
