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
    pub(super) stub: PathBuf,
    pub(super) redis: Found,
    pub(super) redis_cell: Found,
    pub(super) nginx: Found,
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
        run("cargo build --release --package tidegate")?;
        let target = target_directory()?;
        let build = "built from its source: no registry has it";
        Ok(Programs {
            tidegate: target.join("release/tidegate"),
            stub: root().join(bench_program("tidegate-server", "stub")?),
            redis: in_path("redis-server"),
            redis_cell: named("PEER_REDIS_CELL", &format!("libredis_cell.so, {build} as of 0.5.0")),
            nginx: in_path("nginx"),
            throttlecrab: named("PEER_THROTTLECRAB", "").or_else(|_| throttlecrab(&target)),
            limitador: named("PEER_LIMITADOR", &format!("limitador-server, {build}")),
            ratelimit: named(
                "PEER_RATELIMIT",
                &format!("envoyproxy/ratelimit's service_cmd, {build}{WITHOUT_GO}"),
            ),
        })
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
            ("throttlecrab-server", version(&self.throttlecrab, "--version")),
            ("limitador-server", version(&self.limitador, "--version")),
            ("envoyproxy/ratelimit", named(&self.ratelimit)),
            ("redis-benchmark", first_line("redis-benchmark --version".to_owned())),
            ("wrk", wrk_version()),
        ]
    }
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

/// A program that the user has made.
fn named(variable: &str, what: &str) -> Found {
    match std::env::var(variable) {
        Ok(path) if Path::new(&path).is_file() => Ok(path.into()),
        Ok(path) => Err(format!("{variable} names {path}, which isn't a file")),
        Err(_) => Err(format!("set {variable} to the path of {what}")),
    }
}

fn throttlecrab(target: &Path) -> Found {
    let root = target.join("peers");
    let program = root.join("bin/throttlecrab-server");
    if !program.is_file() {
        let root = root.display();
        run(&format!("cargo install throttlecrab-server --version {THROTTLECRAB} --locked --root {root}"))?;
    }
    Ok(program)
}
