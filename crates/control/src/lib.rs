//! The control plane: what decides for all regions together.
//!
//! For now the reconciler, which gives each region its part of every limit that is shared by quotas. What decides
//! is sans-IO (`reconcile.rs`); `leader.rs` alone has timers and calls the world store.

mod leader;
mod reconcile;

pub use leader::{Leader, LeaderCounters};
pub use reconcile::{Figures, Flaw, Reconciled, Reconciler};
