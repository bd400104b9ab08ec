//! The head of a document: whose rules these are, the modes, and where the keys are kept.
//!
//! A namespace may be spread over documents and files; what holds for all of it, and the fleet's mode, may be
//! said only once or always alike.

use super::cursor::Cursor;
use super::fields::Fields;
use super::key::read_attribute;
use super::normalize::{DeclaredForms, read_normalize};
use super::tree::Value;
use super::value;
use crate::error::{Problems, Refusal};
use crate::rule::{Declaration, Mode};
use crate::suggest;

const FIELDS: [&str; 8] =
    ["tenant", "namespace", "mode", "place_by", "normalize", "fleet_mode", "rules", "overrides"];
/// Fields of a rule that no document has: most likely its line isn't indented.
const OF_A_RULE: [&str; 10] =
    ["name", "key", "when", "limit", "rate", "burst", "class", "accuracy", "scope", "on_missing"];
const EXAMPLE: &str = "`namespace: api` with `rules:` below it";
pub(crate) const DEFAULT_TENANT: &str = "default";

/// A value that holds for a namespace or the fleet, and where it is declared.
pub(crate) type Located<T> = (T, Declaration);

pub(crate) struct Head<'p> {
    pub(crate) tenant: &'p str,
    /// `None` when the document only sets the fleet's mode.
    pub(crate) namespace: Option<&'p str>,
    pub(crate) mode: Option<Located<Mode>>,
    pub(crate) place_by: Option<Located<&'p str>>,
    pub(crate) normalize: Option<Located<DeclaredForms>>,
    pub(crate) fleet_mode: Option<Located<Mode>>,
}

/// `None`, with the errors told, when the document can't be placed.
pub(crate) fn read_head<'p>(at: &'p Cursor<'p, '_>, problems: &mut Problems) -> Option<Head<'p>> {
    let fields = Fields::of(at, EXAMPLE, problems)?;
    for entry in fields.entries().iter().filter(|entry| !FIELDS.contains(&&*entry.key)) {
        let fix = if OF_A_RULE.contains(&&*entry.key) {
            problems.strays.push(entry.key.to_string());
            format!("`{}` belongs to a rule: indent it as far as the rule's `name`", entry.key)
        } else {
            suggest::remedy(&entry.key, &FIELDS)
        };
        fields.unknown(entry, fix, problems);
    }
    let tenant = match fields.get("tenant") {
        Some(at) => value::name(&at, problems),
        None => Some(DEFAULT_TENANT),
    };
    let namespace = match fields.meant("namespace", &FIELDS) {
        Some(at) => Some(value::name(&at, problems)?),
        None => None,
    };
    let mode = fields.get("mode").and_then(|at| read_mode(&at, problems));
    let fleet_mode = fields.get("fleet_mode").and_then(|at| read_mode(&at, problems));
    let place_by = fields.get("place_by").and_then(|at| Some(said(&at, read_attribute(&at, problems)?)));
    let normalize = fields.get("normalize").and_then(|at| Some(said(&at, read_normalize(&at, problems)?)));
    let of_a_namespace = ["rules", "overrides", "mode", "place_by", "normalize"];
    let needs_namespace = of_a_namespace.into_iter().find(|name| fields.get(name).is_some());
    if let (None, Some(name)) = (namespace, needs_namespace) {
        let message = format!("`{name}` needs a `namespace`");
        fields.missing(
            "namespace",
            message,
            "add `namespace: api` at the top of the document".to_owned(),
            problems,
        );
        return None;
    }
    Some(Head { tenant: tenant?, namespace, mode, place_by, normalize, fleet_mode })
}

fn read_mode(at: &Cursor<'_, '_>, problems: &mut Problems) -> Option<Located<Mode>> {
    let modes = [("enforce", Mode::Enforce), ("shadow", Mode::Shadow), ("off", Mode::Off)];
    Some(said(at, value::word(at, &modes, problems)?))
}

fn said<T>(at: &Cursor<'_, '_>, value: T) -> Located<T> {
    (value, Declaration { file: at.file().clone(), line: at.place().line })
}

/// Takes over what was said, or tells that something else was said before.
pub(crate) fn agree<T: PartialEq>(
    at: &Cursor<'_, '_>,
    name: &str,
    known: &mut Option<Located<T>>,
    said: Option<Located<T>>,
    problems: &mut Problems,
) {
    match (&*known, said) {
        (None, said) => *known = said,
        (Some((before, place)), Some((now, _))) if *before != now => {
            let message = format!("`{name}` differs from what {place} says");
            let refusal = Refusal::new(message, "say it once, or the same everywhere");
            let place = at.get(name).map_or(at.place(), |field| field.place());
            at.refuse_at(problems, place, Some(name), refusal);
        }
        _ => {}
    }
}

/// A list that may be left empty; tells when it is something else.
pub(crate) fn is_list(at: &Cursor<'_, '_>, example: &str, problems: &mut Problems) -> bool {
    match at.value() {
        Value::List(_) => true,
        // Everything below it is commented out.
        Value::Null => false,
        other => {
            let message = format!("expected a list, found {}", other.kind());
            at.refuse(
                problems,
                Refusal::new(message, format!("write it as `- ` entries, such as {example}")),
            );
            false
        }
    }
}
