//! The directory of rules files of whoever follows or serves: what is common to nodes, brokers and the control plane.
//!
//! A new file is written aside, on a thread of its own that gives way to everything else. A disk that fails is told
//! of once, and never keeps rules from being in force: what it lacks is loaded again after the next start.

use super::rule_store::RulesStatus;
use bytes::Bytes;
use std::fs::File;
use std::hash::{BuildHasher, RandomState};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use tidegate_rules::{CompactedFile, Download, Finding, RuleFiles, RuleFilesError, Snapshot, SnapshotId};

/// Changes that the disk hasn't taken; beyond, they are in memory only, until a snapshot comes.
const UNSAVED_MAX: usize = 10_000;

/// The rules that a directory stores: a snapshot file, and the changes since.
#[derive(Debug)]
pub struct StoredRules {
    files: RuleFiles,
    directory: PathBuf,
    download: Option<Download>,
    compaction: Option<JoinHandle<Result<CompactedFile, RuleFilesError>>>,
    /// In order; they follow what the log has.
    unsaved: Vec<(u64, Bytes)>,
    is_synced: bool,
    is_ill: bool,
    /// Held for as long as the directory is used.
    _lock: File,
}

/// Why a directory can't be used.
#[derive(Debug, thiserror::Error)]
pub enum StoredRulesError {
    #[error("{}: another process uses it; give each its own directory", .0.display())]
    Taken(PathBuf),
    #[error("{}: {source}; check the path, its permissions and the room on the disk", .path.display())]
    Io { path: PathBuf, source: io::Error },
    #[error(transparent)]
    Files(#[from] RuleFilesError),
}

impl StoredRules {
    /// What was wrong with it is said; what is good of it is used.
    pub fn open(directory: &Path) -> Result<Self, StoredRulesError> {
        let (files, findings) = RuleFiles::open(directory)?;
        for Finding { path, problem } in findings {
            tracing::warn!(path = %path.display(), problem, "rules files");
        }
        let lock = lock(&directory.join("lock"))?;
        Ok(StoredRules {
            files,
            directory: directory.to_owned(),
            download: None,
            compaction: None,
            unsaved: Vec::new(),
            is_synced: true,
            is_ill: false,
            _lock: lock,
        })
    }

    pub fn snapshot(&self) -> Option<&Arc<Snapshot>> {
        self.files.snapshot()
    }

    /// Of what is on the disk.
    pub fn version(&self) -> u64 {
        self.files.version()
    }

    /// The changes since the file, as they travel, until `take` has had enough of them.
    pub fn each_change<E>(&self, mut take: impl FnMut(u64, Vec<u8>) -> Result<(), E>) -> Result<(), E> {
        let Some(snapshot) = self.files.snapshot() else { return Ok(()) };
        for version in snapshot.version() + 1..=self.files.version() {
            match self.files.delta(version) {
                Ok(Some(delta)) => take(version, delta)?,
                // What can't be read now is loaded again.
                Ok(None) | Err(_) => break,
            }
        }
        Ok(())
    }

    /// The last one of the log, as it travels; `None` where the file is all there is.
    pub fn last_change(&self) -> Result<Option<Vec<u8>>, RuleFilesError> {
        self.files.delta(self.files.version())
    }

    pub fn status(&self, version: u64) -> RulesStatus {
        RulesStatus { version, partial: self.files.pending_download() }
    }

    pub fn begin(&mut self, id: &SnapshotId, length: u64, offset: u64) -> Result<(), String> {
        self.download = None;
        let mut download = self.files.download(*id, length).map_err(|error| error.to_string())?;
        if download.have() != offset {
            // From the beginning, though a part of it is here.
            drop(download);
            let _ = std::fs::remove_file(self.directory.join(format!("{id}.download")));
            download = self.files.download(*id, length).map_err(|error| error.to_string())?;
        }
        self.download = Some(download);
        Ok(())
    }

    pub fn write(&mut self, offset: u64, bytes: &[u8]) -> Result<(), String> {
        let download = self.download.as_mut().ok_or("no snapshot was begun")?;
        download.write(offset, bytes).map_err(|error| error.to_string())
    }

    /// Verifies what was loaded, and uses it: for who only hands it on.
    pub fn install_unread(&mut self) -> Result<Arc<Snapshot>, String> {
        let download = self.download.take().ok_or("no snapshot was begun")?;
        let snapshot = self.files.install(download).map_err(|error| error.to_string())?;
        self.unsaved.clear();
        Ok(snapshot)
    }

    /// Verifies what was loaded and, if `read` can make something of it, uses it. What is refused leaves the files as
    /// they were: the next start must not find what this one couldn't use.
    pub fn install<T>(
        &mut self,
        read: impl FnOnce(&Arc<Snapshot>) -> Result<T, String>,
    ) -> Result<(Arc<Snapshot>, T), String> {
        let download = self.download.take().ok_or("no snapshot was begun")?;
        let path = self.directory.join(format!("{}.download", download.id()));
        let looked = Snapshot::open(&path).map_err(|error| error.to_string());
        match looked.and_then(|snapshot| read(&Arc::new(snapshot))) {
            Ok(made) => {
                self.download = Some(download);
                self.install_unread().map(|snapshot| (snapshot, made))
            }
            Err(reason) => {
                // None of it is gone on from.
                let _ = std::fs::remove_file(&path);
                Err(reason)
            }
        }
    }

    /// Uses a file that was built at [`StoredRules::path_for_new`].
    pub fn install_file(&mut self, path: &Path) -> Result<Arc<Snapshot>, RuleFilesError> {
        self.unsaved.clear();
        self.files.install_file(path)
    }

    pub fn path_for_new(&self, version: u64) -> PathBuf {
        self.files.path_for_new(version)
    }

    /// Adds changes to the log, as far as the disk takes them.
    pub fn append(&mut self, changes: &[(u64, Bytes)]) {
        self.is_synced = false;
        self.unsaved.extend(changes.iter().cloned());
        let deltas: Vec<(u64, &[u8])> =
            self.unsaved.iter().map(|(version, delta)| (*version, &**delta)).collect();
        match self.files.append(&deltas) {
            Ok(()) => {
                self.unsaved.clear();
                self.well();
            }
            Err(error) => {
                self.ill(&error);
                self.unsaved.truncate(UNSAVED_MAX);
            }
        }
    }

    /// What is to be done now and then: syncs the log, and writes a new file when that pays. Says which file is used
    /// from now on, when it is another one. `is_wanted`: somebody needs a newer file, whether it pays or not.
    pub fn tend(&mut self, is_wanted: bool) -> Option<Arc<Snapshot>> {
        self.files.release_retired();
        if !self.is_synced {
            self.is_synced = true;
            if let Err(error) = self.files.sync() {
                self.ill(&error);
            }
        }
        match self.compaction.take() {
            Some(running) if running.is_finished() => self.adopt(running),
            Some(running) => {
                self.compaction = Some(running);
                None
            }
            None if is_wanted || (self.files.wants_compaction() && is_chosen()) => {
                self.begin_compaction();
                None
            }
            None => None,
        }
    }

    fn begin_compaction(&mut self) {
        let compaction = match self.files.compaction() {
            Ok(Some(compaction)) => compaction,
            Ok(None) => return,
            Err(error) => return self.ill(&error),
        };
        let run = move || {
            // The least of all: decisions come first. Who may not be nicer works on as it is.
            let _ = rustix::process::nice(19);
            compaction.run()
        };
        match thread::Builder::new().name("rules-file".to_owned()).spawn(run) {
            Ok(running) => self.compaction = Some(running),
            Err(error) => tracing::warn!(%error, "no thread for a new rules file; it is tried again"),
        }
    }

    fn adopt(&mut self, running: JoinHandle<Result<CompactedFile, RuleFilesError>>) -> Option<Arc<Snapshot>> {
        let Ok(compacted) = running.join() else {
            tracing::error!("the thread that wrote a new rules file panicked; the old one stays in use");
            return None;
        };
        match compacted.and_then(|compacted| self.files.adopt(compacted)) {
            Ok(Some(snapshot)) => {
                tracing::info!(version = snapshot.version(), "a new rules file is in use");
                Some(snapshot)
            }
            Ok(None) => None,
            Err(error) => {
                self.ill(&error);
                None
            }
        }
    }

    fn ill(&mut self, error: &RuleFilesError) {
        if !std::mem::replace(&mut self.is_ill, true) {
            tracing::warn!(%error, "rules can't be kept on the disk; they are in force all the same");
        }
    }

    fn well(&mut self) {
        if std::mem::replace(&mut self.is_ill, false) {
            tracing::info!("rules are kept on the disk again");
        }
    }
}

/// One second in sixteen: who follows the same changes has the same reason to write a new file at the same moment, and
/// shouldn't, where disks or processors are shared.
fn is_chosen() -> bool {
    RandomState::new().hash_one("file").is_multiple_of(16)
}

fn lock(path: &Path) -> Result<File, StoredRulesError> {
    let io = |source| StoredRulesError::Io { path: path.to_owned(), source };
    let file = File::options().create(true).truncate(false).write(true).open(path).map_err(io)?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(std::fs::TryLockError::WouldBlock) => {
            Err(StoredRulesError::Taken(path.parent().unwrap_or(path).to_owned()))
        }
        Err(std::fs::TryLockError::Error(source)) => Err(io(source)),
    }
}
