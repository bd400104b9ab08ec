//! What one request of a namespace may cost: it is compared with all rules, and looked up among their overrides. A
//! set in which that takes over a millisecond is refused.

use super::cursor::Cursor;
use crate::bounds::{NAMES_PER_UNIT, NAMESPACE_COST_MAX};
use crate::error::{Problems, Refusal};
use crate::overrides::{PartMatch, PatternCost};
use crate::rule::Rule;
use std::collections::HashSet;

pub(crate) const OVERRIDE_MESSAGE: &str =
    "with this override, comparing one request with the namespace's patterns may take over 1 ms";
pub(crate) const OVERRIDE_FIX: &str =
    "write overrides for single callers, or with one `*` in a value, or spread them over namespaces";

#[derive(Default)]
pub(crate) struct Cost {
    conditions: usize,
    values: usize,
    /// The attributes that rules name: a request has 64 at most.
    attributes: HashSet<Box<str>>,
    /// Of each rule, by its position.
    overrides: PatternCost,
}

impl Cost {
    pub(crate) fn of_rules<'r>(rules: impl Iterator<Item = &'r Rule>) -> Self {
        let mut cost = Cost::default();
        rules.for_each(|rule| cost.take_rule(rule));
        cost
    }

    fn take_rule(&mut self, rule: &Rule) {
        self.conditions += rule.when.0.len();
        self.values += rule.when.cost();
        let key = rule.key.iter().map(|part| &*part.attribute);
        for attribute in rule.when.attributes().chain(key) {
            if !self.attributes.contains(attribute) {
                self.attributes.insert(attribute.into());
            }
        }
    }

    pub(crate) fn take_override(&mut self, rule: usize, parts: &[PartMatch]) {
        self.overrides.add(rule, parts);
    }

    pub(crate) fn total(&self) -> usize {
        let names = self.attributes.len().min(64) / NAMES_PER_UNIT;
        self.values + self.conditions * names + self.overrides.total()
    }

    pub(crate) fn add_rule(&mut self, at: &Cursor<'_, '_>, rule: &Rule, problems: &mut Problems) {
        let before = self.total();
        self.take_rule(rule);
        if before <= NAMESPACE_COST_MAX && self.total() > NAMESPACE_COST_MAX {
            let message =
                "with this rule, comparing one request with the namespace's conditions may take over 1 ms";
            let fix =
                "write exact values or patterns with one `*` at the end, or spread the rules over namespaces";
            at.refuse(problems, Refusal::new(message, fix));
        }
    }

    pub(crate) fn add_override(
        &mut self,
        at: &Cursor<'_, '_>,
        rule: usize,
        parts: &[PartMatch],
        problems: &mut Problems,
    ) {
        let before = self.total();
        self.take_override(rule, parts);
        if before <= NAMESPACE_COST_MAX && self.total() > NAMESPACE_COST_MAX {
            at.refuse(problems, Refusal::new(OVERRIDE_MESSAGE, OVERRIDE_FIX));
        }
    }
}
