//! `cargo xtask test`: everything that must hold, in the order in which a mistake is cheapest to find.

use crate::steps::Steps;
use crate::{fuzz, instructions, packages, soak, tidy};

pub(crate) fn run() -> Result<(), String> {
    let mut steps = Steps::default();
    steps.step("system packages", packages::install)?;
    steps.step("tidy", tidy::run)?;
    steps.command("format", "cargo fmt --all --check")?;
    steps.command("lints", "cargo clippy --workspace --all-targets --quiet -- -D warnings")?;
    // Benches are programs of their own, not tests.
    steps.command("tests", "cargo test --workspace --lib --bins --tests --quiet")?;
    steps.command("documentation examples", "cargo test --workspace --doc --quiet")?;
    steps.command(
        "interleavings (shuttle)",
        "cargo test --package tidegate-core --features shuttle --test interleavings --quiet",
    )?;
    steps.step("soak, three minutes of real processes", soak::run_briefly)?;
    steps.step("instructions per decision (callgrind)", instructions::check)?;
    steps.step("fuzzing, two seconds each (libFuzzer)", fuzz::run_briefly)?;
    steps.command("release build", "cargo build --release --quiet")?;
    steps.summary();
    println!("\neverything holds");
    Ok(())
}
