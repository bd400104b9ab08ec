//! A file of theirs among rules of ours: read as it is, and asked like any namespace.

use crate::reading::{TREE, source};
use tidegate_core::{FleetSecret, Nanos, Role};
use tidegate_rules::{Attributes, Effect, MatchResult, Matches, RuleErrors, RuleSet, Source};

const NOW: Nanos = Nanos::from_secs(1_794_744_000);
const OURS: &str = "namespace: api\nrules: [{ name: r, key: [user], limit: 7 per 1m }]\n";

fn parse(sources: &[Source]) -> Result<RuleSet, RuleErrors> {
    RuleSet::parse(sources, &FleetSecret::BUILT_IN)
}

fn ask(set: &RuleSet, tenant: &str, namespace: &str, attributes: &[(&str, &str)]) -> String {
    let mut out = Matches::new();
    let matched = set.matches(tenant, namespace, Attributes(attributes), NOW, &mut out);
    let said = |found: &tidegate_rules::Match<'_>| match (found.effect, found.role) {
        (Effect::Limited { spec, .. }, Role::Enforced) => {
            format!("{} {}", found.rule.name, spec.shown_limit())
        }
        (Effect::Limited { .. }, Role::Shadow) => format!("{} in the shadow", found.rule.name),
        (Effect::Unlimited { .. }, _) => format!("{} unlimited", found.rule.name),
        (other, _) => panic!("{other:?}"),
    };
    match (matched, out.as_slice()) {
        (MatchResult::Rules, [only]) => said(only),
        (other, _) => format!("{other:?}"),
    }
}

#[test]
fn attributes_in_their_order_are_a_descriptor() {
    let set = parse(&[source("a.yaml", TREE), source("b.yaml", OURS)]).unwrap();
    let ask = |tenant, namespace, attributes: &[(&str, &str)]| ask(&set, tenant, namespace, attributes);
    assert_eq!(
        ask("default", "test-domain", &[("key1", "value1"), ("subkey1", "x")]),
        "key1=value1/subkey1 5"
    );
    assert_eq!(ask("default", "test-domain", &[("subkey1", "x"), ("key1", "value1")]), "NoRule");
    assert_eq!(ask("default", "test-domain", &[("key4", "x")]), "key4_rate_limit 1");
    assert_eq!(ask("default", "test-domain", &[("key6", "x")]), "key6 unlimited");
    assert_eq!(ask("other", "test-domain", &[("key4", "x")]), "UnknownNamespace");
    assert_eq!(ask("default", "nowhere", &[("key4", "x")]), "UnknownNamespace");
    assert_eq!(ask("default", "api", &[("user", "x")]), "r 7");
    let counts = set.counts();
    assert_eq!((counts.namespaces, counts.rules, counts.overrides), (2, 9, 0));
}

#[test]
fn a_domain_is_described_like_a_namespace() {
    let set = parse(&[source("a.yaml", TREE)]).unwrap();
    let text = set.describe(NOW).to_string();
    let expected = "namespace test-domain, tenant default\n  \
         key1=value1/subkey1: at most 5 in each 1 second since 1970 in UTC (fixed windows), for descriptors key1=value1/subkey1\n";
    assert!(text.starts_with(expected), "{text}");
    assert!(text.contains("  key6: unlimited, for descriptors key6\n"), "{text}");
}

#[test]
fn the_fleets_mode_holds_for_domains_too() {
    for (mode, expected) in [("shadow", "key2 in the shadow"), ("off", "Off"), ("enforce", "key2 20")] {
        let mode = source("mode.yaml", format!("fleet_mode: {mode}\n"));
        let set = parse(&[source("a.yaml", TREE), mode]).unwrap();
        assert_eq!(ask(&set, "default", "test-domain", &[("key2", "x")]), expected);
    }
}

#[test]
fn mistakes_of_both_kinds_are_told_in_the_order_of_the_files() {
    let bad_theirs = "domain: d\ndescriptors: [{ value: x }]\n";
    let bad_ours = "namespace: api\nrules: [{ name: r, key: [user] }]\n";
    let sources = [source("a.yaml", bad_ours), source("b.yaml", bad_theirs), source("c.yaml", bad_ours)];
    let errors = parse(&sources).unwrap_err();
    let files: Vec<&str> = errors.iter().map(|error| &*error.file).collect();
    assert_eq!(files.first(), Some(&"a.yaml"), "{errors}");
    assert!(files.is_sorted() && files.contains(&"b.yaml"), "{errors}");
    assert_eq!(parse(&sources[1..2]).unwrap_err().total(), 1);
}

#[test]
fn a_name_is_a_namespace_or_a_domain_and_not_both() {
    let errors =
        parse(&[source("a.yaml", OURS), source("b.yaml", "\ndomain: api\n")]).unwrap_err().to_string();
    assert_eq!(
        errors,
        "b.yaml:2:1: domain: \"api\" is a namespace of a rules file too; rename one of the two, or keep one of the files"
    );
}
