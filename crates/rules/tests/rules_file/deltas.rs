//! Deltas as bytes: what is written is read, and nothing else.

use crate::made::{limit, named, rate, sample_delta, set_document, set_override};
use tidegate_core::Nanos;
use tidegate_rules::{DELTA_CHANGES_MAX, Delta, DeltaError, Override, OverrideEffect, RuleChange};

#[test]
fn what_was_written_is_read() {
    for delta in [sample_delta(1), sample_delta(u64::MAX), Delta { version: 7, changes: Vec::new() }] {
        let bytes = delta.encode().unwrap();
        assert_eq!(Delta::decode(&bytes), Ok(delta));
    }
}

#[test]
fn every_kind_of_override_keeps_its_value() {
    let values = [
        limit(0),
        limit(1 << 53),
        Override { change: OverrideEffect::Unlimited, ..limit(0) },
        Override { change: OverrideEffect::Keep, hot: true, until: Nanos::ZERO },
        rate(1_000_000_000, 1 << 53),
        Override { hot: true, until: Nanos::new(1), ..rate(7, 0) },
    ];
    let changes = values.map(|value| set_override(named("api", "r", &["*", "é"]), value)).to_vec();
    let delta = Delta { version: 3, changes };
    assert_eq!(Delta::decode(&delta.encode().unwrap()), Ok(delta));
}

#[test]
fn what_is_too_large_or_no_rule_is_not_written() {
    let of = |change: RuleChange| Delta { version: 1, changes: vec![change] }.encode();
    assert_eq!(of(set_document("api", &"x".repeat(17 << 20))), Err(DeltaError::TooLarge));
    let nothing = Override { change: OverrideEffect::Keep, ..limit(0) };
    assert!(matches!(of(set_override(named("api", "r", &["a"]), nothing)), Err(DeltaError::Malformed(_))));
    assert!(matches!(of(set_override(named("api", "", &["a"]), limit(1))), Err(DeltaError::Malformed(_))));
    assert!(matches!(
        of(set_override(named("api", "r", &["a\u{7f}"]), limit(1))),
        Err(DeltaError::Malformed(_))
    ));
    let many = vec![RuleChange::FleetMode(Default::default()); DELTA_CHANGES_MAX + 1];
    assert_eq!(Delta { version: 1, changes: many }.encode(), Err(DeltaError::TooLarge));
    assert!(Delta { version: 0, changes: Vec::new() }.encode().is_err());
}

#[test]
fn another_format_is_refused_with_both_versions() {
    let mut bytes = sample_delta(1).encode().unwrap();
    bytes[8] = 9;
    let error = Delta::decode(&bytes).unwrap_err();
    assert_eq!(error, DeltaError::OtherFormat { format: 9 });
    assert_eq!(error.to_string(), "the delta is in format 9; this version of Tidegate knows format 1");
}
