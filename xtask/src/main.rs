//! The commands of this repository. `cargo xtask` without arguments lists them.
//!
//! Depends on nothing but the standard library: on a fresh machine it is built before anything else.

mod bars;
mod chart;
mod curves;
mod docs;
mod fuzz;
mod hot;
mod instructions;
mod measured;
mod mutants;
mod packages;
mod peers;
mod pictures;
mod recovery;
mod region;
mod report;
mod rules;
mod sim;
mod soak;
mod steps;
mod test;
mod tidy;
mod why;
mod world;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

const USAGE: &str = "\
The commands of this repository:

  cargo xtask test           everything that must hold; what CI runs
  cargo xtask tidy           only the rules about the tree itself (seconds)
  cargo xtask docs           write the pages that are generated: docs/http-api.md, docs/settings.md
  cargo xtask fuzz [TARGET]  feed every parser, or one, what breaks parsers: [--seconds N], --input FILE replays
  cargo xtask soak           regions of real processes, something broken every ten seconds, everything verified:
                             [--minutes N] (30), [--seed S]; half an hour or more writes docs/soak.md
  cargo xtask bars [GROUP]   measure against targets, on a quiet machine, and write docs/bars.md
                             groups: decide, memory, instructions, oracle, region, recovery, world, rules, hot, why, sim,
                             agree (all when none is named); `region --long`, `world --long`: long faults,
                             `recovery --long`: a million keys too, `hot --long`: as many requests, `sim --long`:
                             as many seeds
  cargo xtask bench peers [--quick] [GROUP…]
                             measure beside other limiters, and write docs/benchmarks.md (50 minutes, quick 20)
                             groups: resp, http, grpc, unix, keys, idle, memory, scaling, tail
  cargo xtask pictures       make the pictures of the dashboard in docs anew, of a real node (three minutes)
  cargo xtask mutants [ARG…] break the core a little, one place at a time, and see whether its tests notice: hours;
                             ARG is cargo-mutants' (`--shard 0/10`, `--file crates/core/src/gcra.rs`)
";

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let outcome = match args.as_slice() {
        ["test"] => test::run(),
        ["tidy"] => tidy::run(),
        ["docs"] => docs::run(),
        ["fuzz", rest @ ..] => fuzz::run(rest),
        ["soak", rest @ ..] => soak::run(rest),
        ["bars"] => bars::run(None),
        ["bars", group, "--long"] => bars::run_long(group),
        ["bars", group] => bars::run(Some(group)),
        ["pictures"] => pictures::run(),
        ["mutants", rest @ ..] => mutants::run_all(rest),
        ["bench", "peers", rest @ ..] => peers::run(rest),
        [] | ["help" | "--help" | "-h"] => {
            print!("{USAGE}");
            return ExitCode::SUCCESS;
        }
        _ => Err(format!("there is no such command: cargo xtask {}\n\n{USAGE}", args.join(" "))),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(problem) => {
            eprintln!("{problem}");
            ExitCode::FAILURE
        }
    }
}

/// Where the repository is.
fn root() -> PathBuf {
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR"));
    manifest.parent().unwrap_or(manifest).to_owned()
}
