//! `cargo xtask mutants`: small mistakes, one after the other, put into the core on purpose; tests must find each.
//!
//! By cargo-mutants, in a copy of the tree with a build of its own. The tests are those of the core that are quick and
//! decide: its own, the merges, all small values, and a short look at the oracle. What no test found is printed, and
//! belongs into `docs/mutants.md` with its reason, or gets a test. It takes hours for all files, so it is no part of
//! `cargo xtask test`.

use crate::steps::{output, run_with};

/// Where a mistake would cost most.
const FILES: [&str; 8] = ["window", "gcra", "counts", "origin_cell", "gcra_sync", "ask", "slice", "batch"];
/// A mutant that loops is found by this.
const TIMEOUT_SECONDS: u32 = 120;
const USAGE: &str = "cargo xtask mutants [FILE…] [--part K/N]; a file is one of crates/core/src, without .rs";
/// Quick to build, since each mutant is built once and run once; and a short oracle.
const SETTINGS: [(&str, &str); 6] = [
    ("CARGO_PROFILE_TEST_OPT_LEVEL", "0"),
    ("CARGO_PROFILE_TEST_DEBUG", "0"),
    ("CARGO_INCREMENTAL", "1"),
    ("CARGO_TARGET_DIR", "target/mutants"),
    ("TIDEGATE_ORACLE_OPERATIONS", "4000"),
    ("PROPTEST_CASES", "64"),
];

pub(crate) fn run(args: &[&str]) -> Result<(), String> {
    if output("cargo mutants --version").is_err() {
        return Err("cargo-mutants is missing: cargo install cargo-mutants --locked".to_owned());
    }
    let command = command(args)?;
    run_with(&command, &SETTINGS)
}

fn command(args: &[&str]) -> Result<String, String> {
    let (files, part) = match args {
        [files @ .., "--part", part] => (files, Some(*part)),
        files => (files, None),
    };
    if let Some(unknown) = files.iter().find(|file| !FILES.contains(file)) {
        return Err(format!("{unknown} isn't one of {FILES:?}\n{USAGE}"));
    }
    let is_part = |part: &&str| {
        let numbers = part.split_once('/').and_then(|(k, n)| Some((k.parse::<u32>().ok()?, n.parse::<u32>().ok()?)));
        numbers.is_some_and(|(k, n)| k < n)
    };
    if part.is_some_and(|part| !is_part(&part)) {
        return Err(format!("a part is K/N with K below N, such as 0/10\n{USAGE}"));
    }
    let files = if files.is_empty() { &FILES[..] } else { files };
    let mut command = format!(
        "cargo mutants --package tidegate-core --jobs 1 --timeout {TIMEOUT_SECONDS} --no-shuffle --colors never \
         --output target/mutants"
    );
    for file in files {
        command += &format!(" --file crates/core/src/{file}.rs");
    }
    if let Some(part) = part {
        command += &format!(" --shard {part} --sharding round-robin");
    }
    command += " -- --lib --test merges --test every_small_value --test algorithms_match_the_oracle";
    Ok(command)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_and_parts_are_checked() {
        assert!(command(&["gcra", "--part", "0/4"]).unwrap().contains("src/gcra.rs --shard 0/4"));
        assert!(FILES.iter().all(|file| command(&[]).unwrap().contains(&format!("/{file}.rs"))));
        assert!(command(&["nothing"]).is_err() && command(&["--part", "4/4"]).is_err());
    }
}
