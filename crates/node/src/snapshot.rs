//! Counts that outlive the process: a node that is alone keeps them in a file, since nobody else knows them.
//!
//! Saved now and then and at an orderly end, restored at the start. A disk that is full, read-only or slow, and
//! a file that is damaged or somebody else's, cost what would have been kept and nothing more: never a decision,
//! never the start.

mod file;
mod format;
#[cfg(test)]
mod tests;

use crate::clock::Clock;
use crate::driver::calm_interval;
use crate::engine::Engine;
use crate::files;
pub use file::{Extent, LoadReport, SaveError, load, save};
pub use format::SnapshotProblem;
use parking_lot::Mutex;
use std::fs::{File, TryLockError};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tidegate_core::{FleetSecret, LocalState, Nanos, Table};

const FILE_NAME: &str = "counts.snapshot";
/// How often a save is begun anew because the clock was set while it ran.
const TRIES_MAX: u32 = 3;

/// Where a node's counts are kept while it isn't running.
#[derive(Debug)]
pub struct Snapshots {
    engine: Arc<Engine>,
    clock: Arc<Clock>,
    directory: PathBuf,
    /// Held while saving: the last save waits for the one before it.
    progress: Mutex<Progress>,
}

#[derive(Debug, Default)]
struct Progress {
    /// The directory, locked, so that two nodes never overwrite each other's counts.
    claimed: Option<File>,
    /// Reported once, until it works again.
    is_failing: bool,
    /// The file says that there is nothing: an idle node needn't say it again.
    is_empty: bool,
}

#[derive(Debug, thiserror::Error)]
enum Trouble {
    #[error(transparent)]
    Save(#[from] SaveError),
    #[error("another process keeps its counts there")]
    InUse,
}

impl Snapshots {
    /// Counts are kept in `directory`, which is made when it is needed.
    pub fn new(engine: Arc<Engine>, clock: Arc<Clock>, directory: PathBuf) -> Self {
        Snapshots { engine, clock, directory, progress: Mutex::default() }
    }

    pub fn path(&self) -> PathBuf {
        self.directory.join(FILE_NAME)
    }

    /// Restores what was saved, before the first request. Reports what can't be, and leaves it.
    pub fn restore(&self) {
        let Some(table) = self.engine.lone_table() else { return };
        let mut progress = self.progress.lock();
        if let Err(trouble) = progress.claim(&self.directory) {
            return self.report(&mut progress, &trouble);
        }
        match load(table, self.engine.secret(), &self.path(), self.clock.now()) {
            Ok(None) => {}
            Ok(Some(loaded)) => self.log_loaded(&loaded),
            Err(problem) => self.refuse(&problem),
        }
    }

    /// Saves the counts now. Blocks for as long as the disk does.
    pub fn save(&self, extent: Extent) {
        let Some(table) = self.engine.lone_table() else { return };
        let mut progress = self.progress.lock();
        if progress.is_empty && table.is_empty() {
            return;
        }
        match self.claim_and_save(table, &mut progress, extent) {
            Ok(count) => {
                progress.is_empty = count == 0;
                if std::mem::take(&mut progress.is_failing) {
                    tracing::info!(path = %self.path().display(), "counts are kept over a restart again");
                }
                tracing::debug!(counts = count, ?extent, "counts saved");
            }
            Err(trouble) => self.report(&mut progress, &trouble),
        }
    }

    fn claim_and_save(
        &self,
        table: &Table<LocalState>,
        progress: &mut Progress,
        extent: Extent,
    ) -> Result<u64, Trouble> {
        files::make_directory(&self.directory).map_err(SaveError::Io)?;
        progress.claim(&self.directory)?;
        Ok(self.save_steadily(table, extent)?)
    }

    /// Begins again when the clock is set meanwhile.
    fn save_steadily(&self, table: &Table<LocalState>, extent: Extent) -> Result<u64, SaveError> {
        let mut tries = 0;
        loop {
            tries += 1;
            match save(table, self.engine.secret(), &self.path(), self.clock.now(), extent) {
                Err(SaveError::ClockStepped) if tries < TRIES_MAX => std::thread::yield_now(),
                outcome => return outcome,
            }
        }
    }

    fn report(&self, progress: &mut Progress, trouble: &Trouble) {
        if std::mem::replace(&mut progress.is_failing, true) {
            return;
        }
        let (path, fix) = (self.path(), trouble.fix());
        tracing::warn!(
            path = %path.display(), problem = %trouble, fix,
            "counts can't be saved: they are kept in memory only, and a restart forgets them"
        );
    }

    fn refuse(&self, problem: &SnapshotProblem) {
        let path = self.path();
        let kept = match files::set_aside(&path) {
            Ok(aside) => format!("kept as {}", aside.display()),
            Err(error) => format!("can't be moved aside ({error}) and will be overwritten"),
        };
        tracing::warn!(
            path = %path.display(), %problem, kept, fix = problem.fix(),
            "saved counts aren't restored: limits start afresh"
        );
    }

    fn log_loaded(&self, loaded: &LoadReport) {
        let path = self.path();
        let LoadReport { restored, expired, without_room, saved_at, .. } = *loaded;
        let saved_s_ago = self.clock.now().now.minus(saved_at).get() / Nanos::PER_SECOND;
        tracing::info!(path = %path.display(), restored, expired, saved_s_ago, "saved counts restored");
        if without_room > 0 {
            tracing::warn!(
                without_room,
                fix = "raise memory.max_keys",
                "the counter table is too small for the saved counts; those without room start afresh"
            );
        }
        if let Some(length) = loaded.set_back {
            tracing::warn!(
                set_back_s = length.get() / Nanos::PER_SECOND,
                fix = "check this machine's clock",
                "the wall clock is behind the saved counts; what was used then counts as used now"
            );
        }
    }
}

impl Progress {
    /// Locks the directory if it is there, and if its file system can: where it can't, nobody is hindered.
    fn claim(&mut self, directory: &Path) -> Result<(), Trouble> {
        if self.claimed.is_some() {
            return Ok(());
        }
        let Ok(directory) = File::open(directory) else { return Ok(()) };
        match directory.try_lock() {
            Ok(()) => self.claimed = Some(directory),
            Err(TryLockError::WouldBlock) => return Err(Trouble::InUse),
            Err(TryLockError::Error(_)) => {}
        }
        Ok(())
    }
}

impl Trouble {
    fn fix(&self) -> &'static str {
        match self {
            Trouble::Save(SaveError::Io(_)) => {
                "make the directory writable, free some space, or name another one by data.dir"
            }
            Trouble::Save(SaveError::ClockStepped) => "none needed; it is tried again",
            Trouble::InUse => "give each node a data.dir of its own",
        }
    }
}

impl SnapshotProblem {
    fn fix(&self) -> &'static str {
        match self {
            SnapshotProblem::Io(_) => "check the file's and the disk's health and permissions",
            SnapshotProblem::Foreign => "name a directory by data.dir that only this node uses",
            SnapshotProblem::Newer { .. } => {
                "start the newer version with this file back in its place, or go on without"
            }
            SnapshotProblem::Damaged => "check the disk; what was kept in it is lost",
            SnapshotProblem::OtherSecret => {
                "to go on with these counts, start with their cluster.secret_file and this file back in its place"
            }
        }
    }
}

/// What fuzzing calls: any bytes as a snapshot, with the checksum that belongs to them, so that what is behind
/// it is reached too. The table is full of them, or as it was.
#[cfg(feature = "fuzz")]
pub fn fuzz(bytes: &[u8]) {
    use std::io::Cursor;
    use tidegate_core::{FleetSecret, Moment, Table};
    let secret = FleetSecret::BUILT_IN;
    let moment = Moment::at(Nanos::from_secs(1_800_000_000));
    let checksum = crc32fast::hash(bytes).to_le_bytes();
    for whole in [bytes.to_vec(), [bytes, &checksum].concat()] {
        let table: Table<LocalState> = Table::new(1000);
        if let Ok(loaded) = file::read(&table, &secret, Cursor::new(whole), moment) {
            assert!(u64::try_from(table.len()).is_ok_and(|keys| keys <= loaded.restored));
        }
    }
}

/// Whether a directory holds saved counts that were made with this secret.
pub fn holds_counts_of(directory: &Path, secret: &FleetSecret) -> bool {
    let file = File::open(directory.join(FILE_NAME)).ok();
    let opened = file.and_then(|file| format::open(file, secret.fingerprint()).ok());
    opened.is_some_and(|(_, entries)| !entries.is_empty())
}

/// Saves at once, so that a disk that can't be written is told at the start, and then again and again, until the
/// future is dropped.
pub async fn save_regularly(snapshots: Arc<Snapshots>, every: Duration) {
    let mut tick = calm_interval(every);
    loop {
        tick.tick().await;
        save_aside(&snapshots, Extent::Lasting).await;
    }
}

/// Saves without holding up the runtime.
pub async fn save_aside(snapshots: &Arc<Snapshots>, extent: Extent) {
    let snapshots = snapshots.clone();
    let saved = tokio::task::spawn_blocking(move || snapshots.save(extent)).await;
    if let Err(error) = saved {
        tracing::error!(%error, "saving the counts failed");
    }
}
