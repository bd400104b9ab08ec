//! The fields of one limit, as given; what they mean together is `policy.rs`'s.

use crate::json::read::{Kind, Reader};
use crate::refusal::Refusal;
use crate::wire::field::{Field, FieldSet, Form};
use crate::wire::rate::rate;
use crate::wire::value::{Range, choice, identifier, text, whole_number, wrong_type};
use std::borrow::Cow;
use tidegate_core::{Accuracy, Burst, Class, Cost, Limit, Nanos, OutOfRange, Period, Rate};
use tidegate_node::request::NAMESPACE_CHARS_MAX;
use tidegate_rules::Scope;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Algorithm {
    Sliding,
    Fixed,
}

const ALGORITHMS: [(&str, Algorithm); 2] = [("sliding", Algorithm::Sliding), ("fixed", Algorithm::Fixed)];
const ACCURACIES: [(&str, Accuracy); 4] = [
    ("fast", Accuracy::Fast),
    ("bounded", Accuracy::Bounded),
    ("exact", Accuracy::Exact),
    ("async", Accuracy::Async),
];
const CLASSES: [(&str, Class); 3] = [("paid", Class::Paid), ("free", Class::Free), ("abuse", Class::Abuse)];
const SCOPES: [(&str, Scope); 2] = [("region", Scope::Region), ("world", Scope::World)];

#[derive(Clone, Debug, Default)]
pub(crate) struct LimitFields<'b> {
    pub namespace: Option<Cow<'b, str>>,
    pub identifier: Option<Cow<'b, str>>,
    pub limit: Option<Limit>,
    pub period: Option<Period>,
    pub rate: Option<Rate>,
    pub burst: Option<Burst>,
    pub algorithm: Option<Algorithm>,
    pub cost: Option<Cost>,
    pub accuracy: Accuracy,
    pub class: Class,
    pub scope: Option<Scope>,
}

impl<'b> LimitFields<'b> {
    /// One element of `limits`.
    pub(crate) fn read(reader: &mut Reader<'b>) -> Result<Self, Refusal> {
        let kind = reader.peek();
        if matches!(kind, Kind::Other | Kind::End) {
            return Err(reader.invalid("an object should be here"));
        }
        if kind != Kind::Object {
            let mut refusal = wrong_type("limits", "an object", kind);
            // The place is the element itself, not a field of it.
            refusal.field = None;
            return Err(refusal);
        }
        let mut fields = LimitFields::default();
        let mut given = FieldSet::default();
        let mut place = reader.enter();
        while let Some(name) = reader.member(&mut place)? {
            let field = Form::Limit.field(&name)?;
            given.add(field)?;
            fields.set(field, reader)?;
        }
        Ok(fields)
    }

    /// Reads the value of one field.
    #[inline]
    pub(crate) fn set(&mut self, field: Field, reader: &mut Reader<'b>) -> Result<(), Refusal> {
        match field {
            Field::Namespace => self.namespace = Some(text(reader, field.name(), NAMESPACE_CHARS_MAX)?),
            Field::Identifier => self.identifier = Some(identifier(reader, field.name())?),
            Field::Limit => self.limit = Some(count(reader, field, Limit::new)?),
            Field::Burst => self.burst = Some(count(reader, field, Burst::new)?),
            Field::Cost => self.cost = Some(count(reader, field, Cost::new)?),
            Field::DurationMs => self.period = Some(period(reader)?),
            Field::RatePerS => self.rate = Some(rate(reader)?),
            Field::Algorithm => self.algorithm = Some(choice(reader, field, &ALGORITHMS)?),
            Field::Accuracy => self.accuracy = choice(reader, field, &ACCURACIES)?,
            Field::Class => self.class = choice(reader, field, &CLASSES)?,
            Field::Scope => self.scope = Some(choice(reader, field, &SCOPES)?),
            Field::Attributes | Field::Limits => unreachable!("no form of one limit has them"),
        }
        Ok(())
    }
}

fn count<T>(
    reader: &mut Reader<'_>,
    field: Field,
    make: fn(u64) -> Result<T, OutOfRange>,
) -> Result<T, Refusal> {
    make(whole_number(reader, field.name(), Range::COUNT)?).map_err(|error| out_of_range(field, error))
}

fn period(reader: &mut Reader<'_>) -> Result<Period, Refusal> {
    let millis = whole_number(reader, Field::DurationMs.name(), Range::DURATION_MS)?;
    Period::new(Nanos::from_millis(millis)).map_err(|error| out_of_range(Field::DurationMs, error))
}

/// The ranges above are core's own, so that a number outside of them is refused before; what is left is how two fit
/// together.
#[cold]
pub(crate) fn out_of_range(field: Field, error: OutOfRange) -> Refusal {
    let code = crate::refusal::Code::OutOfRange;
    Refusal::of_field(code, field.name(), error.to_string(), "use a number within the range")
}
