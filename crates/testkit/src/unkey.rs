//! Unkey's own clients, npm's and PyPI's, at the versions that the tests were written for.

use crate::wheel::{fetched_once, wheel};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The folder with `package-lock.json`, and with what it names in `node_modules`. Scripts that import from there
/// run in it, by Node.js 18 or later.
pub fn unkey_for_node() -> Result<PathBuf, String> {
    fetched_once("unkey-npm-2.1.4", |folder| {
        let told = |error: std::io::Error| format!("{}: {error}", folder.display());
        fs::create_dir_all(folder).map_err(told)?;
        for name in ["package.json", "package-lock.json"] {
            fs::copy(pinned(name), folder.join(name)).map_err(told)?;
        }
        let mut command = Command::new("npm");
        command.args(["ci", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"]);
        let output = command.current_dir(folder).stdin(Stdio::null()).output();
        let output = output.map_err(|error| format!("npm (packages nodejs and npm): {error}"))?;
        let problem = || format!("npm ci: {}", String::from_utf8_lossy(&output.stderr));
        output.status.success().then_some(()).ok_or_else(problem)
    })
}

/// The folder to be used as `PYTHONPATH`.
pub fn unkey_for_python() -> Result<PathBuf, String> {
    let constraints = pinned("constraints.txt").display().to_string();
    wheel("unkey-py-3.2.2", "unkey.py==3.2.2", &["--constraint", &constraints])
}

fn pinned(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("unkey").join(name)
}
