//! The fields of a map: which are known, which are there, which are missing.
//!
//! A field that isn't known is an error, never ignored: a misspelt `limit` must not mean "no limit".

use super::cursor::Cursor;
use super::tree::{MappingEntry, Value};
use crate::error::{Problems, Refusal, quoted};
use crate::suggest;

/// The remedy for a comma within a number: between `{` and `}` the comma ends the value.
pub(crate) const NO_COMMAS: &str =
    "a comma ends a value here: write 1000 or 1_000, or put the value in quotes";

/// `000 per 1m`, the rest of `1,000 per 1m`.
fn is_end_of_number(key: &str) -> bool {
    let digits = key.bytes().take_while(u8::is_ascii_digit).count();
    digits == 3 && !key[digits..].starts_with(|c: char| c.is_alphanumeric() || c == '-')
}

#[derive(Clone, Copy)]
pub(crate) struct Fields<'p, 't> {
    at: &'p Cursor<'p, 't>,
}

impl<'p, 't> Fields<'p, 't> {
    /// `None`, with the error told, when it isn't a map.
    pub(crate) fn of(at: &'p Cursor<'p, 't>, example: &str, problems: &mut Problems) -> Option<Self> {
        if let Value::Map(_) = at.value() {
            return Some(Fields { at });
        }
        let message = format!("expected fields, found {}", at.value().kind());
        at.refuse(problems, Refusal::new(message, format!("write it as {example}")));
        None
    }

    /// Tells of every field that `known` doesn't have.
    pub(crate) fn only(&self, known: &[&str], problems: &mut Problems) {
        for entry in self.at.entries() {
            if !known.contains(&&*entry.key) {
                let fix = match is_end_of_number(&entry.key) {
                    true => NO_COMMAS.to_owned(),
                    false => suggest::remedy(&entry.key, known),
                };
                self.unknown(entry, fix, problems);
            }
        }
    }

    /// Whether a number of this map was written as `1,000`, which YAML ends at the comma.
    pub(crate) fn has_number_with_comma(&self) -> bool {
        self.at.entries().iter().any(|entry| is_end_of_number(&entry.key))
    }

    pub(crate) fn unknown(&self, entry: &MappingEntry<'t>, fix: String, problems: &mut Problems) {
        let refusal = Refusal::new(format!("unknown field {}", quoted(&entry.key)), fix);
        self.at.refuse_at(problems, entry.key_place, Some(&entry.key), refusal);
    }

    pub(crate) fn entries(&self) -> &'p [MappingEntry<'t>] {
        self.at.entries()
    }

    pub(crate) fn get(&self, name: &str) -> Option<Cursor<'p, 't>> {
        self.at.get(name)
    }

    pub(crate) fn require(
        &self,
        name: &str,
        example: &str,
        problems: &mut Problems,
    ) -> Option<Cursor<'p, 't>> {
        let found = self.get(name);
        if found.is_none() {
            self.missing(name, format!("`{name}` is missing"), format!("add `{name}: {example}`"), problems);
        }
        found
    }

    /// A field, or one that is misspelt so that it can only be this one: [`Fields::only`] has told of it, and what it
    /// holds is read, so that all mistakes are told together.
    pub(crate) fn meant(&self, name: &str, known: &[&str]) -> Option<Cursor<'p, 't>> {
        let is_misspelt = |entry: &&MappingEntry<'t>| {
            !known.contains(&&*entry.key) && suggest::nearest(&entry.key, [name]).is_some()
        };
        self.get(name).or_else(|| self.get(&self.at.entries().iter().find(is_misspelt)?.key))
    }

    /// The same for a field that must be there.
    pub(crate) fn require_meant(
        &self,
        name: &str,
        example: &str,
        known: &[&str],
        problems: &mut Problems,
    ) -> Option<Cursor<'p, 't>> {
        self.meant(name, known).or_else(|| self.require(name, example, problems))
    }

    /// An error about a field that isn't there.
    pub(crate) fn missing(&self, name: &str, message: String, fix: String, problems: &mut Problems) {
        if problems.strays.iter().any(|stray| stray == name) {
            return;
        }
        self.at.refuse_at(problems, self.at.place(), Some(name), Refusal::new(message, fix));
    }
}
