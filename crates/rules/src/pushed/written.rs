//! Overrides as text: what a push takes apart, put together again.
//!
//! Whatever is written here was read back and compared, so a file that is pushed unchanged changes nothing.

use super::PushedRules;
use super::cut::quoted;
use crate::change::{DocumentName, OverrideName};
use crate::envoy::Windows;
use crate::overrides::{Override, OverrideEffect};
use crate::set::RuleSet;
use crate::source::Source;
use std::fmt::Write;
use tidegate_core::limit::NUMBER_MAX;
use tidegate_core::{FleetSecret, Nanos, Rate};

impl RuleSet {
    /// Returns an override as an entry of `overrides`: `{ rule: "per-user", user: "acme-*", limit: 1000 }`. `None` when
    /// no entry means it, because its rule is gone or has another key.
    pub fn override_entry(&self, name: &OverrideName, value: &Override) -> Option<String> {
        let namespace = self.namespace(&name.tenant, &name.namespace)?;
        let rule = namespace.rules.iter().find(|rule| rule.name == name.rule)?;
        if rule.key.len() != name.parts.len() {
            return None;
        }
        let mut entry = "{ rule: ".to_owned();
        named(&mut entry, &rule.name);
        for (part, text) in rule.key.iter().zip(&name.parts) {
            entry.push_str(", ");
            named(&mut entry, &part.attribute);
            entry.push_str(": ");
            quoted(&mut entry, text);
        }
        match value.change {
            OverrideEffect::Keep => {}
            OverrideEffect::Unlimited => entry.push_str(", unlimited: true"),
            // Writing to a String can't fail.
            OverrideEffect::Limit(limit) => drop(write!(entry, ", limit: {}", limit.get())),
            OverrideEffect::Rate { rate, burst } => {
                let _ = write!(entry, ", rate: {}, burst: {}", rate_text(rate)?, burst.get());
            }
        }
        entry.push_str(if value.hot { ", hot: true" } else { "" });
        if value.until != Nanos::MAX {
            let until = jiff::Timestamp::from_nanosecond(i128::from(value.until.get())).ok()?;
            let _ = write!(entry, ", until: {until}");
        }
        entry.push_str(" }");
        let document = DocumentName { tenant: name.tenant.clone(), namespace: name.namespace.clone() };
        let source = Source { name: "override".to_owned(), text: entry.clone().into_bytes() };
        let read = self.read_override(&document, &source)?.ok()?;
        (read == (name.clone(), *value)).then_some(entry)
    }
}

/// Returns a namespace's text with overrides at its end, one a line. `None` when that isn't a rules file which says the
/// same, as for a file of envoyproxy/ratelimit.
pub fn with_overrides(name: &DocumentName, text: &str, entries: &[String]) -> Option<String> {
    let mut whole = format!("{}overrides:\n", text);
    for entry in entries {
        let _ = writeln!(whole, "  - {entry}");
    }
    let source = Source { name: "rules.yaml".to_owned(), text: whole.clone().into_bytes() };
    let pushed = PushedRules::read(&[source], &FleetSecret::BUILT_IN, Windows::Fixed).ok()?;
    let is_same = pushed.documents.len() == 1
        && pushed.documents.get(name).is_some_and(|document| **document == *text)
        && pushed.overrides.len() == entries.len();
    is_same.then_some(whole)
}

/// Writes a name, in quotes where YAML could take it for something else.
fn named(out: &mut String, name: &str) {
    let is_plain = name.starts_with(|c: char| c.is_ascii_alphabetic())
        && name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_'))
        && !matches!(
            name.to_ascii_lowercase().as_str(),
            "true" | "false" | "null" | "yes" | "no" | "on" | "off"
        );
    if is_plain { out.push_str(name) } else { quoted(out, name) }
}

/// Returns the shortest text of a rate that means it exactly: `100/1s`, `3/10ms`.
fn rate_text(rate: Rate) -> Option<String> {
    let (length_ns, count) = (rate.interval_numerator_ns(), rate.interval_denominator());
    let units = [("s", Nanos::PER_SECOND), ("ms", Nanos::PER_MILLI)];
    for (unit, unit_ns) in units {
        let times = unit_ns / greatest_common_divisor(length_ns, unit_ns);
        let count = count.checked_mul(times).filter(|count| *count <= NUMBER_MAX);
        if let (Some(count), Some(length_ns)) = (count, length_ns.checked_mul(times)) {
            return Some(format!("{count}/{}{unit}", length_ns / unit_ns));
        }
    }
    None
}

fn greatest_common_divisor(mut a: u64, mut b: u64) -> u64 {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}
