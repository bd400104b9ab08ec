//! Which patterns may match a caller, without a look at all of them.
//!
//! Every pattern has an anchor: its longest literal piece, and where in which part of the identifier that must be.
//! Anchors are found by their hash. A value is hashed once, so that every stretch of it has its hash at hand, and
//! then asked about once for each place and length that some anchor has. What is found this way is only a
//! candidate: who asks compares it. Patterns without any literal are candidates always.

use super::PartMatch;
use crate::pattern::Pattern;
use smallvec::SmallVec;
use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

/// Where an anchor must be.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Place {
    /// It is the whole value.
    Whole,
    Start,
    End,
    Inside,
}

/// Anchors that are looked for together: equally long, in the same place.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct Probe {
    part: usize,
    place: Place,
    length: usize,
}

#[derive(Debug, Default)]
pub(super) struct PatternIndex {
    /// Sorted, so that those about one part come together.
    probes: Vec<Probe>,
    /// By probe and hash of the anchor: positions, ascending.
    anchored: HashMap<u64, SmallVec<[u32; 2]>, BuildHasherDefault<Mixed>>,
    /// Which anchors there may be: most that are asked about aren't, and need no look at the map.
    seen: Seen,
    /// Ascending.
    loose: Vec<u32>,
}

/// A bit for each name, in a set of bits so small that it stays in a cache.
#[derive(Debug, Default)]
struct Seen {
    bits: Vec<u64>,
    shift: u32,
}

const SEEN_BITS_PER_NAME: usize = 16;

impl Seen {
    fn new(names: usize) -> Self {
        let bits = (names * SEEN_BITS_PER_NAME).next_power_of_two().max(64);
        Seen { bits: vec![0; bits / 64], shift: 64 - bits.trailing_zeros() }
    }

    /// The high bits of a name are mixed best.
    #[inline]
    fn place(&self, name: u64) -> (usize, u64) {
        let bit = name >> self.shift;
        (usize::try_from(bit / 64).unwrap_or(0), 1 << (bit % 64))
    }

    fn add(&mut self, name: u64) {
        let (word, bit) = self.place(name);
        self.bits[word] |= bit;
    }

    #[inline]
    fn may_have(&self, name: u64) -> bool {
        let (word, bit) = self.place(name);
        self.bits.get(word).is_some_and(|bits| bits & bit != 0)
    }
}

impl PatternIndex {
    /// Over the parts of patterns in the order of their precedence.
    pub(super) fn new<'p>(patterns: impl Iterator<Item = &'p [PartMatch]>) -> Self {
        let anchors: Vec<Option<(Probe, u64)>> = patterns.map(anchor).collect();
        let mut probes: Vec<Probe> = anchors.iter().flatten().map(|(probe, _)| *probe).collect();
        probes.sort_unstable();
        probes.dedup();
        let seen = Seen::new(anchors.len());
        let mut index = PatternIndex { probes, seen, ..PatternIndex::default() };
        for (position, anchor) in (0_u32..).zip(anchors) {
            match anchor {
                Some((probe, hash)) => {
                    let number = index.probes.binary_search(&probe).unwrap_or_default();
                    index.anchored.entry(name(number, hash)).or_default().push(position);
                    index.seen.add(name(number, hash));
                }
                None => index.loose.push(position),
            }
        }
        index.anchored.shrink_to_fit();
        index
    }

    /// The first pattern that `is_match` says yes to. It is asked about candidates only, in no order.
    pub(super) fn find<'v>(
        &self,
        value_of: impl Fn(usize) -> Option<&'v str>,
        is_match: impl Fn(usize) -> bool,
    ) -> Option<usize> {
        let mut best = None;
        let mut consider = |candidates: &[u32]| {
            let better = candidates.iter().map(|position| *position as usize);
            let mut better = better.take_while(|position| best.is_none_or(|best| *position < best));
            if let Some(found) = better.find(|position| is_match(*position)) {
                best = Some(found);
            }
        };
        consider(&self.loose);
        let mut hashes = Hashes::default();
        let mut hashed_part = None;
        for (number, probe) in self.probes.iter().enumerate() {
            if hashed_part != Some(probe.part) {
                hashes.fill(value_of(probe.part).unwrap_or(""));
                hashed_part = Some(probe.part);
            }
            let Some(last) = hashes.length().checked_sub(probe.length) else { continue };
            let starts = match probe.place {
                Place::Whole if last > 0 => continue,
                Place::Whole | Place::Start => 0..=0,
                Place::End => last..=last,
                Place::Inside => 0..=last,
            };
            for start in starts {
                let name = name(number, hashes.of(start, probe.length));
                if self.seen.may_have(name)
                    && let Some(candidates) = self.anchored.get(&name)
                {
                    consider(candidates);
                }
            }
        }
        best
    }
}

/// The longest literal of all parts; of equal ones the one that is found with the least work.
fn anchor(parts: &[PartMatch]) -> Option<(Probe, u64)> {
    let pieces = parts.iter().enumerate().flat_map(|(part, wanted)| {
        let pieces: SmallVec<[(Place, &str); 4]> = match wanted {
            PartMatch::Anything => SmallVec::new(),
            PartMatch::Exact(exact) => SmallVec::from_iter([(Place::Whole, &**exact)]),
            PartMatch::Pattern(pattern) => literals(pattern).collect(),
        };
        pieces.into_iter().map(move |(place, text)| (Probe { part, place, length: text.len() }, text))
    });
    let longest = pieces.filter(|(_, text)| !text.is_empty());
    let longest = longest.min_by_key(|(probe, text)| (usize::MAX - text.len(), probe.place));
    longest.map(|(probe, text)| {
        let mut hashes = Hashes::default();
        hashes.fill(text);
        (probe, hashes.of(0, text.len()))
    })
}

fn literals(pattern: &Pattern) -> impl Iterator<Item = (Place, &str)> {
    let last = pattern.text().matches('*').count();
    pattern.text().split('*').enumerate().map(move |(index, text)| {
        let place = match index {
            0 => Place::Start,
            index if index == last => Place::End,
            _ => Place::Inside,
        };
        (place, text)
    })
}

/// Odd, so that no byte's part of a hash is ever lost.
const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;

/// The hashes of a value's beginnings, of which that of any stretch follows: polynomials of its bytes. Whoever
/// finds two that are equal has found a candidate that doesn't match.
#[derive(Default)]
struct Hashes {
    beginnings: SmallVec<[u64; 64]>,
    powers: SmallVec<[u64; 64]>,
}

impl Hashes {
    fn fill(&mut self, value: &str) {
        self.beginnings.clear();
        self.powers.clear();
        let (mut hash, mut power) = (0_u64, 1_u64);
        self.beginnings.push(hash);
        self.powers.push(power);
        for byte in value.bytes() {
            hash = hash.wrapping_mul(FACTOR).wrapping_add(u64::from(byte) + 1);
            power = power.wrapping_mul(FACTOR);
            self.beginnings.push(hash);
            self.powers.push(power);
        }
    }

    fn length(&self) -> usize {
        self.beginnings.len() - 1
    }

    fn of(&self, start: usize, length: usize) -> u64 {
        let before = self.beginnings[start].wrapping_mul(self.powers[length]);
        self.beginnings[start + length].wrapping_sub(before)
    }
}

/// One number for an anchor and its probe.
fn name(probe: usize, hash: u64) -> u64 {
    let mixed = (hash ^ (probe as u64).wrapping_mul(FACTOR)).wrapping_mul(FACTOR);
    mixed ^ (mixed >> 32)
}

/// What is hashed is a hash already.
#[derive(Clone, Copy, Default, Debug)]
struct Mixed(u64);

impl Hasher for Mixed {
    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = self.0.rotate_left(8) ^ u64::from(*byte);
        }
    }

    fn write_u64(&mut self, name: u64) {
        self.0 = name;
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn part(text: &str) -> PartMatch {
        match Pattern::new(text) {
            Some(_) if text == "*" => PartMatch::Anything,
            Some(pattern) => PartMatch::Pattern(pattern),
            None => PartMatch::Exact(text.into()),
        }
    }

    fn matches(part: &PartMatch, value: &str) -> bool {
        match part {
            PartMatch::Anything => true,
            PartMatch::Exact(exact) => **exact == *value,
            PartMatch::Pattern(pattern) => pattern.matches(value),
        }
    }

    /// What the index finds among patterns of two parts, and what a look at all of them does.
    fn both(patterns: &[[String; 2]], values: &[String; 2]) -> (Option<usize>, Option<usize>) {
        let patterns: Vec<[PartMatch; 2]> =
            patterns.iter().map(|texts| [part(&texts[0]), part(&texts[1])]).collect();
        let index = PatternIndex::new(patterns.iter().map(<[PartMatch; 2]>::as_slice));
        let is_match = |position: usize| {
            let [first, second] = &patterns[position];
            matches(first, &values[0]) && matches(second, &values[1])
        };
        let found = index.find(|part| values.get(part).map(String::as_str), is_match);
        (found, (0..patterns.len()).find(|position| is_match(*position)))
    }

    proptest! {
        #[test]
        fn finds_what_a_look_at_all_of_them_finds(
            patterns in prop::collection::vec(["[ab*é]{0,5}", "[ab*]{0,4}"], 0..40),
            values in ["[abé]{0,8}", "[ab]{0,6}"],
        ) {
            let (found, wanted) = both(&patterns, &values);
            prop_assert_eq!(found, wanted);
        }
    }

    #[test]
    fn asks_about_few_of_many() {
        let texts: Vec<PartMatch> = (0..10_000)
            .map(|number| {
                part(
                    &[format!("org-{number}-*"), format!("*-team-{number}"), format!("*/{number}/*")]
                        [number % 3],
                )
            })
            .collect();
        let index = PatternIndex::new(texts.iter().map(std::slice::from_ref));
        for (value, wanted) in
            [("org-3000-x", Some(3000)), ("a-team-301", Some(301)), ("v/5/users", Some(5)), ("x", None)]
        {
            let asked = std::cell::Cell::new(0);
            let found = index.find(
                |_| Some(value),
                |position| {
                    asked.set(asked.get() + 1);
                    matches(&texts[position], value)
                },
            );
            assert_eq!(found, wanted, "{value}");
            assert!(asked.get() <= 4, "{value}: {} candidates", asked.get());
        }
    }
}
