//! A rule's `when`: exact values, `*` patterns, networks, and lists of them.
//!
//! What looks like a network and isn't one is an error, never an exact value that nothing will ever equal.

use super::cursor::Cursor;
use super::key::check_attribute;
use super::tree::Value;
use super::value;
use crate::address::{Cidr, looks_like_cidr};
use crate::bounds::{CONDITION_VALUES_MAX, CONDITIONS_MAX, VALUE_CHARS_MAX};
use crate::condition::{Condition, Conditions, ValueSet};
use crate::error::{Problems, Refusal, quoted};
use crate::pattern::Pattern;

pub(crate) fn read_when(at: &Cursor<'_, '_>, problems: &mut Problems) -> Option<Conditions> {
    let errors_before = problems.count();
    match at.value() {
        Value::Null => return Some(Conditions::default()),
        Value::Map(_) => {}
        other => {
            let message = format!("expected attributes and their values, found {}", other.kind());
            at.refuse(problems, Refusal::new(message, "write it as `{ endpoint: \"/search*\" }`"));
            return None;
        }
    }
    if at.entries().len() > CONDITIONS_MAX {
        let message = format!("conditions on {} attributes are too many", at.entries().len());
        at.refuse(problems, Refusal::new(message, format!("use at most {CONDITIONS_MAX}")));
        return None;
    }
    let mut values_left = CONDITION_VALUES_MAX;
    let mut conditions = Vec::with_capacity(at.entries().len());
    for entry in at.entries() {
        if let Err(refusal) = check_attribute(&entry.key) {
            at.refuse_at(problems, entry.key_place, Some(&entry.key), refusal);
        }
        if let Some(values) = read_values(&at.field(entry), &mut values_left, problems) {
            conditions.push(Condition { attribute: (&*entry.key).into(), values });
        }
    }
    (problems.count() == errors_before).then(|| Conditions(conditions.into()))
}

fn read_values(at: &Cursor<'_, '_>, values_left: &mut usize, problems: &mut Problems) -> Option<ValueSet> {
    let mut values = ValueSet::default();
    let count = match at.value() {
        Value::List(items) => items.len(),
        _ => 1,
    };
    if count == 0 {
        at.refuse(
            problems,
            Refusal::new("an empty list matches nothing", "list at least one value, or remove it"),
        );
        return None;
    }
    let Some(left) = values_left.checked_sub(count) else {
        let message = format!("`when` has more than {CONDITION_VALUES_MAX} values");
        at.refuse(problems, Refusal::new(message, "use `*` patterns or networks, or a rule for each part"));
        return None;
    };
    *values_left = left;
    if let Value::List(_) = at.value() {
        at.items().for_each(|item| read_value(&item, &mut values, problems));
    } else {
        read_value(at, &mut values, problems);
    }
    values.seal();
    Some(values)
}

fn read_value(at: &Cursor<'_, '_>, values: &mut ValueSet, problems: &mut Problems) {
    let Some(text) = value::line(at, VALUE_CHARS_MAX, problems) else { return };
    if let Some(doubt) = doubt(text) {
        at.warn(problems, format!("{} {doubt}", quoted(text)));
    }
    if let Some(pattern) = Pattern::new(text) {
        values.add_pattern(pattern);
    } else if let Some(network) = Cidr::parse(text) {
        values.add_network(network);
    } else if looks_like_cidr(text) {
        let message = format!("{} isn't a network", quoted(text));
        at.refuse(problems, Refusal::new(message, "write address and prefix length, such as `10.0.0.0/8`"));
    } else {
        values.add_exact(text);
    }
}

/// What a value most likely was meant as, where that isn't what it means.
fn doubt(text: &str) -> Option<&'static str> {
    const CLASSES: [&str; 8] = ["\\d", "\\w", "\\s", "\\b", "\\.", "\\/", "[^", "(?"];
    if text.len() > 1 && text.starts_with('!') {
        return Some("matches only itself: there is no negation; list the values that are meant");
    }
    let is_anchored = text.len() > 1 && (text.starts_with('^') || text.ends_with('$'));
    let has_choice = text.find('(').is_some_and(|open| text[open..].contains(['|', ')']));
    let has_repeat = [")*", "]*", "]+", ".+", "+$"].iter().any(|repeat| text.contains(repeat));
    // `10.*` and `*.example.com` are patterns; a path has no dot before what varies.
    let has_any = text == ".*" || text.contains("/.*") || text.starts_with(".*");
    let has_class = CLASSES.iter().any(|class| text.contains(class));
    if is_anchored || has_choice || has_repeat || has_any || has_class {
        return Some(
            "looks like a regular expression, and is compared as text: only `*` is special, for any run of characters",
        );
    }
    let has_parameter = text.contains("/{") || text.contains("/:") || text.contains("/<");
    has_parameter
        .then_some("looks like a path with parameters, and is compared as text: write `*` for what varies")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_that_means_something_else_elsewhere_is_doubted() {
        for text in
            ["!/health", "^/api", "/api$", "/users/\\d+", "(a|b)", ".*", "/api/.*", "[a-z]+", "/v[^/]*"]
        {
            assert!(doubt(text).is_some(), "{text}");
        }
        for text in ["/users/{id}", "/users/:id", "/users/<int:id>"] {
            assert!(doubt(text).is_some_and(|doubt| doubt.contains("parameters")), "{text}");
        }
        for text in [
            "/health",
            "/search*",
            "10.*",
            "*.example.com",
            "a|b",
            "!",
            "$",
            "free",
            "C++",
            "*/admin/*",
            "10.0.0.0/8",
            "::/0",
            "a.b.c",
        ] {
            assert_eq!(doubt(text), None, "{text}");
        }
    }
}
