//! Writes a rules file from documents and overrides in any order.
//!
//! Overrides are kept as bytes, sorted by hash and put aside in runs of bounded size, and merged when all are there:
//! memory doesn't grow with their number. Nothing is under the file's name before all of it is on the disk.

use super::head::{DOCUMENTS_MAX, EXACT_MAX, PATTERNS_MAX, RULES_WITH_EXACT_MAX};
use super::{Builder, Contents, LookupSeed, RuleWithExact, SnapshotId, WriteError};
use crate::bounds::SOURCES_BYTES_MAX;
use crate::bytes::{DecodeError, Parts, Reader, check_override, put_applied, put_parts};
use crate::change::{DocumentName, OverrideName};
use crate::overrides::Override;
use crate::rule::Mode;
use crate::rule_files::{beside, put_in_place};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, HashMap};
use std::fs::{self, File};
use std::io::{self, BufReader, BufWriter, Read, Write};
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Of one run, sorted in memory.
const RUN_BYTES_MAX: usize = 32 << 20;
const MERGE_BUFFER_BYTES: usize = 256 * 1024;

pub struct SnapshotWriter {
    path: PathBuf,
    contents: Contents,
    document_bytes: usize,
    exact: u64,
    /// Rules in the order in which they came, found by the hash of their names.
    known_rules: HashMap<u128, u32>,
    run: Run,
    aside: SpillFile,
}

impl std::fmt::Debug for SnapshotWriter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SnapshotWriter")
            .field("path", &self.path)
            .field("exact", &self.exact)
            .finish_non_exhaustive()
    }
}

impl SnapshotWriter {
    /// Of a file that is to have this name; its directory must be there.
    pub fn new(path: &Path, version: u64, seed: LookupSeed) -> Result<Self, WriteError> {
        let contents = Contents {
            version,
            seed,
            fleet_mode: Mode::default(),
            documents: BTreeMap::new(),
            patterns: BTreeMap::new(),
            rules: Vec::new(),
        };
        Ok(SnapshotWriter {
            aside: SpillFile::new(&beside(path, "aside"))?,
            path: path.to_owned(),
            contents,
            document_bytes: 0,
            exact: 0,
            known_rules: HashMap::new(),
            run: Run::default(),
        })
    }

    pub fn fleet_mode(&mut self, mode: Mode) {
        self.contents.fleet_mode = mode;
    }

    pub fn document(&mut self, name: &DocumentName, text: &str) -> Result<(), WriteError> {
        name.check()?;
        self.document_bytes = self.document_bytes.saturating_add(text.len());
        if self.document_bytes > SOURCES_BYTES_MAX {
            return Err(DecodeError("the documents are larger than 64 MiB").into());
        }
        match self.contents.documents.insert(name.clone(), text.into()) {
            None => Ok(()),
            Some(_) => Err(WriteError::Twice(name.to_string())),
        }
    }

    /// Takes an override in, exact or a pattern.
    pub fn set(&mut self, name: &OverrideName, applied: &Override) -> Result<(), WriteError> {
        name.check()?;
        check_override(applied)?;
        if !name.is_exact() {
            if self.contents.patterns.len() as u64 == PATTERNS_MAX {
                return Err(DecodeError("there are more than a million patterns").into());
            }
            return match self.contents.patterns.insert(name.clone(), *applied) {
                None => Ok(()),
                Some(_) => Err(WriteError::Twice(name.to_string())),
            };
        }
        if self.exact == EXACT_MAX {
            return Err(DecodeError("there are more than a hundred million overrides").into());
        }
        self.exact += 1;
        let prefix = self.contents.seed.prefix(&name.tenant, &name.namespace, &name.rule);
        let rule = self.rule(prefix.hash_of_parts([]), name)?;
        let hash = prefix.hash_of_parts(name.parts.iter().map(|part| &**part));
        self.run.push(hash, rule, name, applied);
        if self.run.bytes.len() >= RUN_BYTES_MAX {
            self.aside.put(&mut self.run)?;
        }
        Ok(())
    }

    fn rule(&mut self, names_hash: u128, name: &OverrideName) -> Result<u32, WriteError> {
        let rules = &mut self.contents.rules;
        let next = u32::try_from(rules.len()).unwrap_or(u32::MAX);
        let rule = *self.known_rules.entry(names_hash).or_insert(next);
        if rule == next {
            if u64::from(next) == RULES_WITH_EXACT_MAX {
                return Err(DecodeError("more than a million rules have overrides").into());
            }
            let OverrideName { tenant, namespace, rule, .. } = name.clone();
            rules.push(RuleWithExact { tenant, namespace, rule, exact: 0 });
        }
        if let Some(counted) = usize::try_from(rule).ok().and_then(|rule| rules.get_mut(rule)) {
            counted.exact += 1;
        }
        Ok(rule)
    }

    /// Writes the file and puts it in its place, whole and synced.
    pub fn finish(mut self) -> Result<SnapshotId, WriteError> {
        self.aside.put(&mut self.run)?;
        let positions = sort_rules(&mut self.contents.rules);
        let partial = beside(&self.path, "partial");
        let written = self.write(&partial, &positions);
        match written.and_then(|id| Ok(put_in_place(&partial, &self.path).map(|()| id)?)) {
            Ok(id) => Ok(id),
            Err(error) => {
                // A full disk gets its room back.
                let _ = fs::remove_file(&partial);
                Err(error)
            }
        }
    }

    fn write(&mut self, path: &Path, positions: &[u32]) -> Result<SnapshotId, WriteError> {
        let mut builder = Builder::new(path, &self.contents)?;
        let mut merged = self.aside.merged()?;
        let mut last = None;
        while let Some(record) = merged.next()? {
            let mut reader = Reader::new(&record);
            let (hash, rule, applied) = (reader.u128()?, reader.u32()?, reader.applied()?);
            let position = usize::try_from(rule).ok().and_then(|rule| positions.get(rule)).copied();
            let position = position.ok_or(DecodeError("an override is of no rule"))?;
            let parts = reader.rest();
            if last == Some(hash) {
                return Err(WriteError::Twice(self.shown(position, parts)));
            }
            last = Some(hash);
            builder.push(hash, position, parts, &applied)?;
        }
        builder.finish()
    }

    fn shown(&self, rule: u32, parts: &[u8]) -> String {
        let parts: Vec<&str> = Parts::of_checked(parts).iter().collect();
        let rule = usize::try_from(rule).ok().and_then(|rule| self.contents.rules.get(rule));
        rule.map_or_else(String::new, |rule| {
            format!("{}/{}/{} [{}]", rule.tenant, rule.namespace, rule.rule, parts.join(", "))
        })
    }
}

/// By name; tells where each one is now.
fn sort_rules(rules: &mut Vec<RuleWithExact>) -> Vec<u32> {
    let mut numbered: Vec<(RuleWithExact, usize)> = std::mem::take(rules).into_iter().zip(0..).collect();
    numbered.sort();
    let mut positions = vec![0; numbered.len()];
    for (position, (_, number)) in (0_u32..).zip(&numbered) {
        positions[*number] = position;
    }
    rules.extend(numbered.into_iter().map(|(rule, _)| rule));
    positions
}

/// Overrides that are sorted together: their length, hash, rule, value and parts, one behind the other.
#[derive(Default)]
struct Run {
    bytes: Vec<u8>,
    begins: Vec<(u128, usize)>,
}

impl Run {
    fn push(&mut self, hash: u128, rule: u32, name: &OverrideName, applied: &Override) {
        let begin = self.bytes.len();
        self.begins.push((hash, begin));
        self.bytes.extend_from_slice(&[0; 4]);
        self.bytes.extend_from_slice(&hash.to_le_bytes());
        self.bytes.extend_from_slice(&rule.to_le_bytes());
        put_applied(&mut self.bytes, applied);
        put_parts(&mut self.bytes, &name.parts);
        let length = u32::try_from(self.bytes.len() - begin - 4).unwrap_or(u32::MAX);
        self.bytes[begin..begin + 4].copy_from_slice(&length.to_le_bytes());
    }
}

/// Where runs wait to be merged: a file without a name, which goes away by itself.
struct SpillFile {
    file: File,
    runs: Vec<Range<u64>>,
    bytes: u64,
}

impl SpillFile {
    fn new(path: &Path) -> io::Result<Self> {
        let file = File::options().read(true).write(true).create(true).truncate(true).open(path)?;
        fs::remove_file(path)?;
        Ok(SpillFile { file, runs: Vec::new(), bytes: 0 })
    }

    /// Sorts a run, writes it and empties it.
    fn put(&mut self, run: &mut Run) -> io::Result<()> {
        run.begins.sort_unstable();
        let begun = self.bytes;
        let mut out = BufWriter::with_capacity(MERGE_BUFFER_BYTES, At { file: &self.file, at: begun });
        for (_, begin) in &run.begins {
            let record = run.bytes.get(*begin..).unwrap_or(&[]);
            let length = Reader::new(record).u32().map_err(io::Error::other)?;
            let length = usize::try_from(length).unwrap_or(usize::MAX).saturating_add(4);
            out.write_all(record.get(..length).unwrap_or(&[]))?;
            self.bytes += length as u64;
        }
        out.flush()?;
        drop(out);
        self.runs.push(begun..self.bytes);
        run.bytes.clear();
        run.begins.clear();
        Ok(())
    }

    fn merged(&self) -> io::Result<MergedRuns<'_>> {
        let mut merged = MergedRuns { sources: Vec::new(), next: BinaryHeap::new() };
        for run in &self.runs {
            let at = At { file: &self.file, at: run.start };
            let source = BufReader::with_capacity(MERGE_BUFFER_BYTES, at.take(run.end - run.start));
            merged.sources.push((source, Vec::new()));
            merged.advance(merged.sources.len() - 1)?;
        }
        Ok(merged)
    }
}

/// A file read and written at a place of one's own.
struct At<'f> {
    file: &'f File,
    at: u64,
}

impl Read for At<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.file.read_at(buffer, self.at)?;
        self.at += read as u64;
        Ok(read)
    }
}

impl Write for At<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.file.write_at(bytes, self.at)?;
        self.at += written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// All runs as one, in the order of their hashes.
struct MergedRuns<'f> {
    sources: Vec<(BufReader<io::Take<At<'f>>>, Vec<u8>)>,
    next: BinaryHeap<Reverse<(u128, usize)>>,
}

impl MergedRuns<'_> {
    /// Reads the next record of a run.
    fn advance(&mut self, run: usize) -> io::Result<()> {
        let Some((source, record)) = self.sources.get_mut(run) else { return Ok(()) };
        let mut length = [0; 4];
        match source.read_exact(&mut length) {
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(()),
            outcome => outcome?,
        }
        record.resize(usize::try_from(u32::from_le_bytes(length)).unwrap_or(0), 0);
        source.read_exact(record)?;
        let hash = Reader::new(record).u128().map_err(io::Error::other)?;
        self.next.push(Reverse((hash, run)));
        Ok(())
    }

    fn next(&mut self) -> io::Result<Option<Vec<u8>>> {
        let Some(Reverse((_, run))) = self.next.pop() else { return Ok(None) };
        let record = self.sources.get_mut(run).map(|(_, record)| std::mem::take(record)).unwrap_or_default();
        self.advance(run)?;
        Ok(Some(record))
    }
}

impl Contents {
    /// What a file has room for.
    pub(super) fn check(&self) -> Result<(), DecodeError> {
        let in_section = |(name, text): (&DocumentName, &Arc<str>)| {
            name.tenant.len() + name.namespace.len() + text.len() + DOCUMENT_LENGTHS_BYTES
        };
        if self.documents.iter().map(in_section).sum::<usize>() > SOURCES_BYTES_MAX {
            return Err(DecodeError("the documents are larger than 64 MiB"));
        }
        let exact: u64 = self.rules.iter().map(|rule| rule.exact).sum();
        let is_bounded = exact <= EXACT_MAX
            && self.patterns.len() as u64 <= PATTERNS_MAX
            && self.documents.len() as u64 <= DOCUMENTS_MAX
            && self.rules.len() as u64 <= RULES_WITH_EXACT_MAX;
        if is_bounded { Ok(()) } else { Err(DecodeError("there is more than a file has room for")) }
    }
}

/// Of the two names and the text of a document.
const DOCUMENT_LENGTHS_BYTES: usize = 2 + 2 + 4;
