//! Reads files and asks them, for the tests of this directory.

use tidegate_core::FleetSecret;
use tidegate_rules::envoy::{Allowance, EnvoyMatch, EnvoyOptions, EnvoyRules, Windows};
use tidegate_rules::{Policy, RuleErrors, Source};

pub(crate) fn source(name: &str, text: impl AsRef<[u8]>) -> Source {
    Source { name: name.to_owned(), text: text.as_ref().to_vec() }
}

pub(crate) fn parse(sources: &[Source]) -> Result<EnvoyRules, RuleErrors> {
    parse_as(sources, Windows::Fixed)
}

pub(crate) fn parse_as(sources: &[Source], windows: Windows) -> Result<EnvoyRules, RuleErrors> {
    let options = EnvoyOptions { secret: &FleetSecret::BUILT_IN, tenant: "default", windows };
    EnvoyRules::parse(sources, &options)
}

pub(crate) fn rules(text: &str) -> EnvoyRules {
    parse(&[source("config.yaml", text)]).unwrap_or_else(|errors| panic!("{errors}\n{text}"))
}

/// `5/second`, `unlimited`, `none`; with what else is said of it.
pub(crate) fn said(found: Option<&EnvoyMatch<'_, '_>>) -> String {
    let Some(found) = found else { return "none".to_owned() };
    let mut text = match (found.limit.map(|limit| &limit.allowance), &found.policy) {
        (Some(Allowance::Unlimited), None) => "unlimited".to_owned(),
        (Some(Allowance::Limited { requests_per_unit, unit, .. }), Some(_)) => {
            format!("{requests_per_unit}/{}", unit.name())
        }
        (None, Some(Policy::Fixed { limit, period })) => {
            format!("given {} per {} s", limit.get(), period.get() / 1_000_000_000)
        }
        other => panic!("{other:?}"),
    };
    for (flag, word) in [(found.is_shadow(), " shadow"), (found.is_quota(), " quota")] {
        text += if flag { word } else { "" };
    }
    found.name().map_or(text.clone(), |name| format!("{text} named {name}"))
}

pub(crate) fn ask(rules: &EnvoyRules, entries: &[(&str, &str)]) -> String {
    said(rules.find("test-domain", entries, None).as_ref())
}

/// A domain of these descriptors, each a YAML flow map.
pub(crate) fn domain(descriptors: &[&str]) -> EnvoyRules {
    let lines: String = descriptors.iter().map(|descriptor| format!("  - {{ {descriptor} }}\n")).collect();
    rules(&format!("domain: test-domain\ndescriptors:\n{lines}"))
}

pub(crate) const TREE: &str = "\
domain: test-domain
descriptors:
  - key: key1
    value: value1
    descriptors:
      - key: subkey1
        rate_limit:
          unit: second
          requests_per_unit: 5
      - key: subkey1
        value: subvalue1
        rate_limit:
          unit: SECOND
          requests_per_unit: 10
  - key: key2
    rate_limit:
      unit: minute
      requests_per_unit: 20
  - key: key2
    value: value2
    rate_limit:
      unit: minute
      requests_per_unit: 30
  - key: key2
    value: value3
  - key: key4
    rate_limit:
      name: key4_rate_limit
      unit: day
      requests_per_unit: 1
  - key: key5
    value: value5
    rate_limit:
      unit: day
      requests_per_unit: 15
    descriptors:
      - key: subkey5
        value: subvalue5
        rate_limit:
          unit: day
          requests_per_unit: 25
  - key: key6
    rate_limit:
      unlimited: true
";
