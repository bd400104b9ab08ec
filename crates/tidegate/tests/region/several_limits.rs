//! A request of several limits that must ask passes all of them or none, and a refused one leaves nothing
//! behind.

use crate::fleet::{Algorithm, Limit, Member, PATIENT, fleet, wait_for};
use crate::load::drain;
use crate::store::{cell_of, total_of};
use crate::support::{Directory, SOON, poll};
use std::thread;
use std::time::Duration;
use tidegate_testkit::{FaultProxy, ProxyFault, Redis};

/// What the store holds of each limit once nothing is held back there any more.
fn settled_totals(redis: &Redis, limits: &[Limit]) -> Vec<u64> {
    poll("an end of all reservations", SOON, || {
        let is_free = |limit: &Limit| cell_of(redis, limit).is_none_or(|cell| !cell.has_reservations());
        limits.iter().all(is_free).then_some(())
    });
    limits.iter().map(|limit| total_of(redis, limit)).collect()
}

fn three(names: [&str; 3], algorithm: Algorithm) -> Vec<Limit> {
    names.map(|name| Limit::strict(name, 5).algorithm(algorithm)).to_vec()
}

fn all_or_none(algorithm: Algorithm) {
    let redis = wait_for(Redis::start());
    let nodes = fleet(&redis.url(), 2, &PATIENT);
    let limits = three(["first", "second", "third"], algorithm);

    assert!(nodes[0].caller().ask_all(&limits).is_allowed());
    let wait = |expected: [u64; 3]| {
        poll("the counts of the admissions", SOON, || {
            (settled_totals(&redis, &limits) == expected).then_some(())
        });
    };
    wait([1, 1, 1]);

    // The other node uses the last one up; the first doesn't know, asks, and is refused by one of three.
    assert_eq!(drain(&nodes[1..], &limits[2]), 4);
    let refused = nodes[0].caller().ask_all(&limits);
    assert!(!refused.is_allowed(), "{}", refused.body);
    let verdicts: Vec<bool> = (0..3).map(|index| refused.body["limits"][index]["allowed"] == true).collect();
    assert_eq!(verdicts, [true, true, false], "{}", refused.body);
    wait([1, 1, 5]);

    // Nothing of the others was lost by that.
    assert_eq!(drain(&nodes, &limits[0]), 4);
    assert_eq!(drain(&nodes, &limits[1]), 4);
    wait([5, 5, 5]);
}

#[test]
fn fixed_windows_pass_together_or_not_at_all() {
    all_or_none(Algorithm::Fixed);
}

#[test]
fn sliding_windows_pass_together_or_not_at_all() {
    all_or_none(Algorithm::Sliding);
}

#[test]
fn gcra_passes_together_or_not_at_all() {
    all_or_none(Algorithm::Gcra);
}

/// The store holds what several limits need for 250 ms. Its reply takes longer here, so the other node may have been
/// granted the same units meanwhile: the first node must not admit on it.
#[test]
fn a_reply_that_comes_after_its_holds_have_expired_admits_nothing() {
    let redis = wait_for(Redis::start());
    let proxy = wait_for(FaultProxy::start(redis.address()));
    let slow = Member::join(&format!("redis://{}", proxy.address()), &PATIENT);
    let quick = Member::join(&redis.url(), &PATIENT);
    slow.wait_live_nodes(2, SOON);
    let limits = ["first", "second"].map(|name| Limit::strict(name, 40));
    for node in [&slow, &quick] {
        assert!(node.caller().ask_all(&limits).is_allowed());
    }
    proxy.set(ProxyFault::Latency(Duration::from_millis(400)));
    let late: u64 = thread::scope(|scope| {
        let ask = || u64::from(slow.caller().ask_all(&limits).is_allowed());
        let callers: Vec<_> = (0..20).map(|_| scope.spawn(ask)).collect();
        callers.into_iter().map(|caller| caller.join().unwrap()).sum()
    });
    let mut caller = quick.caller();
    let granted: u64 = (0..50).map(|_| u64::from(caller.ask_all(&limits).is_allowed())).sum();
    assert!(
        2 + late + granted <= 40,
        "{late} on late replies and {granted} of the other node, of 38 that were left"
    );
    assert_eq!(granted, 38, "what wasn't admitted is left for others");
}

/// Requests of overlapping limits on all nodes at once: what passed is what was counted, of every limit.
#[test]
fn requests_that_compete_for_limits_are_counted_as_they_passed() {
    let redis = wait_for(Redis::start());
    let nodes = fleet(&redis.url(), 2, &PATIENT);
    let limits = ["a", "b", "c"].map(|name| Limit::strict(name, 60));
    let pairs = [[0, 1], [1, 2], [2, 0]];
    let run = |node: &Member, pair: [usize; 2]| {
        let mut caller = node.caller();
        let asked = pair.map(|index| limits[index].clone());
        (0..60).map(|_| u64::from(caller.ask_all(&asked).is_allowed())).sum()
    };
    let passed: Vec<([usize; 2], u64)> = thread::scope(|scope| {
        let callers = nodes.iter().flat_map(|node| pairs.map(|pair| (node, pair)));
        let running: Vec<_> =
            callers.map(|(node, pair)| (pair, scope.spawn(move || run(node, pair)))).collect();
        running.into_iter().map(|(pair, caller)| (pair, caller.join().unwrap())).collect()
    });
    for (index, limit) in limits.iter().enumerate() {
        let together: u64 = passed.iter().filter(|(pair, _)| pair.contains(&index)).map(|(_, n)| n).sum();
        assert!(together <= 60, "{}: {passed:?}", limit.identifier);
        assert_eq!(together + drain(&nodes, limit), 60, "{}: {passed:?}", limit.identifier);
    }
}

/// Rules that are placed together are granted by one call, without a reservation.
#[test]
fn rules_of_one_place_pass_together_or_not_at_all() {
    let redis = wait_for(Redis::start());
    let rules = "namespace: api\nplace_by: org\nrules:\n  \
                 - { name: per-org, key: [org], limit: 6 per 365d, accuracy: exact, class: abuse }\n  \
                 - { name: per-user, key: [org, user], limit: 4 per 365d, accuracy: exact, class: abuse }\n";
    let nodes: Vec<Member> = (0..2)
        .map(|_| {
            let directory = Directory::new();
            directory.write("rules.yaml", rules);
            let url = redis.url();
            Member::start_in(directory, &[&["--origin-url", &url], &PATIENT[..]].concat())
        })
        .collect();
    nodes.iter().for_each(Member::wait_joined);
    let check = |node: &Member, user: &str| {
        let body = format!(r#"{{"namespace":"api","attributes":{{"org":"acme","user":"{user}"}}}}"#);
        let answer = node.caller().post("/v1/check", &body);
        assert!(!answer.is_unverified(), "{}", answer.body);
        answer.is_allowed()
    };
    // In turn, so that each node knows only a part by itself: 4 of one user, then 2 of another.
    let first: Vec<bool> = (0..6).map(|turn| check(&nodes[turn % 2], "1")).collect();
    assert_eq!(first, [true, true, true, true, false, false]);
    let second: Vec<bool> = (0..4).map(|turn| check(&nodes[turn % 2], "2")).collect();
    assert_eq!(second, [true, true, false, false]);
}
