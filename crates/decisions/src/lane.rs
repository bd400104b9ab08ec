//! Where decisions are put down until they are written: one lane for each thread that decides, folded as they come.
//!
//! The first denials of a key are kept one by one; what follows within the same second is counted, exactly, with the
//! first of them. Nothing grows past its bound: keys beyond it are counted by rule. Nothing here allocates but a
//! rule's name, once a second.

use crate::name::RuleName;
use crate::record::{KeyHash, Outcome, Path, Record, RuleCount, RuleId};
use std::collections::HashMap;
use tidegate_core::Nanos;

/// Keys that are told apart at a time.
pub const KEYS_MAX: usize = 10_000;
/// A power of two, so that a third at most of the slots is taken.
const SLOTS: usize = 32_768;
/// Denials of one key that are kept one by one, and of all keys together. Admissions, which are a sample, also.
const SINGLES_OF_KEY_MAX: u8 = 8;
const SINGLES_MAX: usize = 4096;
/// Rules whose names are kept; denials by further ones are counted together.
const RULES_MAX: usize = 1024;

/// What tells a decision from others of its thread, at hand before anything else is looked up.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Noted {
    pub at: Nanos,
    pub key: KeyHash,
    pub rule: RuleId,
    pub rule_version: u64,
    pub outcome: Outcome,
    pub path: Path,
}

#[derive(Debug)]
struct Fold {
    record: Record,
    singles: u8,
}

impl Fold {
    /// Of another version, or decided in another way, it has another cause.
    #[inline]
    fn is_like(&self, noted: &Noted) -> bool {
        let record = &self.record;
        record.key == noted.key
            && record.outcome == noted.outcome
            && record.path == noted.path
            && record.rule_version == noted.rule_version
    }
}

/// A rule as one lane knows it: its name, and what of it is only counted.
#[derive(Debug)]
pub(crate) struct RuleSeen {
    pub(crate) name: Option<RuleName>,
    pub(crate) count: Option<RuleCount>,
}

#[derive(Debug)]
pub(crate) struct Lane {
    /// For each slot, one more than the index of its fold; 0 is empty.
    slots: Box<[u16]>,
    folds: Vec<Fold>,
    singles: Vec<Record>,
    rules: HashMap<RuleId, RuleSeen>,
    /// Admissions of the sample that found no room.
    pub(crate) admissions_dropped: u64,
}

impl Default for Lane {
    fn default() -> Self {
        Lane {
            // Pages that nobody touches cost nothing.
            slots: vec![0; SLOTS].into_boxed_slice(),
            folds: Vec::with_capacity(KEYS_MAX),
            singles: Vec::with_capacity(SINGLES_MAX),
            rules: HashMap::new(),
            admissions_dropped: 0,
        }
    }
}

impl Lane {
    #[inline]
    pub(crate) fn note(
        &mut self,
        noted: &Noted,
        record: impl FnOnce() -> Record,
        name: impl FnOnce() -> RuleName,
    ) {
        if noted.outcome == Outcome::Admitted {
            return self.note_admission(noted, record, name);
        }
        let (slot, found) = self.find(noted);
        let Some(fold) = found.and_then(|index| self.folds.get_mut(index)) else {
            return self.note_new(slot, noted, record, name);
        };
        if fold.singles < SINGLES_OF_KEY_MAX && self.singles.len() < SINGLES_MAX {
            fold.singles += 1;
            self.singles.push(record());
        } else if fold.record.more < u32::MAX {
            fold.record.more += 1;
            fold.record.last = noted.at;
        } else {
            self.count(noted, name);
        }
    }

    #[cold]
    fn note_admission(
        &mut self,
        noted: &Noted,
        record: impl FnOnce() -> Record,
        name: impl FnOnce() -> RuleName,
    ) {
        if self.singles.len() < SINGLES_MAX {
            self.singles.push(record());
            self.rule(noted.rule, name);
        } else {
            self.admissions_dropped += 1;
        }
    }

    #[cold]
    fn note_new(
        &mut self,
        slot: usize,
        noted: &Noted,
        record: impl FnOnce() -> Record,
        name: impl FnOnce() -> RuleName,
    ) {
        if self.folds.len() == KEYS_MAX {
            return self.count(noted, name);
        }
        self.folds.push(Fold { record: record(), singles: 1 });
        self.slots[slot] = u16::try_from(self.folds.len()).unwrap_or(0);
        self.rule(noted.rule, name);
    }

    /// The slot of a decision, and the fold that is there.
    #[inline]
    fn find(&self, noted: &Noted) -> (usize, Option<usize>) {
        // Keys are hashes already.
        let mut slot = usize::try_from(noted.key.high % SLOTS as u64).unwrap_or(0);
        loop {
            match usize::from(self.slots[slot]).checked_sub(1) {
                None => return (slot, None),
                Some(index) if self.folds[index].is_like(noted) => return (slot, Some(index)),
                Some(_) => slot = (slot + 1) % SLOTS,
            }
        }
    }

    fn count(&mut self, noted: &Noted, name: impl FnOnce() -> RuleName) {
        self.count_many(RuleCount { rule: noted.rule, first: noted.at, last: noted.at, count: 1 }, name);
    }

    pub(crate) fn count_many(&mut self, more: RuleCount, name: impl FnOnce() -> RuleName) {
        let rule = if self.rule(more.rule, name) { more.rule } else { RuleId::UNKNOWN };
        let seen = self.rules.entry(rule).or_insert(RuleSeen { name: None, count: None });
        let count = seen.count.get_or_insert(RuleCount { rule, count: 0, ..more });
        count.count += more.count;
        count.last = more.last;
    }

    /// Remembers a rule's name; false when there are too many.
    fn rule(&mut self, rule: RuleId, name: impl FnOnce() -> RuleName) -> bool {
        if self.rules.contains_key(&rule) {
            return true;
        }
        if rule == RuleId::UNKNOWN || self.rules.len() >= RULES_MAX {
            return false;
        }
        self.rules.insert(rule, RuleSeen { name: Some(name()), count: None });
        true
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.folds.is_empty() && self.singles.is_empty() && self.rules.is_empty()
    }

    pub(crate) fn records(&self) -> impl Iterator<Item = &Record> {
        self.folds.iter().map(|fold| &fold.record).chain(&self.singles)
    }

    pub(crate) fn rules(&self) -> impl Iterator<Item = (&RuleId, &RuleSeen)> {
        self.rules.iter()
    }

    pub(crate) fn clear(&mut self) {
        if !self.folds.is_empty() {
            self.slots.fill(0);
        }
        self.folds.clear();
        self.singles.clear();
        self.rules.clear();
        self.admissions_dropped = 0;
    }
}
