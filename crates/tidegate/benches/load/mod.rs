//! What the benchmarks of the region and of the world tier are made of: nodes of the release binary, a load
//! generator, what came of it, and lines of figures.
//!
//! A benchmark names the parts in its root, and they find each other there.

pub(crate) mod connection;
pub(crate) mod figures;
pub(crate) mod fleet;
pub(crate) mod generator;
pub(crate) mod machine;
pub(crate) mod plan;
pub(crate) mod samples;
pub(crate) mod secret;
pub(crate) mod setting;
pub(crate) mod time;
