//! Overrides: other numbers for one caller, or for those whose names match a pattern.
//!
//! One override applies to a caller, never a mix of several: the exact one, else the pattern with the most
//! literal characters, else the one whose text comes first, else the one that was written first. One that
//! has ended doesn't count. An exact one is found by the caller's hash, which is at hand anyway, so there
//! may be millions of them; patterns are found by what is literal in them.

mod index;

use crate::identifier::{Identifier, PartValue};
use crate::pattern::Pattern;
use index::PatternIndex;
use smallvec::SmallVec;
use std::cmp::Reverse;
use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use tidegate_core::{Burst, KeyId, Limit, Nanos, Rate};

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Change {
    /// The rule's own numbers: the override only marks.
    Keep,
    Unlimited,
    Limit(Limit),
    Rate {
        rate: Rate,
        burst: Burst,
    },
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Override {
    pub change: Change,
    pub hot: bool,
    /// The first instant at which it no longer counts; [`Nanos::MAX`] when it never ends.
    pub until: Nanos,
}

impl Override {
    pub(crate) fn is_live(&self, now: Nanos) -> bool {
        now < self.until
    }
}

/// What an override asks of one part of the identifier.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum PartMatch {
    Anything,
    Exact(Box<str>),
    Pattern(Pattern),
}

impl PartMatch {
    fn matches(&self, value: &PartValue<'_>) -> bool {
        match self {
            PartMatch::Anything => true,
            PartMatch::Exact(exact) => **exact == *value.as_str(),
            PartMatch::Pattern(pattern) => pattern.matches(value.as_str()),
        }
    }

    fn literal_chars(&self) -> usize {
        match self {
            PartMatch::Anything => 0,
            PartMatch::Exact(exact) => exact.chars().count(),
            PartMatch::Pattern(pattern) => pattern.literal_chars(),
        }
    }

    pub(crate) fn text(&self) -> &str {
        match self {
            PartMatch::Anything => "*",
            PartMatch::Exact(exact) => exact,
            PartMatch::Pattern(pattern) => pattern.text(),
        }
    }
}

#[derive(Debug)]
struct PatternOverride {
    parts: Box<[PartMatch]>,
    literal_chars: usize,
    applied: Override,
}

/// A key is a keyed hash already: its low half serves as it is.
#[derive(Clone, Copy, Default, Debug)]
struct KeyHasher(u64);

impl Hasher for KeyHasher {
    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = self.0.rotate_left(8) ^ u64::from(*byte);
        }
    }

    fn write_u128(&mut self, key: u128) {
        self.0 = u64::try_from(key & u128::from(u64::MAX)).unwrap_or(0);
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

type ExactOverrides = HashMap<KeyId, SmallVec<[Override; 1]>, BuildHasherDefault<KeyHasher>>;

/// All overrides of one rule.
#[derive(Debug, Default)]
pub(crate) struct Overrides {
    exact: ExactOverrides,
    /// By precedence once sealed.
    patterns: Vec<PatternOverride>,
    /// Of the patterns, where they are many.
    index: Option<PatternIndex>,
}

/// So many patterns are looked at faster than an index is asked.
const SCANNED_MAX: usize = 8;

impl Overrides {
    /// `false` when one that comes before it never ends, so that this one never applies.
    pub(crate) fn add_exact(&mut self, key: KeyId, applied: Override) -> bool {
        let earlier = self.exact.entry(key).or_default();
        let useful = earlier.iter().all(|other| other.until < applied.until);
        earlier.push(applied);
        useful
    }

    pub(crate) fn add_pattern(&mut self, parts: Box<[PartMatch]>, applied: Override) {
        let literal_chars = parts.iter().map(PartMatch::literal_chars).sum();
        self.patterns.push(PatternOverride { parts, literal_chars, applied });
    }

    /// To be called once all are in. The sort is stable: what ties stays in the order of the files.
    pub(crate) fn seal(&mut self) {
        self.patterns.sort_by(|a, b| {
            let texts =
                |o: &PatternOverride| o.parts.iter().map(|part| part.text().to_owned()).collect::<Vec<_>>();
            Reverse(a.literal_chars).cmp(&Reverse(b.literal_chars)).then_with(|| texts(a).cmp(&texts(b)))
        });
        self.exact.shrink_to_fit();
        let parts = || self.patterns.iter().map(|pattern| &*pattern.parts);
        self.index = (self.patterns.len() > SCANNED_MAX).then(|| PatternIndex::new(parts()));
    }

    #[inline]
    pub(crate) fn find(&self, key: KeyId, identifier: &Identifier<'_>, now: Nanos) -> Option<&Override> {
        if !self.exact.is_empty()
            && let Some(live) = self.exact.get(&key).and_then(|all| all.iter().find(|o| o.is_live(now)))
        {
            return Some(live);
        }
        let is_match = |o: &PatternOverride| o.applied.is_live(now) && o.matches(identifier);
        let found = match &self.index {
            None => self.patterns.iter().find(|o| is_match(o)),
            Some(index) => {
                let value = |part: usize| identifier.parts().get(part).map(PartValue::as_str);
                index.find(value, |position| is_match(&self.patterns[position])).map(|at| &self.patterns[at])
            }
        };
        found.map(|o| &o.applied)
    }

    pub(crate) fn exact_count(&self) -> usize {
        self.exact.values().map(SmallVec::len).sum()
    }

    pub(crate) fn pattern_count(&self) -> usize {
        self.patterns.len()
    }

    pub(crate) fn ended_count(&self, now: Nanos) -> usize {
        let exact = self.exact.values().flatten();
        exact.chain(self.patterns.iter().map(|o| &o.applied)).filter(|o| !o.is_live(now)).count()
    }
}

impl PatternOverride {
    fn matches(&self, identifier: &Identifier<'_>) -> bool {
        self.parts.iter().zip(identifier.parts()).all(|(part, value)| part.matches(value))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_exact_override_costs_at_most_200_bytes() {
        // A table of std is at least 7/16 full after it grew, and has one byte of its own per slot.
        let slot = size_of::<(KeyId, SmallVec<[Override; 1]>)>() + 1;
        assert!(slot * 16 / 7 <= 200, "{slot} bytes a slot");
    }
}
