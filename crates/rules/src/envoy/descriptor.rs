//! One level of the tree: its descriptors, and which of them an entry of a request meets.
//!
//! The exact value first, then patterns in the order of the file, then the key without a value. Exact ones are
//! found by bisection, so a thousand values cost ten comparisons; patterns are tried one by one.

use super::limit::EnvoyLimit;
use crate::bounds::JOIN_COST;
use crate::parse::tree::SourcePosition;
use crate::pattern::Pattern;
use std::sync::Arc;

/// A key, or a key and a value, and what is below it.
#[derive(Debug)]
pub(crate) struct Descriptor {
    pub(crate) key: Box<str>,
    /// Empty: any value that no sibling with a value takes.
    pub(crate) value: Box<str>,
    pub(crate) wildcard: Option<Wildcard>,
    pub(crate) limit: Option<EnvoyLimit>,
    /// All values that meet it share one counter.
    pub(crate) shared: bool,
    pub(crate) value_to_metric: bool,
    pub(crate) below: Level,
    pub(crate) file: Arc<str>,
    pub(crate) place: SourcePosition,
}

/// Where a descriptor's `*` stands.
#[derive(Debug)]
pub(crate) enum Wildcard {
    InValue(Pattern),
    /// In the key, which theirs matches against key, `_` and value as one text. Nothing else could be meant.
    InKey(Pattern),
}

/// How an entry met its descriptor.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum MetBy {
    Value,
    Wildcard,
    /// The key alone.
    Key,
}

impl Descriptor {
    pub(crate) fn wildcard_of(key: &str, value: &str) -> Option<Wildcard> {
        if key.contains('*') {
            let joined = if value.is_empty() { key.to_owned() } else { format!("{key}_{value}") };
            return Pattern::new(&joined).map(Wildcard::InKey);
        }
        Pattern::new(value).map(Wildcard::InValue)
    }

    /// What comparing an entry with it may take, in the units of a namespace's bound.
    fn cost(&self) -> usize {
        match &self.wildcard {
            None => 0,
            Some(Wildcard::InValue(pattern)) => pattern.cost(),
            Some(Wildcard::InKey(pattern)) => JOIN_COST + pattern.cost(),
        }
    }

    fn takes(&self, key: &str, value: &str) -> bool {
        match &self.wildcard {
            None => false,
            Some(Wildcard::InValue(pattern)) => *self.key == *key && pattern.matches(value),
            Some(Wildcard::InKey(pattern)) => pattern.matches(&format!("{key}_{value}")),
        }
    }

    /// What stands for an entry's value where all values share a counter.
    pub(crate) fn shared_value(&self) -> &str {
        match &self.wildcard {
            Some(Wildcard::InKey(pattern)) => pattern.text(),
            _ => &self.value,
        }
    }

    fn name(&self) -> (&str, &str) {
        (&self.key, &self.value)
    }
}

#[derive(Debug, Default)]
pub(crate) struct Level {
    /// By key and value.
    descriptors: Box<[Descriptor]>,
    /// Positions of those with a `*`, in the order of the file.
    wildcards: Box<[usize]>,
    /// What comparing a request with this level, and with the dearest one below it, may take.
    cost: usize,
}

impl Level {
    /// Of descriptors in the order of the file, no two alike.
    pub(crate) fn new(in_file_order: Vec<Descriptor>) -> Self {
        let mut numbered: Vec<(usize, Descriptor)> = in_file_order.into_iter().enumerate().collect();
        numbered.sort_by(|(_, a), (_, b)| a.name().cmp(&b.name()));
        let with_wildcard = numbered.iter().enumerate().filter(|(_, (_, found))| found.wildcard.is_some());
        let mut wildcards: Vec<(usize, usize)> =
            with_wildcard.map(|(position, (in_file, _))| (*in_file, position)).collect();
        wildcards.sort_unstable();
        let own: usize = numbered.iter().map(|(_, descriptor)| descriptor.cost()).sum();
        let below = numbered.iter().map(|(_, descriptor)| descriptor.below.cost).max();
        Level {
            cost: own + below.unwrap_or(0),
            descriptors: numbered.into_iter().map(|(_, descriptor)| descriptor).collect(),
            wildcards: wildcards.into_iter().map(|(_, position)| position).collect(),
        }
    }

    pub(crate) fn cost(&self) -> usize {
        self.cost
    }

    /// In the order of the file.
    pub(crate) fn in_file_order(&self) -> Vec<&Descriptor> {
        let mut descriptors: Vec<&Descriptor> = self.descriptors.iter().collect();
        descriptors.sort_by_key(|descriptor| (descriptor.place.line, descriptor.place.column));
        descriptors
    }

    /// Those of one key, the one without a value first.
    pub(crate) fn of_key<'l>(&'l self, key: &'l str) -> impl Iterator<Item = &'l Descriptor> {
        let start = self.descriptors.partition_point(|descriptor| *descriptor.key < *key);
        self.descriptors[start..].iter().take_while(move |descriptor| *descriptor.key == *key)
    }

    /// Those with a `*`, in the order of the file.
    pub(crate) fn wildcards(&self) -> impl Iterator<Item = &Descriptor> {
        self.wildcards.iter().map(|position| &self.descriptors[*position])
    }

    pub(crate) fn find(&self, key: &str, value: &str) -> Option<(&Descriptor, MetBy)> {
        // An entry with an empty value never is an exact one: that is how the key alone is written.
        if !value.is_empty()
            && let Some(found) = self.named(key, value)
        {
            return Some((found, MetBy::Value));
        }
        if let Some(found) = self.wildcards().find(|descriptor| descriptor.takes(key, value)) {
            return Some((found, MetBy::Wildcard));
        }
        self.named(key, "").map(|found| (found, MetBy::Key))
    }

    fn named(&self, key: &str, value: &str) -> Option<&Descriptor> {
        let found = self.descriptors.binary_search_by(|descriptor| descriptor.name().cmp(&(key, value)));
        found.ok().map(|position| &self.descriptors[position])
    }
}
