//! Rules files, ours and envoyproxy/ratelimit's: what is understood can be described, matched and imported.

use tidegate_core::{FleetSecret, Nanos};
use tidegate_rules::envoy::{EnvoyOptions, EnvoyRules, Windows, import};
use tidegate_rules::{Attributes, Matches, RuleErrors, RuleSet, Source};

const NOW: Nanos = Nanos::from_secs(1_800_000_000);

fn source(text: &[u8]) -> [Source; 1] {
    [Source { name: "rules.yaml".to_owned(), text: text.to_vec() }]
}

fn assert_told(errors: &RuleErrors) {
    assert!(errors.total() > 0 && !errors.to_string().is_empty());
}

pub(crate) fn ours(text: &[u8]) {
    let rules = match RuleSet::parse(&source(text), &FleetSecret::BUILT_IN) {
        Ok(rules) => rules,
        Err(errors) => return assert_told(&errors),
    };
    let described = rules.describe(NOW);
    let attributes = [("user", "42"), ("ip", "2001:db8::1"), ("endpoint", "/search"), ("org", "")];
    for namespace in &described.namespaces {
        let mut matches = Matches::new();
        rules.matches(&namespace.tenant, &namespace.namespace, Attributes(&attributes), NOW, &mut matches);
    }
}

pub(crate) fn theirs(text: &[u8]) {
    let options = EnvoyOptions { secret: &FleetSecret::BUILT_IN, tenant: "default", windows: Windows::Fixed };
    let rules = match EnvoyRules::parse(&source(text), &options) {
        Ok(rules) => rules,
        Err(errors) => return assert_told(&errors),
    };
    for domain in rules.domain_names() {
        let _ = rules.find(domain, &[("user", "42"), ("path", "files/a")], None);
        let _ = rules.find(domain, &[("path", "files/a")], None);
    }
    // What is imported must be a rules file.
    if let Ok(imported) = import(&rules) {
        let parsed = RuleSet::parse(&source(imported.text.as_bytes()), &FleetSecret::BUILT_IN);
        if let Err(errors) = parsed {
            panic!("imported, and not valid: {errors}\n{}", imported.text);
        }
    }
}
