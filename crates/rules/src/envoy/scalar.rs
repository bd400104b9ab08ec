//! Single values as YAML 1.1 has them, which is what those files are written for.
//!
//! A field that is there with nothing in it is as good as absent, as there.

use crate::error::{Problems, Refusal, quoted};
use crate::parse::cursor::Cursor;
use crate::parse::fields::Fields;
use crate::parse::tree::Value;
use crate::parse::value;

/// A text of one line; empty when the field is absent or null. `None`, with the error told, for anything else.
pub(crate) fn text<'p>(
    fields: &Fields<'p, '_>,
    name: &str,
    chars_max: usize,
    problems: &mut Problems,
) -> Option<&'p str> {
    match fields.get(name) {
        None => Some(""),
        Some(at) if matches!(at.value(), Value::Null) => Some(""),
        Some(at) => value::line(&at, chars_max, problems),
    }
}

/// False when absent; what can't be read is told, and false.
pub(crate) fn flag(fields: &Fields<'_, '_>, name: &str, problems: &mut Problems) -> bool {
    let Some(at) = fields.get(name).filter(|at| !matches!(at.value(), Value::Null)) else { return false };
    let read = value::parsed(&at, problems, |text| match text.to_ascii_lowercase().as_str() {
        "true" | "yes" | "on" | "y" => Ok(true),
        "false" | "no" | "off" | "n" => Ok(false),
        _ => Err(Refusal::new(
            format!("{} is neither true nor false", quoted(text)),
            "write `true` or `false`",
        )),
    });
    read.unwrap_or(false)
}

/// A whole number of 32 bits.
pub(crate) fn number(at: &Cursor<'_, '_>, problems: &mut Problems) -> Option<u32> {
    const FIX: &str = "write a whole number from 0 to 4294967295 (2^32 - 1), such as 100";
    value::parsed(at, problems, |text| {
        let refusal = |what: &str| Refusal::new(format!("{} {what}", quoted(text)), FIX);
        let digits: String = text.split('_').collect();
        if digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_digit()) || text.starts_with('_') {
            return Err(refusal("isn't a whole number"));
        }
        if digits.len() > 1 && digits.starts_with('0') {
            let message = format!("{} means an octal number there", quoted(text));
            return Err(Refusal::new(message, "write it without the leading 0, in decimal"));
        }
        digits.parse().map_err(|_| refusal("is too large"))
    })
}

/// Tells of every field that isn't known at all, and warns of those that mean something only elsewhere: theirs
/// reads a file that has them, and does nothing with them.
pub(crate) fn only(
    at: &Cursor<'_, '_>,
    fields: &Fields<'_, '_>,
    known: &[&str],
    elsewhere: &[(&str, &str)],
    problems: &mut Problems,
) {
    for entry in fields.entries() {
        let name = &*entry.key;
        if known.contains(&name) {
            continue;
        }
        match elsewhere.iter().find(|(field, _)| *field == name) {
            Some((_, home)) => {
                let message = format!("does nothing here; it belongs {home}");
                at.field(entry).warn(problems, message);
            }
            None => {
                let all: Vec<&str> =
                    known.iter().copied().chain(elsewhere.iter().map(|(field, _)| *field)).collect();
                let nearest = crate::suggest::nearest(name, all);
                let fix = match nearest {
                    Some(candidate) => format!("did you mean `{candidate}`?"),
                    None => format!("use one of: {}", known.join(", ")),
                };
                fields.unknown(entry, fix, problems);
            }
        }
    }
}
