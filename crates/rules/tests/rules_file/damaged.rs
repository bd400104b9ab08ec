//! Damaged and hostile rules files and deltas: refused whole, with the rules in force as they were; what a hostile
//! writer gives the right checksums is refused too, or is a file like any other.
//!
//! The corpus is made here, the same every time, from a small file and a delta that have everything in them.

use crate::made::{
    Chance, Scratch, decisions, options, sample_bytes, sample_delta, sample_overrides, sample_set, write_file,
};
use std::fs;
use std::ops::Range;
use std::sync::Arc;
use tidegate_rules::{Delta, RuleFiles, RuleSet, Snapshot, SnapshotError};

const HEAD_BYTES: usize = 192;
const SECTIONS_AT: usize = 80;
const SECTION_NAMES: [&str; 6] = ["table", "records", "rules", "documents", "patterns", "wide"];

/// Where the sections of a file are, by its head.
fn sections(file: &[u8]) -> Vec<(&'static str, Range<usize>)> {
    let mut begin = HEAD_BYTES;
    let mut found = vec![("head", 0..HEAD_BYTES)];
    for (index, name) in SECTION_NAMES.into_iter().enumerate() {
        let at = SECTIONS_AT + 16 * index;
        let length = usize::try_from(u64::from_le_bytes(file[at..at + 8].try_into().unwrap())).unwrap();
        found.push((name, begin..begin + length));
        begin += length;
    }
    assert_eq!(begin, file.len());
    found
}

/// The checksums as a hostile writer would have them.
fn repaired(mut file: Vec<u8>, like: &[u8]) -> Vec<u8> {
    for (index, (_, range)) in sections(like).into_iter().skip(1).enumerate() {
        let Some(bytes) = file.get(range) else { continue };
        let checksum = crc32fast::hash(bytes);
        let at = SECTIONS_AT + 16 * index + 8;
        file[at..at + 4].copy_from_slice(&checksum.to_le_bytes());
    }
    repaired_head(file)
}

fn repaired_head(mut file: Vec<u8>) -> Vec<u8> {
    if file.len() >= HEAD_BYTES {
        let checksum = crc32fast::hash(&file[..HEAD_BYTES - 4]);
        file[HEAD_BYTES - 4..HEAD_BYTES].copy_from_slice(&checksum.to_le_bytes());
    }
    file
}

struct Damaged {
    what: String,
    bytes: Vec<u8>,
    /// With checksums that are right, it may be a file like any other.
    is_repaired: bool,
}

#[derive(Default)]
struct Corpus(Vec<Damaged>);

impl Corpus {
    fn add(&mut self, what: String, bytes: Vec<u8>) {
        self.0.push(Damaged { what, bytes, is_repaired: false });
    }

    fn add_repaired(&mut self, what: &str, bytes: Vec<u8>) {
        self.0.push(Damaged { what: format!("{what}, repaired"), bytes, is_repaired: true });
    }
}

fn snapshots(good: &[u8]) -> Corpus {
    let mut corpus = Corpus::default();
    truncations(&mut corpus, good);
    flips(&mut corpus, good);
    hostile_heads(&mut corpus, good);
    moved_records(&mut corpus, good);
    corpus
}

fn truncations(corpus: &mut Corpus, good: &[u8]) {
    let mut ends: Vec<usize> = (0..24).map(|step| good.len() * step / 24).collect();
    for (_, range) in sections(good) {
        ends.extend(
            [range.start + 1, range.end.saturating_sub(1)].into_iter().filter(|end| *end < good.len()),
        );
    }
    for end in ends {
        corpus.add(format!("cut off at {end}"), good[..end].to_vec());
        corpus.add_repaired(&format!("cut off at {end}"), repaired(good[..end].to_vec(), good));
    }
    for extra in [1, 64, 5000] {
        let longer = [good, &vec![0; extra]].concat();
        corpus.add(format!("{extra} bytes longer"), longer.clone());
        corpus.add_repaired(&format!("{extra} bytes longer"), repaired(longer, good));
    }
    let doubled = [good, good].concat();
    corpus.add("twice in one file".to_owned(), doubled);
}

/// Bits of every section, spread over it.
fn flips(corpus: &mut Corpus, good: &[u8]) {
    let mut chance = Chance(1);
    for (name, range) in sections(good) {
        for _ in 0..16 {
            let (at, bit) = (range.start + chance.below(range.len()), chance.below(8));
            let mut flipped = good.to_vec();
            flipped[at] ^= 1 << bit;
            corpus.add(format!("bit {bit} of byte {at} in the {name} flipped"), flipped.clone());
            let flipped = if name == "head" { repaired_head(flipped) } else { repaired(flipped, good) };
            corpus.add_repaired(&format!("bit {bit} of byte {at} in the {name} flipped"), flipped);
        }
    }
}

/// Counts and lengths that aren't so, formats that aren't known.
fn hostile_heads(corpus: &mut Corpus, good: &[u8]) {
    let number = |at: usize| u64::from_le_bytes(good[at..at + 8].try_into().unwrap());
    let counts = (40..80).step_by(8);
    let lengths = (0..6).map(|section| SECTIONS_AT + 16 * section);
    for at in counts.chain(lengths) {
        let said = number(at);
        for other in [0, 1, said.wrapping_add(1), said.wrapping_sub(1), said << 32, 1 << 53, u64::MAX] {
            if other != said {
                let mut hostile = good.to_vec();
                hostile[at..at + 8].copy_from_slice(&other.to_le_bytes());
                corpus.add_repaired(&format!("{other} at byte {at} of the head"), repaired_head(hostile));
            }
        }
    }
    for format in [0_u32, 2, 3, u32::MAX] {
        let mut other = good.to_vec();
        other[8..12].copy_from_slice(&format.to_le_bytes());
        corpus.add(format!("format {format}"), other.clone());
        corpus.add_repaired(&format!("format {format}"), repaired_head(other));
    }
    let mut foreign = good.to_vec();
    foreign[..8].copy_from_slice(b"tidesnap");
    corpus.add("a snapshot of counts".to_owned(), foreign);
    corpus.add("text".to_owned(), b"namespace: api\nrules: []\n".repeat(100));
}

/// Records and slots in other places, or twice; hostile lengths within sections.
fn moved_records(corpus: &mut Corpus, good: &[u8]) {
    let mut chance = Chance(2);
    let sections = sections(good);
    for (name, range) in sections.iter().skip(1) {
        for round in 0..8 {
            let length = [8, 16, 27, 32, 64][chance.below(5)].min(range.len() / 2);
            let from = range.start + chance.below(range.len() - 2 * length + 1);
            let to = from + length;
            let mut swapped = good.to_vec();
            swapped.copy_within(from..to, to);
            swapped[from..to].copy_from_slice(&good[to..to + length]);
            let mut doubled = good.to_vec();
            doubled.copy_within(from..to, to);
            for (what, bytes) in [("swapped", swapped), ("doubled", doubled)] {
                if bytes != good {
                    corpus.add(
                        format!("{length} bytes at {from} of the {name} {what}, {round}"),
                        bytes.clone(),
                    );
                    corpus.add_repaired(
                        &format!("{length} bytes at {from} of the {name} {what}"),
                        repaired(bytes, good),
                    );
                }
            }
        }
        for hostile in [[0xff; 4], [0xff, 0xff, 0xff, 0x7f], [0, 0, 0, 1]] {
            let at = range.start + chance.below(range.len() - 4);
            let mut bytes = good.to_vec();
            bytes[at..at + 4].copy_from_slice(&hostile);
            if bytes != good {
                corpus.add_repaired(&format!("{hostile:?} at {at} of the {name}"), repaired(bytes, good));
            }
        }
    }
}

#[test]
fn damaged_files_are_refused_and_the_rules_in_force_stay() {
    let good = sample_bytes(42);
    let in_force = decisions(&sample_set(41));
    let corpus = snapshots(&good);
    let (mut refused, mut accepted, mut wrongly) = (0, 0, 0);
    for Damaged { what, bytes, is_repaired } in &corpus.0 {
        assert!(*bytes != good, "{what} is no damage");
        match Snapshot::from_bytes(bytes.clone()) {
            Err(error) => {
                refused += 1;
                assert!(!error.to_string().is_empty());
                assert_stays(bytes, &in_force, what);
            }
            Ok(snapshot) => {
                accepted += 1;
                if !is_repaired {
                    wrongly += 1;
                    eprintln!("{what} was accepted");
                }
                assert_harmless(snapshot, bytes, what);
            }
        }
    }
    let total = corpus.0.len();
    assert!(total >= 200 && refused >= 200, "{refused} of {total}");
    // A seed, a version, a number of an override, a letter: what is left is another file, not a damaged one.
    assert!(accepted * 10 <= total, "{accepted} of {total} accepted");
    println!(
        "\nbar=5; case=rules files; figure=damaged ones refused, rules in force unchanged; value={refused}; low=200; by=worst"
    );
    println!(
        "\nbar=5; case=rules files; figure=damaged ones accepted whose checksums weren't mended; value={wrongly}; high=0; by=worst"
    );
    assert_eq!(wrongly, 0);
}

/// A node that finds the damaged file beside a good one goes on with the good one.
fn assert_stays(damaged: &[u8], in_force: &[String], what: &str) {
    let scratch = Scratch::new();
    write_file(&scratch.path("41.rules"), 41, &sample_overrides());
    fs::write(scratch.path("42.rules"), damaged).unwrap();
    let (files, findings) = RuleFiles::open(&scratch.0).unwrap();
    assert_eq!((files.version(), findings.len()), (41, 1), "{what}: {findings:?}");
    assert!(scratch.path("42.rules.refused").exists());
    let set = RuleSet::from_snapshot(files.snapshot().unwrap(), options()).unwrap();
    assert_eq!(decisions(&set), in_force, "{what}");
}

/// It is a file that could have been written: all that it lists is found, and nothing panics.
fn assert_harmless(snapshot: Snapshot, bytes: &[u8], what: &str) {
    assert_eq!(snapshot.bytes(), bytes);
    let (exact, patterns) = snapshot.override_counts();
    assert_eq!(snapshot.overrides().count() as u64, exact + patterns, "{what}");
    let documents: Vec<_> = snapshot.documents().map(|(name, text)| (name, text.to_owned())).collect();
    assert_eq!(documents.len(), 2);
    let snapshot = Arc::new(snapshot);
    if let Ok(set) = RuleSet::from_snapshot(&snapshot, options()) {
        decisions(&set);
    }
}

#[test]
fn a_file_of_another_format_says_which() {
    let mut newer = sample_bytes(42);
    newer[8] = 2;
    let error = Snapshot::from_bytes(newer).unwrap_err();
    assert!(matches!(error, SnapshotError::OtherFormat { format: 2 }));
    assert_eq!(error.to_string(), "it is in format 2; this version of Tidegate knows format 1");
}

fn with_checksum(mut delta: Vec<u8>) -> Vec<u8> {
    if let Some(body) = delta.len().checked_sub(4) {
        let checksum = crc32fast::hash(&delta[..body]);
        delta[body..].copy_from_slice(&checksum.to_le_bytes());
    }
    delta
}

fn deltas(good: &[u8]) -> Corpus {
    let mut corpus = Corpus::default();
    let mut chance = Chance(3);
    let mut add = |what: String, bytes: Vec<u8>| {
        if bytes != good {
            let mended = with_checksum(bytes.clone());
            if mended != bytes && mended != good {
                corpus.add_repaired(&what, mended);
            }
            corpus.add(what, bytes);
        }
    };
    for end in (0..good.len()).step_by(7) {
        add(format!("cut off at {end}"), good[..end].to_vec());
    }
    for at in (0..good.len()).step_by(3) {
        let mut flipped = good.to_vec();
        flipped[at] ^= 1 << chance.below(8);
        add(format!("byte {at} flipped"), flipped);
    }
    for at in (8..good.len() - 8).step_by(5) {
        for hostile in [[0xff_u8; 4], [0, 0, 0, 0x7f]] {
            let mut bytes = good.to_vec();
            bytes[at..at + 4].copy_from_slice(&hostile);
            add(format!("{hostile:?} at {at}"), bytes);
        }
        let mut doubled = good.to_vec();
        doubled.splice(at..at, good[24..at.max(24)].to_vec());
        add(format!("changes up to {at} doubled"), doubled);
    }
    add("longer".to_owned(), [good, &[0; 4]].concat());
    corpus
}

#[test]
fn damaged_deltas_are_refused_and_the_rules_in_force_stay() {
    let good = sample_delta(42).encode().unwrap();
    let set = sample_set(41);
    let in_force = decisions(&set);
    let corpus = deltas(&good);
    let (mut refused, mut wrongly) = (0, 0);
    for Damaged { what, bytes, is_repaired } in &corpus.0 {
        match Delta::decode(bytes) {
            Err(error) => {
                refused += 1;
                assert!(!error.to_string().is_empty());
            }
            Ok(delta) => {
                // With the right checksum it may say something else; then to the byte what would be written for that.
                if !is_repaired {
                    wrongly += 1;
                    eprintln!("{what} was accepted");
                }
                assert_eq!(delta.encode().as_ref(), Ok(bytes), "{what}");
                let _ = set.apply(&delta, options());
            }
        }
        if refused % 50 == 0 {
            assert_eq!((decisions(&set), set.version()), (in_force.clone(), 41), "{what}");
        }
    }
    assert!(refused >= 200, "{refused} of {}", corpus.0.len());
    assert_eq!(decisions(&set), in_force);
    println!(
        "\nbar=5; case=deltas; figure=damaged ones refused, rules in force unchanged; value={refused}; low=200; by=worst"
    );
    println!(
        "\nbar=5; case=deltas; figure=damaged ones accepted whose checksums weren't mended; value={wrongly}; high=0; by=worst"
    );
    assert_eq!(wrongly, 0);
}
