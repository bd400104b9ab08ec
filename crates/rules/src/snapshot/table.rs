//! The table of exact overrides in a rules file: read where it lies, one cache line for most look-ups.
//!
//! A line has four slots of 16 bytes: the low half of the caller's hash, and a word that says what applies. The high
//! half says in which line a look-up begins. Entries are in the order of their hashes, each in the first free slot
//! from the beginning of its line on, so that the table can be written, checked and merged with another in one pass,
//! and is the same for the same overrides and seed. A slot with the word 0 is free, and ends a look-up.
//!
//! What a word has no room for, a rate or an end, is a *wide* value: 32 bytes in a section of their own, shared by
//! all slots that say the same.

use crate::bytes::{DecodeError, check_override};
use crate::overrides::{Override, OverrideEffect};
use tidegate_core::{Burst, Limit, Nanos, Rate};

pub(super) const LINE_BYTES: usize = 64;
const SLOT_BYTES: usize = 16;
pub(super) const SLOTS_PER_LINE: u64 = 4;
pub(super) const WIDE_BYTES: usize = 32;
/// How many lines a look-up may go on for. With five of eight slots in use, the longest of a hundred million goes on
/// for about seven.
pub(super) const SPILL_LINES: u64 = 16;

const SPILL_LINES_SEEN: usize = 16;
const _: () = assert!(SPILL_LINES_SEEN as u64 == SPILL_LINES);

/// Lines in which look-ups begin: five of eight slots are used.
pub(super) fn home_lines(exact: u64) -> u64 {
    (exact * 2).div_ceil(5)
}

/// The lines at the end take what the last look-ups spill over.
pub(super) fn table_bytes(exact: u64) -> u64 {
    if exact == 0 { 0 } else { (home_lines(exact) + SPILL_LINES) * LINE_BYTES as u64 }
}

#[inline]
fn home(hash: u128, lines: u64) -> u64 {
    let (high, _) = halves(hash);
    u64::try_from((u128::from(high) * u128::from(lines)) >> 64).unwrap_or(0)
}

#[inline]
fn halves(hash: u128) -> (u64, u64) {
    let [a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p] = hash.to_le_bytes();
    (u64::from_le_bytes([i, j, k, l, m, n, o, p]), u64::from_le_bytes([a, b, c, d, e, f, g, h]))
}

/// What is written for a hash: all of it but what its place says.
pub(super) fn fingerprint(hash: u128) -> u64 {
    halves(hash).1
}

/// Where the entries of a table belong, asked for in the order of their hashes.
#[derive(Debug)]
pub(super) struct Places {
    lines: u64,
    next_free: u64,
}

impl Places {
    pub(super) fn new(exact: u64) -> Self {
        Places { lines: home_lines(exact), next_free: 0 }
    }

    /// The next entry's slot; `None` where too many hashes fall together, which no seed of chance brings about.
    pub(super) fn next(&mut self, hash: u128) -> Option<u64> {
        let first = home(hash, self.lines) * SLOTS_PER_LINE;
        let slot = first.max(self.next_free);
        self.next_free = slot + 1;
        (slot < first + SPILL_LINES * SLOTS_PER_LINE).then_some(slot)
    }
}

/// A slot's two words.
#[inline]
pub(super) fn slot(table: &[u8], index: u64) -> Option<(u64, u64)> {
    let start = usize::try_from(index).ok()?.checked_mul(SLOT_BYTES)?;
    let slot = table.get(start..)?.first_chunk::<SLOT_BYTES>()?;
    Some(words(slot))
}

#[inline]
fn words(slot: &[u8; SLOT_BYTES]) -> (u64, u64) {
    let (word, fingerprint) = halves(u128::from_le_bytes(*slot));
    (fingerprint, word)
}

/// The word of the entry with this hash. Looks at some lines at most, whatever the bytes are.
#[inline]
pub(super) fn find(table: &[u8], lines: u64, hash: u128) -> Option<u64> {
    let start = usize::try_from(home(hash, lines)).ok()?.checked_mul(LINE_BYTES)?;
    let wanted = fingerprint(hash);
    let (spilled, _) = table.get(start..)?.as_chunks::<LINE_BYTES>();
    for line in spilled.iter().take(SPILL_LINES_SEEN) {
        let (slots, _) = line.as_chunks::<SLOT_BYTES>();
        // Without a branch on which slot it is: that would be guessed wrong most of the time, and what comes after
        // couldn't begin before memory has answered.
        let (mut found, mut full) = (0, true);
        for slot in slots.iter().rev() {
            let (fingerprint, word) = words(slot);
            found = std::hint::select_unpredictable(fingerprint == wanted, word, found);
            full &= word != 0;
        }
        if found != 0 {
            return Some(found);
        }
        if !full {
            return None;
        }
    }
    None
}

const KEEP: u64 = 1;
const UNLIMITED: u64 = 2;
const LIMIT: u64 = 3;
const WIDE: u64 = 4;
const KIND_MASK: u64 = 7;
const HOT: u64 = 8;
const NUMBER_SHIFT: u32 = 4;

/// How an override is written: as a word, or as a wide value and where that is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Written {
    Word(u64),
    Wide([u8; WIDE_BYTES]),
}

pub(super) fn write(applied: &Override) -> Written {
    let hot = if applied.hot { HOT } else { 0 };
    match applied.change {
        _ if applied.until != Nanos::MAX => Written::Wide(widened(applied)),
        OverrideEffect::Keep => Written::Word(KEEP | hot),
        OverrideEffect::Unlimited => Written::Word(UNLIMITED | hot),
        OverrideEffect::Limit(limit) => Written::Word(LIMIT | hot | limit.get() << NUMBER_SHIFT),
        OverrideEffect::Rate { .. } => Written::Wide(widened(applied)),
    }
}

pub(super) fn wide_word(index: u64) -> u64 {
    WIDE | index << NUMBER_SHIFT
}

/// Where a word's wide value is, if it has one.
pub(super) fn wide_index(word: u64) -> Option<u64> {
    (word & KIND_MASK == WIDE).then_some(word >> NUMBER_SHIFT)
}

/// What a word says, by a file's wide values. `None` for one that says nothing.
#[inline]
pub(super) fn read<'w>(word: u64, wide: impl FnOnce() -> &'w [u8]) -> Option<Override> {
    let hot = word & HOT != 0;
    let number = word >> NUMBER_SHIFT;
    let change = match word & KIND_MASK {
        KEEP => OverrideEffect::Keep,
        UNLIMITED => OverrideEffect::Unlimited,
        LIMIT => OverrideEffect::Limit(Limit::new(number).ok()?),
        WIDE => return read_wide(wide(), number),
        _ => return None,
    };
    Some(Override { change, hot, until: Nanos::MAX })
}

/// The kind is above a rate's numerator, which is below 2^55.
const WIDE_KIND_SHIFT: u32 = 56;
const WIDE_KEEP: u64 = 1;
const WIDE_UNLIMITED: u64 = 2;
const WIDE_LIMIT: u64 = 3;
const WIDE_RATE: u64 = 4;

fn widened(applied: &Override) -> [u8; WIDE_BYTES] {
    let (kind, [numerator, second, third]) = match applied.change {
        OverrideEffect::Keep => (WIDE_KEEP, [0; 3]),
        OverrideEffect::Unlimited => (WIDE_UNLIMITED, [0; 3]),
        OverrideEffect::Limit(limit) => (WIDE_LIMIT, [0, limit.get(), 0]),
        OverrideEffect::Rate { rate, burst } => {
            (WIDE_RATE, [rate.interval_numerator_ns(), rate.interval_denominator(), burst.get()])
        }
    };
    let kind = if applied.hot { kind | HOT } else { kind };
    let mut out = [0; WIDE_BYTES];
    let words = [numerator | kind << WIDE_KIND_SHIFT, second, third, applied.until.get()];
    for (bytes, word) in out.chunks_exact_mut(8).zip(words) {
        bytes.copy_from_slice(&word.to_le_bytes());
    }
    out
}

/// A rate's parts are taken as they are: they were checked when the file was opened.
#[inline]
fn read_wide(wide: &[u8], index: u64) -> Option<Override> {
    let start = usize::try_from(index).ok()?.checked_mul(WIDE_BYTES)?;
    let bytes = wide.get(start..)?.first_chunk::<WIDE_BYTES>()?;
    let (words, _) = bytes.as_chunks::<8>();
    let [first, second, third, until] = [0, 1, 2, 3].map(|at: usize| u64::from_le_bytes(words[at]));
    let kind = first >> WIDE_KIND_SHIFT;
    let numerator = first & ((1 << WIDE_KIND_SHIFT) - 1);
    let change = match kind & KIND_MASK {
        WIDE_KEEP => OverrideEffect::Keep,
        WIDE_UNLIMITED => OverrideEffect::Unlimited,
        WIDE_LIMIT => OverrideEffect::Limit(Limit::new(second).ok()?),
        WIDE_RATE => OverrideEffect::Rate {
            rate: Rate::from_lowest_terms(numerator, second)?,
            burst: Burst::new(third).ok()?,
        },
        _ => return None,
    };
    Some(Override { change, hot: kind & HOT != 0, until: Nanos::new(until) })
}

/// Whether a word, and what it points to, is what [`write`] writes for some valid override.
pub(super) fn check(word: u64, wide: &[u8]) -> Result<(), DecodeError> {
    let malformed = DecodeError("an override in the table isn't one");
    let applied = read(word, || wide).ok_or(malformed)?;
    if let OverrideEffect::Rate { rate, .. } = applied.change {
        Rate::from_interval(rate.interval_numerator_ns(), rate.interval_denominator())
            .map_err(|_| malformed)?;
    }
    check_override(&applied)?;
    let as_written = match (write(&applied), wide_index(word)) {
        (Written::Word(written), _) => written == word,
        (Written::Wide(_), None) => false,
        (Written::Wide(written), Some(index)) => {
            let start = usize::try_from(index).ok().and_then(|index| index.checked_mul(WIDE_BYTES));
            start.and_then(|start| wide.get(start..)?.first_chunk()) == Some(&written)
                && word == wide_word(index)
        }
    };
    if as_written { Ok(()) } else { Err(malformed) }
}
