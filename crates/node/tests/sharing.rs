//! An engine that shares its counts, driven by hand: what may happen between a grant and its request, and
//! between a node's last sync and its end.

use std::sync::mpsc;
use tidegate_core::origin_cell::NodeId;
use tidegate_core::{Accuracy, Class, Cost, FleetSecret, KeyId, Limit, Moment, Nanos, Period};
use tidegate_node::region::{AskOutcomes, Effects, OutgoingExchange, RegionOptions};
use tidegate_node::{
    Answer, DecideOutcome, DecisionPath, Engine, EngineOptions, GivenLimit, GivenPolicy, PendingDecision,
    Purpose, Request, Subject,
};
use tidegate_origin::{OriginStore, ShardId};
use tidegate_rules::RuleSet;

const NOW: Moment = Moment::at(Nanos::from_secs(1_800_000_000));
const SHARD: ShardId = ShardId(1);

fn engine(node: u64) -> Engine {
    let secret = FleetSecret::BUILT_IN;
    let rules = RuleSet::parse(&[], &secret).unwrap_or_else(|errors| panic!("{errors}"));
    let region = RegionOptions { node: NodeId(node), fresh_for: Nanos::from_secs(5), seed: node };
    Engine::sharing(EngineOptions { secret, keys_max: 1000 }, region, rules)
}

fn limit(accuracy: Accuracy, number: u64) -> GivenLimit<'static> {
    let period = Period::new(Nanos::from_secs(3600)).unwrap();
    GivenLimit {
        namespace: "given",
        identifier: "same",
        policy: GivenPolicy::Fixed { limit: Limit::new(number).unwrap(), period },
        cost: Cost::ONE,
        class: Class::Paid,
        accuracy,
        scope: None,
    }
}

fn decide<'r>(
    engine: &Engine,
    rules: &'r tidegate_node::engine::VersionedRules,
    limit: &GivenLimit<'_>,
) -> DecideOutcome<'r> {
    let limits = [*limit];
    let request = Request { tenant: "default", purpose: Purpose::Check, subject: Subject::Limits(&limits) };
    engine.decide(rules, &request, NOW).unwrap()
}

fn asking(decided: DecideOutcome<'_>) -> Box<PendingDecision<'_>> {
    match decided {
        DecideOutcome::Ask(asking) => asking,
        DecideOutcome::Answer(answer) => panic!("nobody is asked: {answer:?}"),
    }
}

fn route(_: KeyId) -> ShardId {
    SHARD
}

/// Brings the calls to the store and their answers back; what they cause too.
fn carry(engine: &Engine, store: &mut OriginStore, effects: Effects) {
    let sharing = engine.shared().unwrap();
    let mut calls: Vec<OutgoingExchange> = wake(effects);
    while let Some(call) = calls.pop() {
        let answer = store.exchange(&call.exchange, NOW.now);
        calls.extend(wake(sharing.region.replied(&sharing.table, call, Ok(answer), NOW, &route)));
    }
}

fn wake(effects: Effects) -> Vec<OutgoingExchange> {
    for (wake, outcomes) in effects.finished {
        wake(outcomes);
    }
    effects.send
}

/// What the store says to a request that asks; the request has yet to go on with it.
fn ask(engine: &Engine, store: &mut OriginStore, asking: &PendingDecision<'_>) -> AskOutcomes {
    let sharing = engine.shared().unwrap();
    let (heard, hear) = mpsc::channel();
    let wake = Box::new(move |outcomes| heard.send(outcomes).unwrap());
    let (_, effects) = sharing.region.ask(&sharing.table, asking.asks(), NOW, &route, wake);
    let effects = sharing.region.send_asks(&sharing.table, &effects.asked_keys, NOW, &route);
    carry(engine, store, effects);
    hear.try_recv().unwrap()
}

fn answer(decided: DecideOutcome<'_>) -> Answer<'_> {
    decided.answer().expect("an answer")
}

/// Both were admitted by one grant once, and the limit was exceeded.
#[test]
fn a_grant_that_another_request_spent_is_asked_for_again() {
    let (here, elsewhere, mut store) = (engine(1), engine(2), OriginStore::default());
    let (rules_here, rules_elsewhere) = (here.rules(), elsewhere.rules());
    let exact = limit(Accuracy::Exact, 2);

    let slow = asking(decide(&here, &rules_here, &exact));
    let granted = ask(&here, &mut store, &slow);
    // Before it goes on, another request of this node finds what was granted.
    let fast = answer(decide(&here, &rules_here, &exact));
    assert!(fast.allowed && fast.path == DecisionPath::Local);
    // And the last one is granted elsewhere.
    let other = asking(decide(&elsewhere, &rules_elsewhere, &exact));
    let granted_elsewhere = ask(&elsewhere, &mut store, &other);
    assert!(answer(elsewhere.resume_or_ask(*other, &granted_elsewhere, NOW)).allowed);

    let again = asking(here.resume_or_ask(*slow, &granted, NOW));
    let refused = ask(&here, &mut store, &again);
    let denied = answer(here.resume_or_ask(*again, &refused, NOW));
    assert!(!denied.allowed, "{denied:?}");
}

/// As many as waited for one limit passed beside the credit of another once: two nodes admitted two limits.
#[test]
fn credit_that_was_spent_while_a_request_waited_is_asked_for() {
    let (engines, mut store) = ([engine(1), engine(2)], OriginStore::default());
    let rules = engines.each_ref().map(Engine::rules);
    let names: Vec<String> = (0..200).map(|number| format!("caller {number}")).collect();
    let shared = limit(Accuracy::Bounded, 100);
    for (engine, rules) in engines.iter().zip(&rules) {
        let first = asking(decide(engine, rules, &shared));
        let granted = ask(engine, &mut store, &first);
        assert!(engine.resume(*first, &granted, NOW).allowed);
    }
    let mut waiting = Vec::new();
    for (index, name) in names.iter().enumerate() {
        let own = GivenLimit { identifier: name, ..limit(Accuracy::Exact, 1) };
        let (limits, node) = ([own, shared], index % 2);
        let subject = Subject::Limits(&limits);
        let request = Request { tenant: "default", purpose: Purpose::Check, subject };
        match engines[node].decide(&rules[node], &request, NOW).unwrap() {
            DecideOutcome::Ask(asking) => waiting.push((node, asking)),
            DecideOutcome::Answer(answer) => panic!("an exact limit asks: {answer:?}"),
        }
    }
    let heard: Vec<AskOutcomes> =
        waiting.iter().map(|(node, asking)| ask(&engines[*node], &mut store, asking)).collect();
    let mut admitted = 2;
    for ((node, asking), outcomes) in waiting.into_iter().zip(heard) {
        let mut decided = engines[node].resume_or_ask(*asking, &outcomes, NOW);
        while let DecideOutcome::Ask(again) = decided {
            let outcomes = ask(&engines[node], &mut store, &again);
            decided = engines[node].resume_or_ask(*again, &outcomes, NOW);
        }
        admitted += u32::from(answer(decided).allowed);
    }
    assert!((90..=125).contains(&admitted), "{admitted} of 100");
}

/// Where there is no time to ask again, the class decides.
#[test]
fn a_grant_that_another_request_spent_leaves_an_unverified_one() {
    for (class, is_allowed) in [(Class::Paid, true), (Class::Abuse, false)] {
        let (engine, mut store) = (engine(1), OriginStore::default());
        let rules = engine.rules();
        let exact = GivenLimit { class, ..limit(Accuracy::Exact, 10) };
        let slow = asking(decide(&engine, &rules, &exact));
        let granted = ask(&engine, &mut store, &slow);
        assert!(answer(decide(&engine, &rules, &exact)).allowed);
        let last = engine.resume(*slow, &granted, NOW);
        assert_eq!((last.allowed, last.path), (is_allowed, DecisionPath::Unverified), "{class:?}");
    }
}

/// What a call carries whose answer nobody will hear is published anew.
#[test]
fn abandoned_calls_are_made_up_for() {
    let (engine, mut store) = (engine(1), OriginStore::default());
    let rules = engine.rules();
    let sharing = engine.shared().unwrap();
    let bounded = limit(Accuracy::Bounded, 1000);
    let first = asking(decide(&engine, &rules, &bounded));
    let granted = ask(&engine, &mut store, &first);
    assert!(engine.resume(*first, &granted, NOW).allowed);
    let flush = || sharing.region.flush(&sharing.table, NOW, &route);

    assert!(answer(decide(&engine, &rules, &bounded)).allowed);
    assert_eq!(flush().send.len(), 1, "on its way, and lost");
    assert!(answer(decide(&engine, &rules, &bounded)).allowed);
    assert!(flush().send.is_empty() && !sharing.region.is_idle(), "one call at a time");

    sharing.region.abandon_calls();
    let again = flush();
    let published = again.send.first().map(|call| call.exchange.syncs.len());
    assert_eq!(published, Some(1));
    carry(&engine, &mut store, again);
    assert!(sharing.region.is_idle());
    let state = sharing.table.state(first_key(&engine)).unwrap();
    assert_eq!(state.unsynced(), 0);
}

/// A key that is on its way to the old store is told to the new one when it has come back.
#[test]
fn a_changed_origin_hears_of_keys_in_flight() {
    let (engine, mut old, mut new) = (engine(1), OriginStore::default(), OriginStore::default());
    let rules = engine.rules();
    let sharing = engine.shared().unwrap();
    let bounded = limit(Accuracy::Bounded, 1000);
    let first = asking(decide(&engine, &rules, &bounded));
    let granted = ask(&engine, &mut old, &first);
    assert!(engine.resume(*first, &granted, NOW).allowed);
    assert!(answer(decide(&engine, &rules, &bounded)).allowed);
    let flush = || sharing.region.flush(&sharing.table, NOW, &route);

    let on_its_way = flush();
    assert_eq!(sharing.region.republish(&sharing.table), 1);
    assert!(flush().send.is_empty(), "one call at a time");
    carry(&engine, &mut old, on_its_way);
    carry(&engine, &mut new, flush());
    assert_eq!((old.len(), new.len()), (1, 1));
    assert!(sharing.region.is_idle());
}

fn first_key(engine: &Engine) -> KeyId {
    let mut found = None;
    engine.shared().unwrap().table.for_each(|key, _| found = Some(key));
    found.unwrap()
}
