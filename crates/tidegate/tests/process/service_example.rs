//! The client's example service, which docs/rust.md shows.

use std::path::{Path, PathBuf};
use std::process::Command;

/// Builds the example as the workspace's tests build it, and returns its path.
pub(crate) fn service() -> PathBuf {
    let folder = Path::new(env!("CARGO_BIN_EXE_tidegate")).parent().unwrap();
    // The profile of tests, so that what is built already is used.
    let profile = if folder.ends_with("release") { "release" } else { "test" };
    let mut command = Command::new(env!("CARGO"));
    command.args(["build", "--quiet", "--workspace", "--example", "service", "--profile", profile]);
    command.current_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("../.."));
    let output = command.output().expect("cargo");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    folder.join("examples/service")
}
