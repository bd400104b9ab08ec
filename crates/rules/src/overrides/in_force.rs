//! All overrides of a set: those that were changed lately, over those in the rules file.
//!
//! Cheap to copy, and to change one at a time: whatever a change leaves alone is shared with the set before. Reading
//! takes no lock. Overrides of a rule that isn't there are kept, and don't apply, until it comes or they go.

use super::cow_map::CowMap;
use super::patterns::Patterns;
use super::{Override, PartMatch};
use crate::change::OverrideName;
use crate::identifier::Identifier;
use crate::rule::Rule;
use crate::snapshot::{EXACT_MAX, LookupSeed, PATTERNS_MAX, Snapshot};
use std::collections::HashMap;
use std::sync::Arc;
use tidegate_core::{KeyPrefix, Nanos};

/// By what a rule's overrides are found.
#[derive(Debug)]
pub(crate) struct Lookup {
    /// Of a caller's hash.
    pub(crate) prefix: KeyPrefix,
    /// Of tenant, namespace and rule.
    pub(crate) names_hash: u128,
}

impl Lookup {
    pub(crate) fn new(seed: LookupSeed, tenant: &str, namespace: &str, rule: &str) -> Self {
        let prefix = seed.prefix(tenant, namespace, rule);
        Lookup { prefix, names_hash: prefix.hash_of_parts([]) }
    }
}

/// What was said of a caller since the rules file was written.
#[derive(Clone, Copy, Debug)]
struct CallerChanges {
    /// `None`: it has none any more.
    applied: Option<Override>,
    /// Of the rules that said it.
    version: u64,
}

/// What a rule has.
#[derive(Clone, Debug)]
pub(super) struct RuleOverrides {
    pub(super) exact: usize,
    pub(super) patterns: Patterns,
    /// Whether the set has the rule.
    is_present: bool,
    /// When its exact ones end, ascending, those that do; known only of rules files.
    pub(super) ends: Vec<Nanos>,
}

impl RuleOverrides {
    pub(super) fn new(is_present: bool) -> Self {
        RuleOverrides { exact: 0, patterns: Patterns::default(), is_present, ends: Vec::new() }
    }

    fn count(&self) -> usize {
        self.exact + self.patterns.len()
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Overrides {
    seed: LookupSeed,
    file: Option<Arc<Snapshot>>,
    changed: CowMap<CallerChanges>,
    by_rule: CowMap<Arc<RuleOverrides>>,
    exact_count: usize,
    pattern_count: usize,
    dangling: usize,
}

impl Overrides {
    pub(crate) fn none(seed: LookupSeed) -> Self {
        Overrides {
            seed,
            file: None,
            changed: CowMap::default(),
            by_rule: CowMap::default(),
            exact_count: 0,
            pattern_count: 0,
            dangling: 0,
        }
    }

    pub(super) fn of_files(
        seed: LookupSeed,
        exact: Vec<(u128, Override)>,
        by_rule: impl Iterator<Item = (u128, RuleOverrides)>,
    ) -> Self {
        let by_rule: Vec<_> = by_rule.map(|(names_hash, of_rule)| (names_hash, Arc::new(of_rule))).collect();
        let exact_count = by_rule.iter().map(|(_, of_rule)| of_rule.exact).sum();
        let pattern_count = by_rule.iter().map(|(_, of_rule)| of_rule.patterns.len()).sum();
        let changed = exact
            .into_iter()
            .map(|(hash, applied)| (hash, CallerChanges { applied: Some(applied), version: 0 }));
        Overrides {
            changed: CowMap::from_entries(changed.collect()),
            by_rule: CowMap::from_entries(by_rule),
            exact_count,
            pattern_count,
            ..Overrides::none(seed)
        }
    }

    pub(crate) fn of_snapshot(file: &Arc<Snapshot>, is_present: impl Fn(u128) -> bool) -> Self {
        let seed = file.seed();
        let mut by_rule: HashMap<u128, (RuleOverrides, Vec<_>)> = HashMap::new();
        let empty = |names_hash: u128| (RuleOverrides::new(is_present(names_hash)), Vec::new());
        for rule in file.rules_with_exact() {
            let names_hash = seed.prefix(&rule.tenant, &rule.namespace, &rule.rule).hash_of_parts([]);
            let (of_rule, _) = by_rule.entry(names_hash).or_insert_with(|| empty(names_hash));
            of_rule.exact = usize::try_from(rule.exact).unwrap_or(usize::MAX);
        }
        for (name, applied) in file.patterns() {
            let names_hash = seed.prefix(&name.tenant, &name.namespace, &name.rule).hash_of_parts([]);
            let (_, patterns) = by_rule.entry(names_hash).or_insert_with(|| empty(names_hash));
            patterns.push((matches_of(&name), applied));
        }
        let by_rule = by_rule.into_iter().map(|(names_hash, (mut of_rule, patterns))| {
            of_rule.patterns = Patterns::new(patterns);
            (names_hash, of_rule)
        });
        let mut overrides = Overrides::of_files(seed, Vec::new(), by_rule);
        overrides.file = Some(file.clone());
        let absent = overrides.by_rule.iter().filter(|(_, of_rule)| !of_rule.is_present);
        overrides.dangling = absent.map(|(_, of_rule)| of_rule.count()).sum();
        overrides
    }

    pub(crate) fn seed(&self) -> LookupSeed {
        self.seed
    }

    /// Those of rules that aren't there included.
    pub(crate) fn len(&self) -> usize {
        self.exact_count + self.pattern_count
    }

    /// Whether a rules file has room for them.
    pub(crate) fn is_bounded(&self) -> bool {
        self.has_room_for(0)
    }

    /// The same with so many more, whatever they are.
    pub(crate) fn has_room_for(&self, more: usize) -> bool {
        (self.exact_count + more) as u64 <= EXACT_MAX && (self.pattern_count + more) as u64 <= PATTERNS_MAX
    }

    /// Of rules that aren't there.
    pub(crate) fn dangling(&self) -> usize {
        self.dangling
    }

    /// How many were changed since the rules file was written.
    pub(crate) fn changed_count(&self) -> usize {
        self.changed.len()
    }

    fn of_rule(&self, rule: &Rule) -> Option<&RuleOverrides> {
        self.by_rule.get(rule.lookup.as_ref()?.names_hash).map(Arc::as_ref)
    }

    /// For one caller, for a pattern of them, and those of both that have ended.
    pub(crate) fn counts(&self, rule: &Rule, now: Nanos) -> (usize, usize, usize) {
        let Some(of_rule) = self.of_rule(rule) else { return (0, 0, 0) };
        let ended = of_rule.ends.partition_point(|end| *end <= now) + of_rule.patterns.ended_count(now);
        (of_rule.exact, of_rule.patterns.len(), ended)
    }

    #[inline]
    pub(crate) fn has_any(&self, rule: &Rule) -> bool {
        !self.by_rule.is_empty() && self.of_rule(rule).is_some()
    }

    /// What applies to a caller of a rule. The hash is computed only where there is something to find by it.
    #[inline]
    pub(crate) fn find(&self, rule: &Rule, identifier: &Identifier<'_>, now: Nanos) -> Option<Override> {
        self.find_named(rule, identifier, now).map(|(_, applied)| applied)
    }

    /// The same, with what the pattern asks of each part; `None` in its place for the caller's own override.
    #[inline]
    pub(crate) fn find_named(
        &self,
        rule: &Rule,
        identifier: &Identifier<'_>,
        now: Nanos,
    ) -> Option<(Option<&[PartMatch]>, Override)> {
        if self.by_rule.is_empty() {
            return None;
        }
        let lookup = rule.lookup.as_ref()?;
        let of_rule = self.by_rule.get(lookup.names_hash)?;
        if of_rule.exact > 0
            && let Some(applied) = self.find_exact(identifier.hash(&lookup.prefix), now)
        {
            return Some((None, applied));
        }
        if of_rule.patterns.len() == 0 {
            return None;
        }
        of_rule.patterns.find(identifier, now).map(|(parts, applied)| (Some(parts), applied))
    }

    #[inline]
    fn find_exact(&self, hash: u128, now: Nanos) -> Option<Override> {
        let changed = if self.changed.is_empty() { &[] } else { self.changed.get_all(hash) };
        match changed {
            [] => self.file.as_ref()?.find(hash).filter(|applied| applied.is_live(now)),
            changed => {
                changed.iter().filter_map(|(_, changed)| changed.applied).find(|applied| applied.is_live(now))
            }
        }
    }

    /// Puts an override in the place of the one with its name, or takes that out. `is_present` says whether its rule
    /// is there; it is asked about a rule that had none before.
    pub(crate) fn change(
        &mut self,
        name: &OverrideName,
        applied: Option<Override>,
        version: u64,
        is_present: impl FnOnce() -> bool,
    ) {
        let lookup = Lookup::new(self.seed, &name.tenant, &name.namespace, &name.rule);
        let mut of_rule = match self.by_rule.get(lookup.names_hash) {
            Some(of_rule) => RuleOverrides::clone(of_rule),
            None => RuleOverrides::new(is_present()),
        };
        let (before, exact_before, patterns_before) =
            (of_rule.count(), of_rule.exact, of_rule.patterns.len());
        if name.is_exact() {
            let hash = lookup.prefix.hash_of_parts(name.parts.iter().map(|part| &**part));
            let had = usize::from(self.has_exact(hash));
            of_rule.exact = of_rule.exact.saturating_sub(had) + usize::from(applied.is_some());
            // Also where the file has none: one that is being written aside may.
            self.changed.insert(hash, CallerChanges { applied, version });
        } else {
            of_rule.patterns.change(matches_of(name), applied);
        }
        let after = of_rule.count();
        self.exact_count = self.exact_count - exact_before + of_rule.exact;
        self.pattern_count = self.pattern_count - patterns_before + of_rule.patterns.len();
        if !of_rule.is_present {
            self.dangling = self.dangling - before + after;
        }
        if after == 0 {
            self.by_rule.remove(lookup.names_hash);
        } else {
            self.by_rule.insert(lookup.names_hash, Arc::new(of_rule));
        }
    }

    fn has_exact(&self, hash: u128) -> bool {
        match self.changed.get(hash) {
            Some(changed) => changed.applied.is_some(),
            None => self.file.as_ref().is_some_and(|file| file.find(hash).is_some()),
        }
    }

    /// A rule came or went.
    pub(crate) fn set_present(&mut self, rule: &Rule, is_present: bool) {
        let Some(lookup) = &rule.lookup else { return };
        let Some(of_rule) = self.by_rule.get(lookup.names_hash) else { return };
        if of_rule.is_present == is_present {
            return;
        }
        let count = of_rule.count();
        let changed = RuleOverrides { is_present, ..RuleOverrides::clone(of_rule) };
        self.by_rule.insert(lookup.names_hash, Arc::new(changed));
        self.dangling = if is_present { self.dangling - count } else { self.dangling + count };
    }

    /// Of the file below what was changed; 0 where there is none.
    pub(crate) fn file_version(&self) -> u64 {
        self.file.as_ref().map_or(0, |file| file.version())
    }

    /// The same over a newer file, which has all that was changed up to its version. Tells nothing new.
    pub(crate) fn rebase(&mut self, file: &Arc<Snapshot>) {
        let newer = self.changed.iter().filter(|(_, changed)| changed.version > file.version());
        self.changed = CowMap::from_entries(newer.copied().collect());
        self.file = Some(file.clone());
    }
}

fn matches_of(name: &OverrideName) -> Box<[PartMatch]> {
    name.parts.iter().map(|part| PartMatch::of_text(part)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_exact_override_of_a_rules_file_costs_at_most_200_bytes() {
        assert!(size_of::<(u128, CallerChanges)>() <= 96);
    }
}
