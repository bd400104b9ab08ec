//! From the bytes of rules files to a rule set.
//!
//! Each step takes a place in the YAML and the list of problems, and answers with what it understood: a
//! mistake in one rule hides no mistake in the next. A set with any problem is refused whole.

mod assemble;
mod cursor;
mod document;
mod fields;
mod key;
mod override_entry;
mod policy_fields;
mod quantity;
mod rule_entry;
mod syntax;
mod tree;
mod value;
mod when;

pub(crate) use assemble::assemble;
