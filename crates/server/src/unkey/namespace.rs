//! The overrides of one namespace, and which of them applies to an identifier.
//!
//! The exact one, else the pattern with the most literal characters, else the one whose text comes first. Patterns
//! are kept by what they begin with, so that of thousands only those are tried that begin like the identifier.

use super::overrides::Override;
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;
use tidegate_rules::Pattern;

#[derive(Clone, Debug, Default)]
pub(crate) struct Namespace {
    by_identifier: BTreeMap<Arc<str>, Override>,
    /// Those of them that are patterns, by what is before their first star; each list by precedence. Shared by the
    /// copies of a namespace.
    patterns: BTreeMap<Arc<str>, Arc<Vec<PatternOverride>>>,
    /// How many of them have a text between two stars, which an identifier is searched for.
    searching: usize,
}

#[derive(Clone, Debug)]
struct PatternOverride {
    pattern: Pattern,
    literal_chars: usize,
    applied: Override,
}

impl PatternOverride {
    /// The lower one wins.
    fn precedence(&self) -> (Reverse<usize>, &str) {
        (Reverse(self.literal_chars), self.pattern.text())
    }
}

impl Namespace {
    pub(super) fn len(&self) -> usize {
        self.by_identifier.len()
    }

    /// How many wildcards have a text between two stars.
    pub(super) fn searching(&self) -> usize {
        self.searching
    }

    /// The override that was set for exactly this text.
    pub(super) fn exactly(&self, identifier: &str) -> Option<&Override> {
        self.by_identifier.get(identifier)
    }

    /// The same, or the one that has this id.
    pub(super) fn named(&self, name: &str) -> Option<(&str, &Override)> {
        let by_identifier = self.by_identifier.get_key_value(name);
        let found = by_identifier.or_else(|| self.by_identifier.iter().find(|(_, found)| found.id() == name));
        found.map(|(identifier, found)| (&**identifier, found))
    }

    /// All from this identifier on, by the alphabet.
    pub(super) fn from(&self, identifier: &str) -> impl Iterator<Item = (&str, &Override)> {
        let from = (Bound::Included(identifier), Bound::Unbounded);
        self.by_identifier.range::<str, _>(from).map(|(identifier, found)| (&**identifier, found))
    }

    /// The override that applies to an identifier.
    #[inline]
    pub(super) fn applied_to(&self, identifier: &str) -> Option<&Override> {
        self.exactly(identifier).or_else(|| self.matching(identifier).map(|found| &found.applied))
    }

    /// Goes through the beginnings that the identifier has, the longest first. The greatest one up to a text is a
    /// beginning of it, or differs from it at a place beyond which none of its beginnings ends.
    fn matching(&self, identifier: &str) -> Option<&PatternOverride> {
        let mut best: Option<&PatternOverride> = None;
        let mut within = identifier;
        while let Some((start, patterns)) = self.up_to(within) {
            let shared = shared_bytes(start, within);
            if shared < start.len() {
                within = &within[..within.floor_char_boundary(shared)];
                continue;
            }
            let found = patterns.iter().find(|found| found.pattern.matches(identifier));
            best = best.into_iter().chain(found).min_by_key(|found| found.precedence());
            match start.chars().next_back() {
                Some(last) => within = &start[..start.len() - last.len_utf8()],
                None => break,
            }
        }
        best
    }

    fn up_to(&self, text: &str) -> Option<(&str, &[PatternOverride])> {
        let up_to = (Bound::Unbounded, Bound::Included(text));
        self.patterns.range::<str, _>(up_to).next_back().map(|(start, patterns)| (&**start, &***patterns))
    }

    pub(super) fn set(&mut self, identifier: &Arc<str>, to: &Override) {
        self.by_identifier.insert(identifier.clone(), to.clone());
        let Some(pattern) = Pattern::new(identifier) else { return };
        let literal_chars = pattern.literal_chars();
        let searching = usize::from(pattern.searches());
        let set = PatternOverride { pattern, literal_chars, applied: to.clone() };
        let patterns = Arc::make_mut(self.patterns.entry(set.pattern.start().into()).or_default());
        match patterns.binary_search_by(|known| known.precedence().cmp(&set.precedence())) {
            Ok(known) => patterns[known] = set,
            Err(place) => {
                patterns.insert(place, set);
                self.searching += searching;
            }
        }
    }

    /// Says whether it was there.
    pub(super) fn delete(&mut self, identifier: &str) -> bool {
        if let Some(pattern) = Pattern::new(identifier)
            && let Some(patterns) = self.patterns.get_mut(pattern.start()).map(Arc::make_mut)
        {
            let before = patterns.len();
            patterns.retain(|known| known.pattern != pattern);
            if pattern.searches() {
                self.searching -= before - patterns.len();
            }
            if patterns.is_empty() {
                self.patterns.remove(pattern.start());
            }
        }
        self.by_identifier.remove(identifier).is_some()
    }
}

fn shared_bytes(one: &str, other: &str) -> usize {
    one.bytes().zip(other.bytes()).take_while(|(one, other)| one == other).count()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use tidegate_core::{Limit, Nanos, Period};

    fn to() -> Override {
        Override::new(Limit::BLOCKED, Period::new(Nanos::from_secs(60)).unwrap())
    }

    proptest! {
        #[test]
        fn the_one_applies_that_the_definition_says(
            set in proptest::collection::vec("[abéè*]{1,5}", 0..40),
            deleted in proptest::collection::vec(any::<proptest::sample::Index>(), 0..10),
            identifiers in proptest::collection::vec("[abéè]{0,6}", 1..10),
        ) {
            let mut namespace = Namespace::default();
            let mut known = BTreeMap::new();
            for text in &set {
                namespace.set(&text.as_str().into(), &to());
                known.insert(text.clone(), namespace.exactly(text).unwrap().id().to_owned());
            }
            for index in deleted.iter().filter(|_| !set.is_empty()) {
                let text = index.get(&set);
                prop_assert_eq!(namespace.delete(text), known.remove(text).is_some());
            }
            prop_assert_eq!(namespace.len(), known.len());
            let searching = known.keys().filter_map(|text| Pattern::new(text)).filter(Pattern::searches);
            prop_assert_eq!(namespace.searching(), searching.count());
            for identifier in &identifiers {
                let fits = |text: &&String| Pattern::new(text).is_some_and(|pattern| pattern.matches(identifier));
                let literal = |text: &String| text.chars().filter(|character| *character != '*').count();
                let first = known.keys().filter(fits).min_by_key(|text| (Reverse(literal(text)), text.as_str()));
                let wanted = known.get(identifier).or_else(|| known.get(first?));
                let found = namespace.applied_to(identifier).map(|found| found.id().to_owned());
                prop_assert_eq!(found.as_ref(), wanted, "{} of {:?}", identifier, known);
            }
        }
    }
}
