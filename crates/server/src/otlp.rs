//! What OpenTelemetry's collectors are sent: metrics, decisions and events as logs, and spans, as OTLP's JSON.
//!
//! By hand: the three messages are small and stable. Whoever sends them (`crates/tidegate/src/otlp.rs`) owns time and
//! sockets. Nothing here waits, and what nobody takes in time is dropped and counted.

mod json;
mod logs;
mod metrics;
mod traces;

pub use json::Resource;
pub use logs::{LogQueue, LogRecords};
pub use metrics::metrics;
pub use traces::traces;

use crate::counters::COUNTERS;

/// A request that a collector took.
pub fn count_sent() {
    COUNTERS.otlp_requests.add_one();
}

/// A request that it didn't.
pub fn count_failure() {
    COUNTERS.otlp_failures.add_one();
}

/// Log records or spans that are given up.
pub fn count_dropped(count: u64) {
    COUNTERS.otlp_dropped.add(count);
}
