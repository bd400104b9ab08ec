//! The pattern overrides of a rule, in layers: the older a layer, the larger, and each with an index of its own.
//!
//! A change rebuilds the newest layer only, which is small; layers are merged as they grow alike, so that of a
//! hundred thousand patterns each is indexed a few dozen times over all changes, not once for each. No two layers
//! have the same pattern: one that is replaced or removed is marked as gone where it was.

use super::index::PatternIndex;
use super::{Override, PartMatch};
use crate::identifier::{Identifier, PartValue};
use std::cmp::{Ordering, Reverse};
use std::sync::Arc;
use tidegate_core::Nanos;

/// So many patterns are looked at faster than an index is asked.
const SCANNED_MAX: usize = 8;
/// The newest layer holds so many, and is rebuilt by every change.
const NEWEST_MAX: usize = 64;
/// A layer is merged with the one before it unless that one is so many times as large.
const GROWTH: usize = 8;

#[derive(Debug)]
struct PatternOverride {
    parts: Box<[PartMatch]>,
    literal_chars: usize,
    applied: Override,
}

impl PatternOverride {
    /// Those that come first win.
    fn precedence(&self, other: &Self) -> Ordering {
        let by_length = Reverse(self.literal_chars).cmp(&Reverse(other.literal_chars));
        by_length
            .then_with(|| self.parts.iter().map(PartMatch::text).cmp(other.parts.iter().map(PartMatch::text)))
    }

    fn matches(&self, identifier: &Identifier<'_>) -> bool {
        self.parts.len() == identifier.parts().len()
            && self.parts.iter().zip(identifier.parts()).all(|(part, value)| part.matches(value))
    }
}

/// Patterns that were sorted and indexed together.
#[derive(Clone, Debug)]
struct Layer {
    sorted: Arc<Sorted>,
    /// A bit for each that no longer counts.
    gone: Arc<[u64]>,
    gone_count: usize,
}

#[derive(Debug)]
struct Sorted {
    /// By precedence; what ties stays in its order.
    patterns: Vec<Arc<PatternOverride>>,
    /// Where they are many.
    index: Option<PatternIndex>,
}

impl Layer {
    fn new(mut patterns: Vec<Arc<PatternOverride>>) -> Self {
        patterns.sort_by(|a, b| a.precedence(b));
        let parts = || patterns.iter().map(|pattern| &*pattern.parts);
        let index = (patterns.len() > SCANNED_MAX).then(|| PatternIndex::new(parts()));
        let gone = std::iter::repeat_n(0, patterns.len().div_ceil(64)).collect();
        Layer { sorted: Arc::new(Sorted { patterns, index }), gone, gone_count: 0 }
    }

    fn len(&self) -> usize {
        self.sorted.patterns.len()
    }

    fn is_gone(&self, position: usize) -> bool {
        self.gone_count > 0
            && self.gone.get(position / 64).is_some_and(|bits| bits >> (position % 64) & 1 == 1)
    }

    fn present(&self) -> impl Iterator<Item = &Arc<PatternOverride>> {
        let patterns = self.sorted.patterns.iter().enumerate();
        patterns.filter(|(position, _)| !self.is_gone(*position)).map(|(_, pattern)| pattern)
    }

    /// Takes a pattern out; tells whether it was there.
    fn remove(&mut self, pattern: &PatternOverride) -> bool {
        let begin = self.sorted.patterns.partition_point(|other| other.precedence(pattern) == Ordering::Less);
        let alike = self.sorted.patterns[begin..]
            .iter()
            .take_while(|other| other.precedence(pattern) == Ordering::Equal)
            .count();
        let found: Vec<usize> = (begin..begin + alike).filter(|position| !self.is_gone(*position)).collect();
        if found.is_empty() {
            return false;
        }
        let mut gone = self.gone.to_vec();
        for position in &found {
            gone[position / 64] |= 1 << (position % 64);
        }
        self.gone = gone.into();
        self.gone_count += found.len();
        true
    }

    fn find(&self, identifier: &Identifier<'_>, now: Nanos) -> Option<&PatternOverride> {
        let patterns = &self.sorted.patterns;
        let is_match = |position: usize| {
            let pattern = &patterns[position];
            pattern.applied.is_live(now) && pattern.matches(identifier) && !self.is_gone(position)
        };
        let found = match &self.sorted.index {
            None => (0..patterns.len()).find(|position| is_match(*position)),
            Some(index) => {
                let value = |part: usize| identifier.parts().get(part).map(PartValue::as_str);
                index.find(value, is_match)
            }
        };
        found.map(|position| &*patterns[position])
    }
}

#[derive(Clone, Default, Debug)]
pub(super) struct Patterns {
    /// The oldest first.
    layers: Vec<Layer>,
    count: usize,
}

impl Patterns {
    /// All at once. Of those with the same parts, the first that hasn't ended counts.
    pub(super) fn new(patterns: Vec<(Box<[PartMatch]>, Override)>) -> Self {
        let patterns: Vec<_> = patterns.into_iter().map(|(parts, applied)| pattern(parts, applied)).collect();
        let count = patterns.len();
        Patterns { layers: if count == 0 { Vec::new() } else { vec![Layer::new(patterns)] }, count }
    }

    pub(super) fn len(&self) -> usize {
        self.count
    }

    pub(super) fn ended_count(&self, now: Nanos) -> usize {
        self.layers.iter().flat_map(Layer::present).filter(|pattern| !pattern.applied.is_live(now)).count()
    }

    /// Puts a pattern in the place of the one with the same parts, or takes that out.
    pub(super) fn change(&mut self, parts: Box<[PartMatch]>, applied: Option<Override>) {
        // What is only taken out needs no value of its own.
        let kept = applied.is_some();
        let changed = pattern(parts, applied.unwrap_or(Override::NOTHING));
        if self.layers.iter_mut().any(|layer| layer.remove(&changed)) {
            self.count -= 1;
        }
        if kept {
            self.count += 1;
            self.add(changed);
        }
        self.layers.retain(|layer| layer.gone_count < layer.len());
    }

    fn add(&mut self, added: Arc<PatternOverride>) {
        let mut newest: Vec<_> = match self.layers.pop_if(|newest| newest.len() < NEWEST_MAX) {
            Some(newest) => newest.present().cloned().collect(),
            None => Vec::new(),
        };
        newest.push(added);
        while newest.len() >= NEWEST_MAX
            && let Some(older) = self.layers.pop_if(|older| older.len() < GROWTH * newest.len())
        {
            newest.extend(older.present().cloned());
        }
        self.layers.push(Layer::new(newest));
    }

    /// Returns the one that applies, and what it asks of each part.
    pub(super) fn find(&self, identifier: &Identifier<'_>, now: Nanos) -> Option<(&[PartMatch], Override)> {
        let mut best: Option<&PatternOverride> = None;
        for found in self.layers.iter().filter_map(|layer| layer.find(identifier, now)) {
            if best.is_none_or(|best| found.precedence(best) == Ordering::Less) {
                best = Some(found);
            }
        }
        best.map(|best| (&*best.parts, best.applied))
    }
}

fn pattern(parts: Box<[PartMatch]>, applied: Override) -> Arc<PatternOverride> {
    let literal_chars = parts.iter().map(PartMatch::literal_chars).sum();
    Arc::new(PatternOverride { parts, literal_chars, applied })
}
