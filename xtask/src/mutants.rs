//! `cargo xtask mutants`: does a test notice when the core is wrong? Changes it in one place at a time, by cargo-mutants,
//! and runs its tests. What no test noticed is in `target/mutants.out/missed.txt`; docs/proof.md says what of it is
//! known, `.cargo/mutants.toml` what isn't changed.

use crate::root;
use crate::steps::{output, run, run_with};
use std::collections::BTreeSet;

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
/// What they leave, and what took too long, by all tests but the oracle's own: 15 s each. A mutant that survives so many
/// comparisons with the oracle is looked at.
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
    let command = |words: &[&str], more: &str| {
        let what = "--package tidegate-core --profile mutants --output target";
        format!("{} mutants {what} {} {more}", program.display(), words.join(" "))
    };
    // What the first misses is what the second is for; where the first couldn't start, the second can't either.
    let _ = run_with(&command(words, QUICK.arguments), QUICK.variables);
    let words = without_shard(words);
    leave_only_unnoticed(&output(&command(&words, "--list"))?)?;
    run_with(&command(&words, THOROUGH.arguments), THOROUGH.variables)
}

/// The second pass has only what the first didn't notice: a shard of that would be a part of it.
fn without_shard<'a>(words: &[&'a str]) -> Vec<&'a str> {
    let is_shard = |index: usize| words[index] == "--shard" || words[index].starts_with("--shard=");
    let is_its_value = |index: usize| index > 0 && words[index - 1] == "--shard";
    (0..words.len()).filter(|at| !is_shard(*at) && !is_its_value(*at)).map(|at| words[at]).collect()
}

/// Tells `--iterate` to leave out all but what the first pass missed and what took too long there. The latter is no
/// verdict: a table that has only become slow hangs tests that aren't optimised, and passes them all when they are.
fn leave_only_unnoticed(list: &str) -> Result<(), String> {
    let out = root().join("target/mutants.out");
    let read = |name: &str| std::fs::read_to_string(out.join(name)).map_err(|error| error.to_string());
    let unnoticed = read("missed.txt")? + &read("timeout.txt")?;
    let unnoticed: BTreeSet<&str> = unnoticed.lines().collect();
    let noticed: Vec<&str> = list.lines().filter(|mutant| !unnoticed.contains(mutant)).collect();
    std::fs::write(out.join("previously_caught.txt"), noticed.join("\n")).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_second_pass_is_of_no_shard() {
        let words = ["--shard", "0/10", "--file", "a.rs", "--shard=1/2", "--jobs", "2"];
        assert_eq!(without_shard(&words), ["--file", "a.rs", "--jobs", "2"]);
    }
}
