//! Limits that are lowered while nodes hold some of them, and what stays on a node that holds too much.

use crate::fleet::{Algorithm, Limit, Member, PATIENT, fleet, pause, wait_for};
use crate::support::{Directory, SOON, poll};
use std::time::Duration;
use tidegate_testkit::Redis;

/// Rules of which one override makes a key hot.
fn rules(overriding: &str) -> String {
    format!(
        "namespace: api\nrules:\n  - {{ name: w, key: [user], limit: 100000 per 1h }}\n  \
         - {{ name: x, key: [caller], limit: 1000 per 1d, accuracy: exact }}\n\
         overrides:\n  - {{ rule: w, user: hot, {overriding} }}\n  - {{ rule: x, caller: hot, hot: true }}\n"
    )
}

fn member(redis: &Redis) -> Member {
    let directory = Directory::new();
    directory.write("rules.yaml", rules("hot: true"));
    let url = redis.url();
    Member::start_with_secret(directory, &[&["--origin-url", url.as_str()], &PATIENT[..]].concat())
}

fn members(redis: &Redis, nodes: u64) -> Vec<Member> {
    let members: Vec<Member> = (0..nodes).map(|_| member(redis)).collect();
    for member in &members {
        member.wait_live_nodes(nodes, SOON);
    }
    members
}

const CHECK: &str = r#"{"namespace":"api","attributes":{"user":"hot"}}"#;
const EXACT_CHECK: &str = r#"{"namespace":"api","attributes":{"caller":"hot"}}"#;

/// How many of so many requests pass, one after the other on one connection.
fn passed(member: &Member, body: &str, requests: usize) -> usize {
    let mut caller = member.caller();
    (0..requests).filter(|_| caller.post("/v1/check", body).is_allowed()).count()
}

#[test]
fn a_blocked_key_is_denied_at_once_whatever_was_leased_of_it() {
    let redis = wait_for(Redis::start());
    let members = members(&redis, 2);
    // Long enough for both to hold a lease.
    for _ in 0..5 {
        assert!(members.iter().all(|member| passed(member, CHECK, 100) == 100));
        pause(Duration::from_millis(60));
    }
    for member in &members {
        member.directory.write("rules.yaml", rules("limit: 0"));
    }
    for member in &members {
        let mut caller = member.caller();
        poll("the block to be in force", SOON, || {
            (caller.post("/v1/check", CHECK).body["limits"][0]["limit"] == 0).then_some(())
        });
        assert_eq!(passed(member, CHECK, 500), 0, "nothing passes once the answer shows a limit of 0");
    }
}

#[test]
fn a_burst_leaves_less_than_a_quarter_of_a_long_window_on_its_node() {
    let redis = wait_for(Redis::start());
    let members = members(&redis, 3);
    let first = passed(&members[0], EXACT_CHECK, 300);
    assert_eq!(first, 300);
    // Until they are denied: what is left is on the first node.
    let others: usize = members[1..].iter().map(|member| passed(member, EXACT_CHECK, 1_000)).sum();
    let held = 1_000 - first - others;
    assert!(held <= 250, "{held} of 1,000 a day are held by a node that doesn't use them");
    let rest = passed(&members[0], EXACT_CHECK, 1_000);
    assert!(first + others + rest <= 1_000, "never more than the limit");
}

#[test]
fn a_lowered_burst_costs_two_empty_buckets_at_most_on_every_node() {
    let redis = wait_for(Redis::start());
    let members = fleet(&redis.url(), 2, &PATIENT);
    let bucket = |burst: u64| {
        format!(
            r#"{{"namespace":"shared","identifier":"lowered","rate_per_s":2,"burst":{burst},"accuracy":"exact"}}"#
        )
    };
    let ask = |member: &Member, burst| member.caller().post("/v1/limit", &bucket(burst));
    let spent = (0..400).filter(|turn| ask(&members[turn % 2], 200).is_allowed()).count();
    assert!(spent >= 200, "{spent} of 200 passed");
    pause(Duration::from_millis(500));
    for member in &members {
        let denied = ask(member, 4);
        let wait_ms = denied.body["limits"][0]["retry_after_ms"].as_u64().expect("a wait");
        assert!(!denied.is_allowed() && wait_ms <= 2_500, "{}", denied.body);
    }
    // Four units by the node's own view, then four by the store's, which forgives when it is first asked; and what a busy
    // machine takes.
    for member in &members {
        poll("an admission by the lowered burst", Duration::from_secs(7), || {
            ask(member, 4).is_allowed().then_some(())
        });
    }
}

/// The same without leases: a lowered limit holds for what was granted before.
#[test]
fn a_lowered_limit_holds_for_all_nodes() {
    let redis = wait_for(Redis::start());
    let members = fleet(&redis.url(), 2, &PATIENT);
    let limit = |number| Limit::strict("lowered", number).algorithm(Algorithm::Sliding);
    assert!((0..20).all(|turn| members[turn % 2].ask(&limit(100)).is_allowed()));
    for member in &members {
        assert!(!member.ask(&limit(10)).is_allowed());
        assert!(!member.ask(&limit(0)).is_allowed());
    }
    assert!(members[0].ask(&limit(100)).is_allowed(), "a raised one lets pass again");
}
