//! What the limits of a request are called, for people: whose, of which rule, about whom.

use crate::request::{LimitAnswer, Origin, Request, Subject};
use crate::world::joined_name;
use std::sync::Arc;
use tidegate_rules::{Attributes, shown};

/// Whose limit it is, for people.
pub(crate) fn name_of(request: &Request<'_>, answer: &LimitAnswer<'_>) -> Arc<str> {
    let namespace = match (request.subject, answer.origin) {
        (Subject::Rules { namespace, .. } | Subject::Descriptors { namespace, .. }, _) => namespace,
        (Subject::Limits(limits), Origin::Given { index }) => {
            limits.get(index).map_or("", |given| given.namespace)
        }
        (Subject::Limits(_), Origin::Rule(_)) => "",
    };
    let rule = match answer.origin {
        Origin::Rule(rule) => &*rule.name,
        Origin::Given { .. } => "",
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
            let given = match answer.origin {
                Origin::Given { index } => limits.get(index),
                Origin::Rule(_) => None,
            };
            return given.map_or(String::new(), |given| shown(given.identifier).into_owned());
        }
    };
    match answer.origin {
        Origin::Rule(rule) => rule.shown_identifier(attributes),
        Origin::Given { .. } => {
            let parts = attributes.0.iter().map(|(name, value)| format!("{name}={}", shown(value)));
            parts.collect::<Vec<_>>().join(", ")
        }
    }
}
