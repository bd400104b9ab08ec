//! Where the programs are that are measured: ours are built, peers are installed where a registry has them. The
//! rest is named by a variable; what can't be had is not measured, and the report says why.

use crate::instructions::bench_program;
use crate::root;
use crate::steps::{output, run};
use std::path::{Path, PathBuf};

/// A program, or why there is none.
pub(super) type Found = Result<PathBuf, String>;

#[derive(Debug)]
pub(super) struct Programs {
    pub(super) tidegate: PathBuf,
    pub(super) redis: Found,
    pub(super) redis_cell: Found,
    pub(super) nginx: Found,
    pub(super) haproxy: Found,
    pub(super) throttlecrab: Found,
    pub(super) limitador: Found,
    pub(super) ratelimit: Found,
}

const THROTTLECRAB: &str = "0.4.40";
/// What was tried, so that nobody tries it again.
const WITHOUT_GO: &str = " (Debian 12 has no package of it, Go 1.19, and of the Go modules that it needs neither \
    go-control-plane nor gostats, goruntime, freecache, radix and go_reuseport; a machine that reaches a proxy of Go \
    modules builds it by `go build ./src/service_cmd`)";

impl Programs {
    pub(super) fn find() -> Result<Self, String> {
        run("cargo build --profile dist --package tidegate")?;
        let target = target_directory()?;
        let peers = target.join("peers");
        let build = "built from its source: no registry has it";
        Ok(Programs {
            tidegate: target.join("dist/tidegate"),
            redis: in_path("redis-server"),
            redis_cell: peer(&peers, "PEER_REDIS_CELL", "libredis_cell.so", &format!("{build} as of 0.5.0")),
            nginx: in_path("nginx"),
            haproxy: in_path("haproxy"),
            throttlecrab: peer(&peers, "PEER_THROTTLECRAB", "throttlecrab-server", "")
                .or_else(|_| throttlecrab(&peers)),
            limitador: peer(&peers, "PEER_LIMITADOR", "limitador-server", build),
            ratelimit: peer(&peers, "PEER_RATELIMIT", "service_cmd", &format!("{build}{WITHOUT_GO}")),
        })
    }

    /// A benchmark of ours, built when a group needs it.
    pub(super) fn built(package: &str, name: &str) -> Result<PathBuf, String> {
        bench_program(package, name).map(|path| root().join(path))
    }

    /// What was measured, for the report.
    pub(super) fn versions(&self) -> Vec<(&'static str, String)> {
        let first_line = |command: String| {
            output(&command)
                .map_or_else(|problem| problem, |text| text.lines().next().unwrap_or("").to_owned())
        };
        let version = |found: &Found, option: &str| match found {
            Ok(path) => first_line(format!("{} {option}", path.display())),
            Err(why) => format!("not measured here: {why}"),
        };
        let named = |found: &Found| match found {
            Ok(path) => format!("`{}`", path.file_name().unwrap_or_default().to_string_lossy()),
            Err(why) => format!("not measured here: {why}"),
        };
        vec![
            ("Tidegate", first_line("git describe --always --dirty".to_owned())),
            ("redis-server", version(&self.redis, "--version")),
            ("redis-cell", named(&self.redis_cell)),
            ("nginx", version(&self.nginx, "-v")),
            ("HAProxy", version(&self.haproxy, "-v")),
            ("throttlecrab-server", version(&self.throttlecrab, "--version")),
            ("limitador-server", version(&self.limitador, "--version")),
            ("envoyproxy/ratelimit", named(&self.ratelimit)),
            ("governor", locked_version("governor")),
            ("gubernator, Unkey", "not measured here: Go modules that they need can't be had".to_owned()),
            ("redis-benchmark", first_line("redis-benchmark --version".to_owned())),
            ("wrk", wrk_version()),
        ]
    }
}

/// Of a crate that is built in.
fn locked_version(name: &str) -> String {
    let lock = std::fs::read_to_string(root().join("Cargo.lock")).unwrap_or_default();
    let found = lock.split_once(&format!("name = \"{name}\"\nversion = \""));
    found.and_then(|(_, rest)| rest.split('"').next()).unwrap_or("unknown").to_owned()
}

/// It prints its version beside its usage, and fails.
fn wrk_version() -> String {
    let text = match output("wrk --version") {
        Ok(text) | Err(text) => text,
    };
    text.lines().find(|line| line.starts_with("wrk ")).unwrap_or("unknown").to_owned()
}

fn target_directory() -> Result<PathBuf, String> {
    let metadata = output("cargo metadata --format-version 1 --no-deps --offline")?;
    let field = metadata.split_once("\"target_directory\":\"").and_then(|(_, rest)| rest.split_once('"'));
    field.map(|(path, _)| path.into()).ok_or_else(|| "cargo doesn't say where it builds".to_owned())
}

fn in_path(program: &str) -> Found {
    let path = std::env::var("PATH").unwrap_or_default();
    let found = path.split(':').chain(["/usr/sbin"]).map(|folder| Path::new(folder).join(program));
    found.into_iter().find(|path| path.is_file()).ok_or_else(|| format!("{program} isn't installed"))
}

/// A program that the user has made: named by a variable, or among the peers that are installed.
fn peer(peers: &Path, variable: &str, file: &str, how: &str) -> Found {
    let installed = peers.join("bin").join(file);
    match std::env::var(variable) {
        Ok(path) if Path::new(&path).is_file() => Ok(path.into()),
        Ok(path) => Err(format!("{variable} names {path}, which isn't a file")),
        Err(_) if installed.is_file() => Ok(installed),
        Err(_) => {
            Err(format!("set {variable} to the path of {file}, or put it into target/peers/bin: {how}"))
        }
    }
}

fn throttlecrab(peers: &Path) -> Found {
    let root = peers.display();
    run(&format!("cargo install throttlecrab-server --version {THROTTLECRAB} --locked --root {root}"))?;
    Ok(peers.join("bin/throttlecrab-server"))
}
