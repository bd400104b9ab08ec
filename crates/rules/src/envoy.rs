//! Files of envoyproxy/ratelimit, read as they are: domains, trees of descriptors, and the one limit that a
//! request's descriptor meets in them.
//!
//! Pure, like all of this crate: no IO but what [`crate::read_sources`] did before, no clock. Keys and values
//! are compared part by part and never joined, so (`a_b`, `c`) and (`a`, `b_c`) are two callers.

mod describe;
mod descriptor;
mod detect;
mod domain;
mod find;
mod import;
mod limit;
mod metric;
mod path;
mod read;
mod read_descriptor;
mod read_limit;
mod replaces;
mod scalar;
mod unit;

pub use detect::is_envoy;
pub use domain::{EnvoyOptions, EnvoyRules};
pub use find::EnvoyMatch;
pub use import::{Import, import};
pub use limit::{Allowance, EnvoyLimit};
pub use replaces::drop_replaced;
pub use unit::{EnvoyUnit, RequestLimit, Windows};
