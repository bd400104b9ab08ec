//! The head of a document: whose rules these are, and the modes.
//!
//! A namespace may be spread over documents and files; its mode, and the fleet's, may be said only once or
//! always alike.

use super::cursor::Cursor;
use super::fields::Fields;
use super::tree::Value;
use super::value;
use crate::error::{Problems, Refusal};
use crate::rule::{Declared, Mode};

const FIELDS: [&str; 6] = ["tenant", "namespace", "mode", "fleet_mode", "rules", "overrides"];
const EXAMPLE: &str = "`namespace: api` with `rules:` below it";
pub(crate) const DEFAULT_TENANT: &str = "default";

/// A mode and where it was said.
pub(crate) type Said = (Mode, Declared);

pub(crate) struct Head<'p> {
    pub(crate) tenant: &'p str,
    /// `None` when the document only sets the fleet's mode.
    pub(crate) namespace: Option<&'p str>,
    pub(crate) mode: Option<Said>,
    pub(crate) fleet_mode: Option<Said>,
}

/// `None`, with the errors told, when the document can't be placed.
pub(crate) fn read_head<'p>(at: &'p Cursor<'p, '_>, problems: &mut Problems) -> Option<Head<'p>> {
    let fields = Fields::of(at, EXAMPLE, problems)?;
    fields.only(&FIELDS, problems);
    let tenant = match fields.get("tenant") {
        Some(at) => value::name(&at, problems),
        None => Some(DEFAULT_TENANT),
    };
    let namespace = match fields.get("namespace") {
        Some(at) => Some(value::name(&at, problems)?),
        None => None,
    };
    let mode = fields.get("mode").and_then(|at| read_mode(&at, problems));
    let fleet_mode = fields.get("fleet_mode").and_then(|at| read_mode(&at, problems));
    let needs_namespace = ["rules", "overrides", "mode"].into_iter().find(|name| fields.get(name).is_some());
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
    Some(Head { tenant: tenant?, namespace, mode, fleet_mode })
}

fn read_mode(at: &Cursor<'_, '_>, problems: &mut Problems) -> Option<Said> {
    let modes = [("enforce", Mode::Enforce), ("shadow", Mode::Shadow), ("off", Mode::Off)];
    let mode = value::word(at, &modes, problems)?;
    Some((mode, Declared { file: at.file().clone(), line: at.place().line }))
}

/// Takes over a mode, or tells that another was said before.
pub(crate) fn agree(
    at: &Cursor<'_, '_>,
    name: &str,
    known: &mut Option<Said>,
    said: Option<Said>,
    problems: &mut Problems,
) {
    match (&*known, said) {
        (None, said) => *known = said,
        (Some((before, place)), Some((mode, _))) if *before != mode => {
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
