//! Conditions: which values of which attributes a rule is for.
//!
//! All attributes must match, each by any of its values. Exact values are sorted and found by bisection, so
//! a list of a thousand costs ten comparisons.

use crate::address::{Cidr, parse_address};
use crate::bounds::{BYTES_PER_UNIT, CONDITION_COST, NETWORKS_PER_UNIT};
use crate::form::{Forms, Value, Values};
use crate::pattern::Pattern;

/// A rule's `when`.
#[derive(Debug, Default)]
pub(crate) struct Conditions(pub(crate) Box<[Condition]>);

/// What one attribute must be.
#[derive(Debug)]
pub(crate) struct Condition {
    pub(crate) attribute: Box<str>,
    pub(crate) values: ValueSet,
}

#[derive(Debug, Default)]
pub(crate) struct ValueSet {
    exact: Vec<Box<str>>,
    patterns: Vec<Pattern>,
    /// The beginnings that patterns such as `/search*` ask for, sorted; none begins with another.
    starts: Vec<Box<str>>,
    /// The positions of all other patterns.
    compared: Vec<usize>,
    networks: Vec<Cidr>,
}

/// Whether a rule applies to a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum ConditionMatch<'s> {
    Yes,
    No,
    /// What there is matches, but this attribute is absent.
    Missing(&'s str),
    /// What there is matches, but the value of this attribute isn't an address: whether it would match is unknown.
    Malformed(&'s str),
}

impl Conditions {
    /// An attribute that is there and doesn't match outweighs one that is absent: the rule isn't meant.
    pub(crate) fn hold(&self, values: Values<'_>) -> ConditionMatch<'_> {
        let mut holds = ConditionMatch::Yes;
        for condition in &self.0 {
            match values.get(&condition.attribute) {
                Some(Value::Formed(value) | Value::Malformed(value)) if condition.values.contains(value) => {}
                Some(Value::Formed(_)) => return ConditionMatch::No,
                Some(Value::Malformed(_)) if holds == ConditionMatch::Yes => {
                    holds = ConditionMatch::Malformed(&condition.attribute);
                }
                Some(Value::Malformed(_)) => {}
                None if matches!(holds, ConditionMatch::Missing(_)) => {}
                None => holds = ConditionMatch::Missing(&condition.attribute),
            }
        }
        holds
    }

    /// Brings the values into the forms that a request's values will have.
    pub(crate) fn set_forms(&mut self, forms: &Forms) {
        for condition in &mut self.0 {
            let form = forms.of(&condition.attribute);
            let values = &mut condition.values;
            values.exact.iter_mut().for_each(|exact| *exact = form.normal(exact));
            for pattern in &mut values.patterns {
                let text = form.pattern(pattern.text());
                if let Some(formed) = Pattern::new(&text).filter(|formed| formed != &*pattern) {
                    *pattern = formed;
                }
            }
            values.seal();
        }
    }

    /// What a request costs that it holds for or not, at most, but for looking attributes up.
    pub(crate) fn cost(&self) -> usize {
        self.0.iter().map(|condition| condition.values.cost()).sum()
    }

    pub(crate) fn attributes(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(|condition| &*condition.attribute)
    }

    /// Whether a value of an attribute could ever reach the rule.
    pub(crate) fn admit(&self, attribute: &str, value: &str) -> bool {
        let of_attribute = self.0.iter().find(|condition| &*condition.attribute == attribute);
        of_attribute.is_none_or(|condition| condition.values.contains(value))
    }
}

impl ValueSet {
    /// Whether any of them is a network, which only an address can be in.
    pub(crate) fn has_networks(&self) -> bool {
        !self.networks.is_empty()
    }

    pub(crate) fn add_exact(&mut self, value: &str) {
        self.exact.push(value.into());
    }

    pub(crate) fn add_pattern(&mut self, pattern: Pattern) {
        self.patterns.push(pattern);
    }

    pub(crate) fn add_network(&mut self, network: Cidr) {
        self.networks.push(network);
    }

    /// To be called once all values are in.
    pub(crate) fn seal(&mut self) {
        self.exact.sort_unstable();
        self.exact.dedup();
        let starts = self.patterns.iter().filter_map(Pattern::only_start);
        self.starts = starts.map(Into::into).collect();
        self.starts.sort_unstable();
        // What begins with an earlier one follows it, and asks for nothing that it doesn't.
        self.starts.dedup_by(|later, earlier| later.starts_with(&**earlier));
        let others = self.patterns.iter().enumerate().filter(|(_, pattern)| pattern.only_start().is_none());
        self.compared = others.map(|(position, _)| position).collect();
    }

    /// What comparing one value with all of them takes, at most.
    fn cost(&self) -> usize {
        let bisecting = bisection_cost(&self.exact).max(1) + bisection_cost(&self.starts);
        CONDITION_COST * bisecting
            + self.compared.iter().map(|position| self.patterns[*position].cost()).sum::<usize>()
            + self.networks.len() / NETWORKS_PER_UNIT
    }

    /// Whether it begins with one of the beginnings: of those, only the last that isn't greater can be one.
    fn has_start(&self, value: &str) -> bool {
        let behind = self.starts.partition_point(|start| **start <= *value);
        behind.checked_sub(1).is_some_and(|last| value.starts_with(&*self.starts[last]))
    }

    pub(crate) fn contains(&self, value: &str) -> bool {
        self.exact.binary_search_by(|exact| (**exact).cmp(value)).is_ok()
            || (!self.starts.is_empty() && self.has_start(value))
            || self.compared.iter().any(|position| self.patterns[*position].matches(value))
            || self.contains_address(value)
    }

    fn contains_address(&self, value: &str) -> bool {
        if self.networks.is_empty() {
            return false;
        }
        parse_address(value)
            .is_some_and(|address| self.networks.iter().any(|network| network.contains(address)))
    }

    /// Every value as text: exact ones, then patterns, then networks.
    pub(crate) fn texts(&self) -> impl Iterator<Item = String> {
        let exact = self.exact.iter().map(|value| value.to_string());
        let patterns = self.patterns.iter().map(|pattern| pattern.text().to_owned());
        exact.chain(patterns).chain(self.networks.iter().map(Cidr::to_string))
    }
}

/// Each step compares one of the sorted texts, line by line of the memory that it is in.
fn bisection_cost(sorted: &[Box<str>]) -> usize {
    let longest = sorted.iter().map(|text| text.len()).max().unwrap_or(0);
    let steps = sorted.len().checked_ilog2().map_or(0, |power| power as usize + 1);
    steps * (1 + longest / BYTES_PER_UNIT)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_set_contains_what_any_of_its_patterns_matches(
            patterns in prop::collection::vec("[ab*]{0,4}\\*[ab]{0,1}", 0..8),
            value in "[abc]{0,6}",
        ) {
            let mut set = ValueSet::default();
            let patterns: Vec<Pattern> = patterns.iter().filter_map(|text| Pattern::new(text)).collect();
            patterns.iter().for_each(|pattern| set.add_pattern(pattern.clone()));
            set.seal();
            prop_assert_eq!(set.contains(&value), patterns.iter().any(|pattern| pattern.matches(&value)));
        }
    }
}
