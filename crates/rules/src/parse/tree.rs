//! The YAML of one document as a tree that remembers the line and column of every value.
//!
//! Scalars stay text: whether `1_000` or `off` is a number or a word is for the field to say that it stands
//! in. Only `null` and its spellings are recognised here.

use std::borrow::Cow;

/// A position in a rules file: line and column, both from 1.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct SourcePosition {
    pub(crate) line: u32,
    pub(crate) column: u32,
}

impl SourcePosition {
    pub(crate) const START: SourcePosition = SourcePosition { line: 1, column: 1 };
}

#[derive(Debug)]
pub(crate) struct Node<'t> {
    pub(crate) place: SourcePosition,
    pub(crate) value: Value<'t>,
}

#[derive(Debug)]
pub(crate) enum Value<'t> {
    Null,
    Scalar(Cow<'t, str>),
    List(Vec<Node<'t>>),
    Map(Vec<MappingEntry<'t>>),
}

/// One key of a YAML mapping, with its value.
#[derive(Debug)]
pub(crate) struct MappingEntry<'t> {
    pub(crate) key: Cow<'t, str>,
    pub(crate) key_place: SourcePosition,
    pub(crate) node: Node<'t>,
}

impl Value<'_> {
    /// As a message names it: "found a list".
    pub(crate) fn kind(&self) -> &'static str {
        match self {
            Value::Null => "nothing",
            Value::Scalar(_) => "a single value",
            Value::List(_) => "a list",
            Value::Map(_) => "a map",
        }
    }
}
