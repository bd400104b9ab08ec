//! The control plane: what decides for all regions together.
//!
//! The rules ([`plane`]): their log, who may change them and what a change means. And the reconciler, which gives each
//! region its part of every limit that is shared by quotas. What decides is sans-IO (`reconcile.rs`); `leader.rs` and
//! the worker of the plane have timers and call the store.

mod leader;
pub mod plane;
mod reconcile;

pub use leader::{Leader, LeaderCounters};
pub use reconcile::{Figures, Flaw, Reconciled, Reconciler};
