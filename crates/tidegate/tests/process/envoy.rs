//! Envoy's rate limit service as its clients meet it: over gRPC, as JSON, and from a real Envoy.

pub(crate) mod abuse;
pub(crate) mod client;
mod ending;
mod files;
pub(crate) mod proto;
mod proxy;
mod region;
mod sequences;
mod wrong_calls;
