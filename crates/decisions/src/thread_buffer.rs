//! Where decisions are put down until they are written: one buffer for each thread that decides, folded as they come.
//!
//! The first denials of a key are kept one by one; what follows within the same second is counted, exactly, with the
//! first of them. Nothing grows past its bound: keys beyond it are counted by rule. Nothing here allocates but the
//! names of rules and callers, of each once a second.

use crate::caller::Caller;
use crate::name::RuleName;
use crate::record::{KeyHash, Record, RecordOutcome, RecordPath, RuleCount, RuleId};
use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use tidegate_core::Nanos;

/// Keys that are told apart at a time.
pub const KEYS_MAX: usize = 10_000;
/// Two thirds of them are taken at most: half a megabyte, which a processor keeps near.
const SLOTS: usize = 16_384;
/// Denials of one key that are kept one by one, and of all keys together. Admissions, which are a sample, also.
const SINGLES_OF_KEY_MAX: u8 = 8;
const SINGLES_MAX: usize = 4096;
/// Rules whose names are kept; denials by further ones are counted together.
const RULES_MAX: usize = 1024;

/// The part of a record that is known before anything else is looked up. It tells decisions of one thread apart.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RecordHeader {
    pub at: Nanos,
    pub key: KeyHash,
    pub rule: RuleId,
    pub rule_version: u64,
    pub outcome: RecordOutcome,
    pub path: RecordPath,
}

/// Identifies the cause of denials of one key: the rule's version, the outcome and the path.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct DenialKind(u32);

impl DenialKind {
    /// Of an empty slot; no denial has it.
    const NONE: DenialKind = DenialKind(0);

    #[inline]
    pub fn of(rule_version: u64, outcome: RecordOutcome, path: RecordPath) -> Self {
        let [a, b, c, ..] = rule_version.to_le_bytes();
        DenialKind(u32::from_le_bytes([a, b, c, (outcome as u8) << 4 | path as u8 | 0x80]))
    }
}

/// What is counted of a key: all that a denial of a flood reads and writes, in half a line of the cache.
#[derive(Clone, Copy, Debug, Default)]
#[repr(align(32))]
struct Tally {
    /// Of the key.
    high: u64,
    last: Nanos,
    low: u32,
    kind: DenialKind,
    more: u32,
    /// Where its first record is.
    record: u16,
    singles: u8,
}

const _: () = assert!(size_of::<Tally>() == 32);

impl Tally {
    /// False when it can't count any further.
    #[inline]
    fn fold(&mut self, at: Nanos) -> bool {
        let is_counted = self.more < u32::MAX;
        if is_counted {
            self.more += 1;
            self.last = at;
        }
        is_counted
    }
}

impl RecordHeader {
    #[inline]
    fn kind(&self) -> DenialKind {
        DenialKind::of(self.rule_version, self.outcome, self.path)
    }
}

/// Rules are named by hashes already.
#[derive(Default)]
pub(crate) struct IdentityHasher(u64);

impl Hasher for IdentityHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.0 = self.0.rotate_left(8) ^ u64::from(*byte));
    }

    fn write_u64(&mut self, number: u64) {
        self.0 = number;
    }
}

/// A rule in one thread's buffer: its name, and the number of its denials that are only counted.
#[derive(Debug)]
pub(crate) struct RuleTally {
    pub(crate) name: Option<RuleName>,
    pub(crate) count: Option<RuleCount>,
}

/// The records of one deciding thread since the last write.
#[derive(Debug)]
pub(crate) struct ThreadBuffer {
    slots: Box<[Tally; SLOTS]>,
    /// The first record of each key.
    firsts: Vec<Record>,
    singles: Vec<Record>,
    rules: HashMap<RuleId, RuleTally, BuildHasherDefault<IdentityHasher>>,
    /// Of the records above.
    callers: Vec<(KeyHash, Caller)>,
    /// Admissions of the sample that found no room.
    pub(crate) admissions_dropped: u64,
}

impl Default for ThreadBuffer {
    fn default() -> Self {
        ThreadBuffer {
            slots: empty_slots(),
            firsts: Vec::with_capacity(KEYS_MAX),
            singles: Vec::with_capacity(SINGLES_MAX),
            rules: HashMap::default(),
            callers: Vec::new(),
            admissions_dropped: 0,
        }
    }
}

/// Not by way of the stack.
fn empty_slots() -> Box<[Tally; SLOTS]> {
    let slots = vec![Tally::default(); SLOTS].into_boxed_slice();
    slots.try_into().unwrap_or_else(|_| unreachable!("as many as were made"))
}

impl ThreadBuffer {
    /// Counts a denial of a key in a flood; false, and nothing is done, where it isn't in one.
    #[inline]
    pub(crate) fn fold(&mut self, key: KeyHash, kind: DenialKind, at: Nanos) -> bool {
        let slot = self.find(key, kind);
        let tally = &mut self.slots[slot];
        tally.kind == kind
            && (tally.singles == SINGLES_OF_KEY_MAX || self.singles.len() >= SINGLES_MAX)
            && tally.fold(at)
    }

    pub(crate) fn record(
        &mut self,
        header: &RecordHeader,
        record: impl FnOnce() -> Record,
        name: impl FnOnce() -> RuleName,
        caller: impl FnOnce() -> Option<Caller>,
    ) {
        if header.outcome == RecordOutcome::Admitted {
            return self.record_admission(header, record, name, caller);
        }
        let slot = self.find(header.key, header.kind());
        let tally = &mut self.slots[slot];
        if tally.kind == DenialKind::NONE {
            self.record_new(slot, header, record, name, caller);
        } else if tally.singles < SINGLES_OF_KEY_MAX && self.singles.len() < SINGLES_MAX {
            tally.singles += 1;
            self.singles.push(record());
        } else if !tally.fold(header.at) {
            self.count(header, name);
        }
    }

    fn record_admission(
        &mut self,
        header: &RecordHeader,
        record: impl FnOnce() -> Record,
        name: impl FnOnce() -> RuleName,
        caller: impl FnOnce() -> Option<Caller>,
    ) {
        if self.singles.len() < SINGLES_MAX {
            self.singles.push(record());
            self.rule(header.rule, name);
            self.callers.extend(caller().map(|caller| (header.key, caller)));
        } else {
            self.admissions_dropped += 1;
        }
    }

    fn record_new(
        &mut self,
        slot: usize,
        header: &RecordHeader,
        record: impl FnOnce() -> Record,
        name: impl FnOnce() -> RuleName,
        caller: impl FnOnce() -> Option<Caller>,
    ) {
        if self.firsts.len() == KEYS_MAX {
            return self.count(header, name);
        }
        let (KeyHash { high, low }, kind) = (header.key, header.kind());
        let record_at = u16::try_from(self.firsts.len()).unwrap_or(u16::MAX);
        self.slots[slot] = Tally { high, last: header.at, low, kind, more: 0, record: record_at, singles: 1 };
        self.firsts.push(record());
        self.rule(header.rule, name);
        self.callers.extend(caller().map(|caller| (header.key, caller)));
    }

    /// The slot of a key: its own, or the empty one that would be.
    #[inline]
    fn find(&self, key: KeyHash, kind: DenialKind) -> usize {
        // Keys are hashes already.
        let mut slot = usize::try_from(key.high % SLOTS as u64).unwrap_or(0);
        loop {
            let tally = &self.slots[slot];
            let is_own = tally.kind == kind && tally.high == key.high && tally.low == key.low;
            if is_own || tally.kind == DenialKind::NONE {
                return slot;
            }
            slot = (slot + 1) % SLOTS;
        }
    }

    fn count(&mut self, header: &RecordHeader, name: impl FnOnce() -> RuleName) {
        self.count_many(RuleCount { rule: header.rule, first: header.at, last: header.at, count: 1 }, name);
    }

    pub(crate) fn count_many(&mut self, more: RuleCount, name: impl FnOnce() -> RuleName) {
        let rule = if self.rule(more.rule, name) { more.rule } else { RuleId::UNKNOWN };
        let seen = self.rules.entry(rule).or_insert(RuleTally { name: None, count: None });
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
        self.rules.insert(rule, RuleTally { name: Some(name()), count: None });
        true
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.firsts.is_empty() && self.singles.is_empty() && self.rules.is_empty()
    }

    /// Adds the counts to the records that they belong to. Nothing is recorded until the buffer is cleared.
    pub(crate) fn flush_counts(&mut self) {
        if self.firsts.is_empty() {
            return;
        }
        for tally in self.slots.iter().filter(|tally| tally.more > 0) {
            if let Some(record) = self.firsts.get_mut(usize::from(tally.record)) {
                (record.more, record.last) = (tally.more, tally.last);
            }
        }
    }

    pub(crate) fn records(&self) -> impl Iterator<Item = &Record> {
        self.firsts.iter().chain(&self.singles)
    }

    pub(crate) fn rules(&self) -> impl Iterator<Item = (&RuleId, &RuleTally)> {
        self.rules.iter()
    }

    pub(crate) fn callers(&self) -> &[(KeyHash, Caller)] {
        &self.callers
    }

    pub(crate) fn clear(&mut self) {
        if !self.firsts.is_empty() {
            self.slots.fill(Tally::default());
        }
        self.firsts.clear();
        self.singles.clear();
        self.rules.clear();
        self.callers.clear();
        self.admissions_dropped = 0;
    }
}
