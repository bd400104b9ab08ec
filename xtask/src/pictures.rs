//! `cargo xtask pictures`: the pictures of the dashboard in README and docs.
//!
//! The test that makes them in CI, for longer and into `docs`: what they show is what the page shows.

use crate::root;
use std::process::Command;

pub(crate) fn run() -> Result<(), String> {
    let arguments =
        ["test", "--package", "tidegate", "--test", "dashboard", "the_pictures_of_the_docs_can_be_made"];
    let docs = root().join("docs");
    let mut command = Command::new("cargo");
    command.current_dir(root()).args(arguments).env("TIDEGATE_PICTURES", &docs);
    let status = command.status().map_err(|error| format!("cargo can't be run: {error}"))?;
    if !status.success() {
        return Err("the pictures weren't made; the reason is above".to_owned());
    }
    println!("{}/dashboard-*.png are new: look at them before you commit them", docs.display());
    Ok(())
}
