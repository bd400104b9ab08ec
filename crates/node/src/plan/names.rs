//! What the limits of a request are called, for people: whose, of which rule, about whom.

use crate::request::{LimitAnswer, LimitSource, Request, Subject};
use crate::world::joined_name;
use std::sync::Arc;
use tidegate_rules::{Attributes, shown};

/// Whose limit it is, for people.
pub(crate) fn name_of(request: &Request<'_>, answer: &LimitAnswer<'_>) -> Arc<str> {
    let namespace = match (request.subject, answer.source) {
        (Subject::Rules { namespace, .. } | Subject::Descriptors { namespace, .. }, _) => namespace,
        (Subject::Limits(limits), LimitSource::Given { index }) => {
            limits.get(index).map_or("", |given| given.namespace)
        }
        (Subject::Limits(_), LimitSource::Rule(_)) => "",
    };
    let rule = match answer.source {
        LimitSource::Rule(rule) => &*rule.name,
        LimitSource::Given { .. } => "",
    };
    joined_name(request.tenant, namespace, rule, &identifier_of(request, answer))
}

/// Whom a limit is about, as people see it.
pub(crate) fn identifier_of(request: &Request<'_>, answer: &LimitAnswer<'_>) -> String {
    let attributes = match request.subject {
        Subject::Rules { attributes, .. } => attributes,
        Subject::Descriptors { descriptors, .. } => {
            let found = descriptors.get(usize::from(answer.descriptor));
            found.map_or(Attributes(&[]), |found| found.attributes)
        }
        Subject::Limits(limits) => {
            let given = match answer.source {
                LimitSource::Given { index } => limits.get(index),
                LimitSource::Rule(_) => None,
            };
            return given.map_or(String::new(), |given| shown(given.identifier).into_owned());
        }
    };
    match answer.source {
        LimitSource::Rule(rule) => rule.shown_identifier(attributes),
        LimitSource::Given { .. } => {
            let parts = attributes.0.iter().map(|(name, value)| format!("{name}={}", shown(value)));
            parts.collect::<Vec<_>>().join(", ")
        }
    }
}
