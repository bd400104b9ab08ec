//! How a node and its region agree with the other regions (docs/design.md, "Counts between
//! regions").
//!
//! Every node has an index of the keys that count over the world. It sees from its region's replies which cells the
//! other regions need, and requests their publish ([`WorldNode`]). One node of the region publishes them to the world
//! store and imports the counts of the others ([`WorldWorker`]). Both are sans-IO: the time is an argument, and effects
//! are returned. A request only reads one number here, and the index when it asks anyway.

mod cells;
mod counters;
mod key_index;
mod node;
mod pace;
mod worker;

pub use counters::WorldCounters;
pub use node::{Reach, WorldNode};
pub use tidegate_core::world::is_counted;
pub use worker::{
    ROWS_PER_TURN, RegionLag, Step, StepResult, WorkState, WorkerOptions, WorkerTask, WorldWorker, next_turn,
};

use std::sync::Arc;
use tidegate_world::KeyName;

/// Separates the parts of a name in the publish queue.
const NAME_SEPARATOR: char = '\u{1f}';

/// A name as one text: for people only, so what separates its parts may be lost from them.
pub(crate) fn joined_name(tenant: &str, namespace: &str, rule: &str, identifier: &str) -> Arc<str> {
    let parts = [tenant, namespace, rule, identifier].map(|part| part.replace(NAME_SEPARATOR, " "));
    Arc::from(parts.join("\u{1f}"))
}

pub(crate) fn key_name(joined: &str) -> Option<Arc<KeyName>> {
    let mut parts = joined.splitn(4, NAME_SEPARATOR).map(str::to_owned);
    Some(Arc::new(KeyName {
        tenant: parts.next()?,
        namespace: parts.next()?,
        rule: parts.next()?,
        identifier: parts.next()?,
    }))
}
