//! A rules file on its way here, kept over restarts and broken connections as far as it came.

use super::{RuleFiles, RuleFilesError};
use crate::snapshot::{Snapshot, SnapshotId};
use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::Arc;

const EXTENSION: &str = "download";
/// More than a file with the most overrides has.
const FILE_BYTES_MAX: u64 = 64 << 30;

#[derive(Debug)]
pub struct Download {
    path: PathBuf,
    file: File,
    id: SnapshotId,
    have: u64,
    total: u64,
}

impl Download {
    pub fn id(&self) -> SnapshotId {
        self.id
    }

    /// How many bytes are here: the offset of the next chunk.
    pub fn have(&self) -> u64 {
        self.have
    }

    pub fn total(&self) -> u64 {
        self.total
    }

    pub fn is_complete(&self) -> bool {
        self.have == self.total
    }

    /// Takes the next chunk.
    pub fn write(&mut self, offset: u64, chunk: &[u8]) -> Result<(), RuleFilesError> {
        let end = offset.checked_add(chunk.len() as u64).filter(|end| *end <= self.total);
        let (Some(end), true) = (end, offset == self.have) else {
            return Err(RuleFilesError::Misplaced { offset, have: self.have, total: self.total });
        };
        self.file.write_all_at(chunk, offset).map_err(RuleFilesError::io(&self.path))?;
        self.have = end;
        Ok(())
    }
}

impl RuleFiles {
    /// Begins to load a file, or goes on where it was left. Of another one nothing is kept.
    pub fn download(&self, id: SnapshotId, total: u64) -> Result<Download, RuleFilesError> {
        let path = self.directory.join(format!("{id}.{EXTENSION}"));
        for other in self.downloads().into_iter().filter(|other| *other != path) {
            let _ = fs::remove_file(other);
        }
        if total > FILE_BYTES_MAX {
            return Err(RuleFilesError::Misplaced { offset: 0, have: 0, total });
        }
        let io = || RuleFilesError::io(&path);
        let file =
            File::options().read(true).write(true).create(true).truncate(false).open(&path).map_err(io())?;
        let mut have = file.metadata().map_err(io())?.len();
        if have > total {
            file.set_len(0).map_err(io())?;
            have = 0;
        }
        Ok(Download { path, file, id, have, total })
    }

    /// What was begun before, and how many bytes of it are here.
    pub fn pending_download(&self) -> Option<(SnapshotId, u64)> {
        self.downloads().into_iter().find_map(|path| {
            let (version, digest) = path.file_stem()?.to_str()?.split_once('-')?;
            let id =
                SnapshotId { version: version.parse().ok()?, digest: u64::from_str_radix(digest, 16).ok()? };
            Some((id, fs::metadata(&path).ok()?.len()))
        })
    }

    fn downloads(&self) -> Vec<PathBuf> {
        let entries = fs::read_dir(&self.directory).into_iter().flatten().flatten();
        let paths = entries.map(|entry| entry.path());
        paths.filter(|path| path.extension().is_some_and(|extension| extension == EXTENSION)).collect()
    }

    /// Checks a file that was loaded, and uses it from now on.
    pub fn install(&mut self, download: Download) -> Result<Arc<Snapshot>, RuleFilesError> {
        let Download { path, file, id, have, total } = download;
        if have != total {
            return Err(RuleFilesError::Misplaced { offset: have, have, total });
        }
        file.sync_all().map_err(RuleFilesError::io(&path))?;
        drop(file);
        let snapshot = self.checked(&path)?;
        if snapshot.id() != id {
            let _ = fs::remove_file(&path);
            return Err(RuleFilesError::AnotherFile { path, wanted: id, found: snapshot.id() });
        }
        self.use_new(&path, &snapshot)?;
        Ok(snapshot)
    }
}
