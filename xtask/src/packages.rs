//! What the tests need from the system, installed when it is missing and when it may be.

use crate::steps::{run, run_with};
use std::path::{Path, PathBuf};

/// A program that tests run, and the Debian or Ubuntu package that has it.
const NEEDED: [(&str, &str); 17] = [
    // For libFuzzer.
    ("c++", "g++"),
    ("valgrind", "valgrind"),
    ("curl", "curl"),
    ("redis-server", "redis-server"),
    ("pip3", "python3-pip"),
    ("node", "nodejs"),
    ("npm", "npm"),
    ("nginx", "nginx-light"),
    ("caddy", "caddy"),
    ("mariadbd", "mariadb-server"),
    ("postgres", "postgresql"),
    ("psql", "postgresql-client"),
    // For the checks of metrics and alert rules.
    ("promtool", "prometheus"),
    ("chromium", "chromium"),
    ("systemd-analyze", "systemd"),
    // For processes whose clock is set.
    ("faketime", "faketime"),
    // For the simulator's pictures as PNG.
    ("rsvg-convert", "librsvg2-bin"),
];

/// What only benchmarks need.
const NEEDED_BY_BENCHMARKS: [(&str, &str); 4] = [
    ("wrk", "wrk"),
    ("redis-benchmark", "redis-tools"),
    ("redis-server", "redis-server"),
    ("haproxy", "haproxy"),
];

pub(crate) fn install() -> Result<(), String> {
    install_all(&NEEDED)
}

/// For `cargo xtask bench peers`.
pub(crate) fn install_for_benchmarks() -> Result<(), String> {
    let nginx = NEEDED.iter().filter(|(program, _)| *program == "nginx");
    install_all(&NEEDED_BY_BENCHMARKS.iter().chain(nginx).copied().collect::<Vec<_>>())
}

fn install_all(needed: &[(&'static str, &'static str)]) -> Result<(), String> {
    let missing: Vec<&str> =
        needed.iter().filter(|(program, _)| !is_installed(program)).map(|(_, package)| *package).collect();
    if missing.is_empty() {
        return Ok(());
    }
    let packages = missing.join(" ");
    let by_hand = format!("install them with: sudo apt-get install -y {packages}");
    if !is_installed("apt-get") {
        return Err(format!(
            "the tests need {packages}, and this system has no apt-get; install them by its means"
        ));
    }
    if !is_root() {
        return Err(format!("the tests need {packages}; {by_hand}"));
    }
    without_services(|| {
        run("apt-get update -q")?;
        let install = format!("apt-get install -y -q {packages}");
        run_with(&install, &[("DEBIAN_FRONTEND", "noninteractive")])
    })
    .map_err(|problem| format!("{problem}\nthe tests need {packages}; {by_hand}"))
}

/// While packages are installed, nobody starts the servers that are in them: tests start their own.
fn without_services(install: impl FnOnce() -> Result<(), String>) -> Result<(), String> {
    use std::os::unix::fs::PermissionsExt;
    let policy = Path::new("/usr/sbin/policy-rc.d");
    // Whoever has one already has an opinion of their own.
    let is_ours = !policy.exists()
        && std::fs::write(
            policy,
            "#!/bin/sh\n# Of `cargo xtask`, for as long as it installs packages.\nexit 101\n",
        )
        .is_ok();
    if is_ours {
        let _ = std::fs::set_permissions(policy, std::fs::Permissions::from_mode(0o755));
    }
    let outcome = install();
    if is_ours {
        let _ = std::fs::remove_file(policy);
    }
    outcome
}

/// On the path, or where Debian puts what isn't meant for everybody.
fn is_installed(program: &str) -> bool {
    let path = std::env::var("PATH").unwrap_or_default();
    let mut folders: Vec<PathBuf> = path.split(':').map(PathBuf::from).collect();
    folders.push(PathBuf::from("/usr/sbin"));
    let versions = std::fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    folders.extend(versions.map(|entry| entry.path().join("bin")));
    folders.iter().any(|folder| folder.join(program).is_file())
}

/// The owner of our own process entry.
fn is_root() -> bool {
    use std::os::unix::fs::MetadataExt;
    std::fs::metadata("/proc/self").is_ok_and(|metadata| metadata.uid() == 0)
}
