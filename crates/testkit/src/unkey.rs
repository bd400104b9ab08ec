//! Unkey's own clients, npm's and PyPI's, at the versions that the tests were written for.

use crate::npm::npm;
use crate::wheel::wheel;
use std::path::{Path, PathBuf};

/// The folder with `package-lock.json`, and with what it names in `node_modules`. Scripts that import from there
/// run in it, by Node.js 18 or later.
pub fn unkey_for_node() -> Result<PathBuf, String> {
    npm("unkey-npm-2.1.4", "unkey")
}

/// The folder to be used as `PYTHONPATH`.
pub fn unkey_for_python() -> Result<PathBuf, String> {
    let constraints = pinned("constraints.txt").display().to_string();
    wheel("unkey-py-3.2.2", "unkey.py==3.2.2", &["--constraint", &constraints])
}

fn pinned(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("unkey").join(name)
}
