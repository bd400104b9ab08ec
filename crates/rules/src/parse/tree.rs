//! The YAML of one document as a tree that remembers the line and column of every value.
//!
//! Scalars stay text: whether `1_000` or `off` is a number or a word is for the field to say that it stands
//! in. Only `null` and its spellings are recognised here.

use std::borrow::Cow;

/// Line and column, both from 1.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Place {
    pub(crate) line: u32,
    pub(crate) column: u32,
}

impl Place {
    pub(crate) const START: Place = Place { line: 1, column: 1 };
}

#[derive(Debug)]
pub(crate) struct Node<'t> {
    pub(crate) place: Place,
    pub(crate) value: Value<'t>,
}

#[derive(Debug)]
pub(crate) enum Value<'t> {
    Null,
    Scalar(Cow<'t, str>),
    List(Vec<Node<'t>>),
    Map(Vec<Entry<'t>>),
}

#[derive(Debug)]
pub(crate) struct Entry<'t> {
    pub(crate) key: Cow<'t, str>,
    pub(crate) key_place: Place,
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
