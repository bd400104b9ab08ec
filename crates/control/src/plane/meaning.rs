//! What a change means, in plain words: which limits change, which counts start afresh, who is no longer excepted.
//!
//! For people only: nothing parses this text. The sign before a line tells programs what to colour.

use super::items::{RecordedChange, owner};
use super::rule_state::RuleState;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use tidegate_core::Nanos;
use tidegate_rules::{
    DocumentName, NamespaceDescription, Override, OverrideEffect, OverrideName, Rule, RuleChange,
    RuleDescription, rate_words,
};

/// The overrides that are named one by one; of the rest, how many.
const LISTED_OVERRIDES_MAX: usize = 50;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Sign {
    /// A heading.
    About,
    Added,
    Removed,
    Altered,
}

impl Sign {
    pub const fn symbol(self) -> &'static str {
        match self {
            Sign::About => "",
            Sign::Added => "+",
            Sign::Removed => "-",
            Sign::Altered => "~",
        }
    }
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Line {
    pub sign: Sign,
    pub text: String,
}

/// How many overrides a rule has in the store; counting stops somewhere.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Orphans {
    pub(super) count: usize,
    pub(super) are_all: bool,
}

impl Orphans {
    fn words(self) -> String {
        match self {
            Orphans { count: 0, are_all: true } => String::new(),
            Orphans { count: 1, are_all: true } => ", and 1 override no longer applies".to_owned(),
            Orphans { count, are_all: true } => format!(", and {count} overrides no longer apply"),
            Orphans { count, .. } => format!(", and at least {count} overrides no longer apply"),
        }
    }
}

/// The rules whose overrides apply to nobody any more: gone, or with another key.
pub(super) fn orphaning(before: &RuleState, after: &RuleState) -> Vec<(DocumentName, String)> {
    let mut found = Vec::new();
    if Arc::ptr_eq(&before.set, &after.set) {
        return found;
    }
    for namespace in before.set.namespaces() {
        let kept = after.set.namespace(&namespace.tenant, &namespace.name);
        if kept.is_some_and(|kept| std::ptr::eq(kept, &raw const **namespace)) {
            // The push left it alone.
            continue;
        }
        let rules = kept.map_or(&[][..], |kept| &kept.rules);
        let by_name: HashMap<&str, &Rule> = rules.iter().map(|rule| (&*rule.name, rule)).collect();
        for rule in &namespace.rules {
            let same = by_name.get(&*rule.name);
            if same.is_none_or(|same| same.key != rule.key) {
                let document =
                    DocumentName { tenant: namespace.tenant.clone(), namespace: namespace.name.clone() };
                found.push((document, rule.name.to_string()));
            }
        }
    }
    found
}

/// Everything from which the summary of a push is written.
pub(super) struct PushSummary<'a> {
    pub(super) before: &'a RuleState,
    pub(super) after: &'a RuleState,
    pub(super) changes: &'a [RecordedChange],
    /// By [`orphaning`].
    pub(super) orphans: &'a BTreeMap<(DocumentName, String), Orphans>,
}

impl PushSummary<'_> {
    pub(super) fn lines(&self) -> Vec<Line> {
        let mut lines = Vec::new();
        if self.before.fleet_mode != self.after.fleet_mode {
            let text = format!("fleet mode: {} → {}", self.before.fleet_mode, self.after.fleet_mode);
            lines.push(Line { sign: Sign::Altered, text });
        }
        let mut by_document: BTreeMap<DocumentName, Vec<&RecordedChange>> = BTreeMap::new();
        for change in self.changes {
            if let Some(document) = owner(&change.after) {
                by_document.entry(document).or_default().push(change);
            }
        }
        let described = NamespaceDescriptions::of(self);
        for (document, changes) in by_document {
            let text = format!("namespace {}, tenant {}", document.namespace, document.tenant);
            lines.push(Line { sign: Sign::About, text });
            if changes.iter().any(|change| matches!(change.after, RuleChange::Document { .. })) {
                let is_alone = changes.len() == 1;
                self.rules(&described, &document, is_alone, &mut lines);
            }
            self.overrides(&changes, &mut lines);
        }
        lines
    }

    /// What a document's new text means; `is_alone` when nothing else of the namespace changes.
    fn rules(
        &self,
        described: &NamespaceDescriptions,
        document: &DocumentName,
        is_alone: bool,
        lines: &mut Vec<Line>,
    ) {
        let name = (document.tenant.to_string(), document.namespace.to_string());
        let (old, new) = (described.before.get(&name), described.after.get(&name));
        if let (Some(old), Some(new)) = (old, new)
            && old.heading() != new.heading()
        {
            let text = format!("{} → {}", old.heading(), new.heading());
            lines.push(Line { sign: Sign::Altered, text });
        }
        let none = Vec::new();
        let old_rules = old.map_or(&none, |namespace| &namespace.rules);
        let new_rules = new.map_or(&none, |namespace| &namespace.rules);
        let told_before = lines.len();
        let by_name: HashMap<&str, &RuleDescription> =
            new_rules.iter().map(|rule| (&*rule.name, rule)).collect();
        for rule in old_rules {
            match by_name.get(&*rule.name).copied() {
                Some(other) => lines.extend(self.altered(document, rule, other)),
                None => {
                    let renamed = self.renamed(document, rule, old_rules, new_rules);
                    let orphans = self.orphaned(document, &rule.name);
                    let text = match renamed {
                        Some(name) => format!("{} is now {name}: counts start afresh{orphans}", rule.name),
                        None => format!("{}: {}{orphans}", rule.name, rule.meaning),
                    };
                    lines.push(Line { sign: Sign::Removed, text });
                }
            }
        }
        for rule in new_rules.iter().filter(|rule| old_rules.iter().all(|other| other.name != rule.name)) {
            lines.push(Line { sign: Sign::Added, text: with_options(rule) });
        }
        if lines.len() == told_before {
            let text = match (old.is_some(), new.is_some()) {
                (false, _) => "a namespace without rules",
                (_, false) => "the namespace is gone",
                _ if is_alone => "the text changes, its meaning doesn't",
                _ => "the text of the rules changes; the overrides below change who has other limits",
            };
            lines.push(Line { sign: Sign::Altered, text: text.to_owned() });
        }
    }

    fn altered(&self, document: &DocumentName, old: &RuleDescription, new: &RuleDescription) -> Option<Line> {
        if (&old.meaning, &old.options, &old.description) == (&new.meaning, &new.options, &new.description) {
            return None;
        }
        let (before, after) = (find(self.before, document, &old.name), find(self.after, document, &new.name));
        let counts = match (before, after) {
            (Some(before), Some(after)) if before.key != after.key => {
                format!("re-keyed: starts afresh{}", self.orphaned(document, &old.name))
            }
            (Some(before), Some(after)) if before.policy.shape() != after.policy.shape() => {
                "period or algorithm changed: counts start afresh".to_owned()
            }
            (Some(_), Some(_)) => "counts stay".to_owned(),
            // Domains of envoyproxy/ratelimit.
            _ => "see the text".to_owned(),
        };
        let text = format!("{} → {}: {counts}", with_options(old), new_words(old, new));
        Some(Line { sign: Sign::Altered, text })
    }

    /// A new rule with the same key and the same numbers as one that is gone.
    fn renamed(
        &self,
        document: &DocumentName,
        gone: &RuleDescription,
        old_rules: &[RuleDescription],
        new_rules: &[RuleDescription],
    ) -> Option<String> {
        let is_new = |rule: &&RuleDescription| old_rules.iter().all(|other| other.name != rule.name);
        let before = find(self.before, document, &gone.name)?;
        let is_same = |rule: &&RuleDescription| {
            find(self.after, document, &rule.name)
                .is_some_and(|after| after.key == before.key && after.policy.shape() == before.policy.shape())
        };
        new_rules.iter().filter(is_new).find(is_same).map(|rule| rule.name.clone())
    }

    fn orphaned(&self, document: &DocumentName, rule: &str) -> String {
        let found = self.orphans.get(&(document.clone(), rule.to_owned()));
        found.map_or(String::new(), |orphans| orphans.words())
    }

    fn overrides(&self, changes: &[&RecordedChange], lines: &mut Vec<Line>) {
        let is_listed = |change: &&&RecordedChange| {
            matches!(change.after, RuleChange::Override { .. } | RuleChange::Reset { .. })
        };
        let listed: Vec<&&RecordedChange> = changes.iter().filter(is_listed).collect();
        let is_removed =
            |change: &&&&RecordedChange| matches!(change.after, RuleChange::Override { value: None, .. });
        let removed = listed.iter().filter(is_removed).count();
        if removed > 0 {
            let (overrides, are) = if removed == 1 { ("override", "is") } else { ("overrides", "are") };
            lines.push(Line { sign: Sign::Removed, text: format!("{removed} {overrides} {are} removed:") });
        }
        lines
            .extend(listed.iter().take(LISTED_OVERRIDES_MAX).filter_map(|change| self.override_line(change)));
        if let Some(others) = listed.len().checked_sub(LISTED_OVERRIDES_MAX).filter(|others| *others > 0) {
            lines.push(Line { sign: Sign::Altered, text: format!("and {others} more overrides") });
        }
    }

    fn override_line(&self, RecordedChange { after, before }: &RecordedChange) -> Option<Line> {
        let value = |change: &RuleChange| match change {
            RuleChange::Override { value, .. } => *value,
            _ => None,
        };
        match after {
            RuleChange::Override { name, .. } => {
                let who = self.caller_words(name);
                Some(match (value(before), value(after)) {
                    (None, Some(new)) => {
                        Line { sign: Sign::Added, text: format!("{who}: {}", override_words(&new)) }
                    }
                    (Some(old), None) => {
                        Line { sign: Sign::Removed, text: format!("{who}: {}", override_words(&old)) }
                    }
                    (Some(old), Some(new)) => {
                        let text = format!("{who}: {} → {}", override_words(&old), override_words(&new));
                        Line { sign: Sign::Altered, text }
                    }
                    (None, None) => return None,
                })
            }
            RuleChange::Reset { name, .. } => {
                let text = format!("{}: starts afresh", self.caller_words(name));
                Some(Line { sign: Sign::Altered, text })
            }
            RuleChange::Document { .. } | RuleChange::FleetMode(_) => None,
        }
    }

    /// `per-user user=acme-*`.
    fn caller_words(&self, name: &OverrideName) -> String {
        let document = DocumentName { tenant: name.tenant.clone(), namespace: name.namespace.clone() };
        let rule = [self.after, self.before].into_iter().find_map(|set| find(set, &document, &name.rule));
        let mut words = name.rule.to_string();
        for (index, part) in name.parts.iter().enumerate() {
            let attribute = rule.and_then(|rule| rule.key.get(index)).map(|part| &*part.attribute);
            words.push(' ');
            if let Some(attribute) = attribute {
                words.push_str(attribute);
                words.push('=');
            }
            words.extend(part.chars().flat_map(char::escape_debug));
        }
        words
    }
}

fn find<'s>(rules: &'s RuleState, document: &DocumentName, rule: &str) -> Option<&'s Rule> {
    let namespace = rules.set.namespace(&document.tenant, &document.namespace)?;
    namespace.rules.iter().find(|other| &*other.name == rule)
}

/// All namespaces in plain words, by tenant and name.
struct NamespaceDescriptions {
    before: BTreeMap<(String, String), NamespaceDescription>,
    after: BTreeMap<(String, String), NamespaceDescription>,
}

impl NamespaceDescriptions {
    /// Of nothing, where no document changes.
    fn of(push: &PushSummary<'_>) -> Self {
        let is_same = Arc::ptr_eq(&push.before.set, &push.after.set);
        let all = |standing: &RuleState| {
            let all = if is_same { Vec::new() } else { standing.set.describe(Nanos::ZERO).namespaces };
            all.into_iter().map(|one| ((one.tenant.clone(), one.namespace.clone()), one)).collect()
        };
        NamespaceDescriptions { before: all(push.before), after: all(push.after) }
    }
}

fn with_options(rule: &RuleDescription) -> String {
    rule.options
        .iter()
        .fold(format!("{}: {}", rule.name, rule.meaning), |text, option| format!("{text}; {option}"))
}

/// Without the name, which stands before the arrow.
fn new_words(old: &RuleDescription, new: &RuleDescription) -> String {
    let words = with_options(new);
    words.strip_prefix(&format!("{}: ", old.name)).map_or(words.clone(), str::to_owned)
}

/// `limit 5`, `unlimited until 2026-12-01T00:00:00Z`, `100 per second, burst 200, hot`.
pub fn override_words(value: &Override) -> String {
    let mut words = match value.change {
        OverrideEffect::Keep => String::new(),
        OverrideEffect::Unlimited => "unlimited".to_owned(),
        OverrideEffect::Limit(limit) if limit.get() == 0 => "blocked".to_owned(),
        OverrideEffect::Limit(limit) => format!("limit {}", limit.get()),
        OverrideEffect::Rate { rate, burst } => {
            format!("{}, burst {}", rate_words(rate), burst.get())
        }
    };
    if value.hot {
        words.push_str(if words.is_empty() { "hot" } else { ", hot" });
    }
    if let Some(until) = super::json::instant_text(value.until) {
        words.push_str(&format!(" until {until}"));
    }
    words
}
