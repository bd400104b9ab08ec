//! `cargo xtask docs`: writes the reference pages from what the programs themselves go by. The tests that write them fail
//! when a page is stale.

use crate::steps::run_with;

const WRITE: (&str, &str) = ("TIDEGATE_WRITE_DOCS", "1");

pub(crate) fn run() -> Result<(), String> {
    // From `crates/server/openapi.json`.
    run_with("cargo test --quiet --workspace --test http_api_page", &[WRITE])?;
    // From the table of settings.
    run_with("cargo test --quiet --workspace --bins -- settings::reference", &[WRITE])
}
