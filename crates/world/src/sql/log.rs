//! What an entry of the log carries: the components that one statement wrote, packed.
//!
//! The log is why publishing and importing cost the database so little: a row for each publish instead of one for
//! each cell, read once by each region. A byte for the version, then for each cell 16 bytes of key and five numbers
//! of seven bits a byte: epoch, sequence, count, limit, and when it expires, in milliseconds. Names are apart, as
//! only who merges the log reads them: for each cell that has one, which of the entry's cells it is, and four texts
//! with their lengths in bytes before them.

use super::quotas::{NAME_LENGTHS, stored_prefix};
use crate::{CellId, Component, KeyName, OwnerId, Row};
use std::sync::Arc;
use tidegate_core::{KeyId, Nanos, Sequence};

const VERSION: u8 = 1;
/// Of a number of 64 bits, seven in each byte.
const NUMBER_BYTES_MAX: u32 = 10;

pub(super) fn pack<'a>(rows: impl Iterator<Item = &'a Row>) -> Vec<u8> {
    let mut payload = vec![VERSION];
    for Row { cell, count, limit, expires, .. } in rows {
        payload.extend_from_slice(&cell.key.get().to_be_bytes());
        for number in [u64::from(cell.epoch), cell.sequence.0, *count, *limit, expires.as_millis_ceil()] {
            put(&mut payload, number);
        }
    }
    payload
}

/// `None` when it is nothing that [`pack`] makes.
pub(super) fn unpack(owner: OwnerId, payload: &[u8]) -> Option<Vec<Component>> {
    let (version, mut rest) = payload.split_first()?;
    let mut components = Vec::with_capacity(rest.len() / 30);
    while *version == VERSION && !rest.is_empty() {
        let (key, after) = rest.split_first_chunk::<16>()?;
        rest = after;
        let mut numbers = [0; 5];
        for number in &mut numbers {
            (*number, rest) = take(rest)?;
        }
        let [epoch, sequence, count, limit, expires_ms] = numbers;
        let key = KeyId::from_hash(u128::from_be_bytes(*key));
        let cell = CellId { key, epoch: u16::try_from(epoch).ok()?, sequence: Sequence(sequence) };
        components.push(Component { owner, cell, count, limit, expires: Nanos::from_millis(expires_ms) });
    }
    (*version == VERSION).then_some(components)
}

/// Of the rows that have one; empty when none has.
pub(super) fn pack_names<'a>(rows: impl Iterator<Item = &'a Row>) -> Vec<u8> {
    let mut packed = Vec::new();
    for (index, row) in (0..).zip(rows) {
        let Some(KeyName { tenant, namespace, rule, identifier }) = row.name.as_deref() else { continue };
        put(&mut packed, index);
        for (text, length) in [tenant, namespace, rule, identifier].into_iter().zip(NAME_LENGTHS) {
            let text = stored_prefix(text, length);
            put(&mut packed, text.len() as u64);
            packed.extend_from_slice(text.as_bytes());
        }
    }
    packed
}

/// Each with the index of its cell. `None` when it is nothing that [`pack_names`] makes.
pub(super) fn unpack_names(mut packed: &[u8]) -> Option<Vec<(usize, Arc<KeyName>)>> {
    let mut names = Vec::new();
    while !packed.is_empty() {
        let (index, mut rest) = take(packed)?;
        let mut texts = [const { String::new() }; 4];
        for text in &mut texts {
            let (length, after) = take(rest)?;
            let (bytes, after) = after.split_at_checked(usize::try_from(length).ok()?)?;
            *text = String::from_utf8(bytes.to_vec()).ok()?;
            rest = after;
        }
        let [tenant, namespace, rule, identifier] = texts;
        let name = KeyName { tenant, namespace, rule, identifier };
        names.push((usize::try_from(index).ok()?, Arc::new(name)));
        packed = rest;
    }
    Some(names)
}

/// The entries of the log that a reader has read. Entries are numbered when they are written and appear when they are
/// committed: for a moment, a number can be missing while a later one is there.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct LogReadSet {
    last: u64,
    /// When that one was written, if it was read: an entry with its number and another instant is of another log.
    written: Option<Nanos>,
    /// Of the last entries, the latest first, a bit each: 256 are some seconds of the busiest fleet.
    recent: [u64; 4],
}

impl LogReadSet {
    /// Everything up to there.
    pub(super) fn up_to(last: u64) -> Self {
        LogReadSet { last, written: None, recent: [u64::MAX; 4] }
    }

    /// Whether an entry is the last one that was seen.
    pub(super) fn is_last(&self, id: u64, written: Nanos) -> bool {
        id == self.last && self.written.is_none_or(|known| known == written)
    }

    /// An entry was read.
    pub(super) fn read(&mut self, id: u64, written: Nanos) {
        self.add(id);
        if id == self.last {
            self.written = Some(written);
        }
    }

    pub(super) fn last(&self) -> u64 {
        self.last
    }

    fn add(&mut self, id: u64) {
        while self.last < id {
            // More than can be remembered: nothing of what was is left.
            if id - self.last > RECENT {
                *self = LogReadSet { last: id - RECENT, written: None, recent: [0; 4] };
            }
            self.last += 1;
            self.written = None;
            for word in (0..self.recent.len()).rev() {
                let carried = if word == 0 { 0 } else { self.recent[word - 1] >> 63 };
                self.recent[word] = self.recent[word] << 1 | carried;
            }
        }
        let age = self.last - id;
        if let Some(word) = usize::try_from(age / 64).ok().and_then(|word| self.recent.get_mut(word)) {
            *word |= 1 << (age % 64);
        }
    }

    /// Those that may still come.
    pub(super) fn missing(&self) -> Vec<u64> {
        let is_missing = |age: &u64| {
            let word = usize::try_from(age / 64).ok().and_then(|word| self.recent.get(word));
            word.is_some_and(|word| word >> (age % 64) & 1 == 0)
        };
        (0..RECENT.min(self.last)).filter(is_missing).map(|age| self.last - age).collect()
    }
}

const RECENT: u64 = 256;

fn put(payload: &mut Vec<u8>, mut number: u64) {
    loop {
        let seven = (number & 0x7f).to_le_bytes()[0];
        number >>= 7;
        if number == 0 {
            return payload.push(seven);
        }
        payload.push(seven | 0x80);
    }
}

fn take(mut bytes: &[u8]) -> Option<(u64, &[u8])> {
    let mut number = 0;
    for place in 0..NUMBER_BYTES_MAX {
        let (byte, rest) = bytes.split_first()?;
        number |= u64::from(byte & 0x7f) << (7 * place);
        if byte & 0x80 == 0 {
            return Some((number, rest));
        }
        bytes = rest;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(number: u64) -> Row {
        let key = KeyId::from_hash(u128::from(number) << 64 | 5);
        let cell = CellId { key, epoch: u16::MAX, sequence: Sequence(number) };
        Row { cell, count: number, limit: u64::MAX - number, expires: Nanos::from_millis(number), name: None }
    }

    #[test]
    fn what_is_packed_is_unpacked_again() {
        let rows: Vec<Row> = [0, 1, 127, 128, 1 << 40, (1 << 44) - 1].map(row).into();
        let payload = pack(rows.iter());
        let components = unpack(OwnerId(7), &payload).unwrap();
        assert_eq!(components.len(), rows.len());
        for (row, component) in rows.iter().zip(components) {
            let Row { cell, count, limit, expires, .. } = *row;
            assert_eq!(component, Component { owner: OwnerId(7), cell, count, limit, expires });
        }
        assert_eq!(unpack(OwnerId(7), &pack([].iter())), Some(Vec::new()));
    }

    #[test]
    fn names_are_packed_apart_and_cut_to_what_is_kept_of_them() {
        let name = |identifier: &str| KeyName { identifier: identifier.to_owned(), ..KeyName::default() };
        let named = |identifier: &str| Row { name: Some(Arc::new(name(identifier))), ..row(1) };
        let long = "ß".repeat(600);
        let rows = [row(1), named("a\0b"), row(2), named(&long), named("")];
        let packed = pack_names(rows.iter());
        let expected = [(1, "ab".to_owned()), (3, "ß".repeat(512)), (4, String::new())];
        let expected = expected.map(|(index, identifier)| (index, Arc::new(name(&identifier))));
        assert_eq!(unpack_names(&packed), Some(expected.into()));
        assert_eq!(pack_names([row(1)].iter()), [0_u8; 0]);
        for end in 0..packed.len() {
            let cut = unpack_names(&packed[..end]);
            assert!(cut.is_none_or(|names| names.len() < 3), "cut off at {end}");
        }
        assert_eq!(unpack_names(&[0, 1, 0xff, 0, 0, 0]), None, "no text");
    }

    #[test]
    fn what_was_overtaken_is_missing_until_it_comes() {
        let mut seen = LogReadSet::up_to(10);
        assert_eq!(seen.missing(), []);
        for id in [11, 14, 15] {
            seen.add(id);
        }
        assert_eq!((seen.last(), seen.missing()), (15, vec![13, 12]));
        seen.add(12);
        assert_eq!(seen.missing(), [13]);
        (16..=100).for_each(|id| seen.add(id));
        assert_eq!(seen.missing(), [13], "over the words' ends");
        (101..=268).for_each(|id| seen.add(id));
        assert_eq!(seen.missing(), [13]);
        seen.add(269);
        assert_eq!(seen.missing(), [], "given up");
        seen.add(1_000_000);
        assert_eq!((seen.missing().len(), seen.last()), (255, 1_000_000));
        assert_eq!(LogReadSet::up_to(0).missing(), []);
    }

    #[test]
    fn an_entry_with_the_last_ones_number_and_another_instant_is_of_another_log() {
        let (then, later) = (Nanos::from_millis(5), Nanos::from_millis(6));
        let mut seen = LogReadSet::up_to(10);
        assert!(seen.is_last(10, then) && seen.is_last(10, later), "it was never read");
        seen.read(12, then);
        assert!(seen.is_last(12, then) && !seen.is_last(12, later) && !seen.is_last(11, then));
        seen.read(11, later);
        assert!(seen.is_last(12, then), "one that was overtaken changes nothing");
    }

    #[test]
    fn a_payload_that_is_cut_off_or_of_another_version_is_refused() {
        let payload = pack([row(1 << 40), row(3)].iter());
        let whole: Vec<usize> =
            (0..payload.len()).filter(|end| unpack(OwnerId(1), &payload[..*end]).is_some()).collect();
        assert_eq!(whole.len(), 2, "after the version, and between the cells");
        assert_eq!(unpack(OwnerId(1), &[2]), None);
        assert_eq!(unpack(OwnerId(1), &[&[1][..], &[0; 16], &[0xff; 20]].concat()), None);
    }
}
