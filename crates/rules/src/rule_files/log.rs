//! The log: deltas one behind the other, each behind its length, after a head that says which version they follow.
//!
//! A delta has its own checksum and version. What is cut off at the end was being written when the process died, and
//! is dropped; what is damaged before the end takes all behind it along, since deltas apply in order or not at all.

use super::{Finding, RuleFilesError, beside, put_in_place};
use crate::bytes::Reader;
use crate::change::{DELTA_BYTES_MAX, Delta, claimed_version};
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

const MAGIC: [u8; 8] = *b"tidelogs";
const FORMAT: u32 = 1;
/// Magic, format, zeros, version, checksum of these.
const HEAD_BYTES: usize = 28;
const LENGTH_BYTES: usize = 4;
/// Whoever never compacts is told so in the end.
const DELTAS_MAX: usize = 4_000_000;

pub(super) struct Log {
    path: PathBuf,
    file: File,
    base: u64,
    /// Where each delta's length is, and the end.
    offsets: Vec<u64>,
}

fn head(base: u64) -> [u8; HEAD_BYTES] {
    let mut bytes = Vec::with_capacity(HEAD_BYTES);
    bytes.extend_from_slice(&MAGIC);
    bytes.extend_from_slice(&FORMAT.to_le_bytes());
    bytes.extend_from_slice(&[0; 4]);
    bytes.extend_from_slice(&base.to_le_bytes());
    let checksum = crc32fast::hash(&bytes);
    bytes.extend_from_slice(&checksum.to_le_bytes());
    let mut head = [0; HEAD_BYTES];
    head.copy_from_slice(&bytes);
    head
}

impl Log {
    /// Writes a log whole, with these records as [`Log::records`] gives them, and syncs it.
    pub(super) fn create(path: &Path, base: u64, records: &[u8]) -> Result<Self, RuleFilesError> {
        let io = || RuleFilesError::io(path);
        let file =
            File::options().read(true).write(true).create(true).truncate(true).open(path).map_err(io())?;
        file.write_all_at(&head(base), 0).map_err(io())?;
        file.write_all_at(records, HEAD_BYTES as u64).map_err(io())?;
        file.sync_all().map_err(io())?;
        let mut log = Log { path: path.to_owned(), file, base, offsets: vec![HEAD_BYTES as u64] };
        log.index(records);
        Ok(log)
    }

    /// Opens the log that follows a version; an empty one where there is none, or none that can be used.
    pub(super) fn open(path: &Path, base: u64, findings: &mut Vec<Finding>) -> Result<Self, RuleFilesError> {
        let io = || RuleFilesError::io(path);
        let file = match File::options().read(true).write(true).open(path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Self::create(path, base, &[]),
            Err(error) => return Err(io()(error)),
        };
        let length = file.metadata().map_err(io())?.len();
        let mut first = [0; HEAD_BYTES];
        let is_read = file.read_exact_at(&mut first, 0);
        if is_read.is_err() || first != head(base) {
            super::set_aside(path, "it isn't the log of these rules", findings);
            return Self::create(path, base, &[]);
        }
        let mut log = Log { path: path.to_owned(), file, base, offsets: vec![HEAD_BYTES as u64] };
        if let Some(problem) = log.read_all(length).map_err(io())? {
            log.cut_off(length, problem, findings)?;
        }
        Ok(log)
    }

    /// Checks record after record; says what ended that before the end.
    fn read_all(&mut self, length: u64) -> io::Result<Option<Problem>> {
        let mut bytes = Vec::new();
        while self.bytes() < length {
            let left = length - self.bytes();
            let mut prefix = [0; LENGTH_BYTES];
            if left < LENGTH_BYTES as u64 {
                return Ok(Some(Problem::Torn));
            }
            self.file.read_exact_at(&mut prefix, self.bytes())?;
            let delta_bytes = u64::from(u32::from_le_bytes(prefix));
            let end = self.bytes() + LENGTH_BYTES as u64 + delta_bytes;
            if delta_bytes > DELTA_BYTES_MAX as u64 {
                return Ok(Some(Problem::Damaged("a delta is longer than any can be".to_owned())));
            }
            if end > length {
                return Ok(Some(Problem::Torn));
            }
            bytes.resize(usize::try_from(delta_bytes).unwrap_or(0), 0);
            self.file.read_exact_at(&mut bytes, self.bytes() + LENGTH_BYTES as u64)?;
            match Delta::decode(&bytes) {
                Ok(delta) if delta.version == self.last_version() + 1 => self.offsets.push(end),
                Ok(delta) => {
                    let problem =
                        format!("version {} follows version {}", delta.version, self.last_version());
                    return Ok(Some(Problem::Damaged(problem)));
                }
                Err(_) if end == length => return Ok(Some(Problem::Torn)),
                Err(error) => return Ok(Some(Problem::Damaged(error.to_string()))),
            }
        }
        Ok(None)
    }

    /// Drops what comes behind the last good delta.
    fn cut_off(
        &mut self,
        length: u64,
        problem: Problem,
        findings: &mut Vec<Finding>,
    ) -> Result<(), RuleFilesError> {
        let lost = length - self.bytes();
        let last = self.last_version();
        let problem = match problem {
            Problem::Torn => {
                format!("its last {lost} bytes were never finished; it ends with version {last}")
            }
            Problem::Damaged(why) => {
                let aside = beside(&self.path, "refused");
                let copied = fs::copy(&self.path, &aside).is_ok();
                let kept =
                    if copied { format!("; all of it is in {}", aside.display()) } else { String::new() };
                format!("{why}; its last {lost} bytes aren't used, and it ends with version {last}{kept}")
            }
        };
        findings.push(Finding { path: self.path.clone(), problem });
        self.file.set_len(self.bytes()).map_err(RuleFilesError::io(&self.path))
    }

    fn index(&mut self, records: &[u8]) {
        let mut reader = Reader::new(records);
        while let Ok(length) = reader.u32() {
            let taken = usize::try_from(length).is_ok_and(|length| reader.take(length).is_ok());
            if !taken {
                break;
            }
            self.offsets.push(self.bytes() + LENGTH_BYTES as u64 + u64::from(length));
        }
    }

    pub(super) fn moved_to(mut self, path: &Path) -> Result<Self, RuleFilesError> {
        put_in_place(&self.path, path).map_err(RuleFilesError::io(path))?;
        self.path = path.to_owned();
        Ok(self)
    }

    pub(super) fn count(&self) -> usize {
        self.offsets.len() - 1
    }

    pub(super) fn last_version(&self) -> u64 {
        self.base + self.count() as u64
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Where it ends.
    pub(super) fn bytes(&self) -> u64 {
        self.offsets.last().copied().unwrap_or(HEAD_BYTES as u64)
    }

    pub(super) fn append(&mut self, deltas: &[(u64, &[u8])]) -> Result<(), RuleFilesError> {
        if self.count() + deltas.len() > DELTAS_MAX {
            return Err(RuleFilesError::LogFull(self.count()));
        }
        let mut records = Vec::new();
        for (last, (version, bytes)) in (self.last_version()..).zip(deltas) {
            if *version != last + 1 {
                return Err(RuleFilesError::Gap { last, found: *version });
            }
            if claimed_version(bytes) != Some(*version) || bytes.len() > DELTA_BYTES_MAX {
                return Err(RuleFilesError::NotADelta { version: *version });
            }
            let length = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
            records.extend_from_slice(&length.to_le_bytes());
            records.extend_from_slice(bytes);
        }
        if let Err(source) = self.file.write_all_at(&records, self.bytes()) {
            // Half a record would be in the way of the next one.
            let _ = self.file.set_len(self.bytes());
            return Err(RuleFilesError::Io { path: self.path.clone(), source });
        }
        self.index(&records);
        Ok(())
    }

    pub(super) fn sync(&self) -> Result<(), RuleFilesError> {
        self.file.sync_data().map_err(RuleFilesError::io(&self.path))
    }

    /// A delta as bytes.
    pub(super) fn read(&self, version: u64) -> io::Result<Option<Vec<u8>>> {
        let position = version.checked_sub(self.base + 1).and_then(|position| usize::try_from(position).ok());
        let range = position
            .and_then(|position| Some((self.offsets.get(position)?, self.offsets.get(position + 1)?)));
        let Some((begin, end)) = range else { return Ok(None) };
        let begin = begin + LENGTH_BYTES as u64;
        let mut bytes = vec![0; usize::try_from(end - begin).unwrap_or(0)];
        self.file.read_exact_at(&mut bytes, begin)?;
        Ok(Some(bytes))
    }

    /// What follows a version, to begin another log with.
    pub(super) fn records_after(&self, version: u64) -> io::Result<Vec<u8>> {
        let position = usize::try_from(version.saturating_sub(self.base)).unwrap_or(usize::MAX);
        let begin = self.offsets.get(position).copied().unwrap_or(self.bytes());
        let mut records = vec![0; usize::try_from(self.bytes() - begin).unwrap_or(0)];
        self.file.read_exact_at(&mut records, begin)?;
        Ok(records)
    }

    /// The same log as it is now, to be read elsewhere.
    pub(super) fn copy(&self) -> io::Result<Log> {
        let file = self.file.try_clone()?;
        Ok(Log { path: self.path.clone(), file, base: self.base, offsets: self.offsets.clone() })
    }
}

enum Problem {
    /// The last record isn't whole.
    Torn,
    Damaged(String),
}
