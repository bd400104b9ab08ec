//! Why a node asks its region, told in the answer's `path`; and that it doesn't ask without one.

use crate::fleet::{Limit, Member, PATIENT, fleet, wait_for};
use crate::support::{SOON, poll};
use tidegate_testkit::Redis;

fn ask(member: &Member, limit: &Limit, is_allowed: bool, path: &str) {
    let answer = member.ask(limit);
    assert_eq!((answer.is_allowed(), answer.path()), (is_allowed, path), "{}", answer.body);
}

#[test]
fn the_first_sight_of_a_key_is_cold_and_the_next_are_local() {
    let redis = wait_for(Redis::start());
    let nodes = fleet(&redis.url(), 2, &PATIENT);
    let limit = Limit::new("cold", 1000);
    for node in &nodes {
        ask(node, &limit, true, "cold");
        for _ in 0..10 {
            ask(node, &limit, true, "local");
        }
    }
}

#[test]
fn beyond_its_credit_a_node_asks_and_after_a_denial_it_does_not() {
    let redis = wait_for(Redis::start());
    let node = &fleet(&redis.url(), 1, &PATIENT)[0];
    let limit = Limit::new("credit", 100);
    ask(node, &limit, true, "cold");
    // A quarter of what is left, 99, may be spent unseen.
    ask(node, &limit.clone().cost(24), true, "local");
    ask(node, &limit.clone().cost(60), true, "credit");
    ask(node, &limit.clone().cost(15), true, "credit");
    let asks = node.origin()["origin_asks"].clone();
    for _ in 0..100 {
        ask(node, &limit, false, "local");
    }
    assert_eq!(node.origin()["origin_asks"], asks, "a denial needs nobody's help");
}

#[test]
fn an_exact_rule_always_asks_and_an_async_one_never() {
    let redis = wait_for(Redis::start());
    let node = &fleet(&redis.url(), 1, &PATIENT)[0];
    let exact = Limit::new("exact", 100).exact();
    ask(node, &exact, true, "cold");
    for _ in 0..5 {
        ask(node, &exact, true, "exact");
    }
    let billed = Limit { accuracy: "async", ..Limit::new("async", 100) };
    for _ in 0..5 {
        ask(node, &billed, true, "local");
    }
}

#[test]
fn a_view_that_was_not_refreshed_is_stale() {
    let redis = wait_for(Redis::start());
    let node = Member::join(&redis.url(), &[&PATIENT[..], &["--origin-fresh-ms", "100"]].concat());
    // Without a charge nothing is published, and nothing heard.
    let limit = Limit::new("stale", 1_000_000);
    ask(&node, &limit, true, "cold");
    poll("a view that is stale", SOON, || {
        // The ask, or a publish of the charge before, makes it fresh again for a tenth of a second.
        crate::fleet::pause(std::time::Duration::from_millis(250));
        (node.ask(&limit).path() == "stale").then_some(())
    });
}

#[test]
fn after_a_denial_a_fast_rule_is_strict() {
    let redis = wait_for(Redis::start());
    let node = &fleet(&redis.url(), 1, &PATIENT)[0];
    let fast = Limit { accuracy: "fast", ..Limit::new("fast", 100) };
    ask(node, &fast, true, "cold");
    ask(node, &fast.clone().cost(95), true, "local");
    ask(node, &fast.clone().cost(5), false, "local");
    ask(node, &fast, true, "strict");
}
