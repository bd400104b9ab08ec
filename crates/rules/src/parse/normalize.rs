//! A namespace's `normalize`: what the values of its attributes are, and what follows from how its rules use them.

use super::cursor::Cursor;
use super::key::check_attribute;
use super::tree::Value;
use super::value;
use crate::bounds::CONDITIONS_MAX;
use crate::error::{Problems, Refusal, quoted};
use crate::form::{ADDRESS_NAME, Form, Forms};
use crate::rule::Rule;

const EXAMPLE: &str = "`{ path: path, host: lower }`";

/// What a namespace says of its attributes.
pub(crate) type DeclaredForms = Vec<(Box<str>, Form)>;

/// Sorted by attribute, so that documents that say the same agree.
pub(crate) fn read_normalize(at: &Cursor<'_, '_>, problems: &mut Problems) -> Option<DeclaredForms> {
    let errors_before = problems.count();
    let Value::Map(_) = at.value() else {
        let message = format!("expected attributes and their forms, found {}", at.value().kind());
        at.refuse(problems, Refusal::new(message, format!("write it as {EXAMPLE}")));
        return None;
    };
    if at.entries().len() > CONDITIONS_MAX {
        let message = format!("forms of {} attributes are too many", at.entries().len());
        at.refuse(problems, Refusal::new(message, format!("use at most {CONDITIONS_MAX}")));
        return None;
    }
    let mut forms = Vec::with_capacity(at.entries().len());
    for entry in at.entries() {
        if let Err(refusal) = check_attribute(&entry.key) {
            at.refuse_at(problems, entry.key_place, Some(&entry.key), refusal);
        }
        if let Some(form) = read_form(&at.field(entry), problems) {
            forms.push(((&*entry.key).into(), form));
        }
    }
    forms.sort_by(|(a, _), (b, _): &(Box<str>, Form)| a.cmp(b));
    (problems.count() == errors_before).then_some(forms)
}

/// `path`, `lower`, `[path, lower]`, `address` or `text`.
fn read_form(at: &Cursor<'_, '_>, problems: &mut Problems) -> Option<Form> {
    let words = [
        ("path", Form::Normal { is_path: true, is_lower: false }),
        ("lower", Form::Normal { is_path: false, is_lower: true }),
        ("address", Form::Address),
        ("text", Form::Text),
    ];
    let Value::List(_) = at.value() else { return value::word(at, &words, problems) };
    let mut all: Option<Form> = None;
    for item in at.items() {
        let form = value::word(&item, &words, problems)?;
        all = Some(match (all, form) {
            (None, form) => form,
            (
                Some(Form::Normal { is_path, is_lower }),
                Form::Normal { is_path: and_path, is_lower: and_lower },
            ) => Form::Normal { is_path: is_path || and_path, is_lower: is_lower || and_lower },
            (Some(before), form) => {
                let message = format!("`{form}` can't be together with `{before}`");
                item.refuse(
                    problems,
                    Refusal::new(message, "keep one of them; `path` and `lower` go together"),
                );
                return None;
            }
        });
    }
    if all.is_none() {
        at.refuse(problems, Refusal::new("an empty list says nothing", "list `path`, `lower` or both"));
    }
    all
}

/// The forms of a namespace: what it says itself, and `address` for every attribute that some rule groups by a prefix
/// or compares with networks, and for the one that is called `ip`.
pub(crate) fn forms_of(declared: &[(Box<str>, Form)], rules: &[Rule], place_by: Option<&str>) -> Forms {
    let mut forms: Vec<(Box<str>, Form)> = declared.to_vec();
    let mut add = |attribute: &str, form: Form| match forms.iter_mut().find(|(name, _)| **name == *attribute)
    {
        Some((_, before)) => *before = form,
        None => forms.push((attribute.into(), form)),
    };
    let mut has_address_name = place_by == Some(ADDRESS_NAME);
    for rule in rules {
        for part in &rule.key {
            has_address_name |= &*part.attribute == ADDRESS_NAME;
            if part.group_prefix.is_some() {
                add(&part.attribute, Form::Address);
            }
        }
        for condition in &rule.when.0 {
            has_address_name |= &*condition.attribute == ADDRESS_NAME;
            if condition.values.has_networks() {
                add(&condition.attribute, Form::Address);
            }
        }
    }
    if has_address_name && !declared.iter().any(|(name, _)| **name == *ADDRESS_NAME) {
        add(ADDRESS_NAME, Form::Address);
    }
    forms.retain(|(_, form)| *form != Form::Text);
    Forms(forms)
}

/// Warns of what is valid and lets callers escape: known only when the whole namespace is read.
pub(crate) fn warn_of_addresses(at: &Cursor<'_, '_>, rule: &Rule, problems: &mut Problems) {
    let address = rule.key.iter().find(|part| rule.forms.of(&part.attribute) == Form::Address);
    if let Some(part) = address
        && at.get("on_missing").is_none()
    {
        let message = format!(
            "a request without {} isn't limited by this rule; write `on_missing: deny`, or `on_missing: skip` if \
             that is meant",
            quoted(&part.attribute)
        );
        at.warn(problems, message);
    }
}
