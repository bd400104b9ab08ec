//! The scripts of `examples/`, run as a newcomer runs them: each starts what it needs, limits, and leaves nothing behind.

use crate::service_example::service;
use crate::support::poll;
use std::collections::BTreeSet;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;
use tidegate_testkit::{Directory, guarded};

/// Three of one caller pass; another caller has a limit of its own.
const LIMITED: &str = "request 1 of ann: 200
request 2 of ann: 200
request 3 of ann: 200
request 4 of ann: 429
request 1 of bob: 200
";
const STACKS: [&str; 5] = ["caddy", "envoy", "http", "nginx", "rust"];

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples").canonicalize().unwrap()
}

fn run(stack: &str, variables: &[(&str, PathBuf)]) {
    let temporary = Directory::new();
    let mut command = guarded("bash");
    command.arg(folder().join(stack).join("run.sh")).arg("--once").process_group(0);
    command.env("TIDEGATE", env!("CARGO_BIN_EXE_tidegate")).env("TMPDIR", temporary.root());
    // Of a busy machine: that a store is slow isn't what is tested.
    command.env("ORIGIN_TIMEOUT_MS", "1000").envs(variables.iter().map(|(name, path)| (*name, path)));
    command.stdin(Stdio::null());
    command.stdout(std::fs::File::create(temporary.path("stdout")).unwrap());
    command.stderr(std::fs::File::create(temporary.path("stderr")).unwrap());
    let mut child = command.spawn().expect("bash");
    let status = poll("the end of the script", Duration::from_secs(90), || child.try_wait().unwrap());
    let (stdout, stderr) = (temporary.read("stdout"), temporary.read("stderr"));
    assert!(status.success() && stdout.contains(LIMITED), "{stack}:\n{stdout}\n{stderr}");
    let left: Vec<_> =
        std::fs::read_dir(temporary.root()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left.len(), 2, "{stack} leaves something behind: {left:?}");
}

#[test]
fn the_example_with_nginx_limits() {
    run("nginx", &[]);
}

#[test]
fn the_example_with_caddy_limits() {
    run("caddy", &[]);
}

#[test]
fn the_example_with_envoy_limits() {
    run("envoy", &[("ENVOY", tidegate_testkit::envoy().unwrap())]);
}

#[test]
fn the_example_with_a_rust_service_limits() {
    run("rust", &[("SERVICE", service())]);
}

#[test]
fn the_example_over_plain_http_limits() {
    run("http", &[]);
}

#[test]
fn every_folder_has_a_script_and_is_listed() {
    let folders =
        std::fs::read_dir(folder()).unwrap().map(Result::unwrap).filter(|entry| entry.path().is_dir());
    let found: BTreeSet<String> = folders.map(|entry| entry.file_name().into_string().unwrap()).collect();
    assert_eq!(found, STACKS.map(str::to_owned).into());
    let index = std::fs::read_to_string(folder().join("README.md")).unwrap();
    for stack in STACKS {
        assert!(index.contains(&format!("({stack}/run.sh)")), "examples/README.md doesn't list {stack}");
    }
}
