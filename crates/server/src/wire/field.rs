//! The fields that a body may have, and which of them each form of request takes.

use crate::refusal::{Code, Refusal, excerpt};
use tidegate_rules::suggest::{nearest, remedy};

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Field {
    Namespace,
    Identifier,
    Attributes,
    Limits,
    Limit,
    DurationMs,
    RatePerS,
    Burst,
    Algorithm,
    Cost,
    Accuracy,
    Class,
    Scope,
}

impl Field {
    const ALL: [Field; 13] = [
        Field::Namespace,
        Field::Identifier,
        Field::Attributes,
        Field::Limits,
        Field::Limit,
        Field::DurationMs,
        Field::RatePerS,
        Field::Burst,
        Field::Algorithm,
        Field::Cost,
        Field::Accuracy,
        Field::Class,
        Field::Scope,
    ];

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Field::Namespace => "namespace",
            Field::Identifier => "identifier",
            Field::Attributes => "attributes",
            Field::Limits => "limits",
            Field::Limit => "limit",
            Field::DurationMs => "duration_ms",
            Field::RatePerS => "rate_per_s",
            Field::Burst => "burst",
            Field::Algorithm => "algorithm",
            Field::Cost => "cost",
            Field::Accuracy => "accuracy",
            Field::Class => "class",
            Field::Scope => "scope",
        }
    }

    const fn bit(self) -> u16 {
        1 << self as u16
    }
}

/// What a body may hold.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Form {
    Check,
    Limit,
    LimitMany,
    /// Any of the others: its fields tell which.
    Any,
}

impl Form {
    const fn fields(self) -> FieldSet {
        const CHECK: u16 = Field::Namespace.bit() | Field::Attributes.bit() | Field::Cost.bit();
        const ALL: u16 = (1 << Field::ALL.len()) - 1;
        match self {
            Form::Check => FieldSet(CHECK),
            Form::Limit => FieldSet(ALL & !Field::Attributes.bit() & !Field::Limits.bit()),
            Form::LimitMany => FieldSet(Field::Limits.bit()),
            Form::Any => FieldSet(ALL),
        }
    }

    pub(crate) fn field(self, name: &str) -> Result<Field, Refusal> {
        let known = |field: &Field| field.name() == name && self.fields().has(*field);
        Field::ALL.into_iter().find(known).ok_or_else(|| self.unknown(name))
    }

    #[cold]
    fn unknown(self, name: &str) -> Refusal {
        let known: Vec<&str> =
            Field::ALL.into_iter().filter(|field| self.fields().has(*field)).map(Field::name).collect();
        let message = format!("`{}` is not a field of this request", excerpt(name));
        let fix = match (self, nearest(name, known.iter().copied())) {
            // Attributes belong one level deeper, inside `attributes`.
            (Form::Check, None) => {
                format!("use one of: {}; what rules go by belongs into `attributes`", known.join(", "))
            }
            _ => remedy(name, &known),
        };
        Refusal::of_field(Code::UnknownField, excerpt(name), message, fix)
    }
}

/// Which fields a body had.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct FieldSet(u16);

impl FieldSet {
    pub(crate) const fn has(self, field: Field) -> bool {
        self.0 & field.bit() != 0
    }

    pub(crate) fn add(&mut self, field: Field) -> Result<(), Refusal> {
        if self.has(field) {
            return Err(duplicate(field.name()));
        }
        self.0 |= field.bit();
        Ok(())
    }

    /// One that the form doesn't take.
    pub(crate) fn first_outside(self, form: Form) -> Option<Field> {
        Field::ALL.into_iter().find(|field| self.has(*field) && !form.fields().has(*field))
    }
}

#[cold]
pub(crate) fn duplicate(name: &str) -> Refusal {
    let message = format!("`{}` is given twice", excerpt(name));
    Refusal::of_field(Code::DuplicateField, excerpt(name), message, "give it once")
}

#[cold]
pub(crate) fn missing(field: Field, fix: &str) -> Refusal {
    Refusal::of_field(Code::MissingField, field.name(), format!("`{}` is missing", field.name()), fix)
}
