//! `RateLimitRequest` as JSON: proto3's mapping, where names are in camel case or as in the definition,
//! numbers may stand in quotes, enums are names or numbers, and `null` is as good as nothing.

use crate::envoy::rate_limit_request::{
    DescriptorLimit, RateLimitRequest, RequestDescriptor, RequestDescriptors, no_refunds, push_descriptor,
    too_many_entries,
};
use crate::json::decimal::Decimal;
use crate::json::object::{object, unknown};
use crate::json::read::{Kind, Reader, ReaderPosition};
use crate::refusal::{Code, Refusal, excerpt};
use std::borrow::Cow;
use tidegate_node::request::ATTRIBUTES_MAX;
use tidegate_rules::envoy::EnvoyUnit;

#[derive(Debug, Default)]
pub(crate) struct JsonRequest<'b> {
    domain: Cow<'b, str>,
    entries: Vec<(Cow<'b, str>, Cow<'b, str>)>,
    descriptors: RequestDescriptors,
    hits_addend: u32,
}

impl<'b> JsonRequest<'b> {
    pub(crate) fn read(body: &'b [u8]) -> Result<Self, Refusal> {
        let mut reader = Reader::new(body)?;
        let mut request = JsonRequest::default();
        object(&mut reader, "the body", |reader, name| {
            match name {
                "domain" => request.domain = text(reader, "domain")?,
                "descriptors" => list(reader, "descriptors", |reader| request.descriptor(reader))?,
                "hitsAddend" | "hits_addend" => {
                    request.hits_addend = number(reader, "hits_addend", u64::from(u32::MAX))?
                        .map_or(0, |number| u32::try_from(number).unwrap_or(u32::MAX));
                }
                _ => return Err(unknown(name, &["domain", "descriptors", "hitsAddend"])),
            }
            Ok(())
        })?;
        reader.finish()?;
        Ok(request)
    }

    pub(crate) fn asked(&self) -> RateLimitRequest<'_> {
        RateLimitRequest {
            domain: &self.domain,
            entries: self.entries.iter().map(|(key, value)| (&**key, &**value)).collect(),
            descriptors: self.descriptors.clone(),
            hits_addend: self.hits_addend,
        }
    }

    fn descriptor(&mut self, reader: &mut Reader<'b>) -> Result<(), Refusal> {
        let begin = self.entries.len();
        let mut found = RequestDescriptor::default();
        object(reader, "a descriptor", |reader, name| {
            match name {
                "entries" => list(reader, "entries", |reader| {
                    if self.entries.len() - begin == ATTRIBUTES_MAX {
                        return Err(too_many_entries());
                    }
                    self.entries.push(entry(reader)?);
                    Ok(())
                })?,
                "limit" => found.limit = limit(reader)?,
                "hitsAddend" | "hits_addend" => found.hits_addend = number(reader, "hits_addend", u64::MAX)?,
                "isNegativeHits" | "is_negative_hits" => {
                    if truth(reader, "is_negative_hits")? {
                        return Err(no_refunds());
                    }
                }
                _ => return Err(unknown(name, &["entries", "limit", "hitsAddend", "isNegativeHits"])),
            }
            Ok(())
        })?;
        found.entries_end = self.entries.len();
        push_descriptor(&mut self.descriptors, found)
    }
}

fn entry<'b>(reader: &mut Reader<'b>) -> Result<(Cow<'b, str>, Cow<'b, str>), Refusal> {
    let (mut key, mut value) = (Cow::Borrowed(""), Cow::Borrowed(""));
    object(reader, "an entry", |reader, name| {
        match name {
            "key" => key = text(reader, "key")?,
            "value" => value = text(reader, "value")?,
            _ => return Err(unknown(name, &["key", "value"])),
        }
        Ok(())
    })?;
    Ok((key, value))
}

fn limit(reader: &mut Reader<'_>) -> Result<Option<DescriptorLimit>, Refusal> {
    if is_null(reader)? {
        return Ok(None);
    }
    let mut limit = DescriptorLimit::default();
    object(reader, "`limit`", |reader, name| {
        match name {
            "requestsPerUnit" | "requests_per_unit" => {
                limit.requests_per_unit = number(reader, "requests_per_unit", u64::from(u32::MAX))?
                    .map_or(0, |number| u32::try_from(number).unwrap_or(u32::MAX));
            }
            "unit" => limit.unit = unit(reader)?,
            "unitMultiplier" | "unit_multiplier" => {
                let multiplier = number(reader, "unit_multiplier", u64::from(u32::MAX))?;
                limit.unit_multiplier =
                    multiplier.map(|multiplier| u32::try_from(multiplier).unwrap_or(u32::MAX));
            }
            _ => return Err(unknown(name, &["requestsPerUnit", "unit", "unitMultiplier"])),
        }
        Ok(())
    })?;
    Ok(Some(limit))
}

fn unit(reader: &mut Reader<'_>) -> Result<u64, Refusal> {
    if reader.peek() != Kind::Text {
        return Ok(number(reader, "unit", u64::from(u32::MAX))?.unwrap_or(0));
    }
    let name = reader.string()?;
    EnvoyUnit::from_enum_name(&name).map(EnvoyUnit::number).ok_or_else(|| {
        let message = format!("`unit` can't be `{}`", excerpt(&name));
        let fix = "give SECOND, MINUTE, HOUR, DAY, WEEK, MONTH or YEAR";
        Refusal::of_field(Code::UnknownValue, "limit.unit", message, fix)
    })
}

/// Reads a list, whose elements `take` reads, each refused with its place.
fn list<'b>(
    reader: &mut Reader<'b>,
    field: &str,
    mut take: impl FnMut(&mut Reader<'b>) -> Result<(), Refusal>,
) -> Result<(), Refusal> {
    if is_null(reader)? {
        return Ok(());
    }
    let kind = reader.peek();
    if kind != Kind::List {
        return Err(wrong_type(field, "a list", kind));
    }
    let mut place: ReaderPosition = reader.enter();
    let mut index = 0;
    while reader.element(&mut place)? {
        take(reader).map_err(|refusal| match refusal.code {
            Code::TooMany => refusal,
            _ => refusal.within(field, index),
        })?;
        index += 1;
    }
    Ok(())
}

fn text<'b>(reader: &mut Reader<'b>, field: &str) -> Result<Cow<'b, str>, Refusal> {
    if is_null(reader)? {
        return Ok(Cow::Borrowed(""));
    }
    match reader.peek() {
        Kind::Text => reader.string(),
        kind => Err(wrong_type(field, "a string", kind)),
    }
}

/// A whole number, maybe in quotes; `None` for null.
fn number(reader: &mut Reader<'_>, field: &str, max: u64) -> Result<Option<u64>, Refusal> {
    if is_null(reader)? {
        return Ok(None);
    }
    let kind = reader.peek();
    let word = match kind {
        Kind::Number => Cow::Borrowed(reader.word()),
        Kind::Text => reader.string()?,
        _ => return Err(wrong_type(field, "a number", kind)),
    };
    let number = Decimal::parse(&word).and_then(Decimal::as_whole).filter(|number| *number <= max);
    number.map(Some).ok_or_else(|| {
        let message = format!("`{field}` must be a whole number from 0 to {max}, not {}", excerpt(&word));
        Refusal::of_field(Code::OutOfRange, field, message, "send a number within the range")
    })
}

fn truth(reader: &mut Reader<'_>, field: &str) -> Result<bool, Refusal> {
    if is_null(reader)? {
        return Ok(false);
    }
    let kind = reader.peek();
    match (kind, reader.invalid("a value should be here")) {
        (Kind::Boolean, invalid) => match reader.word() {
            "true" => Ok(true),
            "false" => Ok(false),
            _ => Err(invalid),
        },
        _ => Err(wrong_type(field, "true or false", kind)),
    }
}

/// Takes a null, if one is next.
fn is_null(reader: &mut Reader<'_>) -> Result<bool, Refusal> {
    if reader.peek() != Kind::Null {
        return Ok(false);
    }
    let invalid = reader.invalid("a value should be here");
    if reader.word() == "null" { Ok(true) } else { Err(invalid) }
}

#[cold]
fn wrong_type(field: &str, wanted: &str, found: Kind) -> Refusal {
    let message = format!("`{field}` must be {wanted}, not {}", found.name());
    Refusal::of_field(Code::WrongType, field, message, format!("send {wanted} as `{field}`"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn both_ways_of_writing_names_mean_the_same() {
        let camel = br#"{"domain":"d","hitsAddend":2,"descriptors":[{"entries":[{"key":"k","value":"v"}],
            "limit":{"requestsPerUnit":"5","unit":"DAY"},"hitsAddend":"0"}]}"#;
        let snake = br#"{"domain":"d","hits_addend":"2","descriptors":[{"entries":[{"key":"k","value":"v"}],
            "limit":{"requests_per_unit":5,"unit":4},"hits_addend":0}]}"#;
        let (camel, snake) = (JsonRequest::read(camel).unwrap(), JsonRequest::read(snake).unwrap());
        assert_eq!(camel.asked(), snake.asked());
        assert_eq!(camel.asked().descriptors[0].hits_addend, Some(0));
    }

    #[test]
    fn null_is_as_good_as_nothing() {
        let request = JsonRequest::read(br#"{"domain":null,"descriptors":null,"hitsAddend":null}"#).unwrap();
        assert_eq!(request.asked(), RateLimitRequest::default());
    }

    #[test]
    fn what_is_wrong_is_named() {
        let code = |body: &str| {
            let refusal = JsonRequest::read(body.as_bytes()).unwrap_err();
            (refusal.code, refusal.field.unwrap_or_default())
        };
        let cases = [
            ("", Code::EmptyBody, ""),
            ("}", Code::InvalidJson, ""),
            ("[]", Code::WrongType, ""),
            (r#"{"domian":"x"}"#, Code::UnknownField, "domian"),
            (r#"{"domain":"x","domain":"y"}"#, Code::DuplicateField, "domain"),
            (r#"{"domain":5}"#, Code::WrongType, "domain"),
            (r#"{"hitsAddend":-1}"#, Code::OutOfRange, "hits_addend"),
            (r#"{"hitsAddend":4294967296}"#, Code::OutOfRange, "hits_addend"),
            (r#"{"hitsAddend":1.5}"#, Code::OutOfRange, "hits_addend"),
            (
                r#"{"descriptors":[{"isNegativeHits":true}]}"#,
                Code::Unsupported,
                "descriptors[0].is_negative_hits",
            ),
            (r#"{"descriptors":{}}"#, Code::WrongType, "descriptors"),
            (
                r#"{"descriptors":[{"entries":[{"kay":"x"}]}]}"#,
                Code::UnknownField,
                "descriptors[0].entries[0].kay",
            ),
            (
                r#"{"descriptors":[{},{"limit":{"unit":"EON"}}]}"#,
                Code::UnknownValue,
                "descriptors[1].limit.unit",
            ),
        ];
        for (body, wanted, field) in cases {
            assert_eq!(code(body), (wanted, field.to_owned()), "{body}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_a_request_or_a_refusal(
            text in r#"(\{|\}|\[|\]|"domain"|"descriptors"|"entries"|"key"|"limit"|"unit"|:|,|1|null|"x"| ){0,30}"#
        ) {
            if let Ok(request) = JsonRequest::read(text.as_bytes()) {
                let _ = request.asked().descriptors();
            }
        }
    }
}
