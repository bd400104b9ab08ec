//! A value in a file and the way to it: what every error needs to say where it is.
//!
//! The way is a chain of borrows on the stack; its text is made only when there is an error to tell.

use super::tree::{MappingEntry, Node, SourcePosition, Value};
use crate::error::{Problems, Refusal, RuleError, Warning};
use std::fmt;
use std::sync::Arc;

#[derive(Clone, Copy, Debug)]
enum Step<'p> {
    Document,
    Name(&'p str),
    Index(usize),
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Cursor<'p, 't> {
    file: &'p Arc<str>,
    parent: Option<&'p Cursor<'p, 't>>,
    step: Step<'p>,
    node: &'p Node<'t>,
}

impl<'p, 't> Cursor<'p, 't> {
    pub(crate) fn document(file: &'p Arc<str>, node: &'p Node<'t>) -> Self {
        Cursor { file, parent: None, step: Step::Document, node }
    }

    pub(crate) fn value(&self) -> &'p Value<'t> {
        &self.node.value
    }

    pub(crate) fn place(&self) -> SourcePosition {
        self.node.place
    }

    pub(crate) fn file(&self) -> &'p Arc<str> {
        self.file
    }

    pub(crate) fn field(&'p self, entry: &'p MappingEntry<'t>) -> Cursor<'p, 't> {
        Cursor { file: self.file, parent: Some(self), step: Step::Name(&entry.key), node: &entry.node }
    }

    /// A field of a map by its name.
    pub(crate) fn get(&'p self, name: &str) -> Option<Cursor<'p, 't>> {
        self.entries().iter().find(|entry| entry.key == name).map(|entry| self.field(entry))
    }

    fn item(&'p self, index: usize, node: &'p Node<'t>) -> Cursor<'p, 't> {
        Cursor { file: self.file, parent: Some(self), step: Step::Index(index), node }
    }

    /// The items of a list; of anything else, none.
    pub(crate) fn items(&'p self) -> impl Iterator<Item = Cursor<'p, 't>> {
        let items = match &self.node.value {
            Value::List(items) => items.as_slice(),
            _ => &[],
        };
        items.iter().enumerate().map(|(index, node)| self.item(index, node))
    }

    /// The entries of a map; of anything else, none.
    pub(crate) fn entries(&self) -> &'p [MappingEntry<'t>] {
        match &self.node.value {
            Value::Map(entries) => entries,
            _ => &[],
        }
    }

    pub(crate) fn refuse(&self, problems: &mut Problems, refusal: Refusal) {
        self.refuse_at(problems, self.node.place, None, refusal);
    }

    /// An error of a field that this map lacks, or of the name of one that it has.
    pub(crate) fn refuse_at(
        &self,
        problems: &mut Problems,
        place: SourcePosition,
        name: Option<&str>,
        refusal: Refusal,
    ) {
        let SourcePosition { line, column } = place;
        let Refusal { message, fix } = refusal;
        let field = self.field_text(name);
        problems.push(RuleError { file: self.file.clone(), line, column, field, message, fix });
    }

    pub(crate) fn warn(&self, problems: &mut Problems, message: impl Into<String>) {
        let SourcePosition { line, column } = self.node.place;
        let field = self.field_text(None);
        problems.warn(Warning { file: self.file.clone(), line, column, field, message: message.into() });
    }

    fn field_text(&self, name: Option<&str>) -> String {
        let path = self.to_string();
        match name {
            None if path.is_empty() => "document".to_owned(),
            None => path,
            Some(name) if path.is_empty() => shown_name(name),
            Some(name) => format!("{path}.{}", shown_name(name)),
        }
    }
}

/// `rules[2].when.endpoint`; empty for the document itself.
impl fmt::Display for Cursor<'_, '_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(parent) = self.parent {
            parent.fmt(f)?;
        }
        match self.step {
            Step::Document => Ok(()),
            Step::Index(index) => write!(f, "[{index}]"),
            Step::Name(name) => {
                let at_start = self.parent.is_none_or(|parent| matches!(parent.step, Step::Document));
                write!(f, "{}{}", if at_start { "" } else { "." }, shown_name(name))
            }
        }
    }
}

/// A field's name as paths show it: escaped, cut, and visible also when it is empty.
pub(crate) fn shown_name(name: &str) -> String {
    const SHOWN_CHARS_MAX: usize = 64;
    if name.is_empty() {
        return "\"\"".to_owned();
    }
    name.chars().take(SHOWN_CHARS_MAX).flat_map(char::escape_debug).collect()
}
