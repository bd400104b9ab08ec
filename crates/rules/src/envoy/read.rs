//! From the bytes of files to domains. A set with any mistake is refused whole, each mistake with its place.
//!
//! Several files, and several documents in one file, each with a domain of its own. Theirs reads the first
//! document of a file only; a later one is more likely meant than not.

use super::descriptor::{Descriptor, Level};
use super::domain::{Domain, EnvoyOptions, Prefixes};
use super::path::DescriptorPath;
use super::read_descriptor::{Names, Reading, read_level};
use super::scalar;
use crate::bounds::{ENVOY_DESCRIPTORS_MAX, ENVOY_NESTING_MAX, NAME_CHARS_MAX, NAMESPACE_COST_MAX};
use crate::error::{Problems, Refusal, RuleErrors, Warning, quoted};
use crate::parse::cursor::Cursor;
use crate::parse::fields::Fields;
use crate::parse::tree::{SourcePosition, Value};
use crate::parse::{Syntax, read_files, refuse_file, says_nothing};
use crate::rule::Declaration;
use crate::source::Source;
use std::collections::HashMap;
use std::sync::Arc;

const FIELDS: [&str; 2] = ["domain", "descriptors"];
const ELSEWHERE: [(&str, &str); 14] = [
    ("key", "to an entry of `descriptors`"),
    ("value", "to an entry of `descriptors`"),
    ("rate_limit", "to an entry of `descriptors`"),
    ("shadow_mode", "to an entry of `descriptors`"),
    ("quota_mode", "to an entry of `descriptors`"),
    ("detailed_metric", "to an entry of `descriptors`"),
    ("value_to_metric", "to an entry of `descriptors`"),
    ("share_threshold", "to an entry of `descriptors`"),
    ("metadata", "to an entry of `descriptors`"),
    ("unit", "into a `rate_limit`"),
    ("requests_per_unit", "into a `rate_limit`"),
    ("unlimited", "into a `rate_limit`"),
    ("name", "into a `rate_limit`"),
    ("replaces", "into a `rate_limit`"),
];
const EXAMPLE: &str = "`domain: edge` with `descriptors:` below it";

type Read = (Vec<Domain>, usize, Vec<Warning>);

pub(crate) fn read_domains(sources: &[&Source], options: &EnvoyOptions<'_>) -> Result<Read, RuleErrors> {
    let mut problems = Problems::default();
    let (files, syntax) = read_files(sources, ENVOY_NESTING_MAX, &mut problems);
    if let Some(first) = sources.first()
        && syntax == Syntax::Sound
        && says_nothing(&files)
    {
        let refusal = Refusal::new("there is nothing in it", "write at least `domain: edge`");
        refuse_file(&first.name.as_str().into(), SourcePosition::START, refusal, &mut problems);
    }
    let mut draft = Draft { options, domains: Vec::new(), places: HashMap::new(), read: Default::default() };
    for (file, documents) in &files {
        for node in documents.iter().filter(|node| !matches!(node.value, Value::Null)) {
            draft.read_document(&Cursor::document(file, node), &mut problems);
        }
    }
    let file_order = |name: &str| sources.iter().position(|source| source.name == name).unwrap_or(usize::MAX);
    let warnings = problems.finish(file_order)?;
    Ok((draft.domains, draft.read.limits, warnings))
}

struct Draft<'o> {
    options: &'o EnvoyOptions<'o>,
    domains: Vec<Domain>,
    places: HashMap<Box<str>, Declaration>,
    read: ReadSoFar,
}

/// Of the whole set.
#[derive(Default)]
pub(crate) struct ReadSoFar {
    pub(crate) descriptors: usize,
    pub(crate) limits: usize,
}

impl ReadSoFar {
    /// Counts one more; false, with the error told once, when there are too many.
    pub(crate) fn admit(&mut self, at: &Cursor<'_, '_>, problems: &mut Problems) -> bool {
        self.descriptors += 1;
        if self.descriptors == ENVOY_DESCRIPTORS_MAX + 1 {
            let message = format!("a set has at most {ENVOY_DESCRIPTORS_MAX} descriptors");
            at.refuse(problems, Refusal::new(message, "use a key without a value, or `*` in values"));
        }
        self.descriptors <= ENVOY_DESCRIPTORS_MAX
    }
}

impl Draft<'_> {
    fn read_document(&mut self, at: &Cursor<'_, '_>, problems: &mut Problems) {
        let Some(fields) = Fields::of(at, EXAMPLE, problems) else { return };
        scalar::only(at, &fields, &FIELDS, &ELSEWHERE, problems);
        let name = scalar::text(&fields, "domain", NAME_CHARS_MAX, problems);
        if name == Some("") {
            let place = fields.get("domain").map_or(at.place(), |field| field.place());
            let fix = "write `domain: edge`, the one that Envoy's filter is configured with";
            at.refuse_at(problems, place, Some("domain"), Refusal::new("a domain can't be empty", fix));
        }
        // The descriptors of a domain that can't be named are still looked at: their mistakes are told too.
        let name: Arc<str> = name.unwrap_or_default().into();
        if !name.is_empty() {
            self.refuse_twice(at, &name, problems);
        }
        let prefixes = Prefixes::new(self.options, &name);
        let mut names = Names::default();
        let mut reading = Reading {
            options: self.options,
            domain: &name,
            prefixes: &prefixes,
            read: &mut self.read,
            names: &mut names,
        };
        let top = match at.get("descriptors") {
            Some(list) => read_level(&list, &mut DescriptorPath::default(), &mut reading, problems),
            None => Vec::<Descriptor>::new(),
        };
        names.warn_of_unknown(problems);
        let top = Level::new(top);
        if top.cost() > NAMESPACE_COST_MAX {
            let message =
                "comparing one descriptor of a request with the domain's `*` patterns may take over 1 ms";
            let fix = "write exact values, or patterns with one `*`, or spread them over domains";
            at.refuse(problems, Refusal::new(message, fix));
        }
        let (file, place) = (at.file().clone(), at.place());
        self.domains.push(Domain { name, prefixes, top, file, place });
    }

    fn refuse_twice(&mut self, at: &Cursor<'_, '_>, name: &str, problems: &mut Problems) {
        if let Some(first) = self.places.get(name) {
            let message = format!("the domain {} exists already, at {first}", quoted(name));
            let place = at.get("domain").map_or(at.place(), |field| field.place());
            let refusal = Refusal::new(message, "put all descriptors of a domain into one document");
            at.refuse_at(problems, place, Some("domain"), refusal);
            return;
        }
        let declared = Declaration { file: at.file().clone(), line: at.place().line };
        self.places.insert(name.into(), declared);
    }
}
