//! What is kept of the past, and how it is asked for.

use super::*;
use tidegate_node::rule_counts::RuleLabels;

fn at(second: u64) -> Nanos {
    Nanos::from_secs(second)
}

fn recorded(past: &mut HistoryLevels, second: u64, admitted: u64) {
    let totals = Counts { admitted, denied: 2 * admitted, ..Counts::default() };
    past.record(at(second), totals, 0);
}

fn steps(past: &mut HistoryLevels, ring: usize, after: u64) -> Vec<Step> {
    past.rings[ring].after(at(after), &mut past.names).0
}

#[test]
fn a_second_has_what_was_counted_since_the_one_before() {
    let mut past = HistoryLevels::default();
    for (second, admitted) in [(10, 100), (11, 103), (12, 103)] {
        recorded(&mut past, second, admitted);
    }
    let seconds: Vec<_> = steps(&mut past, 0, 0).iter().map(|step| (step.admitted, step.denied)).collect();
    assert_eq!(seconds, [(3, 6), (0, 0)], "the first look has nothing to compare with");
    assert_eq!(steps(&mut past, 0, 11).len(), 1);
    assert_eq!(steps(&mut past, 0, 12).len(), 0);
}

#[test]
fn coarser_steps_have_the_sums_of_their_seconds() {
    let mut past = HistoryLevels::default();
    for second in 0..=23 {
        recorded(&mut past, second, 10 * second);
    }
    let [first, .., last] = &steps(&mut past, 1, 0)[..] else { panic!("no steps") };
    assert_eq!((first.at, first.admitted, last.at, last.admitted), (at(5), 50, at(20), 50));
    let (_, filling) = past.rings[1].after(at(20), &mut past.names);
    assert_eq!(filling.map(|step| (step.at, step.admitted)), Some((at(23), 30)), "what hasn't ended yet");
}

#[test]
fn a_week_takes_the_room_of_a_day() {
    let mut past = HistoryLevels::default();
    (0..90_000).for_each(|second| recorded(&mut past, second, second));
    let room: Vec<_> = past.rings.iter().map(Ring::room).collect();
    (90_000..700_000).for_each(|second| recorded(&mut past, second, second));
    assert_eq!(past.rings.iter().map(Ring::room).collect::<Vec<_>>(), room);
    assert_eq!(room.iter().map(|(steps, _)| *steps).collect::<Vec<_>>(), [900, 720, 720, 720]);
    assert_eq!(steps(&mut past, 0, 0).last().map(|step| step.at), Some(at(699_999)));
}

#[test]
fn of_many_rules_the_busiest_are_named_and_the_others_are_counted_together() {
    let mut past = HistoryLevels::default();
    past.record(at(1), Counts::default(), 0);
    let labels = |rule: u64| RuleLabels {
        tenant: "default".into(),
        namespace: "api".into(),
        rule: format!("rule-{rule}").into(),
    };
    let rules = (1..=100).map(|rule| (labels(rule), [rule, 0, 0])).collect();
    past.record(at(2), Counts { rules, ..Counts::default() }, 0);
    let second = &steps(&mut past, 0, 0)[0];
    let named: Vec<_> = second.rules.iter().map(|(place, [admitted, ..])| (*place, *admitted)).collect();
    assert_eq!((named.len(), named[0], named[8]), (9, (0, 100), (OTHERS, (1..=92).sum())));
    assert_eq!(past.names.get(0), Some(&labels(100)));
}

#[test]
fn a_clock_that_is_set_back_leaves_seconds_in_order() {
    let mut past = HistoryLevels::default();
    for second in [10, 11, 12, 13, 11, 12] {
        recorded(&mut past, second, second);
    }
    let seconds: Vec<_> = steps(&mut past, 0, 0).iter().map(|step| step.at).collect();
    assert_eq!(seconds, [at(11), at(12)]);
}

#[test]
fn a_wrong_question_is_told_what_is_wrong() {
    assert!(read("").is_ok() && read("after_ms=1763230020000").is_ok());
    assert_eq!(read("range=6h&after_ms=1").unwrap().range.map(|range| range.step_s), Some(30));
    for (query, code) in [
        ("since=1", Code::UnknownField),
        ("after_ms=1&after_ms=2", Code::UnknownField),
        ("range=1h&range=6h", Code::UnknownField),
        ("range=1w", Code::UnknownValue),
        ("after_ms=soon", Code::NotAnInteger),
        ("after_ms=9007199254740992", Code::OutOfRange),
    ] {
        assert_eq!(read(query).unwrap_err().code, code, "{query}");
    }
}
