//! Which patterns may match a caller, without a look at all of them.
//!
//! A pattern says what values begin and end with: its shape is how long these literals are, in which parts of the
//! identifier. Patterns of one shape are found by the hash of their literals, all at once: a look-up costs as much as
//! there are shapes, however many patterns there are. What is found is only a candidate: who asks compares it. Patterns
//! that say nothing of beginnings and ends are found by their longest literal where they are many; few are candidates
//! always, as are those without any literal.

use super::PartMatch;
use crate::bounds::BYTES_PER_UNIT;
use crate::pattern::Pattern;
use smallvec::SmallVec;
use std::collections::{BTreeMap, HashMap};
use std::hash::{BuildHasherDefault, Hasher};

/// Where in a value an anchor must be.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
enum AnchorPosition {
    /// It is the whole value.
    Whole,
    Start,
    End,
    Inside,
}

/// A literal of a pattern.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
struct Piece {
    part: usize,
    position: AnchorPosition,
    length: usize,
}

/// Where a pattern's literals are, and how long. Patterns of one shape are looked for together.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub(super) struct Shape(SmallVec<[Piece; 2]>);

impl Shape {
    /// What looking for the patterns of this shape takes, in the units of a namespace's bound.
    pub(super) fn cost(&self) -> usize {
        1 + self.0.iter().map(|piece| piece.length).sum::<usize>() / BYTES_PER_UNIT
    }
}

/// How much of a part's value the shapes ask about.
#[derive(Clone, Copy, Debug, Default)]
struct Extent {
    part: usize,
    head: usize,
    tail: usize,
}

#[derive(Debug, Default)]
pub(super) struct PatternIndex {
    shapes: Vec<Shape>,
    /// Of each part that some shape has a literal of, ascending.
    extents: Vec<Extent>,
    /// By shape and hash of the literals: positions, ascending.
    anchored: HashMap<u64, SmallVec<[u32; 2]>, BuildHasherDefault<Mixed>>,
    /// Which anchors there may be: most that are asked about aren't, and need no look at the map.
    name_filter: NameFilter,
    /// Ascending.
    loose: Vec<u32>,
}

/// A Bloom filter of names: so few bits that it stays in a cache.
#[derive(Debug, Default)]
struct NameFilter {
    bits: Vec<u64>,
    shift: u32,
}

/// As many as a namespace has room for.
const INSIDE_COMPARED_MAX: usize = 64;
const FILTER_BITS_PER_NAME: usize = 16;

impl NameFilter {
    fn new(names: usize) -> Self {
        let bits = (names * FILTER_BITS_PER_NAME).next_power_of_two().max(64);
        NameFilter { bits: vec![0; bits / 64], shift: 64 - bits.trailing_zeros() }
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
        let mut anchors: Vec<Option<(Shape, u64)>> = patterns.map(anchor).collect();
        // Few are compared faster than a long value is searched for what is inside of them.
        let is_inside = |anchor: &Option<(Shape, u64)>| {
            anchor.as_ref().is_some_and(|(shape, _)| shape.inside().is_some())
        };
        if anchors.iter().filter(|anchor| is_inside(anchor)).count() <= INSIDE_COMPARED_MAX {
            anchors.iter_mut().filter(|anchor| is_inside(anchor)).for_each(|anchor| *anchor = None);
        }
        let mut shapes: Vec<Shape> = anchors.iter().flatten().map(|(shape, _)| shape.clone()).collect();
        shapes.sort_unstable();
        shapes.dedup();
        let name_filter = NameFilter::new(anchors.len());
        let extents = extents(&shapes);
        let mut index = PatternIndex { shapes, extents, name_filter, ..PatternIndex::default() };
        for (position, anchor) in (0_u32..).zip(anchors) {
            match anchor {
                Some((shape, hash)) => {
                    let number = index.shapes.binary_search(&shape).unwrap_or_default();
                    index.anchored.entry(name(number, hash)).or_default().push(position);
                    index.name_filter.add(name(number, hash));
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
        let mut ask = |name: u64| {
            if self.name_filter.may_have(name)
                && let Some(candidates) = self.anchored.get(&name)
            {
                consider(candidates);
            }
        };
        let mut hashed: SmallVec<[Hashes; 1]> = SmallVec::new();
        for extent in &self.extents {
            let mut hashes = Hashes::default();
            hashes.fill_ends(value_of(extent.part).unwrap_or("").as_bytes(), *extent);
            hashed.push(hashes);
        }
        let hashes_of = |part: usize| &hashed[self.extents.partition_point(|extent| extent.part < part)];
        for (number, shape) in self.shapes.iter().enumerate() {
            if let Some(piece) = shape.inside() {
                let hashes = hashes_of(piece.part);
                let Some(last) = hashes.length().checked_sub(piece.length) else { continue };
                (0..=last).for_each(|start| ask(name(number, combined(0, hashes.of(start, piece.length)))));
            } else if let Some(hash) = shape.hash(hashes_of) {
                ask(name(number, hash));
            }
        }
        best
    }
}

impl Shape {
    /// The piece between two stars, where a pattern has no other literal.
    fn inside(&self) -> Option<Piece> {
        self.0.first().copied().filter(|piece| piece.position == AnchorPosition::Inside)
    }

    /// Of a caller's values; `None` where one is too short or too long.
    fn hash<'h>(&self, hashes_of: impl Fn(usize) -> &'h Hashes) -> Option<u64> {
        self.0.iter().try_fold(0, |hash, piece| {
            let hashes = hashes_of(piece.part);
            let last = hashes.length().checked_sub(piece.length)?;
            let start = match piece.position {
                AnchorPosition::Whole if hashes.value_bytes != piece.length => return None,
                AnchorPosition::End => last,
                AnchorPosition::Whole | AnchorPosition::Start | AnchorPosition::Inside => 0,
            };
            Some(combined(hash, hashes.of(start, piece.length)))
        })
    }
}

fn extents(shapes: &[Shape]) -> Vec<Extent> {
    let mut extents: BTreeMap<usize, Extent> = BTreeMap::new();
    for Piece { part, position: place, length } in shapes.iter().flat_map(|shape| &shape.0).copied() {
        let extent = extents.entry(part).or_insert(Extent { part, head: 0, tail: 0 });
        match place {
            AnchorPosition::Whole | AnchorPosition::Start => extent.head = extent.head.max(length),
            AnchorPosition::End => extent.tail = extent.tail.max(length),
            AnchorPosition::Inside => extent.head = usize::MAX,
        }
    }
    extents.into_values().collect()
}

/// The shape of a pattern, whatever its index makes of it.
pub(super) fn shape(parts: &[PartMatch]) -> Shape {
    anchor(parts).map(|(shape, _)| shape).unwrap_or_default()
}

/// All literals of all parts that begin or end a value, or are the whole of it; where there are none, the longest
/// that is between two stars.
fn anchor(parts: &[PartMatch]) -> Option<(Shape, u64)> {
    let pieces = parts.iter().enumerate().flat_map(|(part, wanted)| {
        let pieces: SmallVec<[(AnchorPosition, &str); 4]> = match wanted {
            PartMatch::Anything => SmallVec::new(),
            PartMatch::Exact(exact) => SmallVec::from_iter([(AnchorPosition::Whole, &**exact)]),
            PartMatch::Pattern(pattern) => literals(pattern).filter(|(_, text)| !text.is_empty()).collect(),
        };
        pieces
            .into_iter()
            .map(move |(place, text)| (Piece { part, position: place, length: text.len() }, text))
    });
    let (inside, mut anchors): (SmallVec<[_; 4]>, SmallVec<[_; 4]>) =
        pieces.partition(|(piece, _)| piece.position == AnchorPosition::Inside);
    if anchors.is_empty() {
        anchors.extend(inside.into_iter().max_by_key(|(piece, _)| piece.length));
    }
    let hash = anchors.iter().fold(0, |hash, (_, text)| {
        let mut hashes = Hashes::default();
        hashes.fill(text.bytes());
        combined(hash, hashes.of(0, text.len()))
    });
    let shape = Shape(anchors.iter().map(|(piece, _)| *piece).collect());
    (!anchors.is_empty()).then_some((shape, hash))
}

fn literals(pattern: &Pattern) -> impl Iterator<Item = (AnchorPosition, &str)> {
    let last = pattern.text().matches('*').count();
    pattern.text().split('*').enumerate().map(move |(index, text)| {
        let place = match index {
            0 => AnchorPosition::Start,
            index if index == last => AnchorPosition::End,
            _ => AnchorPosition::Inside,
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
    /// Of the whole value, also where only its ends are hashed.
    value_bytes: usize,
    beginnings: SmallVec<[u64; 64]>,
    powers: SmallVec<[u64; 64]>,
}

impl Hashes {
    /// Of as much of a value's ends as is asked about.
    fn fill_ends(&mut self, value: &[u8], extent: Extent) {
        if value.len() <= extent.head.saturating_add(extent.tail) {
            self.fill(value.iter().copied());
        } else {
            let tail = &value[value.len() - extent.tail..];
            self.fill(value[..extent.head].iter().chain(tail).copied());
        }
        self.value_bytes = value.len();
    }

    fn fill(&mut self, value: impl Iterator<Item = u8>) {
        self.beginnings.clear();
        self.powers.clear();
        let (mut hash, mut power) = (0_u64, 1_u64);
        self.beginnings.push(hash);
        self.powers.push(power);
        for byte in value {
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

/// The hash of several literals, in their order.
fn combined(hash: u64, next: u64) -> u64 {
    (hash ^ next).wrapping_mul(FACTOR).rotate_left(32)
}

/// One number for a pattern's literals and its shape.
fn name(shape: usize, hash: u64) -> u64 {
    let mixed = (hash ^ (shape as u64).wrapping_mul(FACTOR)).wrapping_mul(FACTOR);
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
