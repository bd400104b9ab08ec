//! The overrides of rules files, gathered while they are read.

use super::in_force::{Overrides, RuleOverrides};
use super::patterns::Patterns;
use super::{Override, PartMatch};
use crate::rule::Rule;
use crate::snapshot::LookupSeed;
use std::collections::HashMap;
use tidegate_core::Nanos;

type PatternList = Vec<(Box<[PartMatch]>, Override)>;

#[derive(Default)]
pub(crate) struct Collected {
    exact: Vec<(u128, Override)>,
    /// Until when the exact ones of a caller last.
    latest: HashMap<u128, Nanos>,
    /// By the hash of the rule's names.
    by_rule: HashMap<u128, (RuleOverrides, PatternList)>,
}

impl Collected {
    pub(crate) fn is_empty(&self) -> bool {
        self.by_rule.is_empty()
    }

    /// `false` when one that comes before it lasts as long, so that this one never applies.
    pub(crate) fn add_exact(&mut self, rule: &Rule, parts: &[PartMatch], applied: Override) -> bool {
        let Some(lookup) = &rule.lookup else { return true };
        let hash = lookup.prefix.hash_of_parts(parts.iter().map(PartMatch::text));
        self.exact.push((hash, applied));
        let (of_rule, _) = self.of_rule(lookup.names_hash);
        of_rule.exact += 1;
        of_rule.ends.extend((applied.until != Nanos::MAX).then_some(applied.until));
        let earlier = self.latest.get(&hash).copied();
        self.latest.insert(hash, earlier.map_or(applied.until, |earlier| earlier.max(applied.until)));
        earlier.is_none_or(|earlier| earlier < applied.until)
    }

    pub(crate) fn add_pattern(&mut self, rule: &Rule, parts: Box<[PartMatch]>, applied: Override) {
        let Some(lookup) = &rule.lookup else { return };
        let (_, patterns) = self.of_rule(lookup.names_hash);
        patterns.push((parts, applied));
    }

    fn of_rule(&mut self, names_hash: u128) -> &mut (RuleOverrides, PatternList) {
        self.by_rule.entry(names_hash).or_insert_with(|| (RuleOverrides::new(true), Vec::new()))
    }

    /// To be called once all are in.
    pub(crate) fn seal(self, seed: LookupSeed) -> Overrides {
        let by_rule = self.by_rule.into_iter().map(|(names_hash, (mut of_rule, patterns))| {
            of_rule.patterns = Patterns::new(patterns);
            of_rule.ends.sort_unstable();
            (names_hash, of_rule)
        });
        Overrides::of_files(seed, self.exact, by_rule)
    }
}
