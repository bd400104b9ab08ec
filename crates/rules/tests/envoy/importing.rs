//! What a file becomes as rules of ours: valid, and deciding alike.

use crate::reading::{TREE, domain, parse, rules, source};
use proptest::prelude::*;
use std::collections::HashSet;
use tidegate_core::{
    Cost, Decisions, FleetSecret, Item, KeyId, LocalState, Moment, Nanos, Role, Spec, Table,
};
use tidegate_rules::envoy::{EnvoyRules, import};
use tidegate_rules::{Attributes, Effect, Matches, RuleErrors, RuleSet};

const NOW: Nanos = Nanos::from_secs(1_794_744_000);

fn rule_set(text: &str) -> RuleSet {
    let read = RuleSet::parse(&[source("rules.yaml", text)], &FleetSecret::BUILT_IN);
    read.unwrap_or_else(|errors| panic!("{errors}\n{text}"))
}

/// What each of the two says of one descriptor: at most one counter there, any number here.
type Counter = (KeyId, Spec, Role);

fn there(rules: &EnvoyRules, entries: &[(&str, &str)]) -> Vec<Counter> {
    let found = rules.find("test-domain", entries, None);
    let counter = found.and_then(|found| {
        let role = if found.is_shadow() { Role::Shadow } else { Role::Enforced };
        Some((found.key, found.policy?.spec(NOW), role))
    });
    counter.into_iter().collect()
}

fn here(rules: &RuleSet, entries: &[(&str, &str)]) -> Vec<Counter> {
    let mut found = Matches::new();
    rules.matches("default", "test-domain", Attributes(entries), NOW, &mut found);
    let counter = |found: &tidegate_rules::Match<'_>| match found.effect {
        Effect::Limited { key, spec } => Some((key, spec, found.role)),
        Effect::Unlimited { .. } => None,
        Effect::MissingDenied { .. } => panic!("nothing imported denies for that"),
    };
    found.iter().filter_map(counter).collect()
}

fn passes(table: &Table<LocalState>, counters: &[Counter]) -> bool {
    let item = |&(key, spec, role): &Counter| Item { role, ..Item::new(key, spec, Cost::ONE) };
    let items: Vec<Item> = counters.iter().map(item).collect();
    let mut decisions = Decisions::new();
    table.decide_all(&items, Moment::at(NOW), &mut decisions).unwrap();
    items.iter().zip(&decisions).all(|(item, decision)| item.role == Role::Shadow || decision.is_admitted())
}

fn refused(rules: &EnvoyRules) -> RuleErrors {
    import(rules).map(|made| panic!("this was imported:\n{}", made.text)).unwrap_err()
}

#[test]
fn the_text_is_what_a_person_would_write() {
    let rules = rules(
        "domain: edge-1\ndescriptors:\n\
         - key: plan\n  rate_limit: { unit: minute, requests_per_unit: 20 }\n\
         - { key: plan, value: gold, rate_limit: { unit: month, requests_per_unit: 30, name: gold } }\n\
         - { key: plan, value: \"inte*\" }\n\
         - { key: path, value: \"/caf\\u00e9/*\", share_threshold: true, shadow_mode: true, \
             rate_limit: { unit: second, requests_per_unit: 5 } }\n",
    );
    let expected = "\
# From a file of envoyproxy/ratelimit. A rule applies to every request that has its attributes, in
# any order, whatever other attributes the request has. In envoyproxy/ratelimit, a limit applied only
# to descriptors with exactly its entries.
namespace: edge-1
rules:
  - name: plan
    key: [plan]
    limit: 20 per 1m
    algorithm: fixed
  - name: gold
    key: []
    when: { plan: gold }
    limit: 30 per 30d
    algorithm: fixed
  - name: \"path=/café/*\"
    key: []
    when: { path: \"/café/*\" }
    limit: 5 per 1s
    algorithm: fixed
    shadow: true
# In envoyproxy/ratelimit, another item matches these first. It has its own rule, or no limit.
overrides:
  - { rule: plan, plan: gold, unlimited: true }
  - { rule: plan, plan: \"inte*\", unlimited: true }
";
    let made = import(&rules).unwrap();
    assert_eq!(made.text, expected);
    assert_eq!((made.rules, made.differing), (3, 0));
    assert!(rule_set(&made.text).warnings().is_empty());
}

#[test]
fn the_peers_tree_is_imported_and_says_where_it_differs() {
    let theirs = rules(TREE);
    let made = import(&theirs).unwrap();
    let ours = rule_set(&made.text);
    assert_eq!((made.rules, made.differing), (7, 1), "{}", made.text);
    assert!(
        made.text.contains("# Differs: also counts requests with the keys of \"key5/subkey5\""),
        "{}",
        made.text
    );
    for entries in [
        &[("key1", "value1"), ("subkey1", "any")][..],
        &[("key1", "value1"), ("subkey1", "subvalue1")],
        &[("key1", "other"), ("subkey1", "subvalue1")],
        &[("key2", "any")],
        &[("key2", "value2")],
        &[("key2", "value3")],
        &[("key5", "value5")],
        &[("key6", "any")],
    ] {
        let numbers =
            |counters: Vec<Counter>| -> Vec<Spec> { counters.into_iter().map(|(_, spec, _)| spec).collect() };
        assert_eq!(numbers(here(&ours, entries)), numbers(there(&theirs, entries)), "{entries:?}");
    }
}

#[test]
fn what_cant_be_said_is_an_error_with_its_place() {
    let limit = "rate_limit: { unit: day, requests_per_unit: 1";
    for (descriptors, expected) in [
        (
            vec![
                format!("key: a, {limit}, name: x }}"),
                format!("key: b, {limit}, replaces: [{{ name: x }}] }}"),
            ],
            "config.yaml:4:5: b: rules don't replace",
        ),
        (
            vec![format!("key: a, quota_mode: true, {limit} }}")],
            "config.yaml:3:5: a: rules deny each by itself",
        ),
        (vec![format!("key: a b, {limit} }}")], "config.yaml:3:5: a b: \"a b\" isn't an attribute's name"),
        (vec![format!("key: limit, {limit} }}")], "config.yaml:3:5: limit: \"limit\" can't be an attribute"),
        (vec![format!("key: \"a*\", {limit} }}")], "config.yaml:3:5: a*: the pattern \"a*\" is in a key"),
        (
            vec![format!("key: a, descriptors: [{{ key: a, {limit} }} }}]")],
            "config.yaml:3:29: a/a: the key \"a\" comes twice",
        ),
        (
            vec![format!("key: ip, value: 10.0.0.0/8, {limit} }}")],
            "config.yaml:3:5: ip=10.0.0.0/8: \"10.0.0.0/8\" would be a network",
        ),
        (
            vec![
                "key: f, value: f1".to_owned(),
                format!("key: f, value: f*, share_threshold: true, {limit} }}"),
            ],
            "config.yaml:4:5: f=f*: \"f1\" takes callers out of \"f*\"",
        ),
    ] {
        let descriptors: Vec<&str> = descriptors.iter().map(String::as_str).collect();
        let errors = refused(&domain(&descriptors)).to_string();
        assert!(errors.starts_with(expected), "{errors}\n  expected {expected}");
    }
}

#[test]
fn patterns_beside_many_values_dont_make_a_huge_file() {
    let limit = "rate_limit: { unit: day, requests_per_unit: 1 }";
    let values = (0..400).map(|n| format!("key: k, value: v{n}, {limit}"));
    let patterns = (0..400).map(|n| format!("key: k, value: 'v*{}', {limit}", "*".repeat(n)));
    let descriptors: Vec<String> = values.chain(patterns).collect();
    let descriptors: Vec<&str> = descriptors.iter().map(String::as_str).collect();
    let errors = refused(&domain(&descriptors));
    assert_eq!(errors.total(), 1, "{errors}");
    assert!(errors.to_string().contains("more than 100000 overrides"), "{errors}");
}

#[test]
fn several_domains_become_several_namespaces() {
    let file = "domain: b\ndescriptors: [{ key: k, rate_limit: { unit: day, requests_per_unit: 1 } }]\n---\ndomain: 'a: *\u{2028}'\n";
    let made = import(&parse(&[source("x.yaml", file)]).unwrap()).unwrap();
    let names: Vec<String> =
        rule_set(&made.text).namespaces().iter().map(|found| found.name.to_string()).collect();
    assert_eq!(names, ["a: *\u{2028}", "b"]);
}

const VALUES: [&str; 9] = ["", "x", "xy", "y", "x*", "*y", "*", "x*y", "z"];

/// A descriptor's fields but for what is below it: which key and value, what limit, shared or not.
type Drawn = (usize, usize, u8, bool);

fn yaml(depth: usize, drawn: &[Drawn], below: &[Vec<Drawn>]) -> String {
    let keys = [["a", "b"], ["c", "d"]];
    let mut seen = HashSet::new();
    let mut entries = Vec::new();
    for (index, &(key, value, limit, shared)) in drawn.iter().enumerate() {
        if !seen.insert((key, value)) {
            continue;
        }
        let is_leaf = below.is_empty();
        let shared = if shared && VALUES[value].contains('*') { ", share_threshold: true" } else { "" };
        let rest = match (is_leaf, limit) {
            (false, _) => format!(", descriptors: {}", yaml(depth + 1, &below[index % below.len()], &[])),
            (true, 0) => String::new(),
            (true, 1) => ", rate_limit: { unlimited: true }".to_owned(),
            (true, 2) => ", shadow_mode: true, rate_limit: { unit: hour, requests_per_unit: 1 }".to_owned(),
            (true, n) => format!(
                ", rate_limit: {{ unit: {}, requests_per_unit: {n} }}",
                ["day", "week"][usize::from(n % 2)]
            ),
        };
        entries.push(format!("{{ key: {}, value: '{}'{shared}{rest} }}", keys[depth][key], VALUES[value]));
    }
    format!("[{}]", entries.join(", "))
}

fn drawn() -> impl Strategy<Value = Vec<Drawn>> {
    proptest::collection::vec((0..2_usize, 0..VALUES.len(), 0..6_u8, proptest::bool::weighted(0.1)), 1..8)
}

proptest! {
    #![proptest_config(ProptestConfig { max_global_rejects: 20_000, ..ProptestConfig::with_cases(1000) })]

    /// Descriptors of as many entries as limits have: what others meet is what the comment is about.
    #[test]
    fn the_imported_rules_decide_alike(
        top in drawn(),
        below in proptest::collection::vec(drawn(), 0..3),
        asked in proptest::collection::vec(((0..2_usize, "[xyz]{0,3}"), (0..2_usize, "[xyz]{0,2}")), 60),
    ) {
        let file = format!("domain: test-domain\ndescriptors: {}\n", yaml(0, &top, &below));
        let theirs = rules(&file);
        let made = import(&theirs);
        prop_assume!(made.is_ok());
        let made = made.unwrap();
        prop_assert_eq!(made.differing, 0);
        let ours = rule_set(&made.text);
        let (table_there, table_here) = (Table::new(10_000), Table::new(10_000));
        for ((first, first_value), (second, second_value)) in &asked {
            let mut entries = vec![(["a", "b"][*first], first_value.as_str())];
            if !below.is_empty() {
                entries.push((["c", "d"][*second], second_value.as_str()));
            }
            let (counters_there, counters_here) = (there(&theirs, &entries), here(&ours, &entries));
            let numbers = |counters: &[Counter]| -> Vec<(Spec, Role)> {
                counters.iter().map(|(_, spec, role)| (*spec, *role)).collect()
            };
            prop_assert_eq!(numbers(&counters_here), numbers(&counters_there), "{:?}\n{}\n{}", &entries, &file, &made.text);
            let (here, there) = (passes(&table_here, &counters_here), passes(&table_there, &counters_there));
            prop_assert_eq!(here, there, "{:?}\n{}\n{}", &entries, &file, &made.text);
        }
    }
}
