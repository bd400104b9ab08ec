//! `attributes`: names and values of a request, compared as text.
//!
//! Numbers and booleans are taken as they are written, however long: `1.0` is the text `1.0`.

use crate::json::decimal::is_number;
use crate::json::read::{Kind, Reader};
use crate::refusal::{Code, Refusal, excerpt};
use crate::wire::field::{Field, duplicate};
use crate::wire::value::{text_problem, wrong_type};
use smallvec::SmallVec;
use std::borrow::Cow;
use tidegate_node::request::{ATTRIBUTE_NAME_CHARS_MAX, ATTRIBUTE_VALUE_BYTES_MAX, ATTRIBUTES_MAX};

pub(crate) type AttributeList<'b> = SmallVec<[(Cow<'b, str>, Cow<'b, str>); 4]>;

pub(crate) fn attributes<'b>(reader: &mut Reader<'b>) -> Result<AttributeList<'b>, Refusal> {
    let kind = reader.peek();
    if kind != Kind::Object {
        return Err(wrong_type(Field::Attributes.name(), "an object", kind));
    }
    let mut list = AttributeList::new();
    let mut place = reader.enter();
    while let Some(name) = reader.member(&mut place)? {
        if list.len() == ATTRIBUTES_MAX {
            let message = format!("`attributes` has more than {ATTRIBUTES_MAX} of them");
            let fix = "send only the attributes that rules name";
            return Err(Refusal::of_field(Code::TooMany, Field::Attributes.name(), message, fix));
        }
        check_name(&name, &list)?;
        let value = value(reader, &name)?;
        list.push((name, value));
    }
    Ok(list)
}

fn check_name(name: &str, list: &AttributeList<'_>) -> Result<(), Refusal> {
    if let Some((problem, fix)) = text_problem(name, ATTRIBUTE_NAME_CHARS_MAX) {
        let message = format!("the name of attribute `{}` {problem}", excerpt(name));
        return Err(Refusal::of_field(Code::InvalidText, path(name), message, fix));
    }
    match list.iter().any(|(earlier, _)| earlier == name) {
        true => Err(Refusal { field: Some(path(name)), ..duplicate(name) }),
        false => Ok(()),
    }
}

fn value<'b>(reader: &mut Reader<'b>, name: &str) -> Result<Cow<'b, str>, Refusal> {
    let kind = reader.peek();
    let value = match kind {
        Kind::Text => reader.string()?,
        Kind::Number | Kind::Boolean => scalar(reader, kind)?,
        Kind::Null | Kind::List | Kind::Object | Kind::End | Kind::Other => {
            let mut refusal = wrong_type(&path(name), "a string, a number or a boolean", kind);
            refusal.fix = format!("give `{}` as a string, or leave it out", excerpt(name));
            return Err(refusal);
        }
    };
    if value.len() > ATTRIBUTE_VALUE_BYTES_MAX {
        let message =
            format!("attribute `{}` is longer than {ATTRIBUTE_VALUE_BYTES_MAX} bytes", excerpt(name));
        let fix = format!("give at most {ATTRIBUTE_VALUE_BYTES_MAX} bytes; a hash of it will do");
        return Err(Refusal::of_field(Code::InvalidText, path(name), message, fix));
    }
    Ok(value)
}

fn scalar<'b>(reader: &mut Reader<'b>, kind: Kind) -> Result<Cow<'b, str>, Refusal> {
    let invalid = reader.invalid("a number, `true` or `false` should be here");
    let word = reader.word();
    let valid = match kind {
        Kind::Boolean => word == "true" || word == "false",
        _ => is_number(word),
    };
    if valid { Ok(Cow::Borrowed(word)) } else { Err(invalid) }
}

fn path(name: &str) -> String {
    format!("{}.{}", Field::Attributes.name(), excerpt(name))
}
