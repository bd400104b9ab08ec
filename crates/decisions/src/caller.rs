//! Whose key it is, beside the hash of the key: so that a caller is found by any part of its name, and can be named.
//!
//! Written once per segment and caller. Without [`Caller::name`] it gives nobody's name away: a part's tag is a hash
//! under the fleet's secret, and tells only that two parts are equal.

use crate::record::RuleId;
use tidegate_core::identity::Shape;
use tidegate_core::{FleetSecret, KeyPrefix};

/// The most parts of a caller that are remembered.
pub(crate) const CALLER_PARTS_MAX: usize = 8;

/// One value of a caller's key, such as `alice`, as a hash.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct PartTag(pub(crate) u64);

/// Makes tags, the same on all nodes of a fleet.
#[derive(Clone, Debug)]
pub struct PartTags(KeyPrefix);

impl PartTags {
    pub fn new(secret: &FleetSecret) -> Self {
        PartTags(KeyPrefix::new(secret, "", "parts of callers", "", Shape::Gcra))
    }

    /// Returns the tag of a value as answers show it.
    pub fn tag(&self, value: &str) -> PartTag {
        let [a, b, c, d, e, f, g, h, ..] = self.0.hash_of_parts([value]).to_be_bytes();
        PartTag(u64::from_be_bytes([a, b, c, d, e, f, g, h]))
    }
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Caller {
    pub rule: RuleId,
    /// A hash for each value of the key, in order.
    pub parts: Vec<PartTag>,
    /// As answers show it, where the operator lets the log have names.
    pub name: Option<String>,
}
