//! Writes a rules file in one pass, overrides in the order of their hashes.
//!
//! The table and the records grow at two places of the file at once; whatever else there is comes behind them, and
//! the head last of all: a file that was cut off has none. Memory doesn't grow with the number of overrides, but for
//! those wide values that are all different.

use super::head::{Head, Section, SectionHead};
use super::table::{self, LINE_BYTES, Places, Written};
use super::{Contents, SnapshotId, WriteError};
use crate::bytes::{put_applied, put_document_name, put_long_text, put_override_name, put_short_text};
use crate::overrides::Override;
use crc32fast::Hasher;
use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

const BUFFER_BYTES: usize = 256 * 1024;
/// Wide values that are told from each other; those past them are written as often as they come.
const WIDE_KNOWN_MAX: usize = 1 << 16;

/// Writes one stretch of a file from its beginning on.
struct Stretch {
    at: u64,
    begun_at: u64,
    buffer: Vec<u8>,
    checksum: Hasher,
}

impl Stretch {
    fn at(offset: u64) -> Self {
        Stretch {
            at: offset,
            begun_at: offset,
            buffer: Vec::with_capacity(BUFFER_BYTES),
            checksum: Hasher::new(),
        }
    }

    fn put(&mut self, file: &File, bytes: &[u8]) -> io::Result<()> {
        self.buffer.extend_from_slice(bytes);
        if self.buffer.len() >= BUFFER_BYTES { self.flush(file) } else { Ok(()) }
    }

    fn flush(&mut self, file: &File) -> io::Result<()> {
        self.checksum.update(&self.buffer);
        file.write_all_at(&self.buffer, self.at)?;
        self.at += self.buffer.len() as u64;
        self.buffer.clear();
        Ok(())
    }

    fn finish(mut self, file: &File) -> io::Result<SectionHead> {
        self.flush(file)?;
        Ok(SectionHead { bytes: self.at - self.begun_at, checksum: self.checksum.finalize() })
    }
}

pub(crate) struct Builder<'c> {
    file: File,
    contents: &'c Contents,
    exact: u64,
    table: Stretch,
    slots: u64,
    places: Places,
    records: Stretch,
    record: Vec<u8>,
    wide: Vec<u8>,
    wide_known: HashMap<[u8; table::WIDE_BYTES], u64>,
}

impl<'c> Builder<'c> {
    /// Begins a file; as many overrides as `contents` counts must follow.
    pub(crate) fn new(path: &Path, contents: &'c Contents) -> Result<Self, WriteError> {
        contents.check()?;
        let exact: u64 = contents.rules.iter().map(|rule| rule.exact).sum();
        let table_at = super::head::HEAD_BYTES as u64;
        Ok(Builder {
            file: File::create(path)?,
            contents,
            exact,
            table: Stretch::at(table_at),
            slots: 0,
            places: Places::new(exact),
            records: Stretch::at(table_at + table::table_bytes(exact)),
            record: Vec::new(),
            wide: Vec::new(),
            wide_known: HashMap::new(),
        })
    }

    /// `rule` is the position in the contents' rules, `parts` as `bytes.rs` writes them.
    pub(crate) fn push(
        &mut self,
        hash: u128,
        rule: u32,
        parts: &[u8],
        applied: &Override,
    ) -> Result<(), WriteError> {
        let slot = self.places.next(hash).ok_or(WriteError::Crowded)?;
        self.skip_to(slot)?;
        let word = self.word(applied);
        let fingerprint = table::fingerprint(hash).to_le_bytes();
        self.table.put(&self.file, &fingerprint)?;
        self.table.put(&self.file, &word.to_le_bytes())?;
        self.slots = slot + 1;
        self.record.clear();
        self.record.extend_from_slice(&rule.to_le_bytes());
        self.record.extend_from_slice(parts);
        Ok(self.records.put(&self.file, &self.record)?)
    }

    /// Leaves slots free up to this one.
    fn skip_to(&mut self, slot: u64) -> io::Result<()> {
        while self.slots < slot {
            self.table.put(&self.file, &[0; 16])?;
            self.slots += 1;
        }
        Ok(())
    }

    fn word(&mut self, applied: &Override) -> u64 {
        let wide = match table::write(applied) {
            Written::Word(word) => return word,
            Written::Wide(wide) => wide,
        };
        if let Some(index) = self.wide_known.get(&wide) {
            return table::wide_word(*index);
        }
        let index = (self.wide.len() / table::WIDE_BYTES) as u64;
        self.wide.extend_from_slice(&wide);
        if self.wide_known.len() < WIDE_KNOWN_MAX {
            self.wide_known.insert(wide, index);
        }
        table::wide_word(index)
    }

    /// Writes what is left, and syncs the file.
    pub(crate) fn finish(mut self) -> Result<SnapshotId, WriteError> {
        self.skip_to(table::table_bytes(self.exact) / LINE_BYTES as u64 * table::SLOTS_PER_LINE)?;
        let contents = self.contents;
        let mut head = Head {
            version: contents.version,
            seed: contents.seed.0,
            fleet_mode: contents.fleet_mode,
            exact: self.exact,
            patterns: contents.patterns.len() as u64,
            documents: contents.documents.len() as u64,
            rules: contents.rules.len() as u64,
            wide: (self.wide.len() / table::WIDE_BYTES) as u64,
            sections: Default::default(),
        };
        head.set_section(Section::Table, self.table.finish(&self.file)?);
        let mut end = self.records.begun_at;
        let records = self.records.finish(&self.file)?;
        end += records.bytes;
        head.set_section(Section::Records, records);
        for section in [Section::Rules, Section::Documents, Section::Patterns, Section::Wide] {
            let mut stretch = Stretch::at(end);
            match section {
                Section::Wide => stretch.put(&self.file, &self.wide)?,
                section => stretch.put(&self.file, &self.contents.encode(section))?,
            }
            let written = stretch.finish(&self.file)?;
            end += written.bytes;
            head.set_section(section, written);
        }
        self.file.write_all_at(&head.encode(), 0)?;
        self.file.sync_all()?;
        Ok(SnapshotId { version: head.version, digest: head.digest() })
    }
}

impl Contents {
    /// The bytes of a section that isn't about exact overrides.
    fn encode(&self, section: Section) -> Vec<u8> {
        let mut bytes = Vec::new();
        match section {
            Section::Rules => {
                for rule in &self.rules {
                    for name in [&rule.tenant, &rule.namespace, &rule.rule] {
                        put_short_text(&mut bytes, name);
                    }
                    bytes.extend_from_slice(&rule.exact.to_le_bytes());
                }
            }
            Section::Documents => {
                for (name, text) in &self.documents {
                    put_document_name(&mut bytes, name);
                    put_long_text(&mut bytes, text);
                }
            }
            Section::Patterns => {
                for (name, applied) in &self.patterns {
                    put_override_name(&mut bytes, name);
                    put_applied(&mut bytes, applied);
                }
            }
            Section::Table | Section::Records | Section::Wide => {}
        }
        bytes
    }
}
