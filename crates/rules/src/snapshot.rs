//! The rules file: all rules of one version, documents and millions of overrides, read where they lie.
//!
//! The control plane builds it, brokers and nodes keep it, and it travels as it is. It is mapped into memory, and a
//! look-up reads the table in it without anything being deserialised. A file is checked as a whole before any of it
//! is used: every byte is under a checksum, and whatever the checksums say, every length, order, count and number is
//! what the writer would have written. [docs/rules-files.md](../../../docs/rules-files.md) describes it for others.

mod build;
mod head;
mod open;
mod table;
mod write;

pub(crate) use build::Builder;
pub(crate) use head::{DOCUMENTS_MAX, EXACT_MAX, PATTERNS_MAX};
pub use write::SnapshotWriter;

use crate::bytes::{DecodeError, Parts};
use crate::change::{DocumentName, OverrideName};
use crate::overrides::Override;
use crate::rule::Mode;
use head::{Head, Section};
use memmap2::{Mmap, MmapMut};
use open::Walk;
use std::collections::BTreeMap;
use std::fmt;
use std::hash::{BuildHasher, RandomState};
use std::io;
use std::ops::Range;
use std::sync::Arc;
use tidegate_core::identity::Shape;
use tidegate_core::{FleetSecret, KeyPrefix};

/// Which file: no two that differ have the same.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct SnapshotId {
    pub version: u64,
    pub digest: u64,
}

impl fmt::Display for SnapshotId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{:016x}", self.version, self.digest)
    }
}

/// Why a file can't be used.
#[derive(Debug, thiserror::Error)]
pub enum SnapshotError {
    #[error("it can't be read: {0}")]
    Io(#[from] io::Error),
    #[error("it isn't a rules file")]
    Foreign,
    #[error("it is in format {format}; this version of Tidegate knows format {}", head::FORMAT)]
    OtherFormat { format: u32 },
    #[error("its name says version {named}, and it has another")]
    OtherVersion { named: u64 },
    #[error("it is damaged: the checksum of its {section} differs")]
    Damaged { section: &'static str },
    #[error("it isn't valid: {0}")]
    Malformed(#[from] DecodeError),
}

/// Why a file can't be written.
#[derive(Debug, thiserror::Error)]
pub enum WriteError {
    #[error("it can't be written: {0}")]
    Io(#[from] io::Error),
    #[error("{0} comes twice")]
    Twice(String),
    #[error("rules have no room for it: {0}")]
    Refused(#[from] DecodeError),
    #[error("too many overrides have hashes that are alike; build it with another seed")]
    Crowded,
}

/// Keys the hash by which overrides are looked up. Part of the file, so that it is the same on all machines; random,
/// so that nobody can name callers that make look-ups slow.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct LookupSeed(pub(crate) [u8; 16]);

impl LookupSeed {
    /// From the system's random numbers, by way of the keys of the standard library's hash tables.
    pub fn random() -> Self {
        let number = || RandomState::new().hash_one(0_u8).to_le_bytes();
        let [first, second] = [number(), number()];
        let mut seed = [0; 16];
        seed[..8].copy_from_slice(&first);
        seed[8..].copy_from_slice(&second);
        LookupSeed(seed)
    }

    pub const fn new(seed: [u8; 16]) -> Self {
        LookupSeed(seed)
    }

    /// The part of the hash that all overrides of a rule share. Nothing of the rule but its name is in it: it may
    /// change its numbers, or go away and come back, and keep its overrides.
    pub(crate) fn prefix(&self, tenant: &str, namespace: &str, rule: &str) -> KeyPrefix {
        KeyPrefix::new(&FleetSecret::new(self.0), tenant, namespace, rule, Shape::Gcra)
    }
}

impl fmt::Debug for LookupSeed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("LookupSeed(…)")
    }
}

/// A rule's name, and how many exact overrides it has.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct RuleWithExact {
    pub(crate) tenant: Arc<str>,
    pub(crate) namespace: Arc<str>,
    pub(crate) rule: Arc<str>,
    pub(crate) exact: u64,
}

/// All of a file but its exact overrides.
#[derive(Clone, Debug)]
pub(crate) struct Contents {
    pub(crate) version: u64,
    pub(crate) seed: LookupSeed,
    pub(crate) fleet_mode: Mode,
    pub(crate) documents: BTreeMap<DocumentName, Arc<str>>,
    pub(crate) patterns: BTreeMap<OverrideName, Override>,
    /// Those that have any, in the order of their names.
    pub(crate) rules: Vec<RuleWithExact>,
}

/// An exact override, as it lies in a file.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Exact<'s> {
    pub(crate) hash: u128,
    /// Its rule's position in [`Snapshot::rules_with_exact`].
    pub(crate) rule: u32,
    pub(crate) parts: Parts<'s>,
    pub(crate) applied: Override,
}

/// A rules file that was checked.
#[derive(Debug)]
pub struct Snapshot {
    bytes: Bytes,
    /// A copy of the table in large pages, where it is large: most look-ups would otherwise wait for the address
    /// of their line as long as for the line.
    large: Option<MmapMut>,
    head: Head,
    /// Where the table and the wide values are, and how many lines look-ups begin in: asked for by each of them.
    table: Range<usize>,
    wide: Range<usize>,
    lines: u64,
    rules: Vec<RuleWithExact>,
    prefixes: Vec<KeyPrefix>,
}

#[derive(Debug)]
enum Bytes {
    Mapped(Mmap),
    Owned(Vec<u8>),
}

impl Bytes {
    #[inline]
    fn get(&self) -> &[u8] {
        match self {
            Bytes::Mapped(map) => map,
            Bytes::Owned(bytes) => bytes,
        }
    }
}

impl Snapshot {
    pub fn id(&self) -> SnapshotId {
        SnapshotId { version: self.head.version, digest: self.head.digest() }
    }

    /// Of the rules in it.
    pub fn version(&self) -> u64 {
        self.head.version
    }

    pub fn seed(&self) -> LookupSeed {
        LookupSeed(self.head.seed)
    }

    pub fn fleet_mode(&self) -> Mode {
        self.head.fleet_mode
    }

    /// Overrides for one caller, and for a pattern of them.
    pub fn override_counts(&self) -> (u64, u64) {
        (self.head.exact, self.head.patterns)
    }

    /// The whole file, as it travels.
    pub fn bytes(&self) -> &[u8] {
        self.bytes.get()
    }

    /// A piece of the file to send; empty past its end.
    pub fn chunk(&self, offset: u64, bytes_max: usize) -> &[u8] {
        let rest = usize::try_from(offset).ok().and_then(|offset| self.bytes().get(offset..)).unwrap_or(&[]);
        &rest[..rest.len().min(bytes_max)]
    }

    fn section(&self, section: Section) -> &[u8] {
        self.bytes().get(self.head.range(section)).unwrap_or(&[])
    }

    /// In the order of their names.
    pub fn documents(&self) -> impl Iterator<Item = (DocumentName, &str)> {
        let mut reader = crate::bytes::Reader::new(self.section(Section::Documents));
        std::iter::from_fn(move || Some((reader.document_name().ok()?, reader.long_text().ok()?)))
    }

    /// In the order of their names.
    pub fn patterns(&self) -> impl Iterator<Item = (OverrideName, Override)> {
        let mut reader = crate::bytes::Reader::new(self.section(Section::Patterns));
        std::iter::from_fn(move || Some((reader.override_name().ok()?, reader.applied().ok()?)))
    }

    /// Exact overrides, in the order of their hashes, then patterns.
    pub fn overrides(&self) -> impl Iterator<Item = (OverrideName, Override)> {
        let exact = self.exact().filter_map(|exact| {
            let rule = self.rules.get(usize::try_from(exact.rule).ok()?)?;
            let name = OverrideName {
                tenant: rule.tenant.clone(),
                namespace: rule.namespace.clone(),
                rule: rule.rule.clone(),
                parts: exact.parts.iter().map(Box::from).collect(),
            };
            Some((name, exact.applied))
        });
        exact.chain(self.patterns())
    }

    /// In the order of their hashes.
    pub(crate) fn exact(&self) -> impl Iterator<Item = Exact<'_>> {
        let mut walk = Walk::new(self);
        std::iter::from_fn(move || walk.next().ok().flatten())
    }

    /// In the order of their names.
    pub(crate) fn rules_with_exact(&self) -> &[RuleWithExact] {
        &self.rules
    }

    /// The exact override with this hash. Never panics or goes on for long, whatever the file says.
    #[inline]
    pub(crate) fn find(&self, hash: u128) -> Option<Override> {
        let table = match &self.large {
            Some(large) => large,
            None => self.bytes().get(self.table.clone())?,
        };
        let word = table::find(table, self.lines, hash)?;
        table::read(word, || self.bytes().get(self.wide.clone()).unwrap_or(&[]))
    }
}
