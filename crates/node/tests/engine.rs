//! The engine as front ends use it: rules and given limits, a full table by class, reports, resets.

use tidegate_core::{Burst, Cost, FleetSecret, Item, Limit, Moment, Nanos, Period, Rate, Spec};
use tidegate_node::{
    Answer, DecisionPath, Descriptor, Engine, EngineOptions, GivenLimit, GivenPolicy, LimitAnswer,
    LimitOutcome, Purpose, Reason, Request, RequestError, Subject, Tally,
};
use tidegate_rules::envoy::{EnvoyUnit, RequestLimit};
use tidegate_rules::{Attributes, Delta, RuleOptions, RuleSet, Source};

const NOW: Moment = Moment::at(Nanos::from_secs(1_800_000_000));

const RULES: &str = "
namespace: api
rules:
  - { name: per-user, key: [user], limit: 3 per 1m }
  - { name: per-org, key: [org], limit: 5 per 1m, on_missing: deny }
  - { name: watched, key: [user], limit: 1 per 1m, shadow: true }
overrides:
  - { rule: per-user, user: vip, unlimited: true }
  - { rule: per-user, user: mallory, limit: 0 }
---
namespace: quiet
mode: 'off'
rules:
  - { name: all, key: [], limit: 0 per 1m }
";

fn engine_with(rules: &str, keys_max: usize) -> Engine {
    let secret = FleetSecret::BUILT_IN;
    let source = Source { name: "rules.yaml".into(), text: rules.as_bytes().to_vec() };
    let set = RuleSet::parse(&[source], &secret).unwrap_or_else(|errors| panic!("{errors}"));
    Engine::new(EngineOptions { secret, keys_max }, set)
}

fn engine() -> Engine {
    engine_with(RULES, 1_000_000)
}

fn by_rules<'a>(namespace: &'a str, attributes: &'a [(&'a str, &'a str)], purpose: Purpose) -> Request<'a> {
    let subject = Subject::Rules { namespace, attributes: Attributes(attributes), cost: Cost::ONE };
    Request { tenant: "default", purpose, subject }
}

/// Decides and keeps what a test looks at: allowed, and each limit's (allowed, remaining).
fn check(engine: &Engine, attributes: &[(&str, &str)]) -> (bool, Vec<(bool, Option<u64>)>) {
    let rules = engine.rules();
    let answer =
        engine.decide(&rules, &by_rules("api", attributes, Purpose::Check), NOW).unwrap().answer().unwrap();
    (answer.allowed, summary(&answer))
}

fn summary(answer: &Answer<'_>) -> Vec<(bool, Option<u64>)> {
    let remaining = |said: LimitOutcome<'_>| match said {
        LimitOutcome::Decided(decision) => Some(decision.remaining),
        LimitOutcome::Unlimited | LimitOutcome::Missing { .. } => None,
    };
    answer.limits.iter().map(|limit| (limit.is_allowed(), remaining(limit.outcome))).collect()
}

fn given(identifier: &str, limit: u64) -> GivenLimit<'_> {
    let period = Period::new(Nanos::from_secs(60)).unwrap();
    GivenLimit {
        namespace: "given",
        identifier,
        policy: GivenPolicy::Sliding { limit: Limit::new(limit).unwrap(), period },
        cost: Cost::ONE,
        class: tidegate_core::Class::Paid,
        accuracy: tidegate_core::Accuracy::Bounded,
        scope: None,
    }
}

#[test]
fn all_matching_rules_are_decided_together() {
    let engine = engine();
    let who = [("user", "42"), ("org", "acme")];
    assert_eq!(check(&engine, &who), (true, vec![(true, Some(2)), (true, Some(4)), (true, Some(0))]));
    // The shadow rule says no and doesn't count; the others go on.
    assert_eq!(check(&engine, &who), (true, vec![(true, Some(1)), (true, Some(3)), (false, Some(0))]));
    assert!(check(&engine, &who).0);
    let (allowed, limits) = check(&engine, &who);
    assert!(!allowed);
    assert_eq!(limits[1], (true, Some(2)), "a denied request took from another limit");
}

#[test]
fn overrides_lift_and_block() {
    let engine = engine();
    assert_eq!(check(&engine, &[("user", "vip"), ("org", "a")]).1[0], (true, None));
    assert_eq!(check(&engine, &[("user", "mallory"), ("org", "a")]).1[0], (false, Some(0)));
}

#[test]
fn a_missing_attribute_denies_where_the_rule_says_so_and_charges_nothing() {
    let engine = engine();
    let (allowed, limits) = check(&engine, &[("user", "42")]);
    assert!(!allowed);
    assert_eq!(limits, [(true, Some(3)), (false, None), (true, Some(1))]);
    assert_eq!(engine.key_count(), 0);
    // What the others say of it is what they would say of any request.
    let who = [("user", "42"), ("org", "acme")];
    while check(&engine, &who).0 {}
    assert_eq!(check(&engine, &[("user", "42")]).1[0], (false, Some(0)));
}

#[test]
fn a_full_shadow_rule_switches_nothing_off() {
    const RULES: &str = "
namespace: api
rules:
  - { name: real, key: [user], limit: 3 per 1m }
  - { name: watched, key: [ip], limit: 3 per 1m, class: abuse, shadow: true }
";
    let engine = engine_with(RULES, 1000);
    let ips: Vec<String> = (0..5000).map(|number| number.to_string()).collect();
    let admitted = ips.iter().filter(|ip| check(&engine, &[("user", "42"), ("ip", ip)]).0).count();
    assert_eq!(admitted, 3);
}

#[test]
fn limits_that_callers_make_up_never_exceed_the_cap() {
    let engine = engine_with(RULES, 1000);
    let rules = engine.rules();
    let namespaces: Vec<String> = (0..20_000).map(|number| number.to_string()).collect();
    for namespace in &namespaces {
        let limit = GivenLimit { namespace, class: tidegate_core::Class::Free, ..given("a", 5) };
        let request =
            Request { tenant: "default", purpose: Purpose::Check, subject: Subject::Limits(&[limit]) };
        engine.decide(&rules, &request, NOW).unwrap();
    }
    assert!(engine.key_count() <= 1000 + 32, "{}", engine.key_count());
}

#[test]
fn what_matches_nothing_is_allowed_and_says_so() {
    let engine = engine();
    let rules = engine.rules();
    let reason = |namespace| {
        let request = by_rules(namespace, &[], Purpose::Check);
        let answer = engine.decide(&rules, &request, NOW).unwrap().answer().unwrap();
        assert!(answer.allowed);
        answer.reason
    };
    assert_eq!(reason("elsewhere"), Some(Reason::UnknownNamespace));
    assert_eq!(reason("quiet"), Some(Reason::NamespaceOff));
}

#[test]
fn a_report_charges_whatever_the_limits_say() {
    let engine = engine();
    let rules = engine.rules();
    let who = [("user", "42"), ("org", "acme")];
    for _ in 0..6 {
        engine.decide(&rules, &by_rules("api", &who, Purpose::Report), NOW).unwrap();
    }
    let (allowed, limits) = check(&engine, &who);
    assert!(!allowed && limits.iter().all(|limit| *limit == (false, Some(0))));
}

#[test]
fn a_reset_starts_a_key_afresh() {
    let engine = engine();
    let who = [("user", "42"), ("org", "acme")];
    while check(&engine, &who).0 {}
    let rules = engine.rules();
    let keys = engine.keys(&rules, &by_rules("api", &who, Purpose::Check), NOW).unwrap();
    assert_eq!(engine.reset(&keys), 3);
    assert_eq!(check(&engine, &who).1[0], (true, Some(2)));
}

#[test]
fn replaced_rules_keep_the_counts() {
    let engine = engine();
    let who = [("user", "42"), ("org", "acme")];
    check(&engine, &who);
    check(&engine, &who);
    let source = Source { name: "r".into(), text: RULES.replace("limit: 3", "limit: 10").into_bytes() };
    let version = engine.replace_rules(RuleSet::parse(&[source], engine.secret()).unwrap());
    assert_eq!(version, 2);
    assert_eq!(check(&engine, &who).1[0], (true, Some(7)));
}

#[test]
fn rules_of_a_control_plane_keep_its_version() {
    let engine = engine();
    let options = RuleOptions::new(engine.secret());
    let mut set = RuleSet::empty();
    for version in 1..=7 {
        set = set.apply(&Delta { version, changes: Vec::new() }, options).unwrap();
    }
    assert_eq!(engine.replace_rules(set), 7);
    let rules = engine.rules();
    let decided = engine.decide(&rules, &by_rules("api", &[], Purpose::Check), NOW).unwrap();
    assert_eq!((decided.answer().unwrap().rule_version, rules.version), (7, 7));
    assert_eq!(engine.replace_rules(RuleSet::empty()), 8, "rules of files count on");
}

#[test]
fn limits_given_in_the_request_are_all_or_none_and_apart_from_rules() {
    let engine = engine();
    let rules = engine.rules();
    let decide = |limits: &[GivenLimit<'_>]| {
        let request =
            Request { tenant: "default", purpose: Purpose::Check, subject: Subject::Limits(limits) };
        engine.decide(&rules, &request, NOW).map(|decided| decided.answer().unwrap().allowed)
    };
    assert_eq!(decide(&[given("a", 2), given("b", 1)]), Ok(true));
    assert_eq!(decide(&[given("a", 2), given("b", 1)]), Ok(false));
    assert_eq!(decide(&[given("a", 2)]), Ok(true));
    assert_eq!(decide(&[]), Err(RequestError::LimitCount));
    assert_eq!(decide(&[given("a", 2); 101]), Err(RequestError::LimitCount));
    assert_eq!(decide(&[given("", 2)]), Err(RequestError::Identifier { index: 0 }));
    let long = "é".repeat(8192);
    assert_eq!(decide(&[given(&long, 2)]), Ok(true));
    let longer = "é".repeat(8193);
    assert_eq!(decide(&[given("a", 2), given(&longer, 2)]), Err(RequestError::Identifier { index: 1 }));
}

#[test]
fn values_of_a_request_are_bounded_together() {
    let engine = engine();
    let rules = engine.rules();
    let value = "x".repeat(16 << 10);
    let decide = |attributes: &[(&str, &str)]| {
        engine.decide(&rules, &by_rules("api", attributes, Purpose::Check), NOW).map(|_| ())
    };
    assert_eq!(decide(&[("a", &value), ("b", &value)]), Ok(()));
    assert_eq!(decide(&[("a", &value), ("b", &value), ("c", "x")]), Err(RequestError::AttributesTooLong));
}

#[test]
fn tenants_never_share_a_count() {
    let engine = engine();
    let rules = engine.rules();
    let limits = [given("a", 1)];
    let decide = |tenant| {
        let request = Request { tenant, purpose: Purpose::Check, subject: Subject::Limits(&limits) };
        engine.decide(&rules, &request, NOW).unwrap().answer().unwrap().allowed
    };
    assert!(decide("one") && decide("two") && !decide("one") && !decide("two"));
}

#[test]
fn a_full_table_follows_the_rules_class_and_counts_it() {
    const CLASSES: &str = "
namespace: api
rules:
  - { name: paid, key: [p], limit: 5 per 1m }
  - { name: free, key: [f], limit: 5 per 1m, class: free }
  - { name: abuse, key: [a], limit: 5 per 1m, class: abuse }
";
    let engine = engine_with(CLASSES, 1000);
    let ids: Vec<String> = (0..20_000).map(|number| number.to_string()).collect();
    let rules = engine.rules();
    let run = |attribute: &str| {
        let (mut allowed, mut unverified) = (0, 0);
        for id in &ids {
            let attributes = [(attribute, id.as_str())];
            let decided = engine.decide(&rules, &by_rules("api", &attributes, Purpose::Check), NOW).unwrap();
            let answer = decided.answer().unwrap();
            allowed += u32::from(answer.allowed);
            unverified += u32::from(answer.path == DecisionPath::Unverified);
        }
        (allowed, unverified)
    };
    let (allowed, unverified) = run("p");
    assert_eq!(allowed, 20_000, "paid is admitted");
    assert!(unverified > 18_000);
    let (allowed, unverified) = run("f");
    assert!(allowed - (20_000 - unverified) <= 5, "free keys share one limit: {allowed}");
    let (allowed, unverified) = run("a");
    assert_eq!(allowed, 20_000 - unverified, "abuse is denied");
    let stats = engine.stats().counts_by_name();
    let count = |name| stats.iter().find(|(known, _)| *known == name).map_or(0, |(_, count)| *count);
    assert!(count("keys_refused_admitted") > 18_000 && count("keys_refused_shared") > 18_000);
    assert!(count("keys_refused_denied") > 18_000);
    assert_eq!(count("keys_refused_below_cap"), 0, "it was full");
    assert!(engine.key_count() <= 1000 + 1, "the cap and one shared key");
}

#[test]
fn a_refusal_in_a_table_that_has_room_is_counted_apart() {
    let engine = engine_with("namespace: api\nrules: [{ name: r, key: [id], limit: 5 per 1m }]\n", 1000);
    engine.share_among(["default", "other"]);
    let rules = engine.rules();
    for number in 0..1000 {
        let id = number.to_string();
        let attributes = [("id", id.as_str())];
        let request = by_rules("api", &attributes, Purpose::Check);
        assert!(engine.decide(&rules, &request, NOW).unwrap().answer().unwrap().allowed);
    }
    // A quarter is kept for the other tenant.
    assert_eq!(engine.key_count(), 750);
    assert!(engine.stats().counts_by_name().contains(&("keys_refused_below_cap", 250)));
}

/// Each descriptor's limits as (descriptor, allowed, remaining).
fn describe(
    engine: &Engine,
    namespace: &str,
    descriptors: &[Descriptor<'_>],
) -> (bool, Vec<(u8, bool, u64)>) {
    let rules = engine.rules();
    let subject = Subject::Descriptors { namespace, descriptors };
    let request = Request { tenant: "default", purpose: Purpose::Check, subject };
    let answer = engine.decide(&rules, &request, NOW).unwrap().answer().unwrap();
    let said = |limit: &LimitAnswer<'_>| match limit.outcome {
        LimitOutcome::Decided(decision) => (limit.descriptor, limit.is_allowed(), decision.remaining),
        _ => (limit.descriptor, limit.is_allowed(), 0),
    };
    (answer.allowed, answer.limits.iter().map(said).collect())
}

const PAIR: &str = "
namespace: api
rules:
  - { name: user, key: [user], limit: 3 per 1m }
  - { name: path, key: [path], limit: 5 per 1m }
";

#[test]
fn descriptors_are_decided_all_or_none_with_a_cost_each() {
    let engine = engine_with(PAIR, 1_000_000);
    let describe_costs = |user: u64, path: u64| {
        let attributes = [[("user", "a")], [("path", "/")]];
        let of = |index: usize, cost| Descriptor {
            attributes: Attributes(&attributes[index]),
            cost: Cost::new(cost).unwrap(),
            limit: None,
        };
        describe(&engine, "api", &[of(0, user), of(1, path)])
    };
    assert_eq!(describe_costs(1, 2), (true, vec![(0, true, 2), (1, true, 3)]));
    assert_eq!(describe_costs(1, 4), (false, vec![(0, true, 2), (1, false, 3)]), "neither was charged");
    assert_eq!(describe_costs(0, 3), (true, vec![(0, true, 2), (1, true, 0)]), "0 peeks");
    assert_eq!(describe_costs(2, 0), (true, vec![(0, true, 0), (1, true, 0)]));
}

#[test]
fn a_descriptors_own_limit_stands_for_the_rules_of_a_known_namespace() {
    let engine = engine_with(PAIR, 1_000_000);
    let limit = |requests_per_unit, unit| RequestLimit::new(requests_per_unit, unit, 1);
    let with = |attributes, limit| Descriptor { attributes: Attributes(attributes), cost: Cost::ONE, limit };
    let user = [("user", "a")];
    assert_eq!(
        describe(&engine, "api", &[with(&user, limit(10, EnvoyUnit::Day))]),
        (true, vec![(0, true, 9)])
    );
    assert_eq!(
        describe(&engine, "api", &[with(&user, limit(10, EnvoyUnit::Day))]),
        (true, vec![(0, true, 8)])
    );
    assert_eq!(
        describe(&engine, "api", &[with(&user, limit(10, EnvoyUnit::Minute))]),
        (true, vec![(0, true, 9)])
    );
    assert_eq!(describe(&engine, "api", &[with(&user, None)]), (true, vec![(0, true, 2)]));
    let parted = [("user", "a"), ("", "")];
    assert_eq!(
        describe(&engine, "api", &[with(&parted[..1], limit(1, EnvoyUnit::Second))]).1,
        [(0, true, 0)]
    );
    assert_eq!(describe(&engine, "nowhere", &[with(&user, limit(0, EnvoyUnit::Minute))]), (true, vec![]));
}

#[test]
fn descriptors_that_meet_too_many_rules_together_are_refused() {
    let mut rules = String::from("namespace: api\nrules:\n");
    for number in 0..60 {
        rules += &format!("  - {{ name: r{number}, key: [user], limit: 10 per 1m }}\n");
    }
    let engine = engine_with(&rules, 1_000_000);
    let user = [("user", "a")];
    let one = Descriptor { attributes: Attributes(&user), cost: Cost::ONE, limit: None };
    let decide = |descriptors: &[Descriptor<'_>]| {
        let subject = Subject::Descriptors { namespace: "api", descriptors };
        let request = Request { tenant: "default", purpose: Purpose::Check, subject };
        engine.decide(&engine.rules(), &request, NOW).err()
    };
    assert_eq!(decide(&[one]), None);
    assert_eq!(decide(&[one, one]), Some(RequestError::TooManyRules));
    assert_eq!(decide(&[]), Some(RequestError::DescriptorCount));
    assert_eq!(decide(&[one; 101]), Some(RequestError::DescriptorCount));
}

/// Front ends that pipeline take the short way; both lead to the same counts.
#[test]
fn a_single_limit_is_decided_the_same_by_either_way() {
    let engine = engine();
    let rules = engine.rules();
    let (rate, burst) = (Rate::new(3, Nanos::from_secs(7)).unwrap(), Burst::new(5).unwrap());
    let policy = GivenPolicy::Gcra { rate, burst };
    let keys = engine.gcra_keys("default", "given");
    let mut expected = vec![4, 3, 2, 1, 0, 0];
    for turn in 0..6 {
        let decision = if turn % 2 == 0 {
            let limits = [GivenLimit { namespace: "given", policy, ..given("same", 1) }];
            let subject = Subject::Limits(&limits);
            let request = Request { tenant: "default", purpose: Purpose::Check, subject };
            let answer = engine.decide(&rules, &request, NOW).unwrap().answer().unwrap();
            let LimitOutcome::Decided(decision) = answer.limits[0].outcome else { panic!("{answer:?}") };
            decision
        } else {
            let item = Item::new(keys.key("same"), Spec::Gcra { rate, burst }, Cost::ONE);
            engine.decide_single(&item, NOW).expect("there is room, and nobody to ask")
        };
        assert_eq!(
            (decision.is_admitted(), decision.remaining),
            (turn < 5, expected.remove(0)),
            "turn {turn}"
        );
    }
    engine.count(Tally { admitted: 2, near_limit: 1, denied: 1 });
    let stats = engine.stats().counts_by_name();
    assert_eq!(&stats[..2], [("requests_admitted", 5), ("requests_denied", 1)]);
}

#[test]
fn a_single_limit_without_room_is_left_to_the_long_way() {
    let engine = engine_with(RULES, 2);
    let keys = engine.gcra_keys("default", "given");
    let spec =
        Spec::Gcra { rate: Rate::new(1, Nanos::from_secs(60)).unwrap(), burst: Burst::new(5).unwrap() };
    let decide = |number: u32| {
        let item = Item::new(keys.key(&number.to_string()), spec, Cost::ONE);
        engine.decide_single(&item, NOW).is_some()
    };
    assert!((0..50).any(decide));
    assert!(!(0..50).all(decide));
}
