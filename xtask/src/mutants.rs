//! `cargo xtask mutants`: does a test notice when the core is wrong? Changes it in one place at a time, by cargo-mutants,
//! and runs its tests. What no test noticed is in `target/mutants.out/missed.txt`.

use crate::root;
use crate::steps::{run, run_with};

const VERSION: &str = "27.1.0";
/// Of each comparison with the oracle: a mutant that survives so many is looked at, and the tests stay short.
const OPERATIONS: (&str, &str) = ("TIDEGATE_ORACLE_OPERATIONS", "5000");

pub(crate) fn run_all(words: &[&str]) -> Result<(), String> {
    let tools = root().join("target/tools/cargo-mutants");
    let program = tools.join("bin/cargo-mutants");
    if !program.is_file() {
        run(&format!("cargo install cargo-mutants --version {VERSION} --locked --root {}", tools.display()))?;
    }
    let command = format!(
        "{} mutants --package tidegate-core --profile mutants --timeout 120 --output target {}",
        program.display(),
        words.join(" ")
    );
    run_with(command.trim_end(), &[OPERATIONS])
}
