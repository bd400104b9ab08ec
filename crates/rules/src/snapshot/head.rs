//! The head of a rules file: what it is, of which version, and how long each section is.
//!
//! | bytes | what |
//! |---|---|
//! | 8 | `tiderule` |
//! | 4 | format |
//! | 4 | the fleet's mode |
//! | 8 | version of the rules |
//! | 16 | seed of the look-up's hash |
//! | 8 each | numbers of: exact overrides, patterns, documents, rules that have exact overrides, wide values |
//! | 16 each | sections in their order: length in bytes (8), CRC-32 (4), zeros (4) |
//! | 4 | zeros |
//! | 4 | CRC-32 of all bytes before it |
//!
//! Sections follow each other without gaps. Every byte of a file is in the head or in a section, so every byte is
//! under a checksum.

use super::SnapshotError;
use super::table::table_bytes;
use crate::bounds::SOURCES_BYTES_MAX;
use crate::bytes::{DecodeError, Reader, mode_number, mode_of};
use crate::rule::Mode;
use std::ops::Range;
use tidegate_core::sip::SipState;

const MAGIC: [u8; 8] = *b"tiderule";
pub(super) const FORMAT: u32 = 1;
/// A multiple of a cache line, so that the table's lines are the processor's.
pub(super) const HEAD_BYTES: usize = 192;
pub(super) const SECTIONS: usize = 6;
/// Exact overrides of one file.
pub(crate) const EXACT_MAX: u64 = 100_000_000;
pub(crate) const PATTERNS_MAX: u64 = 1_000_000;
/// Rules that have exact overrides, present or renamed.
pub(super) const RULES_WITH_EXACT_MAX: u64 = 1_000_000;
pub(crate) const DOCUMENTS_MAX: u64 = 100_000;

/// Sections, in the order of the file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Section {
    Table,
    Records,
    Rules,
    Documents,
    Patterns,
    Wide,
}

impl Section {
    pub(super) const ALL: [Section; SECTIONS] = [
        Section::Table,
        Section::Records,
        Section::Rules,
        Section::Documents,
        Section::Patterns,
        Section::Wide,
    ];

    fn index(self) -> usize {
        Self::ALL.iter().position(|section| *section == self).unwrap_or(0)
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(super) struct SectionHead {
    pub(super) bytes: u64,
    pub(super) checksum: u32,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Head {
    pub(super) version: u64,
    pub(super) seed: [u8; 16],
    pub(super) fleet_mode: Mode,
    pub(super) exact: u64,
    pub(super) patterns: u64,
    pub(super) documents: u64,
    pub(super) rules: u64,
    pub(super) wide: u64,
    pub(super) sections: [SectionHead; SECTIONS],
}

impl Head {
    pub(super) fn encode(&self) -> [u8; HEAD_BYTES] {
        let mut out = Vec::with_capacity(HEAD_BYTES);
        out.extend_from_slice(&MAGIC);
        out.extend_from_slice(&FORMAT.to_le_bytes());
        out.extend_from_slice(&u32::from(mode_number(self.fleet_mode)).to_le_bytes());
        out.extend_from_slice(&self.version.to_le_bytes());
        out.extend_from_slice(&self.seed);
        for number in [self.exact, self.patterns, self.documents, self.rules, self.wide] {
            out.extend_from_slice(&number.to_le_bytes());
        }
        for section in &self.sections {
            out.extend_from_slice(&section.bytes.to_le_bytes());
            out.extend_from_slice(&section.checksum.to_le_bytes());
            out.extend_from_slice(&[0; 4]);
        }
        out.resize(HEAD_BYTES - 4, 0);
        let checksum = crc32fast::hash(&out);
        out.extend_from_slice(&checksum.to_le_bytes());
        let mut head = [0; HEAD_BYTES];
        head.copy_from_slice(&out);
        head
    }

    /// Of a file of so many bytes: nothing that doesn't fit it is accepted.
    pub(super) fn decode(file: &[u8]) -> Result<Self, SnapshotError> {
        if !file.starts_with(&MAGIC) {
            let is_cut_off = MAGIC.starts_with(file.get(..MAGIC.len()).unwrap_or(file));
            return Err(if is_cut_off {
                DecodeError("it is cut off").into()
            } else {
                SnapshotError::Foreign
            });
        }
        let mut reader = Reader::new(file);
        reader.take(MAGIC.len())?;
        // Before the checksum, which another format may keep elsewhere.
        match reader.u32()? {
            FORMAT => {}
            format => return Err(SnapshotError::OtherFormat { format }),
        }
        let bytes = file.first_chunk::<HEAD_BYTES>().ok_or(DecodeError("it is cut off"))?;
        let head = Self::read(&mut reader)?;
        // What is left: zeros where zeros belong, and the checksum.
        if head.encode() != *bytes {
            return Err(SnapshotError::Damaged { section: "head" });
        }
        head.check(u64::try_from(file.len()).unwrap_or(u64::MAX))?;
        Ok(head)
    }

    fn read(reader: &mut Reader<'_>) -> Result<Self, SnapshotError> {
        let fleet_mode = mode_of(reader.u32()?).map_err(|_| SnapshotError::Damaged { section: "head" })?;
        let version = reader.u64()?;
        let seed = reader.u128()?.to_le_bytes();
        let [exact, patterns, documents, rules, wide] =
            [reader.u64()?, reader.u64()?, reader.u64()?, reader.u64()?, reader.u64()?];
        let mut sections = [SectionHead::default(); SECTIONS];
        for section in &mut sections {
            *section = SectionHead { bytes: reader.u64()?, checksum: reader.u32()? };
            reader.u32()?;
        }
        Ok(Head { version, seed, fleet_mode, exact, patterns, documents, rules, wide, sections })
    }

    fn check(&self, file_bytes: u64) -> Result<(), DecodeError> {
        let bounded = self.exact <= EXACT_MAX
            && self.patterns <= PATTERNS_MAX
            && self.documents <= DOCUMENTS_MAX
            && self.rules <= RULES_WITH_EXACT_MAX.min(self.exact)
            && self.wide <= self.exact
            && self.section(Section::Documents).bytes <= SOURCES_BYTES_MAX as u64;
        if !bounded {
            return Err(DecodeError("it has more of something than rules can have"));
        }
        let total =
            self.sections.iter().try_fold(HEAD_BYTES as u64, |sum, section| sum.checked_add(section.bytes));
        let fits = total == Some(file_bytes)
            && self.section(Section::Table).bytes == table_bytes(self.exact)
            && self.section(Section::Wide).bytes == self.wide * super::table::WIDE_BYTES as u64;
        if fits { Ok(()) } else { Err(DecodeError("its sections don't make up the file")) }
    }

    pub(super) fn section(&self, section: Section) -> SectionHead {
        self.sections[section.index()]
    }

    pub(super) fn set_section(&mut self, section: Section, head: SectionHead) {
        self.sections[section.index()] = head;
    }

    /// Where a section is in its file.
    pub(super) fn range(&self, section: Section) -> Range<usize> {
        let before: u64 = self.sections[..section.index()].iter().map(|section| section.bytes).sum();
        let start = usize::try_from(before).unwrap_or(usize::MAX).saturating_add(HEAD_BYTES);
        let bytes = usize::try_from(self.section(section).bytes).unwrap_or(usize::MAX);
        start..start.saturating_add(bytes)
    }

    /// Tells files of one version apart: it is over all checksums, and the seed.
    pub(super) fn digest(&self) -> u64 {
        let mut state = SipState::new(b"tidegate rules 1");
        for block in self.encode().chunks_exact(8) {
            let mut word = [0; 8];
            word.copy_from_slice(block);
            state.block(u64::from_le_bytes(word));
        }
        u64::try_from(state.finish() >> 64).unwrap_or(0)
    }
}
