//! Files that are read again when they change: tokens, certificates. By path, so that swapped links are followed.
//!
//! Read once they have stood still for a look, and during the reading: half a file may be valid. What can't be
//! read is told once, and what is in force stays.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::MissedTickBehavior;

/// A change is in force after two looks that saw the same.
const POLL_EVERY: Duration = Duration::from_millis(250);

#[derive(Debug)]
pub(crate) struct WatchedFiles {
    paths: Vec<PathBuf>,
    /// What was read last, or couldn't be: told once.
    read: Option<FileStamps>,
    /// What the last look saw.
    stamps: Option<FileStamps>,
}

/// The stamps of the watched files, or which of them can't be read.
type FileStamps = Result<Vec<Stamp>, String>;

#[derive(Clone, PartialEq, Eq, Debug)]
struct Stamp {
    device: u64,
    inode: u64,
    bytes: u64,
    modified_ns: (i64, i64),
    changed_ns: (i64, i64),
}

impl WatchedFiles {
    /// To be made before the files are read for the first time: what changes from now on is noticed.
    pub(crate) fn new(paths: Vec<PathBuf>) -> Self {
        let read = Some(stamps(&paths));
        WatchedFiles { paths, read, stamps: None }
    }

    /// Polls the files once. Returns `Some` if they changed, with what `read` makes of them.
    fn poll<T>(&mut self, read: impl FnOnce() -> Result<T, String>) -> Option<Result<T, String>> {
        let now = stamps(&self.paths);
        if self.read.as_ref() == Some(&now) {
            self.stamps = None;
            return None;
        }
        if self.stamps.as_ref() != Some(&now) {
            self.stamps = Some(now);
            return None;
        }
        let outcome = match &now {
            Ok(_) => read(),
            Err(problem) => Err(problem.clone()),
        };
        if stamps(&self.paths) != now {
            self.stamps = None;
            return None;
        }
        self.read = Some(now);
        Some(outcome)
    }
}

fn stamps(paths: &[PathBuf]) -> FileStamps {
    let stamp = |path: &PathBuf| {
        stamp(path).map_err(|error| format!("can't read {}: {error}; put it back", path.display()))
    };
    paths.iter().map(stamp).collect()
}

fn stamp(path: &Path) -> io::Result<Stamp> {
    let metadata = fs::metadata(path)?;
    Ok(Stamp {
        device: metadata.dev(),
        inode: metadata.ino(),
        bytes: metadata.len(),
        modified_ns: (metadata.mtime(), metadata.mtime_nsec()),
        changed_ns: (metadata.ctime(), metadata.ctime_nsec()),
    })
}

/// Watches until the future is dropped: `read` makes something of the files whenever they have changed, and `apply`
/// puts it in force.
pub(crate) async fn watch<T: Send + 'static>(
    what: &'static str,
    mut files: WatchedFiles,
    read: impl Fn() -> Result<T, String> + Send + Sync + 'static,
    apply: impl Fn(T),
) {
    let read = Arc::new(read);
    let mut tick = tokio::time::interval(POLL_EVERY);
    tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tick.tick().await;
        let read = Arc::clone(&read);
        // A file system may hang: not on a thread that serves.
        let looked = tokio::task::spawn_blocking(move || {
            let outcome = files.poll(&*read);
            (files, outcome)
        });
        let Ok((returned, outcome)) = looked.await else {
            tracing::error!(what, "the watch over the files failed; they are no longer reloaded");
            return;
        };
        files = returned;
        match outcome {
            None => {}
            Some(Ok(value)) => apply(value),
            Some(Err(problem)) => {
                tracing::error!(what, %problem, "can't be reloaded; what was in force stays");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_is_read_once_it_stands_still_and_trouble_is_told_once() {
        let path = std::env::temp_dir().join(format!("tidegate-watched-{}", std::process::id()));
        let (file, link) = (path.with_extension("a"), path.with_extension("link"));
        let other = path.with_extension("b");
        let _ = fs::remove_file(&link);
        fs::write(&file, "one").unwrap();
        fs::write(&other, "two").unwrap();
        std::os::unix::fs::symlink(&file, &link).unwrap();
        let mut files = WatchedFiles::new(vec![link.clone()]);
        let read = || fs::read_to_string(&link).map_err(|error| error.to_string());
        assert!((0..3).all(|_| files.poll(read).is_none()));
        fs::remove_file(&link).unwrap();
        std::os::unix::fs::symlink(&other, &link).unwrap();
        assert_eq!(files.poll(read), None);
        assert_eq!(files.poll(read), Some(Ok("two".to_owned())));
        assert_eq!(files.poll(read), None);
        fs::remove_file(&link).unwrap();
        assert_eq!(files.poll(read), None);
        let told = files.poll(read).unwrap().unwrap_err();
        assert!(told.contains("can't read") && told.contains("put it back"), "{told}");
        assert!((0..3).all(|_| files.poll(read).is_none()), "told once");
        fs::write(&link, "three").unwrap();
        assert_eq!((files.poll(read), files.poll(read)), (None, Some(Ok("three".to_owned()))));
        for path in [file, link, other] {
            fs::remove_file(path).unwrap();
        }
    }
}
