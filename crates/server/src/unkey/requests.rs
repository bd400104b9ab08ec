//! Bodies of Unkey's requests, within its bounds.
//!
//! Unkey's numbers go up to 2^63 - 1; ours to 2^53, beyond which JavaScript can't count. What is larger counts as
//! 2^53: so large a cost passes no smaller limit, and so large a limit is never reached by counting.

use crate::json::object::{object, unknown};
use crate::json::read::{Kind, Reader};
use crate::refusal::{Code, Refusal};
use crate::wire::{Range, text, whole_number};
use smallvec::SmallVec;
use std::borrow::Cow;
use tidegate_core::batch::ITEMS_MAX;
use tidegate_core::limit::NUMBER_MAX;
use tidegate_core::{Cost, Limit, Nanos, OutOfRange, Period};
use tidegate_node::request::{GIVEN_NAMESPACE_CHARS_MAX, IDENTIFIER_CHARS_MAX};

/// The largest number of Unkey's.
const INTEGER_MAX: u64 = (1 << 63) - 1;
const SECOND_MS: u64 = 1000;
const DAY_MS: u64 = 86_400_000;
const PAGE_DEFAULT: u64 = 10;
const PAGE_MAX: u64 = 100;

/// Which fields a body may have, and what its numbers may be.
struct Form {
    known: &'static [&'static str],
    limit: Range,
    duration_ms: Range,
}

const CHECK: Form = Form {
    known: &["namespace", "identifier", "limit", "duration", "cost"],
    limit: Range { min: 1, max: INTEGER_MAX },
    duration_ms: Range { min: SECOND_MS, max: 30 * DAY_MS },
};
const SETTING: Form = Form {
    known: &["namespace", "identifier", "limit", "duration"],
    limit: Range { min: 0, max: INTEGER_MAX },
    // Unkey names no longest one; this is the engine's.
    duration_ms: Range { min: SECOND_MS, max: 366 * DAY_MS },
};
const TARGET: Form = Form { known: &["namespace", "identifier"], ..SETTING };
const LISTING: Form =
    Form { known: &["namespace", "cursor", "limit"], limit: Range { min: 1, max: PAGE_MAX }, ..SETTING };

/// One limit to be checked.
#[derive(Debug)]
pub(super) struct Check<'b> {
    pub(super) named: LimitTarget<'b>,
    pub(super) limit: Limit,
    pub(super) period: Period,
    pub(super) cost: Cost,
}

/// The namespace and the identifier that a request is about.
#[derive(Debug)]
pub(super) struct LimitTarget<'b> {
    pub(super) namespace: Cow<'b, str>,
    pub(super) identifier: Cow<'b, str>,
}

/// An override to be set.
#[derive(Debug)]
pub(super) struct OverrideSetting<'b> {
    pub(super) named: LimitTarget<'b>,
    pub(super) limit: Limit,
    pub(super) period: Period,
}

/// A page of overrides to be shown.
#[derive(Debug)]
pub(super) struct OverrideListing<'b> {
    pub(super) namespace: Cow<'b, str>,
    pub(super) cursor: Option<Cow<'b, str>>,
    pub(super) count_max: usize,
}

pub(super) type Checks<'b> = SmallVec<[Check<'b>; 1]>;

/// The body of `limit`.
pub(super) fn one_check(body: &[u8]) -> Result<Checks<'_>, Refusal> {
    Ok(SmallVec::from_iter([whole(body, &CHECK)?.check()?]))
}

/// The body of `multiLimit`: 1 to 100 checks.
pub(super) fn many_checks(body: &[u8]) -> Result<Checks<'_>, Refusal> {
    let mut reader = Reader::new(body)?;
    match reader.peek() {
        Kind::List => {}
        Kind::Other | Kind::End => return Err(reader.invalid("a list of limits should be here")),
        kind => {
            let message = format!("the body must be a list of limits, not {}", kind.name());
            return Err(Refusal::new(Code::WrongType, message, "send the limits in brackets, one or more"));
        }
    }
    let mut checks = Checks::new();
    let mut place = reader.enter();
    while reader.element(&mut place)? {
        if checks.len() == ITEMS_MAX {
            return Err(wrong_count("more than 100"));
        }
        let check = Fields::read(&mut reader, "a limit", &CHECK).and_then(Fields::check);
        checks.push(check.map_err(|refusal| refusal.within("", checks.len()))?);
    }
    reader.finish()?;
    if checks.is_empty() { Err(wrong_count("none")) } else { Ok(checks) }
}

impl<'b> LimitTarget<'b> {
    /// The body of `getOverride` and `deleteOverride`.
    pub(super) fn read(body: &'b [u8]) -> Result<Self, Refusal> {
        whole(body, &TARGET)?.named()
    }
}

impl<'b> OverrideSetting<'b> {
    pub(super) fn read(body: &'b [u8]) -> Result<Self, Refusal> {
        let mut fields = whole(body, &SETTING)?;
        Ok(OverrideSetting { named: fields.named()?, limit: fields.limit()?, period: fields.period()? })
    }
}

impl<'b> OverrideListing<'b> {
    pub(super) fn read(body: &'b [u8]) -> Result<Self, Refusal> {
        let mut fields = whole(body, &LISTING)?;
        let count_max = usize::try_from(fields.limit.unwrap_or(PAGE_DEFAULT)).unwrap_or(1);
        Ok(OverrideListing { namespace: fields.namespace()?, cursor: fields.cursor, count_max })
    }
}

/// The fields of an object, as given.
#[derive(Debug, Default)]
struct Fields<'b> {
    namespace: Option<Cow<'b, str>>,
    identifier: Option<Cow<'b, str>>,
    limit: Option<u64>,
    duration_ms: Option<u64>,
    cost: Option<u64>,
    cursor: Option<Cow<'b, str>>,
}

/// A body that is one object.
fn whole<'b>(body: &'b [u8], form: &Form) -> Result<Fields<'b>, Refusal> {
    let mut reader = Reader::new(body)?;
    let fields = Fields::read(&mut reader, "the body", form)?;
    reader.finish()?;
    Ok(fields)
}

impl<'b> Fields<'b> {
    fn read(reader: &mut Reader<'b>, what: &str, form: &Form) -> Result<Self, Refusal> {
        const COST: Range = Range { min: 0, max: INTEGER_MAX };
        let mut fields = Fields::default();
        object(reader, what, |reader, name| {
            if !form.known.contains(&name) {
                return Err(unknown(name, form.known));
            }
            match name {
                "namespace" => fields.namespace = Some(text(reader, name, GIVEN_NAMESPACE_CHARS_MAX)?),
                "identifier" => fields.identifier = Some(text(reader, name, IDENTIFIER_CHARS_MAX)?),
                "limit" => fields.limit = Some(whole_number(reader, name, form.limit)?),
                "duration" => fields.duration_ms = Some(whole_number(reader, name, form.duration_ms)?),
                "cost" => fields.cost = Some(whole_number(reader, name, COST)?),
                _ => fields.cursor = Some(text(reader, name, IDENTIFIER_CHARS_MAX)?),
            }
            Ok(())
        })?;
        Ok(fields)
    }

    fn check(mut self) -> Result<Check<'b>, Refusal> {
        let cost = Cost::new(self.cost.unwrap_or(1).min(NUMBER_MAX)).map_err(out_of_range)?;
        Ok(Check { named: self.named()?, limit: self.limit()?, period: self.period()?, cost })
    }

    fn named(&mut self) -> Result<LimitTarget<'b>, Refusal> {
        let identifier = self.identifier.take().ok_or_else(|| missing("identifier", "\"user_42\""));
        Ok(LimitTarget { namespace: self.namespace()?, identifier: identifier? })
    }

    fn namespace(&mut self) -> Result<Cow<'b, str>, Refusal> {
        self.namespace.take().ok_or_else(|| missing("namespace", "\"api.requests\""))
    }

    fn limit(&self) -> Result<Limit, Refusal> {
        let limit = self.limit.ok_or_else(|| missing("limit", "100"))?;
        Limit::new(limit.min(NUMBER_MAX)).map_err(out_of_range)
    }

    fn period(&self) -> Result<Period, Refusal> {
        let millis = self.duration_ms.ok_or_else(|| missing("duration", "60000, in milliseconds"))?;
        Period::new(Nanos::from_millis(millis)).map_err(out_of_range)
    }
}

#[cold]
fn missing(name: &str, such_as: &str) -> Refusal {
    Refusal::of_field(Code::MissingField, name, format!("`{name}` is missing"), format!("send {such_as}"))
}

/// The ranges above are within core's own, so this is only for the day that they no longer are.
#[cold]
fn out_of_range(error: OutOfRange) -> Refusal {
    Refusal::new(Code::OutOfRange, error.to_string(), "use a number within the range")
}

#[cold]
fn wrong_count(found: &str) -> Refusal {
    let message = format!("the body has {found}; a request takes 1 to {ITEMS_MAX} limits");
    Refusal::new(Code::TooMany, message, "send 1 to 100; split more over requests")
}

#[cfg(test)]
mod tests;
