//! How many nodes the region had when it was last heard of: kept in a file, so that a node that starts while its store is
//! away doesn't take itself for the only one.

use crate::files;
use parking_lot::Mutex;
use std::fs;
use std::path::{Path, PathBuf};

/// The file in `data.dir`: a number and a line end.
const FILE: &str = "live-nodes";
/// A file that says more was damaged: no fleet is as large.
const NODES_MAX: u32 = 100_000;

#[derive(Debug)]
pub struct KnownNodes {
    path: PathBuf,
    written: Mutex<Option<u32>>,
}

impl KnownNodes {
    /// Reads what an earlier process wrote in a directory. A file that can't be understood is as good as none.
    pub fn open(directory: &Path) -> Self {
        let path = directory.join(FILE);
        let written = fs::read_to_string(&path).ok().and_then(|text| parsed(&text));
        KnownNodes { path, written: Mutex::new(written) }
    }

    pub fn last(&self) -> Option<u32> {
        *self.written.lock()
    }

    pub fn is(&self, nodes: u32) -> bool {
        self.last() == Some(nodes)
    }

    /// Writes another number. Blocks for as long as the disk does; one that can't be written is a word in the log.
    pub fn write(&self, nodes: u32) {
        let mut written = self.written.lock();
        if *written == Some(nodes) {
            return;
        }
        // Not tried again before the number changes: a disk that is full stays so.
        *written = Some(nodes);
        let directory = files::make_directory(files::directory_of(&self.path));
        let replaced =
            directory.and_then(|()| files::replace_private(&self.path, format!("{nodes}\n").as_bytes()));
        if let Err(error) = replaced {
            tracing::warn!(
                %error, path = %self.path.display(), fix = "make data.dir writable",
                "the number of live nodes can't be kept: `free` limits start with a small share after a restart in an outage"
            );
        }
    }
}

fn parsed(text: &str) -> Option<u32> {
    text.trim().parse().ok().filter(|nodes| (1..=NODES_MAX).contains(nodes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_number_of_nodes_is_believed() {
        assert_eq!(parsed("3\n"), Some(3));
        for damaged in ["", "0", "-1", "3 nodes", "99999999999", "1000000", "\u{0}"] {
            assert_eq!(parsed(damaged), None, "{damaged:?}");
        }
    }

    #[test]
    fn what_was_written_is_read_by_the_next_process() {
        let directory = std::env::temp_dir().join(format!("tidegate-known-nodes-{}", std::process::id()));
        files::make_directory(&directory).unwrap();
        assert_eq!(KnownNodes::open(&directory).last(), None);
        let known = KnownNodes::open(&directory);
        known.write(3);
        known.write(5);
        assert!(known.is(5));
        assert_eq!(KnownNodes::open(&directory).last(), Some(5));
        fs::remove_dir_all(&directory).unwrap();
    }
}
