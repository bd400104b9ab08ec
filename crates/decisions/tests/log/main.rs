//! The log from what is put down to what is found again: exact counts, bounds, damage, and the end of a process.

mod causes;
mod damaged;
mod fixture;
mod folding;

use fixture::{Fixture, KEY_ASKED, event, header, key, name, record};
use tidegate_core::Nanos;
use tidegate_decisions::{EventKind, Log, LogError, RecordOutcome, Recorder, RequestTag, RuleFilter, RuleId};

#[test]
fn a_denial_is_found_by_its_key_its_rule_and_its_request() {
    let mut fixture = Fixture::new("found");
    for number in 0..100 {
        fixture.deny(number, 1, Nanos::from_secs(1000 + number));
    }
    fixture.write();
    let by_key = fixture.read(&|_| RuleFilter::Keys(vec![key(42)]));
    assert_eq!(by_key.records.len(), 1);
    let found = by_key.records[0].record;
    assert_eq!((found.key, found.at, found.limit), (key(42), Nanos::from_secs(1042), 100));
    assert_eq!(by_key.rules[&RuleId::of_overflow(fixture::overflow(1))], name(1));
    assert_eq!((&*by_key.writers[0].region, &*by_key.writers[0].node), ("here", "one"));
    let newest = fixture.read(&|_| RuleFilter::All);
    assert_eq!(newest.records.len(), 100);
    assert!(newest.records.is_sorted_by(|a, b| a.record.at >= b.record.at));
    let by_request = fixture.query(&|_| RuleFilter::All, |query| query.request = Some(RequestTag(17)));
    assert_eq!(by_request.records.len(), 1);
    assert_eq!(by_request.records[0].record.key, key(17));
    let in_time = fixture.query(&|_| RuleFilter::All, |query| {
        (query.since, query.until) = (Nanos::from_secs(1010), Nanos::from_secs(1019));
    });
    assert_eq!(in_time.records.len(), 10);
    assert!(fixture.read(&|_| RuleFilter::Nothing).records.is_empty(), "of another tenant");
}

#[test]
fn admissions_are_found_where_they_are_asked_for() {
    let mut fixture = Fixture::new("admissions");
    let admitted =
        fixture::RecordHeader { outcome: RecordOutcome::Admitted, ..header(1, 1, Nanos::from_secs(5)) };
    fixture.recorder.record(&admitted, || record(&admitted), || name(1), || None);
    fixture.write();
    assert!(fixture.read(&|_| RuleFilter::All).records.is_empty());
    assert_eq!(fixture.query(&|_| RuleFilter::All, |query| query.admissions = true).records.len(), 1);
}

#[test]
fn what_was_written_survives_a_kill_and_is_completed_by_the_next_process() {
    let mut fixture = Fixture::new("killed");
    for number in 0..50 {
        fixture.deny(number, 1, Nanos::from_secs(1));
    }
    fixture.write();
    // A kill: nothing is closed, and the last block is half there.
    fixture.log = None;
    let path = fixture.segments().pop().unwrap();
    let whole = std::fs::read(&path).unwrap();
    std::fs::write(&path, [&whole[..], &whole[whole.len() - 20..]].concat()).unwrap();
    assert_eq!(fixture.read(KEY_ASKED).records.len(), 1, "without an index");
    let before = std::fs::metadata(&path).unwrap().len();
    fixture.open();
    assert!(std::fs::metadata(&path).unwrap().len() > before, "the next process made an index");
    assert_eq!(fixture.read(KEY_ASKED).records.len(), 1, "by the index");
    fixture.deny(7, 1, Nanos::from_secs(2));
    fixture.write();
    assert_eq!(fixture.read(KEY_ASKED).records.len(), 2, "in two segments");
}

#[test]
fn two_processes_never_write_to_one_directory() {
    let fixture = Fixture::new("in-use");
    let again = Log::open(fixture.options());
    assert!(matches!(again, Err(LogError::InUse { .. })), "{again:?}");
}

#[test]
fn the_oldest_go_and_the_cap_holds() {
    let mut fixture = Fixture::with_cap("cap", 16 << 20);
    let mut largest = 0;
    for second in 0..60 {
        for number in 0..10_000 {
            fixture.deny(second * 10_000 + number, 1, Nanos::from_secs(second));
        }
        fixture.now = Nanos::from_secs(second);
        fixture.write();
        largest = largest.max(fixture.size());
    }
    assert!((12 << 20..=16 << 20).contains(&largest), "{largest} bytes");
    let found = fixture.read(&|_| RuleFilter::Keys(vec![key(59 * 10_000 + 5)]));
    assert_eq!(found.records.len(), 1, "the newest are there");
    assert!(fixture.read(&|_| RuleFilter::Keys(vec![key(5)])).records.is_empty(), "the oldest aren't");
    let counters = fixture.recorder.counters().counts_by_name();
    assert!(counters.iter().any(|(name, count)| name.ends_with("segments_removed") && *count > 0));
}

#[test]
fn every_segment_knows_what_is_unwell() {
    let mut fixture = Fixture::with_cap("unwell", 16 << 20);
    fixture.recorder.event(event(EventKind::Breaker, true, 5));
    for second in 10..40 {
        for number in 0..10_000 {
            fixture.deny(second * 10_000 + number, 1, Nanos::from_secs(second));
        }
        fixture.now = Nanos::from_secs(second);
        fixture.write();
    }
    assert!(fixture.segments().len() > 5);
    std::fs::remove_file(&fixture.segments()[0]).unwrap();
    let found = fixture.read(&|_| RuleFilter::Keys(vec![key(39 * 10_000)]));
    assert_eq!(found.records.len(), 1);
    assert_eq!(found.events, [event(EventKind::Breaker, true, 5)], "with the time at which it began");
}

#[test]
fn a_disk_that_fails_is_told_once_and_what_it_cost_is_counted() {
    let mut fixture = Fixture::new("failing");
    std::fs::remove_dir_all(&fixture.directory).unwrap();
    let lost = |recorder: &Recorder| {
        recorder
            .counters()
            .counts_by_name()
            .into_iter()
            .find(|(name, _)| *name == "decisions_log_lost")
            .unwrap()
            .1
    };
    fixture.deny(1, 1, Nanos::from_secs(1));
    assert!(fixture.try_write().is_err());
    fixture.deny(2, 1, Nanos::from_secs(1));
    assert!(fixture.try_write().is_ok(), "told once");
    assert_eq!(lost(&fixture.recorder), 2);
    std::fs::create_dir_all(&fixture.directory).unwrap();
    fixture.deny(7, 1, Nanos::from_secs(1));
    fixture.write();
    assert_eq!(fixture.read(KEY_ASKED).records.len(), 1);
    assert_eq!(lost(&fixture.recorder), 2);
}
