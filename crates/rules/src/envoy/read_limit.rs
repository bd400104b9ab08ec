//! A descriptor's `rate_limit`, and what of the descriptor belongs to it.

use super::limit::{Allowance, EnvoyLimit};
use super::path::DescriptorPath;
use super::read_descriptor::Reading;
use super::scalar;
use super::unit::EnvoyUnit;
use crate::bounds::{ENVOY_REPLACES_MAX, NAME_CHARS_MAX};
use crate::error::{Problems, Refusal, Warning, quoted};
use crate::identifier::KeyPart;
use crate::parse::cursor::Cursor;
use crate::parse::fields::Fields;
use crate::parse::is_list;
use crate::parse::tree::Value;
use crate::rule::{Declaration, LogSampling, OnMissing, Rule};
use crate::suggest;
use tidegate_core::{Accuracy, Charge, Class};

const FIELDS: [&str; 5] = ["unit", "requests_per_unit", "unlimited", "name", "replaces"];
const ELSEWHERE: [(&str, &str); 11] = [
    ("domain", "to the top of the document"),
    ("key", "beside the `rate_limit`"),
    ("value", "beside the `rate_limit`"),
    ("rate_limit", "to an entry of `descriptors`"),
    ("descriptors", "beside the `rate_limit`"),
    ("shadow_mode", "beside the `rate_limit`"),
    ("quota_mode", "beside the `rate_limit`"),
    ("detailed_metric", "beside the `rate_limit`"),
    ("value_to_metric", "beside the `rate_limit`"),
    ("share_threshold", "beside the `rate_limit`"),
    ("metadata", "beside the `rate_limit`"),
];
const EXAMPLE: &str = "`{ unit: minute, requests_per_unit: 100 }`";

/// `None` when the descriptor has no limit, or one with mistakes.
pub(crate) fn read_limit(
    descriptor: &Cursor<'_, '_>,
    beside: &Fields<'_, '_>,
    path: &DescriptorPath<'_>,
    reading: &mut Reading<'_>,
    problems: &mut Problems,
) -> Option<EnvoyLimit> {
    let [shadow, quota, detailed_metric] =
        ["shadow_mode", "quota_mode", "detailed_metric"].map(|name| scalar::flag(beside, name, problems));
    let at = beside.get("rate_limit").filter(|at| !matches!(at.value(), Value::Null))?;
    let fields = Fields::of(&at, EXAMPLE, problems)?;
    scalar::only(&at, &fields, &FIELDS, &ELSEWHERE, problems);
    reading.read.limits += 1;

    let name = scalar::text(&fields, "name", NAME_CHARS_MAX, problems).filter(|name| !name.is_empty());
    reading.names.given.extend(name.map(Box::from));
    let replaces = read_replaces(&fields, name, reading, problems);
    let allowance = read_allowance(&at, &fields, problems)?;
    let declared = Declaration { file: at.file().clone(), line: descriptor.place().line };
    let rule = Rule { shadow, ..rule(allowance, name, declared, path, reading) };
    let name = name.map(Box::from);
    Some(EnvoyLimit { rule, allowance, name, replaces, shadow, quota, detailed_metric })
}

fn read_allowance(
    at: &Cursor<'_, '_>,
    fields: &Fields<'_, '_>,
    problems: &mut Problems,
) -> Option<Allowance> {
    let unlimited = scalar::flag(fields, "unlimited", problems);
    let unit = scalar::text(fields, "unit", NAME_CHARS_MAX, problems)?;
    let count = fields.get("requests_per_unit").filter(|at| !matches!(at.value(), Value::Null));
    let place = fields.get("unit").map_or(at.place(), |field| field.place());
    if unlimited {
        if !unit.is_empty() {
            let refusal =
                Refusal::new("a limit has no `unit` when it is `unlimited`", "remove one of the two");
            at.refuse_at(problems, place, Some("unit"), refusal);
            return None;
        }
        if let Some(count) = count {
            count.warn(problems, "does nothing: the limit is `unlimited`");
        }
        return Some(Allowance::Unlimited);
    }
    let names = EnvoyUnit::ALL.map(EnvoyUnit::name);
    let found = EnvoyUnit::parse(unit);
    if found.is_none() {
        let message = if unit.is_empty() {
            "`unit` is missing".to_owned()
        } else {
            format!("{} isn't a unit", quoted(unit))
        };
        at.refuse_at(problems, place, Some("unit"), Refusal::new(message, suggest::remedy(unit, &names)));
    }
    let count = match count {
        Some(count) => scalar::number(&count, problems),
        None => {
            at.warn(
                problems,
                "`requests_per_unit` is missing, and so 0: it blocks every caller that it matches",
            );
            Some(0)
        }
    };
    Some(Allowance::Limited { requests_per_unit: count?, unit: found? })
}

fn read_replaces(
    fields: &Fields<'_, '_>,
    own_name: Option<&str>,
    reading: &mut Reading<'_>,
    problems: &mut Problems,
) -> Box<[Box<str>]> {
    const EXAMPLE: &str = "`- name: banned`";
    let Some(list) = fields.get("replaces") else { return Box::default() };
    if !is_list(&list, EXAMPLE, problems) {
        return Box::default();
    }
    if list.items().count() > ENVOY_REPLACES_MAX {
        let message = format!("a limit replaces at most {ENVOY_REPLACES_MAX} others");
        list.refuse(problems, Refusal::new(message, "give limits that are replaced together one name"));
        return Box::default();
    }
    let mut names: Vec<Box<str>> = Vec::new();
    for at in list.items() {
        let Some(fields) = Fields::of(&at, EXAMPLE, problems) else { continue };
        scalar::only(&at, &fields, &["name"], &[], problems);
        let Some(name) = scalar::text(&fields, "name", NAME_CHARS_MAX, problems) else { continue };
        let place = fields.get("name").map_or(at.place(), |field| field.place());
        let mut refuse = |message: &str, fix: &str| {
            at.refuse_at(problems, place, Some("name"), Refusal::new(message, fix));
        };
        if name.is_empty() {
            refuse("the limit to replace has no name", "add `name:` with the name of another limit");
        } else if own_name == Some(name) {
            refuse("a limit can't replace itself", "name another limit, or remove it");
        } else {
            reading.names.replaced.push((name.into(), unknown(&at, name)));
            names.push(name.into());
        }
    }
    names.into()
}

fn unknown(at: &Cursor<'_, '_>, name: &str) -> Warning {
    Warning {
        file: at.file().clone(),
        line: at.place().line,
        column: at.place().column,
        field: at.to_string(),
        message: format!("replaces nothing: no limit of this domain is named {}", quoted(name)),
    }
}

/// The limit as the engine knows limits.
fn rule(
    allowance: Allowance,
    name: Option<&str>,
    declared: Declaration,
    path: &DescriptorPath<'_>,
    reading: &Reading<'_>,
) -> Rule {
    let (requests_per_unit, unit) = match allowance {
        Allowance::Limited { requests_per_unit, unit } => (requests_per_unit, unit),
        Allowance::Unlimited => (u32::MAX, EnvoyUnit::Second),
    };
    let prefix = *reading.prefixes.of(unit);
    let key = path.0.iter().map(|(key, _)| KeyPart { attribute: (*key).into(), group_prefix: None });
    Rule {
        name: name.map_or_else(|| path.name().into(), Into::into),
        tenant: reading.options.tenant.into(),
        namespace: reading.domain.clone(),
        description: None,
        key: key.collect(),
        policy: reading.options.windows.policy(requests_per_unit, unit),
        class: Class::default(),
        accuracy: Accuracy::default(),
        scope: None,
        shadow: false,
        on_missing: OnMissing::default(),
        charge: Charge::IfAdmitted,
        log: LogSampling::default(),
        declared,
        overflow_key: path.overflow_key(&prefix),
        series: Default::default(),
        prefix,
        when: Default::default(),
        forms: Default::default(),
        lookup: None,
    }
}
