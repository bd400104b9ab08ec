//! The entries of `descriptors`, level by level.
//!
//! Reads every field, also after one was wrong, so that a descriptor's mistakes are told together.

use super::descriptor::{Descriptor, Level};
use super::domain::{EnvoyOptions, Prefixes};
use super::path::DescriptorPath;
use super::read::ReadSoFar;
use super::read_limit::read_limit;
use super::scalar;
use crate::bounds::{ENVOY_DEPTH_MAX, ENVOY_KEY_CHARS_MAX, VALUE_CHARS_MAX};
use crate::error::{Problems, Refusal, Warning, quoted};
use crate::parse::cursor::Cursor;
use crate::parse::fields::Fields;
use crate::parse::is_list;
use crate::parse::tree::{SourcePosition, Value};
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

const FIELDS: [&str; 10] = [
    "key",
    "value",
    "rate_limit",
    "descriptors",
    "shadow_mode",
    "quota_mode",
    "detailed_metric",
    "value_to_metric",
    "share_threshold",
    "metadata",
];
const ELSEWHERE: [(&str, &str); 6] = [
    ("domain", "to the top of the document"),
    ("unit", "into the `rate_limit`"),
    ("requests_per_unit", "into the `rate_limit`"),
    ("unlimited", "into the `rate_limit`"),
    ("name", "into the `rate_limit`"),
    ("replaces", "into the `rate_limit`"),
];
const EXAMPLE: &str = "`- key: user` with `rate_limit:` below it";

/// What reading a domain needs, and what it adds to.
pub(crate) struct Reading<'r> {
    pub(crate) options: &'r EnvoyOptions<'r>,
    pub(crate) domain: &'r Arc<str>,
    pub(crate) prefixes: &'r Prefixes,
    pub(crate) read: &'r mut ReadSoFar,
    pub(crate) names: &'r mut Names,
}

/// The names that a domain's limits have, and those that they replace.
#[derive(Default)]
pub(crate) struct Names {
    pub(crate) given: HashSet<Box<str>>,
    pub(crate) replaced: Vec<(Box<str>, Warning)>,
}

impl Names {
    /// Known only when the whole domain is read.
    pub(crate) fn warn_of_unknown(self, problems: &mut Problems) {
        let unknown = self.replaced.into_iter().filter(|(name, _)| !self.given.contains(name));
        unknown.for_each(|(_, warning)| problems.warn(warning));
    }
}

/// The descriptors of a list, in its order. Those with mistakes are left out: the set is refused anyway.
pub(crate) fn read_level<'p>(
    list: &'p Cursor<'p, '_>,
    path: &mut DescriptorPath<'p>,
    reading: &mut Reading<'_>,
    problems: &mut Problems,
) -> Vec<Descriptor> {
    let mut level = Vec::new();
    if !is_list(list, EXAMPLE, problems) {
        return level;
    }
    if path.0.len() == ENVOY_DEPTH_MAX {
        let message = format!("descriptors are nested more than {ENVOY_DEPTH_MAX} levels deep");
        list.refuse(problems, Refusal::new(message, "use fewer entries in a descriptor"));
        return level;
    }
    let mut places: HashMap<(Box<str>, Box<str>), SourcePosition> = HashMap::new();
    for at in list.items() {
        if !reading.read.admit(&at, problems) {
            return level;
        }
        if let Some(descriptor) = read_descriptor(&at, path, &mut places, reading, problems) {
            level.push(descriptor);
        }
    }
    level
}

fn read_descriptor(
    at: &Cursor<'_, '_>,
    path: &DescriptorPath<'_>,
    places: &mut HashMap<(Box<str>, Box<str>), SourcePosition>,
    reading: &mut Reading<'_>,
    problems: &mut Problems,
) -> Option<Descriptor> {
    let fields = Fields::of(at, EXAMPLE, problems)?;
    scalar::only(at, &fields, &FIELDS, &ELSEWHERE, problems);
    let key = read_key(at, &fields, problems);
    let value = scalar::text(&fields, "value", VALUE_CHARS_MAX, problems);
    let (key, value) = (key.unwrap_or_default(), value.unwrap_or_default());
    if !key.is_empty() {
        refuse_twice(at, (key, value), places, problems);
    }
    let shared = read_share(at, &fields, (key, value), problems);
    let value_to_metric = scalar::flag(&fields, "value_to_metric", problems);
    check_metadata(&fields, problems);

    let mut path = DescriptorPath(path.0.iter().copied().chain([(key, value)]).collect());
    let limit = read_limit(at, &fields, &path, reading, problems);
    let below = match fields.get("descriptors") {
        Some(list) => read_level(&list, &mut path, reading, problems),
        None => Vec::new(),
    };
    Some(Descriptor {
        wildcard: Descriptor::wildcard_of(key, value),
        key: key.into(),
        value: value.into(),
        limit,
        shared,
        value_to_metric,
        below: Level::new(below),
        file: at.file().clone(),
        place: at.place(),
    })
}

fn read_key<'p>(at: &Cursor<'_, '_>, fields: &Fields<'p, '_>, problems: &mut Problems) -> Option<&'p str> {
    let key = scalar::text(fields, "key", ENVOY_KEY_CHARS_MAX, problems)?;
    if key.is_empty() {
        let place = fields.get("key").map_or(at.place(), |field| field.place());
        let fix = "add `key: user`, the key of an entry that Envoy sends";
        at.refuse_at(problems, place, Some("key"), Refusal::new("a descriptor's key can't be empty", fix));
    }
    Some(key)
}

fn refuse_twice(
    at: &Cursor<'_, '_>,
    (key, value): (&str, &str),
    places: &mut HashMap<(Box<str>, Box<str>), SourcePosition>,
    problems: &mut Problems,
) {
    if let Some(first) = places.get(&(key.into(), value.into())) {
        let with_value =
            if value.is_empty() { String::new() } else { format!(" with value {}", quoted(value)) };
        let message =
            format!("the key {}{with_value} is given twice, first on line {}", quoted(key), first.line);
        at.refuse(problems, Refusal::new(message, "keep one of the two"));
        return;
    }
    places.insert((key.into(), value.into()), at.place());
}

/// Whether all values share a counter, which only those of a pattern can.
fn read_share(
    at: &Cursor<'_, '_>,
    fields: &Fields<'_, '_>,
    (key, value): (&str, &str),
    problems: &mut Problems,
) -> bool {
    let shared = scalar::flag(fields, "share_threshold", problems);
    if shared && !key.contains('*') && !value.contains('*') {
        let message = format!("`share_threshold` needs a `*` in the value, found {}", quoted(value));
        let fix = "write the value as a pattern, such as \"files/*\", or remove `share_threshold`";
        let place = fields.get("share_threshold").map_or(at.place(), |field| field.place());
        at.refuse_at(problems, place, Some("share_threshold"), Refusal::new(message, fix));
    }
    shared
}

fn check_metadata(fields: &Fields<'_, '_>, problems: &mut Problems) {
    let Some(at) = fields.get("metadata") else { return };
    match at.value() {
        Value::Null => {}
        Value::Map(_) => at.warn(problems, "is read and not passed on: answers carry no metadata yet"),
        other => {
            let message = format!("expected a map, found {}", other.kind());
            at.refuse(problems, Refusal::new(message, "write it as `{ name: value }`, or remove it"));
        }
    }
}
