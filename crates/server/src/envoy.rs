//! Envoy's rate limit service: what it asks and what it hears, whether over gRPC or as JSON.
//!
//! A domain is a namespace and a descriptor's entries are attributes; the engine decides. Nothing here knows
//! how the bytes came, and nothing of Envoy is known to what lies below.

mod decide;
mod decode;
mod encode;
mod json_reply;
mod json_request;
mod rate_limit_request;
mod verdict;

pub(crate) use decide::decide;
pub(crate) use decode::decode;
pub(crate) use encode::{encode, encode_denial};
pub(crate) use json_reply::to_json;
pub(crate) use json_request::JsonRequest;
pub(crate) use tidegate_control::protobuf;
pub(crate) use verdict::Verdict;
