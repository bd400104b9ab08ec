//! `cargo xtask mutants`: does a test notice when the core is wrong? Changes it in one place at a time, by cargo-mutants,
//! and runs its tests. What no test noticed is in `target/mutants.out/missed.txt`; docs/proof.md says what of it is
//! known, `.cargo/mutants.toml` what isn't changed.

use crate::root;
use crate::steps::{run, run_with};

const VERSION: &str = "27.1.0";

/// One run over the mutants that are left.
struct Pass {
    variables: &'static [(&'static str, &'static str)],
    arguments: &'static str,
}

/// Each copy of the sources builds in itself: in a directory shared by `--jobs 2` one would wait for the other.
const OWN_TARGET: (&str, &str) = ("CARGO_TARGET_DIR", "target");

/// That a test failed is enough: nobody reads where, or for which smallest input.
const NO_TRACE: (&str, &str) = ("RUST_BACKTRACE", "0");
const NO_SHRINKING: (&str, &str) = ("PROPTEST_MAX_SHRINK_ITERS", "0");

/// The quick ones of the tests beside the code find most mutants, in 2 s each. Not optimised: that takes longer than
/// the tests do.
const QUICK: Pass = Pass {
    variables: &[OWN_TARGET, NO_TRACE, NO_SHRINKING, ("PROPTEST_CASES", "16")],
    arguments: "--timeout 10 -C=--lib -- -- --skip ten_million --skip shares::tests --skip fills_up --skip a_key_says",
};
/// What they leave, by all tests but the oracle's own: 15 s each. A mutant that survives so many comparisons with the
/// oracle is looked at.
const THOROUGH: Pass = Pass {
    variables: &[
        OWN_TARGET,
        NO_TRACE,
        NO_SHRINKING,
        ("CARGO_PROFILE_MUTANTS_OPT_LEVEL", "1"),
        ("TIDEGATE_ORACLE_OPERATIONS", "5000"),
    ],
    arguments: "--iterate --timeout 20 -C=--lib -C=--tests -- -- --skip oracle::",
};

pub(crate) fn run_all(words: &[&str]) -> Result<(), String> {
    let tools = root().join("target/tools/cargo-mutants");
    let program = tools.join("bin/cargo-mutants");
    if !program.is_file() {
        run(&format!("cargo install cargo-mutants --version {VERSION} --locked --root {}", tools.display()))?;
    }
    let run_pass = |pass: &Pass| {
        let (program, words) = (program.display(), words.join(" "));
        let what = "--package tidegate-core --profile mutants --output target";
        run_with(&format!("{program} mutants {what} {words} {}", pass.arguments), pass.variables)
    };
    // What the first misses is what the second is for; where the first couldn't start, the second can't either.
    let _ = run_pass(&QUICK);
    count_hung_as_noticed();
    run_pass(&THOROUGH)
}

/// A mutant that made tests of one second run for ten was noticed, and would hang the second pass too. It stays in
/// `target/mutants.out.old/timeout.txt`.
fn count_hung_as_noticed() {
    let out = root().join("target/mutants.out");
    // Where there is no list, the first pass didn't start.
    let _ = std::fs::copy(out.join("timeout.txt"), out.join("previously_caught.txt"));
}
