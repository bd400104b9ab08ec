//! The text of an imported rules file. Every value is in quotes, so that none of them can mean anything else.

use super::{Imported, Windows};
use std::fmt::Write;

/// Appends one document.
pub(crate) fn write_domain(out: &mut String, domain: &str, windows: Windows, rules: &[Imported<'_>]) {
    // Writing to a String can't fail.
    if !out.is_empty() {
        out.push_str("---\n");
    }
    out.push_str(
        "# From a file of envoyproxy/ratelimit. A rule applies to every request that has its attributes, in\n\
         # any order, whatever other attributes the request has. In envoyproxy/ratelimit, a limit applied only\n\
         # to descriptors with exactly its entries.\n",
    );
    let _ = writeln!(out, "namespace: {}", quoted(domain));
    if rules.is_empty() {
        out.push_str("rules: []\n");
        return;
    }
    out.push_str("rules:\n");
    rules.iter().for_each(|rule| write_rule(out, windows, rule));
    let lifted: Vec<(&str, &(&str, &str))> =
        rules.iter().flat_map(|rule| rule.lifted.iter().map(|lifted| (rule.name.as_str(), lifted))).collect();
    if lifted.is_empty() {
        return;
    }
    out.push_str(
        "# In envoyproxy/ratelimit, another item matches these first. It has its own rule, or no limit.\noverrides:\n",
    );
    for (rule, (attribute, value)) in lifted {
        let attribute = quoted(attribute);
        let _ = writeln!(
            out,
            "  - {{ rule: {}, {attribute}: {}, unlimited: true }}",
            quoted(rule),
            quoted(value)
        );
    }
}

fn write_rule(out: &mut String, windows: Windows, rule: &Imported<'_>) {
    if let Some(wider) = &rule.differs {
        let _ = writeln!(
            out,
            "  # Differs: also counts requests with the keys of {}. In envoyproxy/ratelimit, only their own limit applied.",
            quoted(wider)
        );
    }
    for note in &rule.notes {
        let _ = writeln!(out, "  # {note}.");
    }
    let list = |items: Vec<String>| items.join(", ");
    let key = list(rule.key.iter().map(|attribute| quoted(attribute)).collect());
    let _ = writeln!(out, "  - name: {}\n    key: [{key}]", quoted(&rule.name));
    if !rule.when.is_empty() {
        let when =
            rule.when.iter().map(|(attribute, value)| format!("{}: {}", quoted(attribute), quoted(value)));
        let _ = writeln!(out, "    when: {{ {} }}", list(when.collect()));
    }
    let (count, unit) = rule.limit;
    let _ = writeln!(out, "    limit: {count} per {}", unit.length_text());
    if windows == Windows::Fixed {
        out.push_str("    algorithm: fixed\n");
    }
    if rule.shadow {
        out.push_str("    shadow: true\n");
    }
}

/// As YAML reads it in double quotes. The names that need none are left as they are.
fn quoted(text: &str) -> String {
    let is_plain = text.starts_with(|c: char| c.is_ascii_alphabetic())
        && text.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-'))
        && !text.eq_ignore_ascii_case("null");
    if is_plain {
        return text.to_owned();
    }
    let mut quoted = String::from('"');
    for c in text.chars() {
        match c {
            '"' | '\\' => quoted.extend(['\\', c]),
            ' '..='~' => quoted.push(c),
            c if c.is_alphanumeric() => quoted.push(c),
            _ => {
                // Breaks, marks and the like: what YAML makes of them in a text is no concern of ours.
                let _ = write!(quoted, "\\U{:08x}", u32::from(c));
            }
        }
    }
    quoted.push('"');
    quoted
}
