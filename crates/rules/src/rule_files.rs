//! The directory in which a node or a broker keeps a control plane's rules: one rules file, and the log of what was
//! changed since.
//!
//! | name | what |
//! |---|---|
//! | `42.rules` | the rules of version 42 |
//! | `42.log` | the deltas of versions 43 and on |
//! | `57-….download` | a file that is being loaded, as far as it came |
//! | `*.refused` | what was found damaged, for whoever wants to look at it |
//!
//! Whatever is there at a start may be damaged or cut off: what is good of it is used, and what isn't is said and set
//! aside. Everything blocks for as long as the disk does, and nothing runs by itself: who drives it owns the threads.
//! Only one process may use a directory at a time.

mod compaction;
mod download;
mod log;

pub use compaction::{CompactedFile, Compaction};
pub use download::Download;

use crate::snapshot::{Snapshot, SnapshotError, SnapshotId, WriteError};
use log::Log;
use std::fmt;
use std::fs::{self, DirBuilder, File};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

const RULES: &str = "rules";
const LOG: &str = "log";
/// So many deltas make a new file worth its while.
const DELTAS_WORTH_A_FILE: usize = 50_000;
const LOG_BYTES_WORTH_A_FILE: u64 = 64 << 20;

/// What went wrong with a directory or a file in it.
#[derive(Debug, thiserror::Error)]
pub enum RuleFilesError {
    #[error("{}: {source}; check the path, its permissions and the room on the disk", .path.display())]
    Io { path: PathBuf, source: io::Error },
    #[error("{} was refused: {error}", .path.display())]
    Refused { path: PathBuf, error: SnapshotError },
    #[error("{} can't be written: {error}", .path.display())]
    Unwritten { path: PathBuf, error: WriteError },
    #[error("{} is {found} and not {wanted}, which was asked for; load it again", .path.display())]
    AnotherFile { path: PathBuf, wanted: SnapshotId, found: SnapshotId },
    #[error("there is no rules file yet that version {version} could follow; load one first")]
    NoFile { version: u64 },
    #[error("version {found} doesn't follow version {last}, the last in the log")]
    Gap { last: u64, found: u64 },
    #[error("what was to be logged as version {version} isn't the delta of that version")]
    NotADelta { version: u64 },
    #[error("the log has {0} deltas, as many as it can have; compact it first")]
    LogFull(usize),
    #[error("a chunk for byte {offset} doesn't fit what is there of the download, {have} of {total} bytes")]
    Misplaced { offset: u64, have: u64, total: u64 },
}

impl RuleFilesError {
    fn io(path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |source| RuleFilesError::Io { path, source }
    }
}

/// Something that was not as it should be when a directory was opened. What is in force is sound all the same.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Finding {
    pub path: PathBuf,
    pub problem: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.path.display(), self.problem)
    }
}

struct Current {
    snapshot: Arc<Snapshot>,
    log: Log,
}

pub struct RuleFiles {
    directory: PathBuf,
    current: Option<Current>,
    /// Files that were in use, as long as somebody looks callers up in them.
    retired: Vec<Arc<Snapshot>>,
}

impl fmt::Debug for RuleFiles {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let id = self.snapshot().map(|snapshot| snapshot.id());
        f.debug_struct("RuleFiles")
            .field("directory", &self.directory)
            .field("id", &id)
            .finish_non_exhaustive()
    }
}

impl RuleFiles {
    /// Opens a directory, which is made if it isn't there. The newest good file is used, with the log that follows
    /// it as far as that is good.
    pub fn open(directory: &Path) -> Result<(Self, Vec<Finding>), RuleFilesError> {
        let made = DirBuilder::new().recursive(true).mode(0o700).create(directory);
        made.map_err(RuleFilesError::io(directory))?;
        let mut findings = Vec::new();
        let mut files = RuleFiles { directory: directory.to_owned(), current: None, retired: Vec::new() };
        let mut versions: Vec<u64> = files.named(RULES)?;
        versions.sort_unstable();
        while let Some(version) = versions.pop() {
            let path = files.path(version, RULES);
            match open_named(&path, version) {
                Ok(snapshot) => {
                    let log = Log::open(&files.path(version, LOG), version, &mut findings)?;
                    files.current = Some(Current { snapshot: Arc::new(snapshot), log });
                    break;
                }
                Err(error) => set_aside(&path, &error.to_string(), &mut findings),
            }
        }
        files.remove_leftovers();
        Ok((files, findings))
    }

    /// The rules file in use; `None` before the first was installed. Also what is served to others, in chunks.
    pub fn snapshot(&self) -> Option<&Arc<Snapshot>> {
        self.current.as_ref().map(|current| &current.snapshot)
    }

    /// Of the last delta, or of the file when there is none; 0 before the first was installed.
    pub fn version(&self) -> u64 {
        self.current.as_ref().map_or(0, |current| current.log.last_version())
    }

    /// A delta as bytes, where the log has it.
    pub fn delta(&self, version: u64) -> Result<Option<Vec<u8>>, RuleFilesError> {
        let Some(current) = &self.current else { return Ok(None) };
        current.log.read(version).map_err(RuleFilesError::io(&self.path(current.snapshot.version(), LOG)))
    }

    /// How many deltas the log has.
    pub fn delta_count(&self) -> usize {
        self.current.as_ref().map_or(0, |current| current.log.count())
    }

    /// Adds deltas to the log, each with its version, in order. They outlive this process; [`RuleFiles::sync`] makes
    /// them outlive the machine's power. What went wrong leaves the log as it was.
    pub fn append(&mut self, deltas: &[(u64, &[u8])]) -> Result<(), RuleFilesError> {
        let Some((first, _)) = deltas.first() else { return Ok(()) };
        self.release_retired();
        match &mut self.current {
            Some(current) => current.log.append(deltas),
            None => Err(RuleFilesError::NoFile { version: *first }),
        }
    }

    /// Waits until everything that was appended is on the disk.
    pub fn sync(&self) -> Result<(), RuleFilesError> {
        self.current.as_ref().map_or(Ok(()), |current| current.log.sync())
    }

    /// Lets go of files that nobody uses any more. Unmapping a large one takes milliseconds, so that it is left to
    /// who drives this, from time to time, and not to whichever request was the last to look at it.
    pub fn release_retired(&mut self) {
        self.retired.retain(|snapshot| Arc::strong_count(snapshot) > 1);
    }

    /// Whether a new file would pay.
    pub fn wants_compaction(&self) -> bool {
        self.current.as_ref().is_some_and(|current| {
            current.log.count() >= DELTAS_WORTH_A_FILE || current.log.bytes() >= LOG_BYTES_WORTH_A_FILE
        })
    }

    /// Where whoever builds a file of its own puts it, for [`RuleFiles::install_file`].
    pub fn path_for_new(&self, version: u64) -> PathBuf {
        self.path(version, "new")
    }

    /// Checks a file of this directory, and uses it from now on with an empty log. The old one is removed; a bad one
    /// is set aside and changes nothing.
    pub fn install_file(&mut self, path: &Path) -> Result<Arc<Snapshot>, RuleFilesError> {
        let snapshot = self.checked(path)?;
        self.use_new(path, &snapshot)?;
        Ok(snapshot)
    }

    /// A file that isn't in use yet, opened; set aside when it is bad.
    fn checked(&self, path: &Path) -> Result<Arc<Snapshot>, RuleFilesError> {
        Snapshot::open(path).map(Arc::new).map_err(|error| {
            let _ = fs::rename(path, beside(path, "refused"));
            RuleFilesError::Refused { path: path.to_owned(), error }
        })
    }

    fn use_new(&mut self, path: &Path, snapshot: &Arc<Snapshot>) -> Result<(), RuleFilesError> {
        let log = Log::create(&beside(path, LOG), snapshot.version(), &[])?;
        self.use_file(path, snapshot, log)
    }

    /// Puts a file and its log in their places: the log first, as a file without its log would be taken for all.
    fn use_file(&mut self, path: &Path, snapshot: &Arc<Snapshot>, log: Log) -> Result<(), RuleFilesError> {
        let version = snapshot.version();
        let (rules_path, log_path) = (self.path(version, RULES), self.path(version, LOG));
        let log = log.moved_to(&log_path)?;
        put_in_place(path, &rules_path).map_err(RuleFilesError::io(&rules_path))?;
        let before = self.current.replace(Current { snapshot: snapshot.clone(), log });
        self.retired.extend(before.map(|before| before.snapshot));
        self.release_retired();
        self.remove_leftovers();
        Ok(())
    }

    fn path(&self, version: u64, extension: &str) -> PathBuf {
        self.directory.join(format!("{version}.{extension}"))
    }

    /// The versions of the files with this extension.
    fn named(&self, extension: &str) -> Result<Vec<u64>, RuleFilesError> {
        let mut versions = Vec::new();
        let io = || RuleFilesError::io(&self.directory);
        for entry in fs::read_dir(&self.directory).map_err(io())? {
            let path = entry.map_err(io())?.path();
            let stem = path.file_stem().and_then(|stem| stem.to_str());
            if path.extension().is_some_and(|found| found == extension)
                && let Some(version) = stem.and_then(|stem| stem.parse().ok())
            {
                versions.push(version);
            }
        }
        Ok(versions)
    }

    /// Removes files that another took the place of, and what was never finished. What can't be removed now will be
    /// at the next start.
    fn remove_leftovers(&self) {
        let Ok(entries) = fs::read_dir(&self.directory) else { return };
        let version = self.snapshot().map(|snapshot| snapshot.version());
        for path in entries.flatten().map(|entry| entry.path()) {
            let is_current = version
                .is_some_and(|version| path == self.path(version, RULES) || path == self.path(version, LOG));
            let extension = path.extension().and_then(|extension| extension.to_str()).unwrap_or("");
            if !is_current && [RULES, LOG, "partial", "new", "aside"].contains(&extension) {
                let _ = fs::remove_file(&path);
            }
        }
    }
}

fn open_named(path: &Path, version: u64) -> Result<Snapshot, SnapshotError> {
    let snapshot = Snapshot::open(path)?;
    if snapshot.version() == version {
        Ok(snapshot)
    } else {
        Err(SnapshotError::OtherVersion { named: version })
    }
}

fn set_aside(path: &Path, problem: &str, findings: &mut Vec<Finding>) {
    let aside = beside(path, "refused");
    let outcome = match fs::rename(path, &aside) {
        Ok(()) => format!("{problem}; it was set aside as {}", aside.display()),
        Err(error) => format!("{problem}; it can't be set aside: {error}"),
    };
    findings.push(Finding { path: path.to_owned(), problem: outcome });
}

/// `42.rules.partial` for `42.rules`.
pub(crate) fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".");
    name.push(suffix);
    name.into()
}

/// Gives a file that is synced its name, which is on the disk when its directory is.
pub(crate) fn put_in_place(partial: &Path, path: &Path) -> io::Result<()> {
    fs::rename(partial, path)?;
    let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    File::open(directory.unwrap_or(Path::new(".")))?.sync_all()
}
