//! Reads rules and asks them, for the tests of this directory.

#![allow(dead_code, unreachable_pub, reason = "each test file uses a part of it")]

use jiff::Timestamp;
use tidegate_core::{FleetSecret, Nanos, Role, Spec};
use tidegate_rules::{Attributes, Effect, MatchResult, Matches, RuleErrors, RuleSet, Source};

pub fn source(name: &str, text: impl AsRef<[u8]>) -> Source {
    Source { name: name.to_owned(), text: text.as_ref().to_vec() }
}

pub fn parse(text: impl AsRef<[u8]>) -> Result<RuleSet, RuleErrors> {
    RuleSet::parse(&[source("rules.yaml", text)], &FleetSecret::BUILT_IN)
}

pub fn rules(text: &str) -> RuleSet {
    parse(text).unwrap_or_else(|errors| panic!("{errors}\n{text}"))
}

pub fn at(timestamp: &str) -> Nanos {
    let timestamp: Timestamp = timestamp.parse().unwrap();
    Nanos::new(u64::try_from(timestamp.as_nanosecond()).unwrap())
}

pub const NOW: &str = "2026-11-15T12:00:00Z";

/// What each matching rule says, in short: `per-user 200`, `search unlimited shadow`.
pub fn said(set: &RuleSet, namespace: &str, attributes: &[(&str, &str)], now: Nanos) -> Vec<String> {
    let mut out = Matches::new();
    set.matches("default", namespace, Attributes(attributes), now, &mut out);
    let text = |found: &tidegate_rules::Match<'_>| {
        let effect = match found.effect {
            Effect::Limited { spec, .. } => spec.shown_limit().to_string(),
            Effect::Unlimited { .. } => "unlimited".to_owned(),
            Effect::MissingDenied { attribute, is_malformed: false } => format!("missing {attribute}"),
            Effect::MissingDenied { attribute, is_malformed: true } => format!("malformed {attribute}"),
        };
        let hot = if found.hot { " hot" } else { "" };
        let shadow = if found.role == Role::Shadow { " shadow" } else { "" };
        format!("{} {effect}{hot}{shadow}", found.rule.name)
    };
    out.iter().map(text).collect()
}

pub fn ask(set: &RuleSet, attributes: &[(&str, &str)]) -> Vec<String> {
    said(set, "api", attributes, at(NOW))
}

pub fn matched(set: &RuleSet, tenant: &str, namespace: &str, attributes: &[(&str, &str)]) -> MatchResult {
    set.matches(tenant, namespace, Attributes(attributes), at(NOW), &mut Matches::new())
}

/// The key and spec of the only rule that matches.
pub fn limited(set: &RuleSet, attributes: &[(&str, &str)]) -> (u128, Spec) {
    let mut out = Matches::new();
    set.matches("default", "api", Attributes(attributes), at(NOW), &mut out);
    match out.as_slice() {
        [only] => match only.effect {
            Effect::Limited { key, spec } => (key.get(), spec),
            other => panic!("{other:?}"),
        },
        others => panic!("{} rules match", others.len()),
    }
}
