//! What `why` says of records, by the events around them.

use crate::fixture::{Fixture, event, name, noted, record};
use tidegate_core::Nanos;
use tidegate_decisions::why::{Audience, Cause, Explanation};
use tidegate_decisions::{Event, EventKind, Noted, Path, Record, Wanted};

fn explained(
    test: &str,
    events: &[Event],
    change: impl Fn(&mut Noted, &mut Record),
    audience: Audience,
) -> (Cause, String, String) {
    let mut fixture = Fixture::new(test);
    events.iter().for_each(|event| fixture.recorder.event(event.clone()));
    let mut noted = noted(7, 1, Nanos::from_secs(1_800_000_000));
    let mut record = record(&noted);
    change(&mut noted, &mut record);
    (record.path, record.outcome) = (noted.path, noted.outcome);
    fixture.recorder.note(&noted, || record, || name(1));
    fixture.write();
    let found = fixture.read(&|_| Wanted::All);
    let explanation = Explanation::new(&found, audience);
    let first = &explanation.decisions[0];
    (first.cause, first.sentence(), explanation.to_json())
}

fn of_rule(at_s: u64) -> Event {
    Event { subject: name(1).subject(), value: 1, ..event(EventKind::Rules, false, at_s) }
}

#[test]
fn the_limit_was_in_use() {
    let (cause, sentence, json) = explained("used", &[], |_, _| (), Audience::Operator);
    assert_eq!(cause, Cause::LimitUsed);
    assert_eq!(
        sentence,
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
    let unverified = |noted: &mut Noted, _: &mut Record| noted.path = Path::Unverified;
    type Case<'c> = (&'c str, Vec<Event>, &'c dyn Fn(&mut Noted, &mut Record), Cause);
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

#[test]
fn a_tenant_is_told_of_no_server() {
    let open = event(EventKind::Breaker, true, 1_799_999_999);
    let (_, _, json) = explained("tenant", &[open], |_, _| (), Audience::Tenant);
    assert!(json.contains("\"what\":\"breaker\""), "{json}");
    assert!(!json.contains("shard") && !json.contains("\"node\""), "{json}");
}
