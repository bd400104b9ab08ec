//! The control plane: what decides for all regions together, and how its rules reach every node.
//!
//! The reconciler gives each region its part of every limit that is shared by quotas; `stream.rs` carries rules. What
//! decides is sans-IO (`reconcile.rs`, `stream/feed.rs`, `stream/follower.rs`); `leader.rs` and `stream/driver.rs`
//! have timers and connections.

mod leader;
pub mod protobuf;
mod reconcile;
pub mod stream;

pub use leader::{Leader, LeaderCounters};
pub use reconcile::{Figures, Flaw, Reconciled, Reconciler};
