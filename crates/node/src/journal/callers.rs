//! Whose keys decisions are about: written beside the hashes of the keys, so that a caller is found by any part of its
//! name.

use super::Journal;
use crate::plan::identifier_of;
use crate::request::{LimitAnswer, LimitSource, Request, Subject};
use tidegate_core::Item;
use tidegate_decisions::{Caller, KeyHash, PartTags, RuleId};
use tidegate_rules::{Attributes, identifier_values};

/// Callers of requests that wait, which are remembered.
const WAITING_MAX: usize = 4096;

/// How callers are written beside the hashes of their keys.
#[derive(Clone, Debug)]
pub struct CallerNames {
    pub tags: PartTags,
    /// Whether the log may have names.
    pub are_plain: bool,
}

impl Journal {
    /// Has callers written, so that they are found by parts of their names. Once, before the first decision.
    pub fn write_callers(&self, names: CallerNames) {
        // A second one would say the same.
        let _ = self.callers.set(names);
    }

    /// Remembers whose key it is while a request waits.
    pub(super) fn remember_caller(
        &self,
        request: &Request<'_>,
        answer: &LimitAnswer<'_>,
        item: &Item,
        rule: RuleId,
    ) {
        let key = KeyHash::of(item.key);
        if self.callers.get().is_none() || self.waiting.lock().contains_key(&key) {
            return;
        }
        let Some(caller) = self.caller(Some(request), answer, item, rule) else { return };
        let mut waiting = self.waiting.lock();
        if waiting.len() >= WAITING_MAX {
            waiting.clear();
        }
        waiting.insert(key, caller);
    }

    /// Whose key it is; `None` where the log has no callers, or nobody knows any more.
    pub(super) fn caller(
        &self,
        request: Option<&Request<'_>>,
        answer: &LimitAnswer<'_>,
        item: &Item,
        rule: RuleId,
    ) -> Option<Caller> {
        let names = self.callers.get()?;
        if RuleId::of_overflow(item.key) == rule {
            // Those that find no room share one key: it is nobody's.
            return None;
        }
        let Some(request) = request else { return self.waiting.lock().get(&KeyHash::of(item.key)).cloned() };
        let values: Vec<Box<str>> = match (answer.source, request.subject) {
            (LimitSource::Rule(rule), Subject::Rules { attributes, .. }) => {
                identifier_values(rule, attributes)?
            }
            (LimitSource::Rule(rule), Subject::Descriptors { descriptors, .. }) => {
                identifier_values(rule, descriptors.get(usize::from(answer.descriptor))?.attributes)?
            }
            (LimitSource::Given { index }, Subject::Limits(limits)) => {
                vec![limits.get(index)?.identifier.into()]
            }
            (LimitSource::Given { .. }, Subject::Rules { attributes, .. }) => values_of(attributes),
            (LimitSource::Given { .. }, Subject::Descriptors { descriptors, .. }) => {
                values_of(descriptors.get(usize::from(answer.descriptor))?.attributes)
            }
            (LimitSource::Rule(_), Subject::Limits(_)) => return None,
        };
        let name = names.are_plain.then(|| identifier_of(request, answer));
        Some(Caller { rule, parts: values.iter().map(|value| names.tags.tag(value)).collect(), name })
    }
}

/// What the keys of limits that Envoy's requests give are made of.
fn values_of(attributes: Attributes<'_>) -> Vec<Box<str>> {
    attributes.0.iter().map(|(_, value)| (*value).into()).collect()
}
