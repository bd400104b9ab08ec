//! The way from a domain down to a descriptor: what names it to people, and its stand-in when the table is full.

use crate::bounds::NAME_CHARS_MAX;
use std::fmt;
use tidegate_core::{KeyId, KeyPrefix};

/// Keys and values from the top; an empty value is any.
#[derive(Clone, Debug, Default)]
pub(crate) struct DescriptorPath<'p>(pub(crate) Vec<(&'p str, &'p str)>);

/// `key1=value1/subkey1`.
impl fmt::Display for DescriptorPath<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, (key, value)) in self.0.iter().enumerate() {
            let slash = if index > 0 { "/" } else { "" };
            let equals = if value.is_empty() { "" } else { "=" };
            write!(f, "{slash}{key}{equals}{value}")?;
        }
        Ok(())
    }
}

impl DescriptorPath<'_> {
    /// A name for a limit that the file gives none, no longer than names are.
    pub(crate) fn name(&self) -> String {
        self.to_string().chars().take(NAME_CHARS_MAX).collect()
    }

    /// A key that no caller has: theirs have an even number of parts, two for each entry.
    pub(crate) fn overflow_key(&self, prefix: &KeyPrefix) -> KeyId {
        let parts = self.0.iter().flat_map(|(key, value)| [*key, *value]);
        prefix.key_of_parts(std::iter::once("overflow").chain(parts))
    }
}
