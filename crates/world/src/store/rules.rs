//! The rule log as a plain value.

use crate::rules::{
    HistoryPage, NewRuleLogEntry, Remainder, RuleItem, RuleItemId, RuleItemsPage, RuleLogEntry,
    RuleLogEntrySize, RuleLogSubject, Summary,
};
use crate::{ENTRIES_AT_ONCE_MAX, WorldError};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use tidegate_core::Nanos;

#[derive(Clone, Debug, Default)]
pub(super) struct Rules {
    /// The first has version 1.
    entries: Vec<RuleLogEntry>,
    subjects: BTreeSet<(RuleLogSubject, u64)>,
    items: BTreeMap<RuleItemId, (Vec<u8>, u64)>,
}

impl Rules {
    pub(super) fn head(&self) -> u64 {
        u64::try_from(self.entries.len()).unwrap_or(u64::MAX)
    }

    pub(super) fn append(
        &mut self,
        head: u64,
        new: &[NewRuleLogEntry],
        now: Nanos,
    ) -> Result<(), WorldError> {
        check(new)?;
        let theirs = self.head();
        if theirs != head {
            return Err(WorldError::Outdated { theirs });
        }
        for (version, entry) in (head + 1..).zip(new) {
            let NewRuleLogEntry { author, reason, changes, changed, replaced, subjects, items, at } =
                entry.clone();
            let summary = Summary { version, at: at.unwrap_or(now), author, reason, changes };
            self.entries.push(RuleLogEntry { summary, changed, replaced });
            self.subjects.extend(subjects.into_iter().map(|subject| (subject, version)));
            for (id, value) in items {
                match value {
                    Some(value) => drop(self.items.insert(id, (value, version))),
                    None => drop(self.items.remove(&id)),
                }
            }
        }
        Ok(())
    }

    pub(super) fn entries(&self, after: u64, rows_max: usize) -> Vec<RuleLogEntry> {
        let first = usize::try_from(after).unwrap_or(usize::MAX);
        self.entries.iter().skip(first).take(rows_max).cloned().collect()
    }

    pub(super) fn entry(&self, version: u64) -> Option<RuleLogEntry> {
        self.entries.get(usize::try_from(version.checked_sub(1)?).ok()?).cloned()
    }

    pub(super) fn history(&self, page: HistoryPage) -> Vec<Summary> {
        let is_asked = |summary: &&Summary| {
            let of_subject = |subject| self.subjects.contains(&(subject, summary.version));
            summary.version < page.before && page.subject.is_none_or(of_subject)
        };
        let summaries = self.entries.iter().rev().map(|entry| &entry.summary);
        summaries.filter(is_asked).take(page.rows_max).cloned().collect()
    }

    pub(super) fn sizes(&self, subject: RuleLogSubject, rows_max: usize) -> Vec<RuleLogEntrySize> {
        let bytes = |bytes: &[u8]| u64::try_from(bytes.len()).unwrap_or(u64::MAX);
        let entries = self
            .entries
            .iter()
            .rev()
            .filter(|entry| self.subjects.contains(&(subject, entry.summary.version)));
        let size = |entry: &RuleLogEntry| RuleLogEntrySize {
            version: entry.summary.version,
            changed: bytes(&entry.changed),
            replaced: bytes(&entry.replaced),
        };
        entries.take(rows_max).map(size).collect()
    }

    pub(super) fn prune(&mut self, remainders: &[Remainder]) {
        for Remainder { version, changed, replaced } in remainders {
            let index = version.checked_sub(1).and_then(|index| usize::try_from(index).ok());
            if let Some(entry) = index.and_then(|index| self.entries.get_mut(index)) {
                (entry.changed, entry.replaced) = (changed.clone(), replaced.clone());
            }
        }
    }

    pub(super) fn items(&self, page: RuleItemsPage, rows_max: usize) -> Vec<RuleItem> {
        let after = page.after.map_or(Bound::Unbounded, Bound::Excluded);
        let range = self.items.range((after, Bound::Unbounded));
        let asked = range.filter(|(id, _)| page.place.is_none_or(|place| id.place == place));
        asked.take(rows_max).map(|(id, (value, version))| item(*id, value, *version)).collect()
    }

    pub(super) fn find(&self, items: &[RuleItemId]) -> Vec<RuleItem> {
        let found = |id: &RuleItemId| self.items.get(id).map(|(value, version)| item(*id, value, *version));
        items.iter().filter_map(found).collect()
    }
}

fn item(id: RuleItemId, value: &[u8], version: u64) -> RuleItem {
    RuleItem { id, value: value.to_vec(), version }
}

/// What no store takes.
pub(crate) fn check(new: &[NewRuleLogEntry]) -> Result<(), WorldError> {
    if new.len() > ENTRIES_AT_ONCE_MAX {
        let message = format!("at most {ENTRIES_AT_ONCE_MAX} entries are written at once");
        return Err(WorldError::Refused { message });
    }
    new.iter().try_for_each(NewRuleLogEntry::check)
}
