//! Deltas applied to sets: whole or not at all, others untouched, callers of rules that aren't there kept.

use crate::made::{
    API, NOW, applied_to, decisions, document, limit, named, options, rate, sample_delta, sample_set,
    set_document, set_override,
};
use std::sync::Arc;
use tidegate_core::Spec;
use tidegate_rules::{
    ApplyError, Attributes, Delta, Effect, Matches, Mode, Override, OverrideEffect, RuleChange, RuleSet,
};

fn delta(version: u64, changes: impl IntoIterator<Item = RuleChange>) -> Delta {
    Delta { version, changes: changes.into_iter().collect() }
}

fn apply(set: &RuleSet, changes: impl IntoIterator<Item = RuleChange>) -> RuleSet {
    set.apply(&delta(set.version() + 1, changes), options()).unwrap_or_else(|error| panic!("{error}"))
}

fn per_user(set: &RuleSet, user: &str) -> Option<Override> {
    applied_to(set, "api", "per-user", &[("user", user)])
}

#[test]
fn a_change_applies_to_the_next_set_and_leaves_the_one_before() {
    let before = sample_set(42);
    let said = decisions(&before);
    let after = apply(&before, sample_delta(43).changes);
    assert_eq!((after.version(), after.fleet_mode()), (43, Mode::Shadow));
    assert_eq!(per_user(&after, "carol"), Some(limit(77)));
    assert_eq!(per_user(&after, "alice"), None, "it was removed");
    assert_eq!(per_user(&after, "soon-x"), Some(Override { hot: true, ..rate(3, 9) }));
    assert_eq!(per_user(&after, "bob"), per_user(&before, "bob"));
    assert_eq!(after.counts().overrides, before.counts().overrides + 1, "two came and one went");
    assert_eq!(decisions(&before), said);
    assert_eq!(before.version(), 42);
}

#[test]
fn a_namespace_that_is_left_alone_is_shared() {
    let before = sample_set(1);
    let after = apply(&before, [set_document("web", "namespace: web\nrules: []\n")]);
    assert!(Arc::ptr_eq(&before.namespaces()[0], &after.namespaces()[0]));
    assert!(!Arc::ptr_eq(&before.namespaces()[1], &after.namespaces()[1]));
    let same = apply(&before, [set_override(named("api", "per-user", &["x"]), limit(1))]);
    assert!(before.namespaces().iter().zip(same.namespaces()).all(|(a, b)| Arc::ptr_eq(a, b)));
}

#[test]
fn a_bad_delta_is_refused_whole() {
    let set = sample_set(42);
    let said = decisions(&set);
    let good = || set_override(named("api", "per-user", &["alice"]), limit(1));
    let refusals = [
        (delta(42, [good()]), "version 42 doesn't follow version 42"),
        (delta(44, [good()]), "version 44 doesn't follow version 42"),
        (
            delta(43, [good(), set_document("api", "namespace: api\nrules: [{ name: x }]\n")]),
            "default/api:2:",
        ),
        (delta(43, [good(), set_document("api", "")]), "there is nothing in it"),
        (delta(43, [good(), set_document("api", "namespace: web\n")]), "is about another namespace"),
        (
            delta(43, [good(), set_document("api", "namespace: api\n---\nnamespace: web\n")]),
            "is about another",
        ),
        (
            delta(43, [good(), set_document("api", "namespace: api\nfleet_mode: off\n")]),
            "sets the fleet's mode",
        ),
        (
            delta(43, [set_document("api", &format!("{API}overrides: [{{ rule: all, limit: 5 }}]\n"))]),
            "has overrides",
        ),
        (delta(43, [good(), set_document("api", "domain: edge\n")]), "another domain"),
        (delta(43, [good(), set_override(named("api", "", &["x"]), limit(1))]), "a name isn't"),
    ];
    for (delta, wanted) in refusals {
        let error = set.apply(&delta, options()).unwrap_err();
        assert!(error.to_string().contains(wanted), "{error}");
    }
    assert_eq!(decisions(&set), said);
}

#[test]
fn callers_of_a_rule_that_goes_are_kept_and_apply_again_when_it_comes_back() {
    let set = sample_set(1);
    let all = set.counts();
    assert_eq!(all.dangling, 2);
    let renamed = apply(&set, [set_document("api", &API.replace("per-user", "renamed"))]);
    assert_eq!(per_user(&renamed, "alice"), None);
    assert_eq!(applied_to(&renamed, "api", "renamed", &[("user", "alice")]), Some(limit(1)));
    let counts = renamed.counts();
    assert_eq!(counts.overrides + counts.dangling, all.overrides + all.dangling);
    assert_eq!(counts.dangling, 48, "all of per-user");
    let changed = apply(&renamed, [set_override(named("api", "per-user", &["new"]), limit(9))]);
    assert_eq!(changed.counts().dangling, 49);
    let back = apply(&changed, [set_document("api", API)]);
    assert_eq!((per_user(&back, "new"), per_user(&back, "alice")), (Some(limit(9)), Some(limit(1000))));
    assert_eq!(back.counts().dangling, 2);
    let gone = apply(&back, [RuleChange::Document { name: document("api"), text: None }]);
    assert_eq!((gone.counts().namespaces, gone.counts().overrides), (1, 1));
    let removed =
        apply(&gone, [RuleChange::Override { name: named("api", "renamed", &["alice"]), value: None }]);
    assert_eq!(removed.counts().dangling, gone.counts().dangling - 1);
}

#[test]
fn numbers_of_another_kind_than_the_rules_say_nothing() {
    let set = sample_set(1);
    // `per-user` becomes a rate: its overrides' limits are of a window; `pairs` becomes a window.
    let text = "namespace: api\nrules:\n  - { name: per-user, key: [user], rate: 3/s }\n  - { name: pairs, key: [user, endpoint], limit: 4 per 1m }\n";
    let changed = apply(
        &set,
        [set_document("api", text), set_override(named("api", "per-user", &["mallory"]), limit(0))],
    );
    let shown = |user: &str| {
        let mut out = Matches::new();
        let attributes = [("user", user), ("endpoint", "/search")];
        changed.matches("default", "api", Attributes(&attributes), NOW, &mut out);
        out.iter().map(|found| found.effect).collect::<Vec<_>>()
    };
    let Effect::Limited { spec: Spec::Gcra { burst, .. }, .. } = shown("alice")[0] else { panic!("a rate") };
    assert_eq!(burst.get(), 3, "its own: an override of 1000 per minute doesn't block");
    let Effect::Limited { spec: Spec::Gcra { burst, .. }, .. } = shown("mallory")[0] else {
        panic!("a rate")
    };
    assert_eq!(burst.get(), 0, "limit: 0 blocks whatever the rule");
    let Effect::Limited { spec: Spec::Sliding { limit, .. }, .. } = shown("alice")[1] else {
        panic!("a window")
    };
    assert_eq!(limit.get(), 4);
}

#[test]
fn a_key_with_another_number_of_parts_meets_no_override() {
    let set = apply(
        &sample_set(1),
        [set_document(
            "api",
            "namespace: api\nrules: [{ name: per-user, key: [user, endpoint], limit: 1 per 1m }]\n",
        )],
    );
    let attributes = [("user", "acme-1"), ("endpoint", "/search")];
    assert_eq!(applied_to(&set, "api", "per-user", &attributes), None, "`acme-*` was for one part");
    assert_eq!(applied_to(&set, "api", "per-user", &[("user", "alice"), ("endpoint", "")]), None);
}

#[test]
fn files_of_envoy_are_documents_too() {
    let text =
        "domain: edge\ndescriptors: [{ key: user, rate_limit: { unit: minute, requests_per_unit: 5 } }]\n";
    let set = apply(&sample_set(1), [set_document("edge", text)]);
    assert!(set.envoy().has_domain("edge"));
    assert_eq!(set.counts().namespaces, 3);
    let error = set.apply(&delta(3, [set_document("edge2", text)]), options()).unwrap_err();
    assert!(matches!(error, ApplyError::NotADocument { .. } | ApplyError::Contradiction(_)), "{error}");
    let gone = apply(&set, [RuleChange::Document { name: document("edge"), text: None }]);
    assert!(!gone.envoy().has_domain("edge"));
    let ours = apply(&set, [set_document("edge", "namespace: edge\n")]);
    assert!(!ours.envoy().has_domain("edge") && ours.namespace("default", "edge").is_some());
}

#[test]
fn deltas_apply_to_no_rules_at_all() {
    let set = apply(
        &RuleSet::empty(),
        [set_document("api", API), set_override(named("api", "all", &[]), limit(3))],
    );
    assert_eq!((set.version(), applied_to(&set, "api", "all", &[])), (1, Some(limit(3))));
    let lifted = Override { change: OverrideEffect::Unlimited, ..limit(0) };
    let set = apply(&set, [set_override(named("api", "all", &[]), lifted)]);
    assert_eq!(applied_to(&set, "api", "all", &[]), Some(lifted));
}

#[test]
fn the_last_of_several_changes_of_one_caller_counts() {
    let name = || named("api", "per-user", &["x"]);
    let pattern = || named("api", "per-user", &["x*"]);
    let gone = |name| RuleChange::Override { name, value: None };
    let set = sample_set(1);
    let before = set.counts();
    let set = apply(&set, [set_override(name(), limit(1)), gone(name()), set_override(name(), limit(2))]);
    let set =
        apply(&set, [set_override(pattern(), limit(3)), gone(pattern()), set_override(pattern(), limit(4))]);
    assert_eq!((per_user(&set, "x"), per_user(&set, "xy")), (Some(limit(2)), Some(limit(4))));
    assert_eq!(set.counts().overrides, before.overrides + 2);
    let set = apply(&set, [gone(name()), gone(pattern()), gone(pattern())]);
    assert_eq!((per_user(&set, "x"), set.counts()), (None, before));
}
