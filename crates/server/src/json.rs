//! JSON, read without copying and written into one buffer.
//!
//! Our own because each error must name its field and its remedy, numbers must be told apart by how they are
//! written (`5`, `5.0`, `5e0`), and nothing may be allocated that isn't needed. Never recurses.

pub(crate) mod decimal;
pub(crate) mod object;
pub(crate) mod read;
mod text;
pub(crate) mod write;
