//! What a series of requests is answered, with the core's own windows: the peer's sequences. Denied hits aren't
//! counted here, and are there; no answer of these sequences shows it.

use crate::reading::{domain, rules};
use tidegate_core::{Cost, Decisions, Item, LocalState, Moment, Nanos, Role, Table};
use tidegate_rules::envoy::{EnvoyMatch, EnvoyRules, drop_replaced};

/// A node in miniature: the matcher and the counter table.
struct Harness {
    rules: EnvoyRules,
    table: Table<LocalState>,
    now: Nanos,
}

impl Harness {
    fn new(rules: EnvoyRules) -> Self {
        // 2026-11-15T12:00:00Z, the start of a minute and of an hour.
        Harness { rules, table: Table::new(1000), now: Nanos::from_secs(1_794_744_000) }
    }

    /// Whether the request passes, and what each of its limits has left.
    fn hit(&self, descriptors: &[&[(&str, &str)]], cost: Cost) -> (bool, Vec<u64>) {
        let mut matches: Vec<Option<EnvoyMatch<'_, '_>>> =
            descriptors.iter().map(|entries| self.rules.find("test-domain", entries, None)).collect();
        drop_replaced(&mut matches);
        let item = |found: &EnvoyMatch<'_, '_>| {
            let role = if found.is_shadow() { Role::Shadow } else { Role::Enforced };
            let spec = found.policy.as_ref()?.spec(self.now);
            Some(Item { role, ..Item::new(found.key, spec, cost) })
        };
        let items: Vec<Item> = matches.iter().flatten().filter_map(item).collect();
        let mut decisions = Decisions::new();
        self.table.decide_all(&items, Moment::at(self.now), &mut decisions).unwrap();
        let passes = items.iter().zip(&decisions).all(|(i, d)| i.role == Role::Shadow || d.is_admitted());
        (passes, decisions.iter().map(|decision| decision.remaining).collect())
    }

    fn passes(&self, descriptors: &[&[(&str, &str)]]) -> bool {
        self.hit(descriptors, Cost::ONE).0
    }
}

#[test]
fn a_first_hit_leaves_49_of_50() {
    let harness = Harness::new(domain(&["key: k, rate_limit: { unit: second, requests_per_unit: 50 }"]));
    assert_eq!(harness.hit(&[&[("k", "v")]], Cost::ONE), (true, vec![49]));
}

#[test]
fn twenty_a_minute_are_over_from_the_21st_until_the_minute_turns() {
    let mut harness = Harness::new(domain(&["key: k, rate_limit: { unit: minute, requests_per_unit: 20 }"]));
    for hit in 1..=25_u64 {
        let expected = (hit <= 20, vec![20_u64.saturating_sub(hit)]);
        assert_eq!(harness.hit(&[&[("k", "v")]], Cost::ONE), expected, "hit {hit}");
    }
    assert!(harness.passes(&[&[("k", "other")]]));
    harness.now = harness.now.plus(Nanos::from_millis(59_999));
    assert!(!harness.passes(&[&[("k", "v")]]));
    harness.now = harness.now.plus(Nanos::from_millis(1));
    assert_eq!(harness.hit(&[&[("k", "v")]], Cost::ONE), (true, vec![19]));
}

#[test]
fn of_two_limits_the_tighter_one_decides() {
    let harness = Harness::new(domain(&[
        "key: minute, rate_limit: { unit: minute, requests_per_unit: 20 }",
        "key: hour, rate_limit: { unit: hour, requests_per_unit: 10 }",
    ]));
    for hit in 1..=15 {
        assert_eq!(harness.passes(&[&[("minute", "x")], &[("hour", "x")]]), hit <= 10, "hit {hit}");
    }
    // Here the five that were denied cost the other limit nothing.
    assert_eq!(harness.hit(&[&[("minute", "x")]], Cost::PEEK), (true, vec![10]));
}

#[test]
fn a_shared_threshold_counts_all_that_match_together() {
    let harness = Harness::new(domain(&[
        "key: path, value: files/*, share_threshold: true, rate_limit: { unit: hour, requests_per_unit: 10 }",
    ]));
    for hit in 1..=10 {
        assert!(harness.passes(&[&[("path", "files/a.pdf")]]), "hit {hit}");
    }
    assert!(!harness.passes(&[&[("path", "files/b.csv")]]));
}

#[test]
fn a_replaced_ban_doesnt_ban() {
    let harness = Harness::new(domain(&[
        "key: user, value: bob, rate_limit: { unit: minute, requests_per_unit: 0, name: banned }",
        "key: amnesty, rate_limit: { unit: minute, requests_per_unit: 2, replaces: [{ name: banned }] }",
    ]));
    assert!(!harness.passes(&[&[("user", "bob")]]));
    let both: [&[(&str, &str)]; 2] = [&[("user", "bob")], &[("amnesty", "x")]];
    assert_eq!([1, 2, 3].map(|_| harness.passes(&both)), [true, true, false]);
}

#[test]
fn a_shadow_never_limits() {
    let harness = Harness::new(domain(&[
        "key: k, shadow_mode: true, rate_limit: { unit: minute, requests_per_unit: 3 }",
    ]));
    let left = [1, 2, 3, 4, 5].map(|_| harness.hit(&[&[("k", "v")]], Cost::ONE));
    assert_eq!(left.clone().map(|(passes, _)| passes), [true; 5]);
    assert_eq!(left.map(|(_, left)| left[0]), [2, 1, 0, 0, 0]);
}

#[test]
fn a_peek_counts_nothing_and_several_hits_count_at_once() {
    let harness = Harness::new(domain(&["key: k, rate_limit: { unit: day, requests_per_unit: 10 }"]));
    let entry: [&[(&str, &str)]; 1] = [&[("k", "v")]];
    assert_eq!(harness.hit(&entry, Cost::PEEK), (true, vec![10]));
    assert_eq!(harness.hit(&entry, Cost::new(7).unwrap()), (true, vec![3]));
    assert_eq!(harness.hit(&entry, Cost::new(4).unwrap()), (false, vec![3]));
    assert_eq!(harness.hit(&entry, Cost::PEEK), (true, vec![3]));
}

#[test]
fn what_is_unlimited_or_unknown_passes() {
    let harness = Harness::new(rules(crate::reading::TREE));
    for _ in 0..100 {
        assert_eq!(
            harness.hit(&[&[("key6", "x")], &[("key2", "value3")], &[("no", "x")]], Cost::ONE),
            (true, vec![])
        );
    }
}
