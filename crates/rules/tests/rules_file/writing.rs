//! A rules file says what was written, the same whatever the order, and small.

use crate::made::{
    API, Chance, SEED, Scratch, applied_to, document, limit, named, options, rate, sample_bytes,
    sample_overrides, sample_set, write_file,
};
use std::collections::BTreeMap;
use std::fs;
use std::sync::Arc;
use tidegate_core::Nanos;
use tidegate_rules::{LookupSeed, Mode, Override, RuleSet, Snapshot, SnapshotWriter, WriteError};

#[test]
fn what_was_written_is_read() {
    let snapshot = Snapshot::from_bytes(sample_bytes(42)).unwrap();
    assert_eq!((snapshot.version(), snapshot.fleet_mode()), (42, Mode::Enforce));
    let written: BTreeMap<_, _> =
        sample_overrides().into_iter().map(|(name, applied)| (name, format!("{applied:?}"))).collect();
    let read: BTreeMap<_, _> =
        snapshot.overrides().map(|(name, applied)| (name, format!("{applied:?}"))).collect();
    assert_eq!(read, written);
    let documents: Vec<_> = snapshot.documents().collect();
    assert_eq!(documents.len(), 2);
    assert_eq!(documents[0], (document("api"), API));
}

#[test]
fn the_order_of_writing_changes_nothing() {
    let scratch = Scratch::new();
    let mut overrides = sample_overrides();
    write_file(&scratch.path("a"), 1, &overrides);
    overrides.reverse();
    write_file(&scratch.path("b"), 1, &overrides);
    assert_eq!(fs::read(scratch.path("a")).unwrap(), fs::read(scratch.path("b")).unwrap());
    assert_eq!(scratch.names(), ["a", "b"], "nothing else is left");
}

#[test]
fn a_set_from_a_file_says_what_the_same_rules_as_yaml_say() {
    let set = sample_set(42);
    let per_user = |user: &str| applied_to(&set, "api", "per-user", &[("user", user)]);
    assert_eq!(per_user("alice"), Some(limit(1000)));
    assert_eq!(per_user("acme-7"), Some(limit(300)));
    assert_eq!(
        per_user("soon"),
        Some(Override { until: crate::made::NOW.plus(Nanos::from_secs(60)), ..limit(5) })
    );
    assert_eq!(per_user("over"), None, "it has ended");
    assert_eq!(per_user("ovér"), Some(limit(7)));
    assert_eq!(per_user("user-3"), Some(rate(4, 50)));
    assert_eq!(per_user("nobody"), None);
    let pairs = |user, endpoint| applied_to(&set, "api", "pairs", &[("user", user), ("endpoint", endpoint)]);
    assert_eq!(pairs("alice", "/search"), Some(rate(10, 20)));
    assert_eq!(pairs("alice", "/x"), Some(rate(11, 21)));
    assert_eq!(applied_to(&set, "api", "all", &[]), Some(limit(70)));
    assert_eq!(applied_to(&set, "web", "ip", &[("ip", "2001:db8::1")]), Some(limit(90)));
    assert_eq!((set.version(), set.counts().dangling), (42, 2), "those of `renamed` don't apply");
}

#[test]
fn what_comes_twice_or_is_no_rule_is_refused() {
    let scratch = Scratch::new();
    let writer = || SnapshotWriter::new(&scratch.path("x"), 1, SEED).unwrap();
    let mut twice = writer();
    for number in [1, 2] {
        twice.set(&named("api", "per-user", &["a"]), &limit(number)).unwrap();
    }
    assert!(matches!(twice.finish(), Err(WriteError::Twice(name)) if name == "default/api/per-user [a]"));
    let mut pattern_twice = writer();
    pattern_twice.set(&named("api", "per-user", &["a*"]), &limit(1)).unwrap();
    assert!(matches!(
        pattern_twice.set(&named("api", "per-user", &["a*"]), &limit(1)),
        Err(WriteError::Twice(_))
    ));
    let mut bad = writer();
    for name in [
        named("", "r", &[]),
        named("a\nb", "r", &[]),
        named("a", "r", &["x"; 9]),
        named("a", "r", &[&"x".repeat(513)]),
    ] {
        assert!(matches!(bad.set(&name, &limit(1)), Err(WriteError::Refused(_))), "{name:?}");
    }
    drop((bad, pattern_twice));
    assert_eq!(scratch.names(), [""; 0], "nothing is left of them");
}

#[test]
fn a_file_without_overrides_or_without_anything_is_a_file() {
    let scratch = Scratch::new();
    SnapshotWriter::new(&scratch.path("x"), 0, LookupSeed::random()).unwrap().finish().unwrap();
    let snapshot = Arc::new(Snapshot::open(&scratch.path("x")).unwrap());
    let set = RuleSet::from_snapshot(&snapshot, options()).unwrap();
    assert_eq!((set.version(), set.counts().rules), (0, 0));
}

/// Several runs are merged, and each override costs at most 120 bytes.
#[test]
fn half_a_million_overrides_of_20_bytes_are_found_at_120_bytes_each() {
    const COUNT: u64 = 500_000;
    let scratch = Scratch::new();
    let path = scratch.path("large.rules");
    let mut chance = Chance(7);
    let mut writer = SnapshotWriter::new(&path, 1, SEED).unwrap();
    writer.document(&document("api"), API).unwrap();
    let applied = |number: u64| match number % 4 {
        0 => limit(number),
        1 => rate(1 + number % 1000, 1 + number),
        2 => Override { until: Nanos::new(number), ..limit(number) },
        _ => Override { hot: true, until: crate::made::NOW.plus(Nanos::new(number)), ..rate(7, 8) },
    };
    let caller = |number: u64| format!("caller-{number:013}");
    for number in 0..COUNT {
        writer.set(&named("api", "per-user", &[&caller(number)]), &applied(number)).unwrap();
    }
    writer.finish().unwrap();
    let bytes = fs::metadata(&path).unwrap().len();
    assert!(bytes <= 120 * COUNT, "{} bytes each", bytes / COUNT);
    let snapshot = Arc::new(Snapshot::open(&path).unwrap());
    let set = RuleSet::from_snapshot(&snapshot, options()).unwrap();
    for _ in 0..100_000 {
        let number = u64::try_from(chance.below(2 * usize::try_from(COUNT).unwrap())).unwrap();
        let wanted =
            (number < COUNT).then(|| applied(number)).filter(|applied| crate::made::NOW < applied.until);
        assert_eq!(applied_to(&set, "api", "per-user", &[("user", &caller(number))]), wanted, "{number}");
    }
}
