//! From the bytes of rules files to a rule set.
//!
//! Each step takes a place in the YAML and the list of problems, and answers with what it understood: a
//! mistake in one rule hides no mistake in the next. A set with any problem is refused whole.

mod assemble;
mod cost;
pub(crate) mod cursor;
mod document;
pub(crate) mod fields;
mod files;
pub(crate) mod key;
mod log;
mod normalize;
mod override_entry;
mod policy_fields;
mod pushed;
mod quantity;
mod rule_entry;
mod syntax;
pub(crate) mod tree;
pub(crate) mod value;
mod when;

pub(crate) use assemble::{Assembled, Hashing, assemble, assemble_listing};
pub(crate) use cost::{Cost, OVERRIDE_FIX, OVERRIDE_MESSAGE};
pub(crate) use document::{DEFAULT_TENANT, is_list};
pub(crate) use files::{read_files, refuse_file, says_nothing};
pub(crate) use pushed::{Listing, read_entry, read_name};
pub(crate) use syntax::Syntax;
