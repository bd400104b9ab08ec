//! A process's working directory: empty at first, removed in the end.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

/// Enough of a log to see why a server ended.
const TAIL_LINES: usize = 30;

#[derive(Debug)]
pub struct Directory(PathBuf);

impl Directory {
    /// In the system's place for such, whose path is short: a Unix socket's path has room for 107 bytes.
    #[expect(clippy::new_without_default, reason = "it makes a directory")]
    pub fn new() -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        loop {
            let number = COUNT.fetch_add(1, Ordering::Relaxed);
            let name = format!("tidegate-testkit-{}-{number}", std::process::id());
            let path = std::env::temp_dir().join(name);
            match fs::create_dir(&path) {
                Ok(()) => return Directory(path),
                // Left behind by a killed process of the same id.
                Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
                Err(error) => panic!("can't create {}: {error}", path.display()),
            }
        }
    }

    pub fn root(&self) -> &Path {
        &self.0
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    /// Replaces the file in one step, as editors do: a process never reads half of it.
    pub fn write(&self, name: &str, text: impl AsRef<[u8]>) {
        let (path, written) = (self.path(name), self.path("being-written"));
        fs::write(&written, text)
            .and_then(|()| fs::rename(&written, &path))
            .unwrap_or_else(|error| panic!("can't write {}: {error}", path.display()));
    }

    /// Empty when there is none, or when it is no text.
    pub fn read(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).unwrap_or_default()
    }

    /// The last lines of a file.
    pub(crate) fn tail(&self, name: &str) -> String {
        let text = fs::read(self.path(name)).unwrap_or_default();
        let text = String::from_utf8_lossy(&text);
        let lines: Vec<&str> = text.lines().collect();
        lines[lines.len().saturating_sub(TAIL_LINES)..].join("\n")
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}
