//! Packages of npm that tests run, fetched once as a lock file of this folder pins them, and kept in `target/tools`.

use crate::wheel::fetched_once;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// A folder with what `pinned/package-lock.json` names in `node_modules`; `pinned` is a folder of this crate, and
/// `name` changes with the versions. Scripts that import from there run in it, by Node.js 18 or later.
pub(crate) fn npm(name: &str, pinned: &str) -> Result<PathBuf, String> {
    let pinned = Path::new(env!("CARGO_MANIFEST_DIR")).join(pinned);
    fetched_once(name, |folder| {
        let told = |error: std::io::Error| format!("{}: {error}", folder.display());
        fs::create_dir_all(folder).map_err(told)?;
        for name in ["package.json", "package-lock.json"] {
            fs::copy(pinned.join(name), folder.join(name)).map_err(told)?;
        }
        let mut command = Command::new("npm");
        command.args(["ci", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"]);
        let output = command.current_dir(folder).stdin(Stdio::null()).output();
        let output = output.map_err(|error| format!("npm (packages nodejs and npm): {error}"))?;
        let problem = || format!("npm ci: {}", String::from_utf8_lossy(&output.stderr));
        output.status.success().then_some(()).ok_or_else(problem)
    })
}
