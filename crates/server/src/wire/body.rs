//! A whole body: one object, whose fields the form allows.

use crate::json::read::{Kind, Reader};
use crate::refusal::{Code, Refusal};
use crate::wire::attributes::{AttributeList, attributes};
use crate::wire::field::{Field, FieldSet, Form};
use crate::wire::limit_fields::LimitFields;
use crate::wire::value::wrong_type;
use tidegate_core::batch::ITEMS_MAX;

#[derive(Debug)]
pub(crate) struct Body<'b> {
    /// The limit of a body of one; of a check, its namespace and cost.
    pub single: LimitFields<'b>,
    pub attributes: Option<AttributeList<'b>>,
    pub limits: Option<Vec<LimitFields<'b>>>,
    pub given: FieldSet,
}

impl<'b> Body<'b> {
    pub(crate) fn read(bytes: &'b [u8], form: Form) -> Result<Self, Refusal> {
        let mut reader = Reader::new(bytes)?;
        let kind = reader.peek();
        if kind != Kind::Object {
            return Err(not_an_object(kind, &reader));
        }
        let mut body = Body {
            single: LimitFields::default(),
            attributes: None,
            limits: None,
            given: FieldSet::default(),
        };
        let mut place = reader.enter();
        while let Some(name) = reader.member(&mut place)? {
            let field = form.field(&name)?;
            body.given.add(field)?;
            match field {
                Field::Attributes => body.attributes = Some(attributes(&mut reader)?),
                Field::Limits => body.limits = Some(limits(&mut reader)?),
                _ => body.single.set(field, &mut reader)?,
            }
        }
        reader.finish()?;
        Ok(body)
    }

    /// Which of the forms a body is that may be any; refuses one that is of two.
    pub(crate) fn form(&self) -> Result<Form, Refusal> {
        let form = match (&self.limits, &self.attributes) {
            (Some(_), _) => Form::LimitMany,
            (None, Some(_)) => Form::Check,
            (None, None) => Form::Limit,
        };
        let distinct = match form {
            Form::LimitMany => Field::Limits,
            _ => Field::Attributes,
        };
        match self.given.first_outside(form) {
            None => Ok(form),
            Some(field) => {
                let message = format!("`{}` doesn't go with `{}`", field.name(), distinct.name());
                let fix = format!("leave out `{}` or `{}`", field.name(), distinct.name());
                Err(Refusal::of_field(Code::ConflictingFields, field.name(), message, fix))
            }
        }
    }
}

#[cold]
fn not_an_object(kind: Kind, reader: &Reader<'_>) -> Refusal {
    if kind == Kind::Other {
        return reader.invalid("a JSON object should be here");
    }
    let message = format!("the body must be a JSON object, not {}", kind.name());
    Refusal::new(Code::WrongType, message, "send an object, such as {\"namespace\":\"api\",…}")
}

fn limits<'b>(reader: &mut Reader<'b>) -> Result<Vec<LimitFields<'b>>, Refusal> {
    let kind = reader.peek();
    if kind != Kind::List {
        return Err(wrong_type(Field::Limits.name(), "a list", kind));
    }
    let mut limits = Vec::new();
    let mut place = reader.enter();
    while reader.element(&mut place)? {
        if limits.len() == ITEMS_MAX {
            return Err(wrong_count("more than 100"));
        }
        limits.push(LimitFields::read(reader).map_err(|refusal| refusal.within_limit(limits.len()))?);
    }
    if limits.is_empty() { Err(wrong_count("none")) } else { Ok(limits) }
}

#[cold]
fn wrong_count(found: &str) -> Refusal {
    let message = format!("`limits` has {found}; a request takes 1 to {ITEMS_MAX}");
    Refusal::of_field(Code::TooMany, Field::Limits.name(), message, "send 1 to 100; split more over requests")
}
