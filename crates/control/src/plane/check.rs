//! Whether what a push leaves behind fits together: texts under their own names, overrides that their rules can have.

use super::PlaneError;
use super::items::document_of;
use super::rule_state::RuleState;
use serde_json::Value;
use tidegate_core::FleetSecret;
use tidegate_rules::envoy::Windows;
use tidegate_rules::{Override, OverrideEffect, OverrideName, Policy, PushedRules, Rule, RuleChange, Source};

/// Whether these changes fit the rules that they make.
pub(super) fn fits(wanted: &[RuleChange], after: &RuleState) -> Result<(), PlaneError> {
    for change in wanted {
        if let RuleChange::Override { name, value: Some(value) } = change {
            check_override(after, name, value)?;
        }
    }
    Ok(())
}

/// A text that is kept under a name says that name, and no other.
pub(super) fn check_documents(wanted: &[RuleChange]) -> Result<(), PlaneError> {
    for change in wanted {
        let RuleChange::Document { name, text: Some(text) } = change else { continue };
        let source =
            Source { name: format!("{}/{}", name.tenant, name.namespace), text: text.as_bytes().to_vec() };
        let read = PushedRules::read(&[source], &FleetSecret::BUILT_IN, Windows::Fixed);
        let read = read.map_err(PlaneError::Invalid)?;
        let is_alone = read.documents.len() == 1 && read.documents.contains_key(name);
        if !is_alone || !read.overrides.is_empty() || read.fleet_mode.is_some() {
            let message = format!("the document of {} says something else than its rules", name.namespace);
            let fix = "give one namespace's rules, without `overrides` and `fleet_mode`";
            return Err(PlaneError::refused(message, fix));
        }
    }
    Ok(())
}

/// Whether an override that was given by its name fits its rule.
fn check_override(after: &RuleState, name: &OverrideName, value: &Override) -> Result<(), PlaneError> {
    let OverrideName { tenant, namespace, rule, parts } = name;
    let found = after.set.namespace(tenant, namespace);
    let found = found.and_then(|found| found.rules.iter().find(|other| other.name == *rule));
    let Some(found) = found else {
        let message = format!("an override names rule {rule} of {tenant}/{namespace}, and there is none");
        return Err(PlaneError::refused(message, "push the rule first, or remove the override"));
    };
    if parts.len() != found.key.len() {
        let key: Vec<&str> = found.key.iter().map(|part| &*part.attribute).collect();
        let message = format!(
            "an override of rule {rule} has {} values, and its key [{}]",
            parts.len(),
            key.join(", ")
        );
        return Err(PlaneError::refused(message, "give one for each, `*` for any"));
    }
    if found.key.iter().any(|part| part.group_prefix.is_some()) {
        check_groups(after, name, found)?;
    }
    fits_rule(found, value)
}

/// An address of a grouped part is given as its group: any other text would never apply.
fn check_groups(after: &RuleState, name: &OverrideName, rule: &Rule) -> Result<(), PlaneError> {
    let mut entry = serde_json::Map::new();
    entry.insert("rule".to_owned(), (*name.rule).into());
    for (part, text) in rule.key.iter().zip(&name.parts) {
        entry.insert(part.attribute.to_string(), (**text).into());
    }
    let entry = Source { name: "override".to_owned(), text: Value::Object(entry).to_string().into_bytes() };
    let read = after
        .set
        .read_override_name(&document_of(name), &entry)
        .map(|read| read.map_err(PlaneError::Invalid));
    match read.transpose()? {
        Some(read) if read == *name => Ok(()),
        Some(read) => {
            let message = format!("an override of rule {} has [{}]", name.rule, name.parts.join(", "));
            Err(PlaneError::refused(message, format!("write its group, as [{}]", read.parts.join(", "))))
        }
        None => Ok(()),
    }
}

fn fits_rule(rule: &Rule, value: &Override) -> Result<(), PlaneError> {
    let is_rate = matches!(rule.policy, Policy::Gcra { .. });
    let fits = match value.change {
        OverrideEffect::Keep | OverrideEffect::Unlimited => true,
        OverrideEffect::Limit(limit) => !is_rate || limit.get() == 0,
        OverrideEffect::Rate { .. } => is_rate,
    };
    if fits {
        return Ok(());
    }
    let (is, isnt) = if is_rate { ("a rate", "limit") } else { ("a limit", "rate") };
    let message = format!("rule {} is {is}, and an override of it gives a {isnt}", rule.name);
    Err(PlaneError::refused(message, "give what the rule has"))
}
