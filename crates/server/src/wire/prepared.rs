//! A body as the engine takes it: borrowed, and valid.

use crate::refusal::Refusal;
use crate::wire::body::Body;
use crate::wire::field::{Field, Form, missing};
use crate::wire::policy::Use;
use smallvec::SmallVec;
use tidegate_core::Cost;
use tidegate_node::{GivenLimit, Subject};
use tidegate_rules::Attributes;

#[derive(Debug)]
pub(crate) enum PreparedCall<'a> {
    Rules { namespace: &'a str, attributes: SmallVec<[(&'a str, &'a str); 4]>, cost: Cost },
    Limits(SmallVec<[GivenLimit<'a>; 2]>),
}

impl<'a> PreparedCall<'a> {
    pub(crate) fn new(body: &'a Body<'_>, form: Form, needed_for: Use) -> Result<Self, Refusal> {
        let form = if form == Form::Any { body.form()? } else { form };
        match form {
            Form::Check => PreparedCall::rules(body),
            Form::LimitMany => PreparedCall::many(body, needed_for),
            Form::Limit | Form::Any => {
                let mut limits = SmallVec::new();
                limits.push(body.single.given(needed_for)?);
                Ok(PreparedCall::Limits(limits))
            }
        }
    }

    fn rules(body: &'a Body<'_>) -> Result<Self, Refusal> {
        let namespace = body.single.namespace.as_deref();
        let namespace =
            namespace.ok_or_else(|| missing(Field::Namespace, "name the namespace whose rules apply"))?;
        let attributes = body.attributes.as_ref().ok_or_else(|| {
            missing(
                Field::Attributes,
                "send who asks for what, such as {\"user\":\"42\"}; {} when there is nothing",
            )
        })?;
        Ok(PreparedCall::Rules {
            namespace,
            attributes: attributes.iter().map(|(name, value)| (&**name, &**value)).collect(),
            cost: body.single.cost.unwrap_or(Cost::ONE),
        })
    }

    fn many(body: &'a Body<'_>, needed_for: Use) -> Result<Self, Refusal> {
        let limits = body
            .limits
            .as_ref()
            .ok_or_else(|| missing(Field::Limits, "send a list of 1 to 100 limits, each as for /v1/limit"))?;
        let given = |(index, limit): (usize, &'a super::limit_fields::LimitFields<'_>)| {
            limit.given(needed_for).map_err(|refusal| refusal.within_limit(index))
        };
        limits.iter().enumerate().map(given).collect::<Result<_, _>>().map(PreparedCall::Limits)
    }

    pub(crate) fn subject(&self) -> Subject<'_> {
        match self {
            PreparedCall::Rules { namespace, attributes, cost } => {
                Subject::Rules { namespace, attributes: Attributes(attributes), cost: *cost }
            }
            PreparedCall::Limits(limits) => Subject::Limits(limits),
        }
    }
}
