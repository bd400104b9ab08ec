//! Overrides by name: those of a whole set, and single ones against a set that is in force.

use super::cursor::Cursor;
use super::fields::Fields;
use super::files::read_files;
use super::override_entry::{self, EXAMPLE};
use super::syntax::Syntax;
use super::tree::SourcePosition;
use super::value;
use crate::bounds::NESTING_MAX;
use crate::change::OverrideName;
use crate::error::{Problems, Refusal, RuleErrors};
use crate::overrides::{Override, PartMatch};
use crate::rule::{Declaration, Rule};
use crate::set::Namespace;
use crate::source::Source;
use std::collections::HashMap;

/// All overrides of a set, in the order of its files.
#[derive(Debug, Default)]
pub(crate) struct Listing {
    pub(crate) overrides: Vec<(OverrideName, Override)>,
    places: HashMap<OverrideName, Declaration>,
}

impl Listing {
    pub(crate) fn add(
        &mut self,
        at: &Cursor<'_, '_>,
        rule: &Rule,
        parts: &[PartMatch],
        applied: Override,
        problems: &mut Problems,
    ) {
        let name = override_name(rule, parts);
        if let Some(first) = self.places.get(&name) {
            let message = format!("the same caller has an override already, at {first}");
            let fix = "keep one of the two: a control plane has one override for each name";
            return at.refuse(problems, Refusal::new(message, fix));
        }
        let declared = Declaration { file: at.file().clone(), line: at.place().line };
        self.places.insert(name.clone(), declared);
        self.overrides.push((name, applied));
    }
}

fn override_name(rule: &Rule, parts: &[PartMatch]) -> OverrideName {
    OverrideName {
        tenant: rule.tenant.clone(),
        namespace: rule.namespace.clone(),
        rule: rule.name.clone(),
        parts: parts.iter().map(|part| part.text().into()).collect(),
    }
}

/// One entry of `overrides` about a rule of this namespace.
pub(crate) fn read_entry(
    namespace: &Namespace,
    source: &Source,
) -> Result<(OverrideName, Override), RuleErrors> {
    read_one(namespace, source, |at, fields, rule, problems| {
        let (parts, applied) = override_entry::read_override(at, fields, rule, problems)?;
        Some((override_name(rule, &parts), applied))
    })
}

/// The name alone: `{ rule: per-user, user: "acme-*" }`.
pub(crate) fn read_name(namespace: &Namespace, source: &Source) -> Result<OverrideName, RuleErrors> {
    read_one(namespace, source, |at, fields, rule, problems| {
        Some(override_name(rule, &override_entry::read_caller(at, fields, rule, problems)?))
    })
}

fn read_one<T>(
    namespace: &Namespace,
    source: &Source,
    read: impl FnOnce(&Cursor<'_, '_>, &Fields<'_, '_>, &Rule, &mut Problems) -> Option<T>,
) -> Result<T, RuleErrors> {
    let mut problems = Problems::default();
    let (files, syntax) = read_files(&[source], NESTING_MAX, &mut problems);
    let mut taken = None;
    if syntax == Syntax::Sound {
        let documents = files.iter().flat_map(|(file, nodes)| nodes.iter().map(move |node| (file, node)));
        match documents.collect::<Vec<_>>().as_slice() {
            [(file, node)] => {
                taken = read_of(namespace, &Cursor::document(file, node), read, &mut problems);
            }
            _ => {
                let refusal = Refusal::new("there should be one override here", format!("write {EXAMPLE}"));
                super::refuse_file(
                    &source.name.as_str().into(),
                    SourcePosition::START,
                    refusal,
                    &mut problems,
                );
            }
        }
    }
    // What gave nothing has told why.
    match (problems.finish(|_| 0), taken) {
        (Err(errors), _) => Err(errors),
        (Ok(_), Some(taken)) => Ok(taken),
        (Ok(_), None) => unreachable!("an entry without a problem gives something"),
    }
}

fn read_of<T>(
    namespace: &Namespace,
    at: &Cursor<'_, '_>,
    read: impl FnOnce(&Cursor<'_, '_>, &Fields<'_, '_>, &Rule, &mut Problems) -> Option<T>,
    problems: &mut Problems,
) -> Option<T> {
    let fields = Fields::of(at, EXAMPLE, problems)?;
    let named = fields.require("rule", "per-user", problems)?;
    let name = value::name(&named, problems)?;
    match namespace.rules.iter().find(|rule| &*rule.name == name) {
        Some(rule) => read(at, &fields, rule, problems),
        None => {
            let known = namespace.rules.iter().map(|rule| &*rule.name);
            named.refuse(problems, override_entry::no_rule(&namespace.name, name, known));
            None
        }
    }
}
