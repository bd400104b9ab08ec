//! What `why` says of records, by the events around them.

use crate::fixture::{Fixture, event, header, name, record};
use tidegate_core::{CalendarUnit, Nanos};
use tidegate_decisions::why::{Audience, Cause, Explanation, change_words};
use tidegate_decisions::{
    Algorithm, Event, EventKind, Record, RecordHeader, RecordPath, RuleFilter, RuleName, ShardTag,
};

fn explained(
    test: &str,
    events: &[Event],
    change: impl Fn(&mut RecordHeader, &mut Record),
    audience: Audience,
) -> (Cause, String, String) {
    let mut fixture = Fixture::new(test);
    events.iter().for_each(|event| fixture.recorder.event(event.clone()));
    let mut header = header(7, 1, Nanos::from_secs(1_800_000_000));
    let mut record = record(&header);
    change(&mut header, &mut record);
    (record.path, record.outcome) = (header.path, header.outcome);
    for address in ["shard", "another"] {
        fixture.recorder.shard(address);
    }
    fixture.recorder.record(&header, || record, || name(1), || None);
    fixture.write();
    let found = fixture.read(&|_| RuleFilter::All);
    let explanation = Explanation::new(&found, audience);
    let first = &explanation.decisions[0];
    (first.cause, first.sentence(), explanation.to_json(&[]))
}

fn of_rule(at_s: u64) -> Event {
    Event { subject: name(1).subject(), value: 1, ..event(EventKind::Rules, false, at_s) }
}

#[test]
fn the_limit_was_in_use() {
    let (cause, sentence, json) = explained("used", &[], |_, _| (), Audience::Operator);
    assert_eq!(cause, Cause::LimitUsed);
    // By its hash: this log has no names.
    let (before, caller) = sentence.split_once(" from caller ").expect("who it was");
    let (hash, after) = caller.split_at(16);
    assert!(hash.bytes().all(|byte| byte.is_ascii_hexdigit()), "{sentence}");
    assert_eq!(
        format!("{before}{after}"),
        "At 2027-01-15T08:00:00.000Z rule rule-1 of api (rules version 1) denied a request of cost 1: 100 of its \
         limit of 100 was in use (60 admitted by this node, 30 by the other nodes of its region, 10 carried over \
         from the window before). Decided on what the node knew, without asking anybody. It would have passed \
         412 ms later, at 2027-01-15T08:00:00.412Z, if nobody else had come."
    );
    assert!(
        json.contains("\"seen\":{\"own\":60,\"others\":30,\"world\":0,\"previous\":10,\"total\":100}"),
        "{json}"
    );
    assert!(json.contains("\"node\":\"one\""), "{json}");
}

#[test]
fn each_cause_in_its_case() {
    let now = 1_800_000_000;
    let open = event(EventKind::Breaker, true, now - 5);
    let closed = event(EventKind::Breaker, false, now - 1);
    let stepped = event(EventKind::ClockStep, false, now - 3);
    let unverified = |header: &mut RecordHeader, _: &mut Record| header.path = RecordPath::Unverified;
    type Case<'c> = (&'c str, Vec<Event>, &'c dyn Fn(&mut RecordHeader, &mut Record), Cause);
    let cases: [Case<'_>; 10] = [
        ("away", vec![open.clone()], &unverified, Cause::StoreAway),
        ("back", vec![open.clone(), closed], &unverified, Cause::Unverified),
        ("away-but-known", vec![open], &|_, _| (), Cause::LimitUsed),
        ("lowered", vec![of_rule(now - 30)], &|_, _| (), Cause::RuleChanged),
        ("lowered-long-ago", vec![of_rule(now - 61)], &|_, _| (), Cause::LimitUsed),
        ("of-a-later-version", vec![Event { value: 2, ..of_rule(now - 1) }], &|_, _| (), Cause::LimitUsed),
        ("lowered-later", vec![of_rule(now + 1)], &|_, _| (), Cause::LimitUsed),
        ("stepped", vec![of_rule(now - 30), stepped], &|_, _| (), Cause::ClockStep),
        ("blocked", vec![], &|_, record| record.limit = 0, Cause::Blocked),
        ("too-dear", vec![], &|_, record| record.cost = 101, Cause::CostAboveLimit),
    ];
    for (case, events, change, cause) in cases {
        let found = explained(case, &events, change, Audience::Operator);
        assert_eq!(found.0, cause, "{case}: {}", found.1);
    }
    let (_, sentence, _) = explained("words", &[of_rule(now - 30)], |_, _| (), Audience::Operator);
    assert!(sentence.contains("changed 30 s before, with rules version 1: 100 → 10."), "{sentence}");
}

/// What is in force is 100 of the fixture's record, all of them in use.
#[test]
fn a_change_is_the_cause_where_the_request_would_have_passed_before_it() {
    let now = 1_800_000_000;
    let told = |version: u64, at_s: u64, before: Option<&str>, after: &str| Event {
        value: version.try_into().unwrap(),
        text: change_words(before, after),
        ..of_rule(at_s)
    };
    let stepped = Event { value: 7_200_000, ..event(EventKind::ClockStep, false, now - 3) };
    let lowered = told(1, now - 30, Some("500 per 60 s"), "100 per 60 s");
    let a_little = told(1, now - 30, Some("100 per 60 s"), "99 per 60 s");
    let raised = told(1, now - 30, Some("20 per 60 s"), "100 per 60 s");
    let longer = told(1, now - 30, Some("100 per 1 s"), "100 per 60 s");
    let new = told(1, now - 30, None, "100 per 60 s");
    let of_another_limit = told(1, now - 30, Some("500 per 60 s"), "70 per 60 s");
    let twice = [told(1, now - 40, Some("500 per 60 s"), "80 per 60 s"), raised.clone()];
    let below = |_: &mut RecordHeader, record: &mut Record| record.limit = 99;
    type Case<'c> = (&'c str, Vec<Event>, &'c dyn Fn(&mut RecordHeader, &mut Record), Cause);
    let cases: [Case<'_>; 10] = [
        ("by-much", vec![lowered.clone()], &|_, _| (), Cause::RuleChanged),
        ("and-the-clock-was-set", vec![lowered, stepped.clone()], &|_, _| (), Cause::RuleChanged),
        ("denied-before-too", vec![a_little], &below, Cause::LimitUsed),
        ("raised", vec![raised.clone()], &|_, _| (), Cause::LimitUsed),
        ("raised-and-the-clock-was-set", vec![raised, stepped], &|_, _| (), Cause::ClockStep),
        ("a-longer-window", vec![longer], &|_, _| (), Cause::RuleChanged),
        ("a-new-rule", vec![new], &|_, _| (), Cause::RuleChanged),
        ("by-an-override", vec![of_another_limit], &|_, _| (), Cause::LimitUsed),
        ("the-change-before", twice.to_vec(), &|_, _| (), Cause::RuleChanged),
        ("nothing", vec![], &|_, _| (), Cause::LimitUsed),
    ];
    for (case, events, change, cause) in cases {
        let found = explained(case, &events, change, Audience::Operator);
        assert_eq!(found.0, cause, "{case}: {}", found.1);
        assert_eq!(found.1.contains("had been changed"), cause == Cause::RuleChanged, "{case}: {}", found.1);
    }
}

#[test]
fn a_store_is_away_where_it_is_the_one_to_be_asked() {
    let now = 1_800_000_000;
    let opens = |at_s: u64| event(EventKind::Breaker, true, at_s);
    let of = |shard: &'static str| {
        move |header: &mut RecordHeader, record: &mut Record| {
            header.path = RecordPath::Unverified;
            record.shard = ShardTag::of(shard);
        }
    };
    for (case, event, shard, cause) in [
        ("own", opens(now - 1), "shard", Cause::StoreAway),
        ("others", opens(now - 1), "another", Cause::Unverified),
        ("soon", opens(now + 1), "shard", Cause::StoreAway),
        ("soon-others", opens(now + 1), "another", Cause::Unverified),
        ("much-later", opens(now + 6), "shard", Cause::Unverified),
    ] {
        let found = explained(case, &[event], of(shard), Audience::Operator);
        assert_eq!(found.0, cause, "{case}: {}", found.1);
    }
}

#[test]
fn a_clock_that_was_set_by_little_is_soon_forgotten() {
    let now = 1_800_000_000;
    let step =
        |ago: u64, millis: i64| Event { value: millis, ..event(EventKind::ClockStep, false, now - ago) };
    let monthly = RuleName {
        algorithm: Algorithm::Calendar { unit: CalendarUnit::Month, time_zone: "UTC".into() },
        ..name(1)
    };
    for (case, event, cause) in [
        ("at-once", step(50, 300), Cause::ClockStep),
        ("minutes-ago", step(600, 300), Cause::LimitUsed),
        ("far-minutes-ago", step(600, -3_600_000), Cause::ClockStep),
        ("far-long-ago", step(3700, -3_600_000), Cause::LimitUsed),
    ] {
        let mut fixture = Fixture::new(case);
        fixture.recorder.event(event);
        let header = header(7, 1, Nanos::from_secs(now));
        fixture.recorder.record(&header, || record(&header), || monthly.clone(), || None);
        fixture.write();
        let found = fixture.read(&|_| RuleFilter::All);
        assert_eq!(Explanation::new(&found, Audience::Operator).decisions[0].cause, cause, "{case}");
    }
}

#[test]
fn a_tenant_is_told_of_no_server() {
    let open = event(EventKind::Breaker, true, 1_799_999_999);
    let (_, _, json) = explained("tenant", &[open], |_, _| (), Audience::Tenant);
    assert!(json.contains("\"what\":\"breaker\""), "{json}");
    assert!(!json.contains("shard") && !json.contains("\"node\""), "{json}");
}
