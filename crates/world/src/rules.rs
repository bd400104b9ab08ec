//! The log of the rules: every change that was ever made to them, and what they are now.
//!
//! One trait, [`RuleLog`]. A store keeps bytes under names that it can't read: what they mean, and whether a change
//! may be made, is the control plane's. Two of them never write the same version: the one that is late is told so,
//! and nothing of what it sent is written.

use crate::{WorldError, WorldFuture};
use std::fmt::Debug;
use tidegate_core::Nanos;

/// The longest author, in characters.
pub const AUTHOR_CHARS_MAX: usize = 128;
/// The longest reason, in characters.
pub const REASON_CHARS_MAX: usize = 512;
/// The most bytes of one entry's changes, and of what they replaced. In a statement they are twice as long, and
/// servers take 16 MiB.
pub const ENTRY_BYTES_MAX: usize = 6 << 20;
/// The most entries that are appended at once.
pub const ENTRIES_AT_ONCE_MAX: usize = 1000;

/// The subject of an entry, by which history is searched: a tenant, or a namespace.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct RuleLogSubject(pub [u8; 16]);

/// Identifies a part of the rules: a namespace's document, or an override. Those of a namespace are adjacent.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct RuleItemId {
    pub place: RuleLogSubject,
    pub item: [u8; 32],
}

/// The present value of a part of the rules.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RuleItem {
    pub id: RuleItemId,
    pub value: Vec<u8>,
    /// That changed it last.
    pub version: u64,
}

/// One version of the rules, to be appended to the log.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct NewRuleLogEntry {
    pub author: String,
    pub reason: String,
    /// How many changes it has.
    pub changes: u32,
    pub changed: Vec<u8>,
    /// The same things as they were before.
    pub replaced: Vec<u8>,
    pub subjects: Vec<RuleLogSubject>,
    /// What becomes of the items: `None` for those that are gone. Each at most once.
    pub items: Vec<(RuleItemId, Option<Vec<u8>>)>,
    /// When it was first logged, for a log that is restored; otherwise the store's present.
    pub at: Option<Nanos>,
}

impl NewRuleLogEntry {
    pub(crate) fn check(&self) -> Result<(), WorldError> {
        let refused = |message: String| Err(WorldError::Refused { message });
        let texts = [("author", &self.author, AUTHOR_CHARS_MAX), ("reason", &self.reason, REASON_CHARS_MAX)];
        for (name, text, chars_max) in texts {
            // PostgreSQL has no zero characters.
            if text.chars().count() > chars_max || text.chars().any(char::is_control) {
                return refused(format!(
                    "the {name} is longer than {chars_max} characters, or has control characters in it"
                ));
            }
        }
        if self.changed.len().max(self.replaced.len()) > ENTRY_BYTES_MAX {
            return refused(format!("an entry has at most {} MiB; split it", ENTRY_BYTES_MAX >> 20));
        }
        Ok(())
    }
}

/// One version, as history lists it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Summary {
    pub version: u64,
    pub at: Nanos,
    pub author: String,
    pub reason: String,
    pub changes: u32,
}

/// One version of the rules, as the log has it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RuleLogEntry {
    pub summary: Summary,
    pub changed: Vec<u8>,
    pub replaced: Vec<u8>,
}

/// How many bytes the store holds of a version.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RuleLogEntrySize {
    pub version: u64,
    pub changed: u64,
    pub replaced: u64,
}

/// What is left of a version whose details are no longer kept.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Remainder {
    pub version: u64,
    pub changed: Vec<u8>,
    pub replaced: Vec<u8>,
}

/// Which part of the history, the latest first.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct HistoryPage {
    /// All, or those about this.
    pub subject: Option<RuleLogSubject>,
    /// Only versions below.
    pub before: u64,
    pub rows_max: usize,
}

/// A page of items, in the order of their ids.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct RuleItemsPage {
    /// All, or those of one place.
    pub place: Option<RuleLogSubject>,
    /// Only those behind it.
    pub after: Option<RuleItemId>,
}

pub trait RuleLog: Debug + Send + Sync + 'static {
    /// The version of the last entry; 0 before the first.
    fn head(&self) -> WorldFuture<'_, u64>;

    /// Writes entries as the versions that follow `head`, all of them or none: [`WorldError::Outdated`] when the log
    /// is at another version. When the answer is lost, they may have been written.
    fn append<'a>(&'a self, head: u64, entries: &'a [NewRuleLogEntry]) -> WorldFuture<'a, ()>;

    /// The entries that follow a version, in order; a page of some megabytes, and of one at least if there is any.
    fn entries(&self, after: u64) -> WorldFuture<'_, Vec<RuleLogEntry>>;

    fn entry(&self, version: u64) -> WorldFuture<'_, Option<RuleLogEntry>>;

    fn history(&self, page: HistoryPage) -> WorldFuture<'_, Vec<Summary>>;

    /// Returns the sizes of the versions about a subject, the latest first, so many at most.
    fn sizes(&self, subject: RuleLogSubject, rows_max: usize) -> WorldFuture<'_, Vec<RuleLogEntrySize>>;

    /// Replaces what is stored of versions. Their summaries and what the rules are now stay as they are.
    fn prune<'a>(&'a self, remainders: &'a [Remainder]) -> WorldFuture<'a, ()>;

    /// A page of what the rules are now: the last when it is empty. Pages are read one after the other: what changed
    /// in between is in the entries since the head before the first.
    fn items(&self, page: RuleItemsPage) -> WorldFuture<'_, Vec<RuleItem>>;

    /// Those of these items that there are, in any order.
    fn find<'a>(&'a self, items: &'a [RuleItemId]) -> WorldFuture<'a, Vec<RuleItem>>;
}
