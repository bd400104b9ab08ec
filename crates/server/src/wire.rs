//! Bodies of requests: from JSON to the engine's request type, or to a refusal that names the field.
//!
//! What comes out is valid but for what only the engine knows. Nothing here touches a count.

mod attributes;
mod body;
mod field;
mod limit_fields;
mod policy;
mod prepared;
mod rate;
mod value;

pub(crate) use body::Body;
pub(crate) use field::Form;
pub(crate) use policy::Use;
pub(crate) use prepared::PreparedCall;
pub(crate) use tidegate_rules::suggest::nearest;
pub(crate) use value::{Range, text, whole_number};
