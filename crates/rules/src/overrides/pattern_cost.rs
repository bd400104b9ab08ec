//! What looking a request up among pattern overrides may take, in the units of a namespace's bound.

use super::PartMatch;
use super::index::{Shape, shape};
use std::collections::HashSet;

/// Of the patterns of one namespace.
#[derive(Default)]
pub(crate) struct PatternCost {
    /// By the rule's position.
    shapes: HashSet<(usize, Shape)>,
    total: usize,
}

impl PatternCost {
    /// One more, which names a caller of a rule by these parts.
    pub(crate) fn add(&mut self, rule: usize, parts: &[PartMatch]) {
        let patterns = parts.iter().filter_map(|part| match part {
            PartMatch::Pattern(pattern) => Some(pattern),
            PartMatch::Anything | PartMatch::Exact(_) => None,
        });
        let searched: usize =
            patterns.filter(|pattern| pattern.searches()).map(|pattern| pattern.cost()).sum();
        let is_exact = parts.iter().all(|part| matches!(part, PartMatch::Exact(_)));
        if searched > 0 {
            // Nothing says which of them to compare, where they begin or end alike.
            self.total += searched;
        } else if !is_exact {
            let shape = shape(parts);
            let cost = shape.cost();
            if self.shapes.insert((rule, shape)) {
                self.total += cost;
            }
        }
    }

    pub(crate) fn total(&self) -> usize {
        self.total
    }
}
