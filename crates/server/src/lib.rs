//! The front ends of a node: HTTP, gRPC or the Redis protocol in, the engine's one request type through.
//!
//! Owns sockets and wire formats, and the overrides that callers of Unkey's API set: it decides nothing, keeps no
//! counts of callers, and must never answer 5xx for what a caller sent.

mod access;
mod admin;
mod answer;
mod body;
mod budget;
mod buffers;
mod connection;
mod connection_balancer;
mod control;
mod control_relay;
mod counters;
mod cross_site;
mod dashboard;
mod decide;
mod envoy;
mod fast_path;
pub mod for_caller;
mod forward_auth;
#[cfg(feature = "fuzz")]
pub mod fuzz;
mod grpc;
mod history;
mod idempotency;
mod json;
mod latency;
mod listener;
mod log_gate;
mod metrics;
mod openapi;
pub mod otlp;
mod pipeline;
mod preface;
mod progress;
mod rate_headers;
mod refusal;
mod request_id;
mod resp;
mod respond;
mod route;
mod service;
mod socket;
mod tls;
mod token;
mod trace;
mod transport;
mod unkey;
mod why;
mod wire;

pub use access::{Permission, Permissions, TokenRecord, Tokens};
pub use connection_balancer::{BalancePolicy, BalancedListener};
pub use control::{ControlApp, serve_control};
pub use forward_auth::{ForwardAuth, MappedHeader};
pub use history::{History, record_history};
pub use idempotency::Idempotency;
pub use listener::serve;
pub use socket::{Listener, ListeningSocket};
pub use tls::{Certificates, ServerTls, ServerTlsError, TlsFiles, trusting};
pub use token::{NewToken, TokenHash, TokenId};
pub use unkey::Overrides;
pub use why::answers_questions;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use tidegate_control::stream::FollowView;
use tidegate_node::Engine;
use tidegate_node::clock::Clock;
use tidegate_node::region_driver::RegionDriver;
use tidegate_node::world_driver::WorldDriver;

/// What every request is answered from.
#[derive(Debug)]
pub struct App {
    pub engine: Arc<Engine>,
    pub clock: Arc<Clock>,
    /// What carries the region's messages; `None` when the node is alone.
    pub sharing: Option<Arc<RegionDriver>>,
    /// What carries counts to the other regions; `None` where there is none.
    pub world: Option<Arc<WorldDriver>>,
    /// How the rules of a control plane are followed; `None` where rules come from files.
    pub following: Option<Arc<FollowView>>,
    /// Whether it is ready only once it has rules: of a control plane, or of an earlier run.
    pub requires_rules: bool,
    /// The file or directory that the rules come from, where they do.
    pub rules_path: Option<String>,
    /// Where callers ask over HTTP, once it listens there.
    pub http_url: OnceLock<String>,
    /// The last minutes, for the dashboard.
    pub history: History,
    /// Who callers are.
    pub tokens: Arc<Tokens>,
    /// Which headers forward-auth believes.
    pub forward_auth: ForwardAuth,
    pub idempotency: Idempotency,
    /// Of Unkey's API.
    pub overrides: Overrides,
    pub region: String,
    pub node: String,
    /// Where the fleet's secret came from, in one word.
    pub secret_source: &'static str,
    /// Set when the node begins to stop: it is alive still, and no longer ready.
    pub is_stopping: AtomicBool,
}

impl App {
    /// As many connections as a listener has room for unless it is told otherwise.
    pub const CONNECTIONS_MAX: usize = 16_000;

    /// Whether the rules that it must have before it is ready haven't come yet.
    pub(crate) fn lacks_rules(&self) -> bool {
        self.requires_rules && self.following.as_ref().is_some_and(|view| view.status().0.version == 0)
    }

    pub(crate) fn is_ready(&self) -> bool {
        !self.is_stopping.load(Ordering::Relaxed) && !self.lacks_rules()
    }

    /// A node that is alone, and has nothing set.
    pub fn new(engine: Arc<Engine>, clock: Arc<Clock>) -> Self {
        App {
            engine,
            clock,
            sharing: None,
            world: None,
            following: None,
            requires_rules: false,
            rules_path: None,
            http_url: OnceLock::new(),
            history: History::default(),
            tokens: Arc::new(Tokens::not_required()),
            forward_auth: ForwardAuth::default(),
            idempotency: Idempotency::default(),
            overrides: Overrides::default(),
            region: "local".to_owned(),
            node: "node-1".to_owned(),
            secret_source: "given",
            is_stopping: AtomicBool::new(false),
        }
    }
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
