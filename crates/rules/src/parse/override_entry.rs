//! One entry of `overrides`: which callers of which rule, and what changes for them.
//!
//! Never lets an override change what belongs to the identity: another period would mean other counts.

use super::cursor::Cursor;
use super::fields::Fields;
use super::key::OVERRIDE_FIELDS;
use super::policy_fields::{burst_of, refills};
use super::quantity::{self, LimitText, Window};
use super::value;
use crate::address::group_of;
use crate::bounds::VALUE_CHARS_MAX;
use crate::error::{Problems, Refusal, quoted};
use crate::form::Form;
use crate::identifier::KeyPart;
use crate::overrides::{Collected, Override, OverrideEffect, PartMatch};
use crate::pattern::Pattern;
use crate::policy::Policy;
use crate::rule::Rule;
use crate::suggest;
use crate::words;
use tidegate_core::{Limit, Nanos};

pub(crate) const EXAMPLE: &str = "`{ rule: per-user, user: \"acme-*\", rate: 1000/s }`";

/// Reads an entry about a rule: whom it names, and what it changes for them.
pub(crate) fn read_override(
    at: &Cursor<'_, '_>,
    fields: &Fields<'_, '_>,
    rule: &Rule,
    problems: &mut Problems,
) -> Option<(Vec<PartMatch>, Override)> {
    let errors_before = problems.count();
    let parts = read_parts(fields, rule, problems);
    let change = read_change(fields, rule, problems);
    let flag =
        |name: &str, problems: &mut Problems| fields.get(name).and_then(|at| value::boolean(&at, problems));
    let hot = flag("hot", problems).unwrap_or(false);
    let until = fields.get("until").map(|at| value::instant(&at, problems));
    let (Some(parts), Some(change)) = (parts, change) else { return None };
    // Last: who mends a field that is wrong mostly names the caller as well.
    if problems.count() > errors_before || refuse_everybody(at, fields, rule, problems) {
        return None;
    }
    if change == OverrideEffect::Keep && !hot {
        let fix = "give `limit`, `rate`, `burst`, `unlimited: true` or `hot: true`";
        at.refuse(problems, Refusal::new("the override changes nothing", fix));
        return None;
    }
    Some((parts, Override { change, hot, until: until.flatten().unwrap_or(Nanos::MAX) }))
}

/// Whom an entry names.
pub(crate) fn read_caller(
    at: &Cursor<'_, '_>,
    fields: &Fields<'_, '_>,
    rule: &Rule,
    problems: &mut Problems,
) -> Option<Vec<PartMatch>> {
    let errors_before = problems.count();
    let parts = read_parts(fields, rule, problems)?;
    (problems.count() == errors_before && !refuse_everybody(at, fields, rule, problems)).then_some(parts)
}

/// Each part of the rule's key; `None` where one was wrong.
fn read_parts(fields: &Fields<'_, '_>, rule: &Rule, problems: &mut Problems) -> Option<Vec<PartMatch>> {
    refuse_unknown(fields, rule, problems);
    let part = |part: &KeyPart| match fields.get(&part.attribute) {
        None => Some(PartMatch::Anything),
        Some(at) => read_part(&at, part, rule.forms.of(&part.attribute), problems),
    };
    // All of them are looked at: each mistake is told.
    let parts: Vec<Option<PartMatch>> = rule.key.iter().map(part).collect();
    parts.into_iter().collect()
}

fn refuse_unknown(fields: &Fields<'_, '_>, rule: &Rule, problems: &mut Problems) {
    let attributes: Vec<&str> = rule.key.iter().map(|part| &*part.attribute).collect();
    for entry in fields.entries() {
        let name = &*entry.key;
        if OVERRIDE_FIELDS.contains(&name) || attributes.contains(&name) {
            continue;
        }
        let known = attributes.iter().chain(&OVERRIDE_FIELDS).copied();
        let fix = match suggest::nearest(name, known) {
            Some(candidate) => format!("did you mean `{candidate}`?"),
            None if attributes.is_empty() => format!("rule {} has no key attributes", quoted(&rule.name)),
            None => format!("the key of rule {} has: {}", quoted(&rule.name), attributes.join(", ")),
        };
        fields.unknown(entry, fix, problems);
    }
}

/// An override that names no caller is more likely a lost line than meant for all. Tells whether it was refused.
fn refuse_everybody(
    at: &Cursor<'_, '_>,
    fields: &Fields<'_, '_>,
    rule: &Rule,
    problems: &mut Problems,
) -> bool {
    let is_named = rule.key.iter().any(|part| fields.get(&part.attribute).is_some());
    let Some(first) = rule.key.first().filter(|_| !is_named) else { return false };
    let fix = format!("name a caller, or write `{}: \"*\"` for all of them", first.attribute);
    at.refuse(problems, Refusal::new("the override names no caller", fix));
    true
}

fn read_part(at: &Cursor<'_, '_>, part: &KeyPart, form: Form, problems: &mut Problems) -> Option<PartMatch> {
    let text = value::line(at, VALUE_CHARS_MAX, problems)?;
    if let Some(pattern) = Pattern::new(&form.pattern(text)) {
        return Some(PartMatch::Pattern(pattern));
    }
    let Some(length) = part.group_prefix else { return Some(PartMatch::Exact(form.normal(text))) };
    // A group may be given by any of its addresses, or as answers show it: `2001:db8::/64`.
    let address = text.strip_suffix(&format!("/{length}")).unwrap_or(text);
    if let Some(group) = group_of(address, length) {
        return Some(PartMatch::Exact(group.as_str().into()));
    }
    let message = format!("{} isn't an IP address or a /{length} of them", quoted(text));
    let fix = "give one address or a `*` pattern; for a network, write a rule with `when`";
    at.refuse(problems, Refusal::new(message, fix));
    None
}

fn read_change(fields: &Fields<'_, '_>, rule: &Rule, problems: &mut Problems) -> Option<OverrideEffect> {
    let given: Vec<&str> =
        ["limit", "rate", "burst"].into_iter().filter(|name| fields.get(name).is_some()).collect();
    let unlimited = match fields.get("unlimited") {
        None => false,
        Some(at) => {
            let unlimited = value::boolean(&at, problems)?;
            if unlimited && !given.is_empty() {
                let message = format!("`unlimited` contradicts `{}`", given.join("` and `"));
                at.refuse(problems, Refusal::new(message, "keep one of them"));
                return None;
            }
            unlimited
        }
    };
    match (unlimited, fields.get("limit")) {
        (true, _) => Some(OverrideEffect::Unlimited),
        (false, Some(at)) if given.len() > 1 => {
            let message = format!("`limit` contradicts `{}`", given[1..].join("` and `"));
            at.refuse(problems, Refusal::new(message, "keep one of them"));
            None
        }
        (false, Some(at)) => read_limit(&at, rule, problems),
        (false, None) => read_rate(fields, rule, problems),
    }
}

fn read_limit(at: &Cursor<'_, '_>, rule: &Rule, problems: &mut Problems) -> Option<OverrideEffect> {
    let LimitText { limit, window } = value::parsed(at, problems, quantity::limit)?;
    let own_window = match &rule.policy {
        Policy::Sliding { period, .. } | Policy::Fixed { period, .. } => Some(Window::Rolling(*period)),
        Policy::Calendar { calendar, .. } => Some(Window::Calendar(calendar.unit())),
        Policy::Gcra { .. } => None,
    };
    let refusal = match (window, own_window) {
        (None, Some(_)) => return Some(OverrideEffect::Limit(limit)),
        (None, None) if limit == Limit::BLOCKED => return Some(OverrideEffect::Limit(limit)),
        (Some(given), Some(own)) if given == own => return Some(OverrideEffect::Limit(limit)),
        (_, None) => {
            let message = format!("rule {} is a rate, not a limit", quoted(&rule.name));
            Refusal::new(message, "give `rate` or `burst`; `limit: 0` blocks")
        }
        (Some(_), Some(_)) => {
            let own = words::window(&rule.policy);
            let message = format!(
                "rule {} counts {own}, and a period is part of what a counter is",
                quoted(&rule.name)
            );
            Refusal::new(
                message,
                format!("write only the number, `limit: {}`, or make it a rule of its own", limit.get()),
            )
        }
    };
    at.refuse(problems, refusal);
    None
}

fn read_rate(fields: &Fields<'_, '_>, rule: &Rule, problems: &mut Problems) -> Option<OverrideEffect> {
    let Policy::Gcra { rate: own_rate, .. } = rule.policy else {
        let Some(at) = fields.get("rate").or_else(|| fields.get("burst")) else {
            return Some(OverrideEffect::Keep);
        };
        let message = format!("rule {} is a limit, not a rate", quoted(&rule.name));
        at.refuse(problems, Refusal::new(message, "give `limit: N`, or make it a rule of its own"));
        return None;
    };
    let rate = fields.get("rate").map(|at| value::parsed(&at, problems, quantity::rate));
    let burst = fields.get("burst").map(|at| value::parsed(&at, problems, burst_of));
    match (rate, burst) {
        (None, None) => Some(OverrideEffect::Keep),
        (rate, burst) => {
            let rate = rate.unwrap_or(Some(own_rate))?;
            // As in a rule: a new rate without a burst gets one second's worth of itself.
            let burst = burst.unwrap_or(Some(rate.one_second_of_burst()))?;
            if let Some(at) = fields.get("burst") {
                refills(&at, rate, burst, problems)?;
            }
            Some(OverrideEffect::Rate { rate, burst })
        }
    }
}

/// Takes in what was read of an entry about this rule.
pub(crate) fn add(
    at: &Cursor<'_, '_>,
    rule: &Rule,
    parts: Vec<PartMatch>,
    applied: Override,
    collected: &mut Collected,
    problems: &mut Problems,
) {
    for (part, matched) in rule.key.iter().zip(&parts) {
        let PartMatch::Exact(value) = matched else { continue };
        if part.group_prefix.is_none() && !rule.when.admit(&part.attribute, value) {
            let message =
                format!("never applies: the rule's `when` leaves out {} {}", part.attribute, quoted(value));
            at.warn(problems, message);
        }
    }
    if !parts.iter().all(|part| matches!(part, PartMatch::Exact(_))) {
        collected.add_pattern(rule, parts.into(), applied);
        return;
    }
    if !collected.add_exact(rule, &parts, applied) {
        at.warn(
            problems,
            "never applies: an earlier override for the same identifier lasts as long or longer",
        );
    }
}

pub(crate) fn no_rule<'n>(namespace: &str, name: &str, known: impl Iterator<Item = &'n str>) -> Refusal {
    let fix = match suggest::nearest(name, known) {
        Some(candidate) => format!("did you mean `{candidate}`?"),
        None => "name a rule of the same namespace".to_owned(),
    };
    Refusal::new(format!("namespace {} has no rule {}", quoted(namespace), quoted(name)), fix)
}
