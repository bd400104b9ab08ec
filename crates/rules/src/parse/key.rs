//! A rule's `key`: the attributes that name a caller.
//!
//! Refuses the words that overrides use for themselves, so that `limit: 5` in an override never means an
//! attribute.

use super::cursor::Cursor;
use super::tree::Value;
use super::value;
use crate::bounds::{ATTRIBUTE_CHARS_MAX, KEY_PARTS_MAX};
use crate::error::{Problems, Refusal, quoted};
use crate::identifier::KeyPart;

/// What an override's own fields are called.
pub(crate) const OVERRIDE_FIELDS: [&str; 7] = ["rule", "limit", "rate", "burst", "unlimited", "hot", "until"];

pub(crate) fn read_key(at: &Cursor<'_, '_>, problems: &mut Problems) -> Option<Box<[KeyPart]>> {
    let Value::List(items) = at.value() else {
        let message = format!("expected a list of attributes, found {}", at.value().kind());
        at.refuse(problems, Refusal::new(message, "write it as `[user]`, or `[]` for one counter for all"));
        return None;
    };
    if items.len() > KEY_PARTS_MAX {
        let message = format!("a key of {} attributes is too long", items.len());
        at.refuse(problems, Refusal::new(message, format!("use at most {KEY_PARTS_MAX}")));
        return None;
    }
    let mut parts: Vec<KeyPart> = Vec::with_capacity(items.len());
    let errors_before = problems.count();
    for item in at.items() {
        let Some(part) = read_part(&item, problems) else { continue };
        if parts.iter().any(|other| other.attribute == part.attribute) {
            let message = format!("{} is in the key twice", quoted(&part.attribute));
            item.refuse(problems, Refusal::new(message, "name each attribute once"));
        }
        parts.push(part);
    }
    (problems.count() == errors_before).then(|| parts.into())
}

/// `user`, or `ip/64`.
fn read_part(at: &Cursor<'_, '_>, problems: &mut Problems) -> Option<KeyPart> {
    let text = value::line(at, ATTRIBUTE_CHARS_MAX + "/128".len(), problems)?;
    let (attribute, group_prefix) = match text.split_once('/') {
        None => (text, None),
        Some((attribute, length)) => match group_prefix(length) {
            Some(length) => (attribute, Some(length)),
            None => {
                let message = format!("{} isn't a way to group addresses", quoted(text));
                at.refuse(
                    problems,
                    Refusal::new(message, "write a prefix length from 1 to 128, such as `ip/64`"),
                );
                return None;
            }
        },
    };
    if let Err(refusal) = check_attribute(attribute) {
        at.refuse(problems, refusal);
        return None;
    }
    if OVERRIDE_FIELDS.contains(&attribute) {
        let message = format!(
            "{} is a field of overrides, so no override could name this attribute",
            quoted(attribute)
        );
        at.refuse(problems, Refusal::new(message, "give the attribute another name"));
        return None;
    }
    Some(KeyPart { attribute: attribute.into(), group_prefix })
}

/// The name of one attribute, not grouped.
pub(crate) fn read_attribute<'p>(at: &Cursor<'p, '_>, problems: &mut Problems) -> Option<&'p str> {
    let name = value::line(at, ATTRIBUTE_CHARS_MAX, problems)?;
    match check_attribute(name) {
        Ok(()) => Some(name),
        Err(refusal) => {
            at.refuse(problems, refusal);
            None
        }
    }
}

fn group_prefix(text: &str) -> Option<u8> {
    let digits = text.bytes().all(|b| b.is_ascii_digit()) && !text.starts_with('0');
    text.parse().ok().filter(|length| digits && (1..=128).contains(length))
}

/// Letters, digits, `_`, `.` and `-`; 1 to 64 of them.
pub(crate) fn check_attribute(name: &str) -> Result<(), Refusal> {
    let known = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'.' | b'-');
    if !name.is_empty() && name.len() <= ATTRIBUTE_CHARS_MAX && name.bytes().all(known) {
        return Ok(());
    }
    let fix = format!("use 1 to {ATTRIBUTE_CHARS_MAX} of letters, digits, `_`, `.` and `-`");
    Err(Refusal::new(format!("{} isn't an attribute's name", quoted(name)), fix))
}
