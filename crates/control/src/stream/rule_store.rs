//! What keeps the rules that a follower receives: a node's files and engine, a broker's files and feed.

use super::message::SnapshotId;
use super::resets::PastReset;
use bytes::Bytes;
use tidegate_core::Nanos;

/// The rules that a store has already.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct RulesStatus {
    /// In force; 0: none.
    pub version: u64,
    /// A snapshot that is partly there, and how much of it.
    pub partial: Option<(SnapshotId, u64)>,
}

/// What came of some changes: all up to `version` are in force.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ApplyResult {
    pub version: u64,
    /// Why the one after isn't.
    pub refused: Option<String>,
}

/// Stores and applies received rules. An invalid change is refused with a reason, and the rules in force stay.
pub trait RuleStore {
    fn status(&self) -> RulesStatus;

    /// A snapshot file begins, or goes on at `offset`, which is 0 or what [`RulesStatus`] said.
    fn begin(&mut self, id: &SnapshotId, length: u64, offset: u64) -> Result<(), String>;

    /// The next bytes of it.
    fn write(&mut self, offset: u64, bytes: &[u8]) -> Result<(), String>;

    /// It is whole: verified and put in force. Says which version that is. What was written is gone when it is refused.
    fn install(&mut self) -> Result<u64, String>;

    /// Changes in the order of their versions, without gaps, the first of which follows what is in force.
    fn apply(&mut self, changes: &[(u64, Bytes)]) -> ApplyResult;

    /// What was reset in a version that is in force, but that may have come with a snapshot. May be told again.
    fn reset(&mut self, _reset: &PastReset) {}

    /// What is in force was the newest of all so long ago.
    fn confirmed(&mut self, _ago: Nanos) {}

    /// What is to be done now and then, connected or not.
    fn tend(&mut self) {}
}
