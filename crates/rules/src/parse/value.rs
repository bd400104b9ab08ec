//! Single values: text, names, words of a fixed list, true and false, instants.
//!
//! Every text has a length bound, and every refusal quotes what was found.

use super::cursor::Cursor;
use super::fields::Fields;
use super::tree::Value;
use crate::bounds::{NAME_CHARS_MAX, QUANTITY_CHARS_MAX};
use crate::error::{Problems, Refusal, quoted};
use crate::suggest;
use jiff::Timestamp;
use tidegate_core::Nanos;

/// A text of at most `chars_max` characters.
pub(crate) fn text<'p>(at: &Cursor<'p, '_>, chars_max: usize, problems: &mut Problems) -> Option<&'p str> {
    let Value::Scalar(text) = at.value() else {
        let message = format!("expected a single value, found {}", at.value().kind());
        at.refuse(problems, Refusal::new(message, "give one value, in quotes if it is empty"));
        return None;
    };
    // A character has at most four bytes: the count of a huge text needs no look at it.
    if text.len() > 4 * chars_max || text.chars().count() > chars_max {
        let message = format!("{} is too long", quoted(text));
        at.refuse(problems, Refusal::new(message, format!("use at most {chars_max} characters")));
        return None;
    }
    Some(text)
}

/// A text of one line.
pub(crate) fn line<'p>(at: &Cursor<'p, '_>, chars_max: usize, problems: &mut Problems) -> Option<&'p str> {
    let text = text(at, chars_max, problems)?;
    if !text.chars().any(char::is_control) {
        return Some(text);
    }
    let message = format!("{} has a control character", quoted(text));
    at.refuse(
        problems,
        Refusal::new(message, "remove it (a block text with `|` or `>` ends in a line break)"),
    );
    None
}

/// The name of a rule, a namespace or a tenant.
pub(crate) fn name<'p>(at: &Cursor<'p, '_>, problems: &mut Problems) -> Option<&'p str> {
    let name = line(at, NAME_CHARS_MAX, problems)?;
    if !name.is_empty() {
        return Some(name);
    }
    let fix = format!("use 1 to {NAME_CHARS_MAX} characters, such as `per-user`");
    at.refuse(problems, Refusal::new("a name can't be empty", fix));
    None
}

/// The text of a number, a limit, a rate or an instant.
pub(crate) fn quantity<'p>(at: &Cursor<'p, '_>, problems: &mut Problems) -> Option<&'p str> {
    line(at, QUANTITY_CHARS_MAX, problems)
}

/// What a text means, or the refusal of it.
pub(crate) fn parsed<T>(
    at: &Cursor<'_, '_>,
    problems: &mut Problems,
    parse: impl FnOnce(&str) -> Result<T, Refusal>,
) -> Option<T> {
    match parse(quantity(at, problems)?) {
        Ok(value) => Some(value),
        Err(refusal) => {
            at.refuse(problems, refusal);
            None
        }
    }
}

/// One of a list of words.
pub(crate) fn word<T: Copy>(at: &Cursor<'_, '_>, words: &[(&str, T)], problems: &mut Problems) -> Option<T> {
    let text = line(at, NAME_CHARS_MAX, problems)?;
    let found = words.iter().find(|(word, _)| *word == text).map(|(_, meaning)| *meaning);
    if found.is_none() {
        let known: Vec<&str> = words.iter().map(|(word, _)| *word).collect();
        let mut fix = suggest::remedy(text, &known);
        if fix.starts_with("did") {
            fix = format!("{fix} ({})", known.join(", "));
        }
        at.refuse(problems, Refusal::new(format!("{} isn't known here", quoted(text)), fix));
    }
    found
}

/// One of a list of words, where the field is given.
pub(crate) fn field_word<T: Copy>(
    fields: &Fields<'_, '_>,
    name: &str,
    words: &[(&str, T)],
    problems: &mut Problems,
) -> Option<T> {
    fields.get(name).and_then(|at| word(&at, words, problems))
}

pub(crate) fn boolean(at: &Cursor<'_, '_>, problems: &mut Problems) -> Option<bool> {
    match line(at, NAME_CHARS_MAX, problems)? {
        "true" | "True" | "TRUE" => Some(true),
        "false" | "False" | "FALSE" => Some(false),
        other => {
            at.refuse(
                problems,
                Refusal::new(
                    format!("{} is neither true nor false", quoted(other)),
                    "write `true` or `false`",
                ),
            );
            None
        }
    }
}

/// An RFC 3339 timestamp. What lies before 1970 or after 2554 becomes that.
pub(crate) fn instant(at: &Cursor<'_, '_>, problems: &mut Problems) -> Option<Nanos> {
    parsed(at, problems, |text| {
        let timestamp: Timestamp = text.parse().map_err(|_| {
            let message = format!("{} isn't a timestamp", quoted(text));
            Refusal::new(message, "write date, time and offset, such as `2026-12-01T00:00:00Z`")
        })?;
        let nanos = timestamp.as_nanosecond().clamp(0, i128::from(u64::MAX));
        Ok(Nanos::new(u64::try_from(nanos).unwrap_or(u64::MAX)))
    })
}
