//! The overrides on the disk: a line of JSON for each change, appended and synced before it is answered, and all
//! of them written anew when the file has grown past what it says.
//!
//! A disk that is full or read-only, and a file that is damaged, cost what would have been kept and nothing more:
//! never an answer, never the start. What can't be read is set aside, not overwritten.

use super::overrides::{Change, Override, OverridesInForce};
use crate::json::object::{object, unknown};
use crate::json::read::Reader;
use crate::json::write;
use crate::refusal::{Code, Refusal};
use crate::wire::{Range, text, whole_number};
use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, BufRead, BufReader, ErrorKind, Read, Write};
use std::path::{Path, PathBuf};
use tidegate_core::limit::NUMBER_MAX;
use tidegate_core::{Limit, Nanos, Period};
use tidegate_node::files;
use tidegate_node::request::{GIVEN_NAMESPACE_CHARS_MAX, IDENTIFIER_CHARS_MAX};

const FILE_NAME: &str = "overrides.jsonl";
const LOCK_NAME: &str = "overrides.lock";
/// What the file begins with: another version begins otherwise.
const HEAD: &str = "{\"tidegate_overrides\":1}";
/// A change is at most three texts of 512 characters, four bytes each, two for those that are escaped.
const LINE_BYTES_MAX: u64 = 32 << 10;
/// So many lines that say nothing any more aren't worth writing all anew.
const STALE_LINES_MIN: usize = 1000;
const NAMES: [&str; 6] = ["tenant", "namespace", "identifier", "id", "limit", "duration_ms"];

#[derive(Debug, Default)]
pub(super) struct Journal {
    /// `None` keeps nothing.
    directory: Option<PathBuf>,
    /// To append to; `None` when all must be written first.
    file: Option<File>,
    lines: usize,
    /// Locked, so that two nodes never overwrite each other's.
    claimed: Option<File>,
    /// Reported once, until it works again.
    is_failing: bool,
}

/// Why a file isn't used, or not all of it.
#[derive(Debug, thiserror::Error)]
enum JournalProblem {
    #[error(transparent)]
    Io(#[from] io::Error),
    #[error("it doesn't begin with {HEAD}: it is of another version, or not ours")]
    Foreign,
    #[error("{lines} of its lines are damaged, the first is line {first}")]
    Damaged { lines: usize, first: usize },
}

#[derive(Debug, thiserror::Error)]
enum Trouble {
    #[error(transparent)]
    Io(#[from] io::Error),
    #[error("another process keeps its overrides there")]
    InUse,
}

impl Journal {
    pub(super) fn new(directory: PathBuf) -> Self {
        Journal { directory: Some(directory), ..Journal::default() }
    }

    /// What was kept, before the first request. Reports what can't be used.
    pub(super) fn read(&mut self) -> OverridesInForce {
        let mut in_force = OverridesInForce::default();
        let Some(path) = self.directory.as_ref().map(|directory| directory.join(FILE_NAME)) else {
            return in_force;
        };
        match read_file(&path, &mut in_force) {
            Ok(()) => {}
            Err(JournalProblem::Io(error))
                if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {}
            Err(problem) => self.refuse(&path, &problem, &in_force),
        }
        if in_force.count() > 0 {
            tracing::info!(path = %path.display(), overrides = in_force.count(), "overrides restored");
        }
        in_force
    }

    /// Moves the file away and writes what could be read of it.
    fn refuse(&mut self, path: &Path, problem: &JournalProblem, in_force: &OverridesInForce) {
        let kept = match files::set_aside(path) {
            Ok(aside) => format!("kept as {}", aside.display()),
            Err(error) => format!("can't be moved aside ({error}) and will be overwritten"),
        };
        tracing::warn!(
            path = %path.display(), %problem, kept, restored = in_force.count(),
            fix = "compare the file with listOverrides, and set again what is missing",
            "overrides couldn't all be restored"
        );
        if in_force.count() > 0 {
            self.append_or_report(None, in_force);
        }
    }

    /// Appends a change, after which `in_force` is in force. Blocks for as long as the disk does.
    pub(super) fn append(&mut self, change: &Change, in_force: &OverridesInForce) {
        self.append_or_report(Some(change), in_force);
    }

    fn append_or_report(&mut self, change: Option<&Change>, in_force: &OverridesInForce) {
        let Some(directory) = self.directory.clone() else { return };
        match self.try_append(&directory, change, in_force) {
            Ok(()) => {
                if std::mem::take(&mut self.is_failing) {
                    tracing::info!(path = %directory.display(), "overrides are kept over a restart again");
                }
            }
            Err(trouble) => {
                // Whatever is in the file now: the next change writes all of it anew.
                self.file = None;
                if !std::mem::replace(&mut self.is_failing, true) {
                    tracing::warn!(
                        path = %directory.join(FILE_NAME).display(), problem = %trouble, fix = trouble.fix(),
                        "overrides can't be saved: they are in force, and a restart forgets them"
                    );
                }
            }
        }
    }

    fn try_append(
        &mut self,
        directory: &Path,
        change: Option<&Change>,
        in_force: &OverridesInForce,
    ) -> Result<(), Trouble> {
        let is_stale = self.lines > 2 * in_force.count() + STALE_LINES_MIN;
        if let (Some(file), Some(change), false) = (&mut self.file, change, is_stale) {
            let mut line = Vec::with_capacity(256);
            write_line(&mut line, change);
            file.write_all(&line)?;
            file.sync_data()?;
            self.lines += 1;
            return Ok(());
        }
        files::make_directory(directory)?;
        self.claim(directory)?;
        let path = directory.join(FILE_NAME);
        files::replace(&path, |file| write_all(file, in_force).map(|file| ((), file)))?;
        self.file = Some(OpenOptions::new().append(true).open(&path)?);
        self.lines = in_force.count();
        Ok(())
    }

    /// Locks the directory's overrides, if its file system can: where it can't, nobody is hindered.
    fn claim(&mut self, directory: &Path) -> Result<(), Trouble> {
        if self.claimed.is_some() {
            return Ok(());
        }
        let lock = File::create(directory.join(LOCK_NAME))?;
        match lock.try_lock() {
            Ok(()) => self.claimed = Some(lock),
            Err(TryLockError::WouldBlock) => return Err(Trouble::InUse),
            Err(TryLockError::Error(_)) => {}
        }
        Ok(())
    }
}

impl Trouble {
    const fn fix(&self) -> &'static str {
        match self {
            Trouble::Io(_) => "make the directory writable, free some space, or name another one by data.dir",
            Trouble::InUse => "give each node a data.dir of its own",
        }
    }
}

/// Reads what can be read. A last line that was cut off by a crash was never answered, and is nothing.
fn read_file(path: &Path, in_force: &mut OverridesInForce) -> Result<(), JournalProblem> {
    let mut reader = BufReader::new(File::open(path)?);
    let mut line = Vec::new();
    if !next_line(&mut reader, &mut line)? || line != HEAD.as_bytes() {
        return Err(JournalProblem::Foreign);
    }
    let (mut number, mut damaged, mut first) = (1, 0, 0);
    while next_line(&mut reader, &mut line)? {
        number += 1;
        let made = read_line(&line).map(|mut change| in_force.apply(&mut change));
        if !matches!(made, Ok(Ok(()))) {
            damaged += 1;
            first = if first == 0 { number } else { first };
        }
    }
    if damaged == 0 { Ok(()) } else { Err(JournalProblem::Damaged { lines: damaged, first }) }
}

/// A whole line without its end; `false` when there is none. One that is too long comes in pieces.
fn next_line(reader: &mut impl BufRead, line: &mut Vec<u8>) -> io::Result<bool> {
    line.clear();
    let taken = reader.by_ref().take(LINE_BYTES_MAX).read_until(b'\n', line)?;
    if line.last() == Some(&b'\n') {
        line.pop();
        return Ok(true);
    }
    Ok(u64::try_from(taken).is_ok_and(|taken| taken == LINE_BYTES_MAX))
}

/// A change that has no `limit` deletes.
fn read_line(line: &[u8]) -> Result<Change, Refusal> {
    const COUNT: Range = Range { min: 0, max: NUMBER_MAX };
    let (mut tenant, mut namespace, mut identifier, mut id) = (None, None, None, None);
    let (mut limit, mut duration_ms) = (None, None);
    let mut reader = Reader::new(line)?;
    object(&mut reader, "a line", |reader, name| {
        match name {
            "tenant" => tenant = Some(text(reader, name, IDENTIFIER_CHARS_MAX)?),
            "namespace" => namespace = Some(text(reader, name, GIVEN_NAMESPACE_CHARS_MAX)?),
            "identifier" => identifier = Some(text(reader, name, IDENTIFIER_CHARS_MAX)?),
            "id" => id = Some(text(reader, name, IDENTIFIER_CHARS_MAX)?),
            "limit" => limit = Some(whole_number(reader, name, COUNT)?),
            "duration_ms" => duration_ms = Some(whole_number(reader, name, Range::DURATION_MS)?),
            _ => return Err(unknown(name, &NAMES)),
        }
        Ok(())
    })?;
    reader.finish()?;
    let incomplete = || Refusal::new(Code::MissingField, "the line is incomplete", "leave it out");
    let to = match (id, limit, duration_ms) {
        (Some(id), Some(limit), Some(millis)) => {
            let limit = Limit::new(limit).map_err(|_| incomplete())?;
            let period = Period::new(Nanos::from_millis(millis)).map_err(|_| incomplete())?;
            Some(Override::with_id(&id, limit, period))
        }
        (None, None, None) => None,
        _ => return Err(incomplete()),
    };
    match (tenant, namespace, identifier) {
        (Some(tenant), Some(namespace), Some(identifier)) => Ok(Change {
            tenant: tenant.into(),
            namespace: namespace.into(),
            identifier: identifier.into(),
            to,
        }),
        _ => Err(incomplete()),
    }
}

/// What fuzzing calls: a line that is understood is written as one that means the same.
#[cfg(feature = "fuzz")]
pub(super) fn fuzz(line: &[u8]) -> Result<(), Refusal> {
    let change = read_line(line)?;
    let (mut written, mut again) = (Vec::new(), Vec::new());
    write_line(&mut written, &change);
    write_line(&mut again, &read_line(written.trim_ascii_end())?);
    assert_eq!(written, again);
    Ok(())
}

fn write_line(out: &mut Vec<u8>, change: &Change) {
    out.extend_from_slice(b"{\"tenant\":");
    write::string(out, &change.tenant);
    out.extend_from_slice(b",\"namespace\":");
    write::string(out, &change.namespace);
    out.extend_from_slice(b",\"identifier\":");
    write::string(out, &change.identifier);
    if let Some(to) = &change.to {
        let (limit, period) = to.numbers();
        out.extend_from_slice(b",\"id\":");
        write::string(out, to.id());
        out.extend_from_slice(b",\"limit\":");
        write::number(out, limit.get());
        out.extend_from_slice(b",\"duration_ms\":");
        write::number(out, period.get() / Nanos::PER_MILLI);
    }
    out.extend_from_slice(b"}\n");
}

fn write_all<W: Write>(mut file: W, in_force: &OverridesInForce) -> io::Result<W> {
    file.write_all(HEAD.as_bytes())?;
    file.write_all(b"\n")?;
    let mut written = Ok(());
    let mut line = Vec::with_capacity(256);
    in_force.each(|change| {
        if written.is_ok() {
            line.clear();
            write_line(&mut line, change);
            written = file.write_all(&line);
        }
    });
    written.map(|()| file)
}

#[cfg(test)]
mod tests;
