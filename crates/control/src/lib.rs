//! The control plane: what decides for all regions together, and how its rules reach every node.
//!
//! The rules ([`plane`]): their log, who may change them and what a change means; and how they reach every node
//! ([`stream`]). And the reconciler, which gives each region its part of every limit that is shared by quotas. What
//! decides is sans-IO (`reconcile.rs`, `stream/feed.rs`, `stream/follower.rs`); `leader.rs`, the worker of the plane
//! and `stream/driver.rs` have timers, and call stores and servers.

mod leader;
pub mod plane;
pub mod protobuf;
mod publisher;
mod reconcile;
pub mod stream;

pub use leader::{Leader, LeaderCounters};
pub use publisher::Publisher;
pub use reconcile::{Figures, Flaw, ReconcileResult, Reconciler};
