//! A file of theirs as rules of ours: one rule for each limit, which means the same.
//!
//! Their tree picks one limit for a descriptor; our rules each say whom they are for, and all that apply do. So
//! what would have been picked before a limit is lifted from its rule by overrides. What can't be said so is an
//! error, never a rule that means something else; what differs in corners is a comment in the text.

mod rivals;
mod shapes;
mod text;

use super::descriptor::{Descriptor, Level, Wildcard};
use super::domain::{Domain, EnvoyRules};
use super::limit::{Allowance, EnvoyLimit};
use super::path::DescriptorPath;
use super::unit::{EnvoyUnit, Windows};
use crate::address::looks_like_cidr;
use crate::bounds::{KEY_PARTS_MAX, NAME_CHARS_MAX};
use crate::error::{Problems, Refusal, RuleError, RuleErrors, quoted};
use crate::parse::key::{OVERRIDE_FIELDS, check_attribute};
use rivals::rivals;
use shapes::Shapes;
use std::collections::HashSet;

/// Overrides of one domain: a thousand patterns beside a thousand values would make a million.
const LIFTED_MAX: usize = 100_000;
const KEEP: &str = "leave it out, or keep the file as it is";

/// A rules file's text, and how many of its rules have a comment on what differs.
#[derive(Debug)]
pub struct Import {
    pub text: String,
    pub rules: usize,
    pub differing: usize,
}

/// Says the same in our words, or what can't be said.
pub fn import(rules: &EnvoyRules) -> Result<Import, RuleErrors> {
    let mut problems = Problems::default();
    let mut made = Import { text: String::new(), rules: 0, differing: 0 };
    for domain in rules.domains() {
        let imported = import_domain(domain, &mut problems);
        made.rules += imported.len();
        made.differing += imported.iter().filter(|rule| rule.differs.is_some()).count();
        text::write_domain(&mut made.text, &domain.name, rules.windows(), &imported);
    }
    problems.finish(|_| 0)?;
    Ok(made)
}

/// One rule of ours.
pub(crate) struct Imported<'d> {
    name: String,
    key: Vec<&'d str>,
    when: Vec<(&'d str, &'d str)>,
    limit: (u32, EnvoyUnit),
    shadow: bool,
    /// What the tree would have picked before it: an attribute, and a value or pattern of it.
    lifted: Vec<(&'d str, &'d str)>,
    differs: Option<String>,
    notes: Vec<&'static str>,
}

fn import_domain<'d>(domain: &'d Domain, problems: &mut Problems) -> Vec<Imported<'d>> {
    let shapes = Shapes::of(&domain.top);
    let mut walk = Walk { shapes, names: HashSet::new(), rules: Vec::new(), lifted: 0, problems };
    walk.level(&domain.top, &mut Vec::new());
    walk.rules
}

struct Walk<'d, 'p> {
    shapes: Shapes<'d>,
    names: HashSet<String>,
    rules: Vec<Imported<'d>>,
    /// Overrides so far.
    lifted: usize,
    problems: &'p mut Problems,
}

/// A descriptor and the siblings that it stands among.
type Steps<'d> = Vec<(&'d Level, &'d Descriptor)>;

impl<'d> Walk<'d, '_> {
    fn level(&mut self, level: &'d Level, steps: &mut Steps<'d>) {
        for descriptor in level.in_file_order() {
            steps.push((level, descriptor));
            if let Some(Wildcard::InKey(_)) = descriptor.wildcard {
                let message = format!("the pattern {} is in a key", quoted(&descriptor.key));
                let fix = "an attribute has one name: write a descriptor for each key";
                refuse(descriptor, &path(steps).to_string(), Refusal::new(message, fix), self.problems);
            } else if let Some(limit) = &descriptor.limit {
                self.limit(steps, limit);
            }
            self.level(&descriptor.below, steps);
            steps.pop();
        }
    }

    fn limit(&mut self, steps: &Steps<'d>, limit: &'d EnvoyLimit) {
        let Some((_, last)) = steps.last() else { return };
        if self.lifted > LIFTED_MAX {
            return;
        }
        let refusals = unsayable(steps, limit);
        if !refusals.is_empty() {
            let field = path(steps).to_string();
            refusals.into_iter().for_each(|refusal| refuse(last, &field, refusal, self.problems));
            return;
        }
        // Nothing to count, and what it would have been picked before is lifted there.
        let Allowance::Limited { requests_per_unit, unit } = limit.allowance else { return };
        let counted = steps.iter().filter(|(_, step)| is_counted(step));
        let lifted = counted.clone().flat_map(|(level, step)| {
            rivals(level, step).into_iter().map(|rival| (&*step.key, &*rival.value))
        });
        let valued = steps.iter().filter(|(_, step)| !step.value.is_empty());
        let imported = Imported {
            name: self.name(limit.name.as_deref(), &path(steps)),
            key: counted.clone().map(|(_, step)| &*step.key).collect(),
            when: valued.map(|(_, step)| (&*step.key, &*step.value)).collect(),
            limit: (requests_per_unit, unit),
            shadow: limit.shadow,
            lifted: lifted.collect(),
            differs: self.shapes.wider_than(&keys(steps)),
            notes: notes(steps, limit),
        };
        self.lifted += imported.lifted.len();
        if self.lifted > LIFTED_MAX {
            let message = format!("the patterns of this domain would take more than {LIFTED_MAX} overrides");
            refuse(last, &imported.name, Refusal::new(message, KEEP), self.problems);
        }
        self.rules.push(imported);
    }

    /// A name that no rule of the namespace has yet.
    fn name(&mut self, given: Option<&str>, path: &DescriptorPath<'_>) -> String {
        const NUMBER_CHARS_MAX: usize = 16;
        let wanted = given.map_or_else(|| path.to_string(), str::to_owned);
        let cut: String = wanted.chars().take(NAME_CHARS_MAX - NUMBER_CHARS_MAX).collect();
        let numbered = (2_usize..).map(|number| format!("{cut} ({number})"));
        let free = std::iter::once(cut.clone()).chain(numbered).find(|name| !self.names.contains(name));
        let name = free.unwrap_or(cut);
        self.names.insert(name.clone());
        name
    }
}

/// Why our rules can't say a limit.
fn unsayable(steps: &Steps<'_>, limit: &EnvoyLimit) -> Vec<Refusal> {
    let mut refusals = Vec::new();
    if !limit.replaces.is_empty() {
        refusals.push(Refusal::new("rules don't replace each other, so `replaces` can't be said", KEEP));
    }
    if limit.quota {
        refusals.push(Refusal::new("rules deny each by itself, so `quota_mode` can't be said", KEEP));
    }
    if let Allowance::Unlimited = limit.allowance {
        return refusals;
    }
    for (index, (level, step)) in steps.iter().enumerate() {
        refusals.extend(check_attribute(&step.key).err());
        if is_counted(step) && OVERRIDE_FIELDS.contains(&&*step.key) {
            let message =
                format!("{} can't be an attribute: overrides have a field of that name", quoted(&step.key));
            refusals.push(Refusal::new(message, "give the key another name, here and in Envoy"));
        }
        if steps[..index].iter().any(|(_, earlier)| earlier.key == step.key) {
            let message =
                format!("the key {} comes twice, and an attribute has one value", quoted(&step.key));
            refusals.push(Refusal::new(message, "give one of the two another name, here and in Envoy"));
        }
        if step.wildcard.is_none() && looks_like_cidr(&step.value) {
            let message = format!("{} would be a network in a rule, not a text", quoted(&step.value));
            refusals.push(Refusal::new(message, KEEP));
        }
        if step.shared
            && let Some(rival) = rivals(level, step).first()
        {
            let message = format!(
                "{} takes callers out of {}, whose counter is shared, which no override can say",
                quoted(&rival.value),
                quoted(&step.value)
            );
            refusals.push(Refusal::new(message, KEEP));
        }
    }
    if steps.iter().filter(|(_, step)| is_counted(step)).count() > KEY_PARTS_MAX {
        let message = format!("a rule's key has at most {KEY_PARTS_MAX} attributes");
        refusals.push(Refusal::new(message, KEEP));
    }
    refusals
}

/// Whether each value of its key has a counter of its own. An exact value needs none: there is only one.
fn is_counted(step: &Descriptor) -> bool {
    step.value.is_empty() || (step.wildcard.is_some() && !step.shared)
}

fn notes(steps: &Steps<'_>, limit: &EnvoyLimit) -> Vec<&'static str> {
    let mut notes = Vec::new();
    if limit.detailed_metric || steps.iter().any(|(_, step)| step.value_to_metric) {
        notes.push("`detailed_metric` and `value_to_metric` have no counterpart here");
    }
    notes
}

fn path<'d>(steps: &Steps<'d>) -> DescriptorPath<'d> {
    DescriptorPath(steps.iter().map(|(_, step)| (&*step.key, &*step.value)).collect())
}

fn keys<'d>(steps: &Steps<'d>) -> Vec<&'d str> {
    steps.iter().map(|(_, step)| &*step.key).collect()
}

fn refuse(at: &Descriptor, field: &str, Refusal { message, fix }: Refusal, problems: &mut Problems) {
    let field = field.chars().take(NAME_CHARS_MAX).collect();
    let (line, column) = (at.place.line, at.place.column);
    problems.push(RuleError { file: at.file.clone(), line, column, field, message, fix });
}
