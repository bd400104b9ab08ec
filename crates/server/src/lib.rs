//! The front ends of a node: HTTP, gRPC or the Redis protocol in, the engine's one request type through.
//!
//! Owns sockets and wire formats and nothing else: it decides nothing, keeps no counts of callers, and must
//! never answer 5xx for what a caller sent.

mod admin;
mod answer;
mod body;
mod connection;
mod counters;
mod cross_site;
mod decide;
mod envoy;
mod forward_auth;
mod grpc;
mod idempotency;
mod json;
mod listener;
mod metrics;
mod preface;
mod progress;
mod rate_headers;
mod refusal;
mod request_id;
mod resp;
mod respond;
mod rota;
mod route;
mod service;
mod socket;
mod transport;
mod wire;

pub use forward_auth::MappedHeader;
pub use idempotency::Idempotency;
pub use listener::serve;
pub use rota::{Deal, Turn};
pub use socket::{Listener, ListeningSocket};

use std::sync::Arc;
use tidegate_node::Engine;
use tidegate_node::clock::Clock;
use tidegate_node::region_driver::RegionDriver;

/// What every request is answered from.
#[derive(Debug)]
pub struct App {
    pub engine: Arc<Engine>,
    pub clock: Arc<Clock>,
    /// What carries the region's messages; `None` when the node is alone.
    pub sharing: Option<Arc<RegionDriver>>,
    /// Every caller's tenant until tokens exist.
    pub tenant: String,
    /// What forward-auth takes from the original request's headers.
    pub forward_auth: Vec<MappedHeader>,
    pub idempotency: Idempotency,
    pub region: String,
    pub node: String,
}

/// Which of the node's faces a listener shows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Surface {
    /// What callers use: HTTP/1.1.
    Api,
    /// Envoy's rate limit service: gRPC.
    Grpc,
    /// Both of them on one socket: a connection that begins with HTTP/2's preface is gRPC.
    ApiAndGrpc,
    /// The Redis protocol.
    Resp,
    /// What operators use.
    Admin,
}
