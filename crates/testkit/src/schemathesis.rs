//! Schemathesis: sends what an OpenAPI document allows and what it doesn't, and compares every answer with it.

use crate::wheel;
use std::path::Path;
use std::process::Command;

const SCHEMATHESIS: &str = "schemathesis==4.32.5";
/// For each operation, beside one for each bound of each field.
const EXAMPLES: &str = "10";

/// Runs it with `arguments`, which come last and so prevail, on the server at `base`; says all that it found. `hooks` is the folder with
/// `schemathesis_hooks.py`, and `directory` where it may leave files.
pub fn schemathesis(
    document: &str,
    base: &str,
    hooks: &Path,
    directory: &Path,
    arguments: &[&str],
) -> Result<(), String> {
    let package = wheel("schemathesis", SCHEMATHESIS, &[])?;
    let modules = std::env::join_paths([&package, hooks]).map_err(|error| error.to_string())?;
    let mut command = Command::new("python3");
    command.env("PYTHONPATH", modules).env("SCHEMATHESIS_HOOKS", "schemathesis_hooks");
    command.env("PYTHONDONTWRITEBYTECODE", "1").current_dir(directory);
    command.args(["-m", "schemathesis.cli", "run", document, "--url", base]);
    command.args(["--phases", "examples,coverage,fuzzing", "--max-examples", EXAMPLES]);
    command.args(["--generation-deterministic", "--continue-on-failure"]);
    command.args(["--workers", "2", "--request-timeout", "10", "--no-color", "--warnings", "off"]);
    command.args(arguments);
    let output = command.output().map_err(|error| format!("python3: {error}"))?;
    let said = String::from_utf8_lossy(&output.stdout);
    if !output.status.success() || !said.contains("generated") {
        return Err(format!("{said}\n{}", String::from_utf8_lossy(&output.stderr)));
    }
    Ok(())
}
