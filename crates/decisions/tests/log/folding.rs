//! A flood: every denial is in the log, one by one or in an exact count.

use crate::fixture::{Fixture, header, key, name};
use std::sync::atomic::{AtomicBool, Ordering};
use tidegate_core::Nanos;
use tidegate_decisions::{
    DenialKind, KEYS_MAX, QueryResult, RecordHeader, RecordOutcome, RecordPath, RuleFilter,
};

fn denials(found: &QueryResult) -> u64 {
    found.records.iter().map(|found| 1 + u64::from(found.record.more)).sum()
}

fn counted(found: &QueryResult) -> u64 {
    found.counts.iter().map(|count| count.count).sum()
}

#[test]
fn few_denials_of_a_key_are_kept_one_by_one() {
    let mut fixture = Fixture::new("few");
    for second in 0..8 {
        fixture.deny(7, 1, Nanos::from_millis(second));
    }
    fixture.write();
    let found = fixture.read(&|_| RuleFilter::Keys(vec![key(7)]));
    assert_eq!((found.records.len(), denials(&found)), (8, 8));
}

#[test]
fn a_flood_on_one_key_is_a_few_records_and_an_exact_count() {
    let mut fixture = Fixture::new("flood");
    for millis in 0..100_000 {
        fixture.deny(7, 1, Nanos::from_millis(millis));
    }
    fixture.write();
    let found = fixture.read(&|_| RuleFilter::Keys(vec![key(7)]));
    assert_eq!((found.records.len(), denials(&found)), (8, 100_000));
    let folded = found.records.iter().find(|found| found.record.more > 0).unwrap();
    assert_eq!(folded.record.last, Nanos::from_millis(99_999));
    let later = fixture.query(&|_| RuleFilter::All, |query| query.since = Nanos::from_millis(90_000));
    assert_eq!(later.records.len(), 1, "what was folded is found by when it went on");
}

#[test]
fn what_is_not_in_a_flood_is_left_to_be_noted() {
    let mut fixture = Fixture::new("not-in-a-flood");
    let kind = DenialKind::of(1, RecordOutcome::Denied, RecordPath::Local);
    let fold = |fixture: &Fixture, millis| fixture.recorder.fold(key(7), kind, Nanos::from_millis(millis));
    for millis in 0..8 {
        assert!(!fold(&fixture, millis), "the first are kept one by one");
        fixture.deny(7, 1, Nanos::from_millis(millis));
    }
    assert!(fold(&fixture, 8));
    let other_version = DenialKind::of(2, RecordOutcome::Denied, RecordPath::Local);
    assert!(!fixture.recorder.fold(key(7), other_version, Nanos::from_millis(9)), "another cause");
    assert!(!fixture.recorder.fold(key(8), kind, Nanos::from_millis(9)), "another key");
    fixture.write();
    let found = fixture.read(&|_| RuleFilter::All);
    assert_eq!((found.records.len(), denials(&found)), (8, 9), "nothing was counted but what was folded");
    assert!(!fold(&fixture, 1000), "what was written is over");
}

#[test]
fn denials_with_another_cause_are_told_apart() {
    let mut fixture = Fixture::new("causes-apart");
    for (version, path) in [(1, RecordPath::Local), (2, RecordPath::Local), (2, RecordPath::Unverified)] {
        for _ in 0..1000 {
            let header = RecordHeader { rule_version: version, path, ..header(7, 1, Nanos::from_secs(1)) };
            Fixture::put_down(&fixture.recorder, &header);
        }
    }
    fixture.write();
    let found = fixture.read(&|_| RuleFilter::Keys(vec![key(7)]));
    let of = |version, path| {
        let like = found
            .records
            .iter()
            .filter(|found| (found.record.rule_version, found.record.path) == (version, path));
        like.map(|found| 1 + found.record.more).sum::<u32>()
    };
    assert_eq!(of(1, RecordPath::Local), 1000);
    assert_eq!(of(2, RecordPath::Local), 1000);
    assert_eq!(of(2, RecordPath::Unverified), 1000);
}

#[test]
fn beyond_ten_thousand_keys_a_rules_denials_are_counted() {
    let mut fixture = Fixture::new("many");
    for number in 0..3 * KEYS_MAX as u64 {
        fixture.deny(number, 1 + number % 2, Nanos::from_secs(1));
    }
    fixture.write();
    for number in [0, 1, KEYS_MAX as u64 - 1] {
        assert_eq!(
            denials(&fixture.read(&|_| RuleFilter::Keys(vec![key(number)]))),
            1,
            "key {number} is among the first"
        );
    }
    let written = fixture
        .recorder
        .counters()
        .counts_by_name()
        .into_iter()
        .find(|(name, _)| *name == "decisions_logged");
    assert_eq!(written.unwrap().1, KEYS_MAX as u64);
    for rule in [1, 2] {
        let found = fixture.query(
            &|of| if *of == name(rule) { RuleFilter::All } else { RuleFilter::Nothing },
            |query| {
                query.since = Nanos::from_secs(1);
            },
        );
        assert!(found.is_cut, "there are more records than an answer has");
        assert_eq!(counted(&found), KEYS_MAX as u64);
    }
}

#[test]
fn nothing_is_lost_between_threads_and_the_writer() {
    const EACH: u64 = 300_000;
    let mut fixture = Fixture::new("threads");
    let recorder = fixture.recorder.clone();
    let is_done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..3)
            .map(|thread| {
                let recorder = &recorder;
                scope.spawn(move || {
                    for number in 0..EACH {
                        let header = header(thread * 50 + number % 50, 1, Nanos::new(thread * EACH + number));
                        Fixture::put_down(recorder, &header);
                    }
                })
            })
            .collect();
        let is_done = &is_done;
        let fixture = &mut fixture;
        let writer = scope.spawn(move || {
            while !is_done.load(Ordering::Acquire) {
                fixture.write();
            }
            fixture.write();
        });
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        is_done.store(true, Ordering::Release);
        writer.join().unwrap();
    });
    let counters = fixture.recorder.counters().counts_by_name();
    let mut sum = counters.into_iter().find(|(name, _)| name.ends_with("only_counted")).unwrap().1;
    for number in 0..150 {
        // Page by page: of a key there is more than one answer has.
        let mut seen = std::collections::HashMap::new();
        let mut until = Nanos::MAX;
        loop {
            let found = fixture.query(&|_| RuleFilter::Keys(vec![key(number)]), |query| query.until = until);
            seen.extend(found.records.iter().map(|found| (found.record.at, u64::from(found.record.more))));
            match found.records.last() {
                Some(last) if found.is_cut => until = last.record.at,
                _ => break,
            }
        }
        sum += seen.values().map(|more| 1 + more).sum::<u64>();
    }
    assert_eq!(sum, 3 * EACH);
}
