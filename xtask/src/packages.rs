//! What the tests need from the system, installed when it is missing and when it may be.

use crate::steps::run;
use std::path::Path;

/// A program that tests run, and the Debian or Ubuntu package that has it.
const NEEDED: [(&str, &str); 9] = [
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
];

pub(crate) fn install() -> Result<(), String> {
    let missing: Vec<&str> =
        NEEDED.iter().filter(|(program, _)| !is_installed(program)).map(|(_, package)| *package).collect();
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
    run("apt-get update -q")
        .and_then(|()| run(&format!("apt-get install -y -q {packages}")))
        .map_err(|problem| format!("{problem}\nthe tests need {packages}; {by_hand}"))
}

fn is_installed(program: &str) -> bool {
    let path = std::env::var("PATH").unwrap_or_default();
    path.split(':').any(|folder| Path::new(folder).join(program).is_file())
}

/// The owner of our own process entry.
fn is_root() -> bool {
    use std::os::unix::fs::MetadataExt;
    std::fs::metadata("/proc/self").is_ok_and(|metadata| metadata.uid() == 0)
}
