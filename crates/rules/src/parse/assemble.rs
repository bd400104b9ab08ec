//! Puts a set together: all documents, then all rules, then all overrides, which may be in another file
//! than their rule.
//!
//! Overrides are looked at only where their rule could be read: a mistake is told once, not once for every
//! line that leans on it.

use super::cost::Cost;
use super::cursor::Cursor;
use super::document::{Head, Located, agree, is_list, read_head};
use super::fields::Fields;
use super::files::{File, read_files, refuse_file, says_nothing};
use super::normalize::{DeclaredForms, forms_of, warn_of_addresses};
use super::override_entry::{self, read_override};
use super::policy_fields::Calendars;
use super::pushed::Listing;
use super::rule_entry::{self, Home, read_rule};
use super::syntax::Syntax;
use super::tree::{SourcePosition, Value};
use super::value;
use crate::bounds::{NESTING_MAX, RULES_MAX};
use crate::error::{Problems, Refusal, RuleErrors, Warning, quoted};
use crate::form::Forms;
use crate::identifier::KeyPart;
use crate::overrides::Collected;
use crate::place::PlaceBy;
use crate::rule::{Declaration, Mode, Rule, Scope};
use crate::set::Namespace;
use crate::snapshot::LookupSeed;
use crate::source::Source;
use crate::words;
use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use tidegate_core::FleetSecret;
use tidegate_core::batch::ITEMS_MAX;

/// By what the keys of rules, and their overrides, are hashed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Hashing<'a> {
    pub(crate) secret: &'a FleetSecret,
    pub(crate) seed: LookupSeed,
}

pub(crate) struct Assembled {
    pub(crate) namespaces: Vec<Namespace>,
    pub(crate) overrides: Collected,
    /// `None` when no document gives it.
    pub(crate) fleet_mode: Option<Mode>,
    pub(crate) warnings: Vec<Warning>,
}

pub(crate) fn assemble(sources: &[&Source], hashing: Hashing<'_>) -> Result<Assembled, RuleErrors> {
    assemble_listing(sources, hashing, None)
}

/// With a listing, all overrides are listed too.
pub(crate) fn assemble_listing(
    sources: &[&Source],
    hashing: Hashing<'_>,
    mut listing: Option<&mut Listing>,
) -> Result<Assembled, RuleErrors> {
    let mut problems = Problems::default();
    let (files, syntax) = read_files(sources, NESTING_MAX, &mut problems);
    let mut draft = Draft::default();
    let mut documents = Vec::new();
    for (file, nodes) in &files {
        for node in nodes {
            let at = Cursor::document(file, node);
            let home = draft.read_document(&at, hashing, &mut problems);
            documents.push((at, home));
        }
    }
    draft.namespaces.iter_mut().for_each(DraftNamespace::set_forms);
    if syntax == Syntax::Sound {
        refuse_silence(&files, sources, &mut problems);
        for (at, home) in &documents {
            if let Some(home) = home {
                draft.read_overrides(at, *home, listing.as_deref_mut(), &mut problems);
                draft.namespaces[*home].warn_of_splits(at, &mut problems);
                draft.namespaces[*home].warn_of_addresses(at, &mut problems);
                draft.namespaces[*home].warn_of_mixed_windows(at, &mut problems);
            }
        }
    }
    let file_order = |name: &str| sources.iter().position(|source| source.name == name).unwrap_or(usize::MAX);
    let warnings = problems.finish(file_order)?;
    Ok(draft.finish(hashing.secret, warnings))
}

/// A file that says nothing is more likely lost than meant: it would lift every limit.
fn refuse_silence(files: &[File<'_>], sources: &[&Source], problems: &mut Problems) {
    if let Some(first) = sources.first()
        && says_nothing(files)
    {
        let refusal =
            Refusal::new("there is nothing in it", "for no rules at all, write `namespace: default`");
        refuse_file(&first.name.as_str().into(), SourcePosition::START, refusal, problems);
    }
}

/// Where a rule of a namespace stands.
enum Slot {
    Read(usize),
    /// It has mistakes of its own, already told.
    Broken,
}

#[derive(Default)]
struct DraftNamespace {
    tenant: Arc<str>,
    name: Arc<str>,
    mode: Option<Located<Mode>>,
    place_by: Option<Located<Box<str>>>,
    normalize: Option<Located<DeclaredForms>>,
    /// Known when all documents are read.
    forms: Arc<Forms>,
    rules: Vec<Rule>,
    slots: HashMap<Box<str>, (Slot, Declaration)>,
    /// Rules without a condition: every request of the namespace meets all of them.
    unconditional: usize,
    /// What a request may cost.
    cost: Cost,
}

#[derive(Default)]
struct Draft {
    namespaces: Vec<DraftNamespace>,
    index: HashMap<(Box<str>, Box<str>), usize>,
    fleet_mode: Option<Located<Mode>>,
    calendars: Calendars,
    rules_total: usize,
    overrides: Collected,
}

impl Draft {
    /// Reads all of a document but its overrides; answers with its namespace's position.
    fn read_document(
        &mut self,
        at: &Cursor<'_, '_>,
        hashing: Hashing<'_>,
        problems: &mut Problems,
    ) -> Option<usize> {
        if let Value::Null = at.value() {
            return None;
        }
        let Head { tenant, namespace, mode, place_by, normalize, fleet_mode } = read_head(at, problems)?;
        agree(at, "fleet_mode", &mut self.fleet_mode, fleet_mode, problems);
        let position = self.position(tenant, namespace?);
        let draft = &mut self.namespaces[position];
        agree(at, "mode", &mut draft.mode, mode, problems);
        let place_by = place_by.map(|(attribute, declared)| (attribute.into(), declared));
        agree(at, "place_by", &mut draft.place_by, place_by, problems);
        agree(at, "normalize", &mut draft.normalize, normalize, problems);
        if let Some(rules) = at.get("rules")
            && is_list(&rules, "`- name: per-user`", problems)
        {
            rules.items().for_each(|at| self.read_rule(&at, position, hashing, problems));
        }
        Some(position)
    }

    fn position(&mut self, tenant: &str, namespace: &str) -> usize {
        let next = self.namespaces.len();
        let position = *self.index.entry((tenant.into(), namespace.into())).or_insert(next);
        if position == next {
            let (tenant, name) = (tenant.into(), namespace.into());
            self.namespaces.push(DraftNamespace { tenant, name, ..DraftNamespace::default() });
        }
        position
    }

    fn read_rule(
        &mut self,
        at: &Cursor<'_, '_>,
        position: usize,
        Hashing { secret, seed }: Hashing<'_>,
        problems: &mut Problems,
    ) {
        self.rules_total += 1;
        if self.rules_total > RULES_MAX {
            if self.rules_total == RULES_MAX + 1 {
                let message = format!("a set has at most {RULES_MAX} rules");
                at.refuse(problems, Refusal::new(message, "use overrides for single callers"));
            }
            return;
        }
        let draft = &mut self.namespaces[position];
        let mut home = Home {
            secret,
            seed,
            tenant: &draft.tenant,
            namespace: &draft.name,
            calendars: &mut self.calendars,
        };
        let rule = read_rule(at, &mut home, problems);
        draft.add(at, rule, problems);
    }

    fn read_overrides(
        &mut self,
        at: &Cursor<'_, '_>,
        position: usize,
        mut listing: Option<&mut Listing>,
        problems: &mut Problems,
    ) {
        let Some(overrides) = at.get("overrides") else { return };
        if is_list(&overrides, override_entry::EXAMPLE, problems) {
            let draft = &mut self.namespaces[position];
            let collected = &mut self.overrides;
            overrides
                .items()
                .for_each(|at| draft.read_override(&at, collected, listing.as_deref_mut(), problems));
        }
    }

    fn finish(self, secret: &FleetSecret, warnings: Vec<Warning>) -> Assembled {
        let fleet_mode = self.fleet_mode.map(|(mode, _)| mode);
        let seal = |draft: DraftNamespace| {
            let DraftNamespace { tenant, name, mode, place_by, forms, rules, .. } = draft;
            let attributes = attributes_of(&rules, place_by.as_ref().map(|(attribute, _)| &**attribute));
            let place_by = place_by.map(|(attribute, _)| PlaceBy::new(secret, &tenant, &name, attribute));
            let mode = mode.map(|(mode, _)| mode).unwrap_or_default();
            Namespace { tenant, name, mode, place_by, forms, attributes, rules }
        };
        let namespaces = self.namespaces.into_iter().map(seal).collect();
        Assembled { namespaces, overrides: self.overrides, fleet_mode, warnings }
    }
}

impl DraftNamespace {
    /// Overrides, which are read next, name callers by values in their forms.
    fn set_forms(&mut self) {
        let declared = self.normalize.as_ref().map_or(&[][..], |(forms, _)| forms);
        let place_by = self.place_by.as_ref().map(|(attribute, _)| &**attribute);
        self.forms = Arc::new(forms_of(declared, &self.rules, place_by));
        for rule in &mut self.rules {
            rule.when.set_forms(&self.forms);
            rule.forms = self.forms.clone();
        }
    }

    /// Warns where a file has windows of the clock and others of the same length: `per hour` and `per 1h` look alike.
    fn warn_of_mixed_windows(&self, at: &Cursor<'_, '_>, problems: &mut Problems) {
        let mut seen: Vec<(u64, bool, u32)> = Vec::new();
        let Some(rules) = at.get("rules") else { return };
        for rule_at in rules.items() {
            let slot = rule_entry::name_of(&rule_at).and_then(|name| self.slots.get(name));
            let Some((Slot::Read(index), _)) = slot else { continue };
            let Some((seconds, is_calendar)) = words::length_and_kind(&self.rules[*index].policy) else {
                continue;
            };
            let other = seen.iter().find(|(length, kind, _)| *length == seconds && *kind != is_calendar);
            if let Some((_, _, line)) = other {
                let (unit, short) = match seconds {
                    3600 => ("hour", "1h"),
                    86_400 => ("day", "1d"),
                    _ => ("week", "1w"),
                };
                let message = format!(
                    "`per {unit}` starts afresh with each {unit} of the clock, `per {short}` doesn't: this rule has one, \
                     the rule of line {line} the other"
                );
                return rule_at.warn(problems, message);
            }
            seen.push((seconds, is_calendar, rule_at.place().line));
        }
    }

    fn warn_of_addresses(&self, at: &Cursor<'_, '_>, problems: &mut Problems) {
        let Some(rules) = at.get("rules") else { return };
        for rule_at in rules.items() {
            let slot = rule_entry::name_of(&rule_at).and_then(|name| self.slots.get(name));
            let Some((Slot::Read(index), _)) = slot else { continue };
            warn_of_addresses(&rule_at, &self.rules[*index], problems);
        }
    }

    /// Known only when all documents are read: `place_by` may stand in a later one than the rules.
    fn warn_of_splits(&self, at: &Cursor<'_, '_>, problems: &mut Problems) {
        let (Some((attribute, _)), Some(rules)) = (&self.place_by, at.get("rules")) else { return };
        for rule_at in rules.items() {
            let slot = rule_entry::name_of(&rule_at).and_then(|name| self.slots.get(name));
            let Some((Slot::Read(index), _)) = slot else { continue };
            let key = &self.rules[*index].key;
            let groups = |part: &KeyPart| part.attribute == *attribute && part.group_prefix.is_some();
            if key.is_empty() || key.iter().any(groups) {
                let message = format!(
                    "`place_by: {attribute}` makes this a limit for each single {attribute}; \
                     if it is to be shared, put the rule into a namespace of its own"
                );
                rule_at.warn(problems, message);
            }
        }
    }

    /// Takes a rule in, or the name of one that couldn't be read, unless the name is taken.
    fn add(&mut self, at: &Cursor<'_, '_>, rule: Option<Rule>, problems: &mut Problems) {
        let Some(name) = rule_entry::name_of(at) else { return };
        if let Some((_, first)) = self.slots.get(name) {
            let message = format!("the rule {} exists already, at {first}", quoted(name));
            let place = at.get("name").map_or(at.place(), |named| named.place());
            let refusal = Refusal::new(message, "give one of the two another name");
            at.refuse_at(problems, place, Some("name"), refusal);
            return;
        }
        let slot = match rule {
            None => Slot::Broken,
            Some(rule) => {
                warn_of(at, &rule, problems);
                self.unconditional += usize::from(rule.when.0.is_empty());
                if self.unconditional == ITEMS_MAX + 1 {
                    let message =
                        format!("a request is decided by at most {ITEMS_MAX} rules, and this is one more");
                    let fix = "give rules of this namespace a `when`, or spread them over namespaces";
                    at.refuse(problems, Refusal::new(message, fix));
                }
                self.cost.add_rule(at, &rule, problems);
                self.rules.push(rule);
                Slot::Read(self.rules.len() - 1)
            }
        };
        let declared = Declaration { file: at.file().clone(), line: at.place().line };
        self.slots.insert(name.into(), (slot, declared));
    }

    fn read_override(
        &mut self,
        at: &Cursor<'_, '_>,
        collected: &mut Collected,
        listing: Option<&mut Listing>,
        problems: &mut Problems,
    ) {
        let Some(fields) = Fields::of(at, override_entry::EXAMPLE, problems) else { return };
        let Some(named) = fields.require("rule", "per-user", problems) else { return };
        let Some(name) = value::name(&named, problems) else { return };
        match self.slots.get(name) {
            Some((Slot::Read(index), _)) => {
                let rule = &self.rules[*index];
                let Some((parts, applied)) = read_override(at, &fields, rule, problems) else { return };
                if let Some(listing) = listing {
                    listing.add(at, rule, &parts, applied, problems);
                }
                self.cost.add_override(at, *index, &parts, problems);
                override_entry::add(at, rule, parts, applied, collected, problems);
            }
            Some((Slot::Broken, _)) => {}
            None => {
                let known = self.slots.keys().map(|name| &**name);
                named.refuse(problems, override_entry::no_rule(&self.name, name, known));
            }
        }
    }
}

/// All that the rules of a namespace look at.
fn attributes_of(rules: &[Rule], place_by: Option<&str>) -> Box<[Box<str>]> {
    let of_rule = |rule: &'_ Rule| {
        let key = rule.key.iter().map(|part| part.attribute.clone());
        key.chain(rule.when.attributes().map(Box::from)).collect::<Vec<Box<str>>>()
    };
    let attributes: BTreeSet<Box<str>> =
        rules.iter().flat_map(of_rule).chain(place_by.map(Box::from)).collect();
    attributes.into_iter().collect()
}

fn warn_of(at: &Cursor<'_, '_>, rule: &Rule, problems: &mut Problems) {
    if rule.policy.blocks() {
        at.warn(problems, "blocks every caller that it matches");
    }
    if rule.scope == Some(Scope::World) && words::is_short_window(&rule.policy) {
        at.warn(problems, "windows under 60 s with scope world use quotas: each region enforces a part that follows demand, see docs/world.md");
    }
}
