//! One entry of `rules`.
//!
//! Reads every field, also after one was wrong, so that a rule's mistakes are told together.

use super::cursor::Cursor;
use super::fields::Fields;
use super::key::read_key;
use super::log::read_log;
use super::policy_fields::{Calendars, read_policy};
use super::tree::Value;
use super::value;
use super::when::read_when;
use crate::bounds::{DESCRIPTION_CHARS_MAX, NAME_CHARS_MAX};
use crate::error::{Problems, Refusal, quoted};
use crate::identifier::overflow_key;
use crate::overrides::Lookup;
use crate::rule::{Declaration, LogSampling, OnMissing, Rule, Scope};
use crate::snapshot::LookupSeed;
use std::sync::Arc;
use tidegate_core::{Accuracy, Charge, Class, FleetSecret, KeyPrefix};

const FIELDS: [&str; 16] = [
    "name",
    "key",
    "when",
    "limit",
    "rate",
    "burst",
    "class",
    "accuracy",
    "scope",
    "time_zone",
    "algorithm",
    "shadow",
    "on_missing",
    "charge",
    "log",
    "description",
];
const EXAMPLE: &str = "`{ name: per-user, key: [user], rate: 100/s }`";

/// Where a rule belongs.
pub(crate) struct Home<'c> {
    pub(crate) secret: &'c FleetSecret,
    pub(crate) seed: LookupSeed,
    pub(crate) tenant: &'c Arc<str>,
    pub(crate) namespace: &'c Arc<str>,
    pub(crate) calendars: &'c mut Calendars,
}

/// The name of an entry, for whoever refers to it, also when the rest of it is wrong.
pub(crate) fn name_of<'p>(at: &'p Cursor<'p, '_>) -> Option<&'p str> {
    match at.get("name")?.value() {
        Value::Scalar(name) if !name.is_empty() && name.len() <= 4 * NAME_CHARS_MAX => Some(name),
        _ => None,
    }
}

pub(crate) fn read_rule(at: &Cursor<'_, '_>, home: &mut Home<'_>, problems: &mut Problems) -> Option<Rule> {
    let errors_before = problems.count();
    let fields = Fields::of(at, EXAMPLE, problems)?;
    fields.only(&FIELDS, problems);

    let name =
        fields.require_meant("name", "per-user", &FIELDS, problems).and_then(|at| value::name(&at, problems));
    let key = fields.require_meant("key", "[user]", &FIELDS, problems).and_then(|at| read_key(&at, problems));
    let when = fields.get("when").map_or_else(|| Some(Default::default()), |at| read_when(&at, problems));
    let policy = read_policy(&fields, home.calendars, problems);
    let options = read_options(&fields, problems);
    let description = fields.get("description").and_then(|at| read_description(&at, problems));
    if problems.count() > errors_before {
        return None;
    }
    let (name, key, when, policy) = (name?, key?, when?, policy?);
    let prefix = KeyPrefix::new(home.secret, home.tenant, home.namespace, name, policy.shape());
    let rule = Rule {
        name: name.into(),
        tenant: home.tenant.clone(),
        namespace: home.namespace.clone(),
        description,
        key,
        policy,
        class: options.class,
        accuracy: options.accuracy,
        scope: options.scope,
        shadow: options.shadow,
        on_missing: options.on_missing,
        charge: options.charge,
        log: options.log,
        declared: Declaration { file: at.file().clone(), line: at.place().line },
        prefix,
        overflow_key: overflow_key(&prefix),
        series: Default::default(),
        when,
        forms: Default::default(),
        lookup: Some(Lookup::new(home.seed, home.tenant, home.namespace, name)),
    };
    Some(rule)
}

struct Options {
    class: Class,
    accuracy: Accuracy,
    scope: Option<Scope>,
    shadow: bool,
    on_missing: OnMissing,
    charge: Charge,
    log: LogSampling,
}

fn read_options(fields: &Fields<'_, '_>, problems: &mut Problems) -> Options {
    let classes = [("paid", Class::Paid), ("free", Class::Free), ("abuse", Class::Abuse)];
    let accuracies = [
        ("fast", Accuracy::Fast),
        ("bounded", Accuracy::Bounded),
        ("exact", Accuracy::Exact),
        ("async", Accuracy::Async),
    ];
    let scopes = [("region", Scope::Region), ("world", Scope::World)];
    let on_missing = [("skip", OnMissing::Skip), ("deny", OnMissing::Deny)];
    let charges = [("admitted", Charge::IfAdmitted), ("always", Charge::Always)];
    Options {
        class: value::field_word(fields, "class", &classes, problems).unwrap_or_default(),
        accuracy: value::field_word(fields, "accuracy", &accuracies, problems).unwrap_or_default(),
        scope: value::field_word(fields, "scope", &scopes, problems),
        shadow: fields.get("shadow").and_then(|at| value::boolean(&at, problems)).unwrap_or(false),
        on_missing: value::field_word(fields, "on_missing", &on_missing, problems).unwrap_or_default(),
        charge: value::field_word(fields, "charge", &charges, problems).unwrap_or(Charge::IfAdmitted),
        log: fields.get("log").and_then(|at| read_log(&at, problems)).unwrap_or_default(),
    }
}

fn read_description(at: &Cursor<'_, '_>, problems: &mut Problems) -> Option<Box<str>> {
    let text = value::text(at, DESCRIPTION_CHARS_MAX, problems)?;
    if text.chars().any(|c| c.is_control() && !matches!(c, '\n' | '\t')) {
        let message = format!("{} has a control character", quoted(text));
        at.refuse(problems, Refusal::new(message, "remove it"));
    }
    Some(text.into())
}
