//! A server's working directory: empty at first, removed in the end.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

/// Enough of a log to see why a server ended.
const TAIL_LINES: usize = 30;

#[derive(Debug)]
pub(crate) struct Directory(PathBuf);

impl Directory {
    /// In the system's place for such, whose path is short: a Unix socket's path has room for 107 bytes.
    pub(crate) fn new() -> Self {
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

    pub(crate) fn root(&self) -> &Path {
        &self.0
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    pub(crate) fn write(&self, name: &str, text: &str) {
        let path = self.path(name);
        fs::write(&path, text).unwrap_or_else(|error| panic!("can't write {}: {error}", path.display()));
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
