//! One field's value: whole numbers, texts and words of a list, each refused with its range.
//!
//! A number is judged as it is written: `5.0` and `1e3` are refused although they equal whole numbers,
//! because the next larger one would have been rounded on its way here.

use crate::json::decimal::Decimal;
use crate::json::read::{Kind, Reader};
use crate::refusal::{Code, Refusal, excerpt};
use crate::wire::field::Field;
use std::borrow::Cow;
use tidegate_core::limit::NUMBER_MAX;
use tidegate_core::{Nanos, Period};
use tidegate_node::request::ATTRIBUTE_VALUE_BYTES_MAX;
use tidegate_rules::suggest::remedy;

/// The numbers that a field takes, both ends included.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Range {
    pub min: u64,
    pub max: u64,
}

impl Range {
    /// Of costs, limits and bursts.
    pub(crate) const COUNT: Range = Range { min: 0, max: NUMBER_MAX };
    pub(crate) const DURATION_MS: Range =
        Range { min: Period::MIN.get() / Nanos::PER_MILLI, max: Period::MAX.get() / Nanos::PER_MILLI };

    fn holds(self, number: u64) -> bool {
        (self.min..=self.max).contains(&number)
    }
}

#[inline]
pub(crate) fn whole_number(reader: &mut Reader<'_>, name: &str, range: Range) -> Result<u64, Refusal> {
    let kind = reader.peek();
    let word = match kind {
        Kind::Number | Kind::Boolean | Kind::Null | Kind::Other => reader.word(),
        Kind::Text | Kind::List | Kind::Object | Kind::End => "",
    };
    match plain_digits(word) {
        Some(number) if range.holds(number) => Ok(number),
        _ => Err(not_whole(kind, word, name, range)),
    }
}

/// A whole number in plain digits; `None` also when it has more than 19 of them.
#[inline]
fn plain_digits(word: &str) -> Option<u64> {
    let fits = word.len() <= 19 && is_plain_whole(word);
    fits.then(|| word.bytes().fold(0, |number, byte| number * 10 + u64::from(byte - b'0')))
}

/// Digits only, and no zero before others.
#[inline]
fn is_plain_whole(word: &str) -> bool {
    let is_digits = !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_digit());
    is_digits && (word.len() == 1 || !word.starts_with('0'))
}

#[cold]
fn not_whole(kind: Kind, word: &str, name: &str, range: Range) -> Refusal {
    let Range { min, max } = range;
    let found = if word.is_empty() { kind.name().to_owned() } else { excerpt(word) };
    let message = format!("`{name}` must be a whole number from {min} to {max}, not {found}");
    let (code, fix) = match Decimal::parse(word) {
        _ if is_plain_whole(word) => {
            let end = if plain_digits(word).is_some_and(|number| number < min) { min } else { max };
            (Code::OutOfRange, format!("use {end} or a number within the range"))
        }
        Some(decimal) if decimal.is_negative => (Code::OutOfRange, format!("use {min} or more")),
        Some(decimal) if decimal.exponent >= 0 => {
            match decimal.as_whole().filter(|number| range.holds(*number)) {
                Some(number) => (Code::NotAnInteger, format!("write it as {number}")),
                None => (Code::OutOfRange, format!("use a number from {min} to {max}, in plain digits")),
            }
        }
        Some(_) => (Code::NotAnInteger, "round it to a whole number".to_owned()),
        None if kind == Kind::Text => (Code::WrongType, "write the number without quotes".to_owned()),
        None => (Code::WrongType, "write a JSON number in plain digits, such as 5".to_owned()),
    };
    Refusal::of_field(code, name, message, fix)
}

/// A text of 1 to so many characters, none of them a control character.
pub(crate) fn text<'b>(
    reader: &mut Reader<'b>,
    name: &str,
    chars_max: usize,
) -> Result<Cow<'b, str>, Refusal> {
    let kind = reader.peek();
    if kind != Kind::Text {
        return Err(wrong_type(name, "a string", kind));
    }
    let text = reader.string()?;
    match text_problem(&text, chars_max) {
        None => Ok(text),
        Some((problem, fix)) => {
            let message = format!("`{name}` {problem}");
            Err(Refusal::of_field(Code::InvalidText, name, message, fix))
        }
    }
}

/// Whom a limit is for: a text that is hashed, of as many bytes as an attribute's value may have.
pub(crate) fn identifier<'b>(reader: &mut Reader<'b>, name: &str) -> Result<Cow<'b, str>, Refusal> {
    let identifier = text(reader, name, ATTRIBUTE_VALUE_BYTES_MAX)?;
    if identifier.len() > ATTRIBUTE_VALUE_BYTES_MAX {
        let message = format!("`{name}` is longer than {ATTRIBUTE_VALUE_BYTES_MAX} bytes");
        let fix = format!("give 1 to {ATTRIBUTE_VALUE_BYTES_MAX} bytes; a hash of it will do");
        return Err(Refusal::of_field(Code::InvalidText, name, message, fix));
    }
    Ok(identifier)
}

/// What is wrong with a name, and the remedy.
pub(crate) fn text_problem(text: &str, chars_max: usize) -> Option<(String, String)> {
    if text.is_empty() {
        return Some(("is empty".to_owned(), format!("give 1 to {chars_max} characters")));
    }
    if !fits(text, chars_max) {
        let problem = format!("is longer than {chars_max} characters");
        return Some((problem, format!("give 1 to {chars_max} characters; a hash of it will do")));
    }
    let control = text.chars().find(|character| character.is_control())?;
    let problem = format!("has a control character, U+{:04X}", u32::from(control));
    Some((problem, "leave control characters out, or encode them".to_owned()))
}

/// Counts characters only when the bytes leave a doubt.
pub(crate) fn fits(text: &str, chars_max: usize) -> bool {
    text.len() <= chars_max || (text.len() <= 4 * chars_max && text.chars().count() <= chars_max)
}

/// One of a few words.
pub(crate) fn choice<T: Copy>(
    reader: &mut Reader<'_>,
    field: Field,
    choices: &[(&'static str, T)],
) -> Result<T, Refusal> {
    let kind = reader.peek();
    if kind != Kind::Text {
        return Err(wrong_type(field.name(), "a string", kind));
    }
    let word = reader.string()?;
    choices.iter().find(|(name, _)| *name == word).map(|(_, value)| *value).ok_or_else(|| {
        let known: Vec<&str> = choices.iter().map(|(name, _)| *name).collect();
        let message = format!("`{}` can't be `{}`", field.name(), excerpt(&word));
        Refusal::of_field(Code::UnknownValue, field.name(), message, remedy(&word, &known))
    })
}

#[cold]
pub(crate) fn wrong_type(field: &str, wanted: &str, found: Kind) -> Refusal {
    let message = format!("`{field}` must be {wanted}, not {}", found.name());
    Refusal::of_field(Code::WrongType, field, message, format!("send {wanted} as `{field}`"))
}
