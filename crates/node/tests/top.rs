//! Who comes most often, and who is denied most, as operators see it.

use tidegate_core::origin_cell::NodeId;
use tidegate_core::{Cost, FleetSecret, Moment, Nanos};
use tidegate_node::region::{AskOutcome, RegionOptions};
use tidegate_node::top::TopCaller;
use tidegate_node::{DecideOutcome, Engine, EngineOptions, Purpose, Request, Subject};
use tidegate_rules::{Attributes, RuleSet, Source};

const BEGIN: Nanos = Nanos::from_secs(1_800_000_000);
const RULES: &str = "
namespace: api
rules:
  - { name: per-user, key: [user], rate: 100/s, burst: 100 }
---
namespace: logins
rules:
  - { name: per-user, key: [user], limit: 1 per 1d }
";

fn rules(secret: &FleetSecret) -> RuleSet {
    let source = Source { name: "rules.yaml".into(), text: RULES.as_bytes().to_vec() };
    RuleSet::parse(&[source], secret).unwrap_or_else(|errors| panic!("{errors}"))
}

fn engine() -> Engine {
    let secret = FleetSecret::BUILT_IN;
    Engine::new(EngineOptions { secret, keys_max: 100_000 }, rules(&secret))
}

fn check(engine: &Engine, user: &str, cost: Cost, now: Nanos) {
    check_in(engine, "api", user, cost, now);
}

fn check_in(engine: &Engine, namespace: &str, user: &str, cost: Cost, now: Nanos) {
    let attributes = [("user", user)];
    let subject = Subject::Rules { namespace, attributes: Attributes(&attributes), cost };
    let request = Request { tenant: "default", purpose: Purpose::Check, subject };
    let rules = engine.rules();
    engine.decide(&rules, &request, Moment::at(now)).unwrap().answer().unwrap();
}

/// So many requests a second for three seconds, of which nine in ten are of one caller. When it ended.
fn load(engine: &Engine, per_second: u64) -> Nanos {
    let gap = Nanos::PER_SECOND / per_second;
    for number in 0..3 * per_second {
        let now = BEGIN.plus(Nanos::new(number * gap));
        // Neither every tenth, nor in any other order.
        let is_busy = number.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32 & 0xff < 230;
        let rare = format!("user-{}", number % 1000);
        check(engine, if is_busy { "busy" } else { &rare }, Cost::ONE, now);
    }
    BEGIN.plus(Nanos::from_secs(3))
}

fn names(callers: &[TopCaller]) -> Vec<&str> {
    callers.iter().map(|caller| caller.identifier.as_str()).collect()
}

fn busy_is_first(per_second: u64) {
    let engine = engine();
    let now = load(&engine, per_second);
    let report = engine.top().report(None, now);
    let [of_all, denied] = [&report.busiest, &report.denied].map(|list| list.first().expect("somebody"));
    assert_eq!([&*of_all.identifier, &*denied.identifier], ["busy", "busy"]);
    assert_eq!([&*of_all.tenant, &*of_all.namespace, &*of_all.rule], ["default", "api", "per-user"]);
    let expected = f64::from(u32::try_from(per_second).unwrap()) * 230.0 / 256.0;
    let ratio = of_all.per_second / expected;
    assert!((0.8..1.2).contains(&ratio), "{} a second instead of {expected}", of_all.per_second);
    assert!(of_all.denied_per_second > 0.5 * of_all.per_second, "a tenth or less is admitted: {of_all:?}");
    assert_eq!(names(&report.denied), ["busy"], "nobody else comes as often as that");
    let later = engine.top().report(None, now.plus(Nanos::from_secs(30)));
    assert_eq!(names(&later.busiest), Vec::<&str>::new(), "who is gone is forgotten");
}

#[test]
fn the_busiest_caller_of_a_quiet_node_is_found() {
    busy_is_first(1000);
}

#[test]
fn the_busiest_caller_of_a_busy_node_is_found_though_few_are_looked_at() {
    busy_is_first(200_000);
}

#[test]
fn few_denials_among_many_requests_are_told_as_they_are() {
    let engine = engine();
    // Twenty thousand requests a second that pass, and between them ten of one caller that don't.
    let gap = Nanos::PER_SECOND / 20_000;
    for number in 0..6 * 20_000_u64 {
        let now = BEGIN.plus(Nanos::new(number * gap));
        check(&engine, &format!("user-{}", number % 1000), Cost::ONE, now);
        if number % 2_000 == 999 {
            check_in(&engine, "logins", "mallory", Cost::ONE, now);
        }
        if number > 40_000 && number % 6_000 == 0 {
            let denied = engine.top().report(None, now).denied;
            assert_eq!(names(&denied), ["mallory"]);
            let told = denied[0].denied_per_second;
            assert!((7.0..14.0).contains(&told), "{told} a second instead of 10");
        }
    }
}

#[test]
fn who_is_denied_by_the_region_is_among_the_denied() {
    let secret = FleetSecret::BUILT_IN;
    let region = RegionOptions { node: NodeId(1), fresh_for: Nanos::from_secs(5), seed: 1 };
    let engine = Engine::sharing(EngineOptions { secret, keys_max: 1000 }, region, rules(&secret));
    let rules = engine.rules();
    // Four requests, each of which asks first and is refused.
    for quarter in 0..4 {
        let moment = Moment::at(BEGIN.plus(Nanos::from_millis(250 * quarter)));
        let attributes = [("user", "mallory")];
        let (namespace, attributes) = ("logins", Attributes(&attributes));
        let subject = Subject::Rules { namespace, attributes, cost: Cost::ONE };
        let request = Request { tenant: "default", purpose: Purpose::Check, subject };
        let DecideOutcome::Ask(asking) = engine.decide(&rules, &request, moment).unwrap() else {
            panic!("a cold key asks");
        };
        let refused = AskOutcome::Refused { retry_after: Some(Nanos::from_secs(1)), window: None };
        assert!(!engine.resume(*asking, &[refused], moment).allowed);
    }
    let report = engine.top().report(None, BEGIN.plus(Nanos::from_secs(1)));
    assert_eq!([names(&report.busiest), names(&report.denied)], [["mallory"], ["mallory"]]);
    let caller = &report.denied[0];
    assert_eq!(caller.denied_per_second, caller.per_second, "all that came were denied");
}

#[test]
fn the_first_request_of_all_is_seen_and_who_only_looks_is_not() {
    let engine = engine();
    check(&engine, "curious", Cost::PEEK, BEGIN);
    check(&engine, "first", Cost::ONE, BEGIN.plus(Nanos::from_secs(1)));
    let report = engine.top().report(None, BEGIN.plus(Nanos::from_secs(2)));
    assert_eq!(names(&report.busiest), ["first"]);
    assert_eq!(
        names(&engine.top().report(Some("default"), BEGIN.plus(Nanos::from_secs(2))).busiest),
        ["first"]
    );
    assert!(engine.top().report(Some("another"), BEGIN.plus(Nanos::from_secs(2))).busiest.is_empty());
}

/// So many requests a second of one caller, and as many of others, for some milliseconds.
fn come(engine: &Engine, per_second: u64, from: Nanos, millis: u64) -> Nanos {
    let gap = Nanos::PER_SECOND / per_second;
    let count = millis * per_second / 1000;
    for number in 0..count {
        let now = from.plus(Nanos::new(number * gap));
        check(engine, "hot", Cost::ONE, now);
        check(engine, &format!("user-{}", number % 1000), Cost::ONE, now);
    }
    from.plus(Nanos::from_millis(millis))
}

fn is_hot(engine: &Engine, now: Nanos) -> bool {
    let often = engine.top().often(1_000.0, now);
    assert!(often.len() <= 1, "nobody else comes that often: {often:?}");
    often.first().is_some_and(|often| often.is_hot)
}

#[test]
fn a_key_above_ten_thousand_a_second_is_known_within_half_a_second() {
    let engine = engine();
    let mut now = come(&engine, 1_000, BEGIN, 400);
    assert!(!is_hot(&engine, now), "nobody is hot at a thousand a second");
    // Looked at every 200 ms, and it begins right after.
    let mut looked = 0;
    while !is_hot(&engine, now) {
        assert!(looked < 2, "not known after {} ms", 200 * looked);
        now = come(&engine, 10_500, now, 200);
        looked += 1;
    }
}

#[test]
fn a_key_stays_hot_until_it_comes_much_less_often() {
    let engine = engine();
    let mut now = BEGIN;
    let mut looked = |per_second| {
        now = come(&engine, per_second, now, 200);
        is_hot(&engine, now)
    };
    looked(20_000);
    assert!(looked(20_000), "it comes often");
    assert!(looked(6_500) && looked(6_500), "a little less isn't much less");
    looked(2_000);
    assert!(!looked(2_000) && !looked(6_500), "and to become hot takes more than to stay so");
}
