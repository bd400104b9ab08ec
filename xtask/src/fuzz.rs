//! `cargo xtask fuzz`: the targets of `crates/fuzz` under libFuzzer, in rotation.
//!
//! libFuzzer keeps inputs that reach new code. The counters that tell it so are put in by two flags of the stable
//! compiler, into a build of its own, so that nothing else changes. An input that fails is kept, and the command
//! that replays it printed.

use crate::steps::{output, run_with};
use std::fmt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

const USAGE: &str = "cargo xtask fuzz [TARGET] [--seconds N], or cargo xtask fuzz TARGET --input FILE";
const SECONDS_DEFAULT: u64 = 60;
/// A target's turn, at least and at most.
const TURN_SECONDS: (u64, u64) = (2, 60);
const INPUT_BYTES_MAX: u64 = 4096;
/// A hang: slower inputs than this are told by the targets themselves, by their processor time.
const TIMEOUT_SECONDS: u64 = 25;
const MEMORY_MB_MAX: u64 = 1024;
/// What a turn may add to the process's memory; libFuzzer's own collection of inputs is in it.
const GROWTH_MB_MAX: u64 = 256;
const COVERAGE: &str = "-Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 \
    -Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table \
    -Cllvm-args=-sanitizer-coverage-trace-compares --cfg fuzzing";

/// What came of a target's turns.
#[derive(Debug, Default)]
struct Tally {
    target: String,
    executions: u64,
    seconds: f64,
    covered: u64,
    /// Of the last turn, before and after; the highest of all.
    memory_mb: (u64, u64),
    memory_peak_mb: u64,
    slowest_micros: u64,
    failures: Vec<String>,
}

impl fmt::Display for Tally {
    #[expect(clippy::cast_precision_loss, reason = "a rate for people")]
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Tally { target, executions, seconds, covered, memory_mb, memory_peak_mb, slowest_micros, .. } =
            self;
        let rate = *executions as f64 / seconds.max(0.001);
        let (before, after) = memory_mb;
        write!(
            f,
            "{target:<15} {executions:>11} inputs {rate:>8.0}/s  {covered:>6} edges  \
             {before:>4} -> {after:>4} MB (peak {memory_peak_mb})  slowest {:>6.1} ms  {} failures",
            *slowest_micros as f64 / 1000.0,
            self.failures.len()
        )
    }
}

pub(crate) fn run(args: &[&str]) -> Result<(), String> {
    let targets = targets()?;
    let known = |name: &str| targets.iter().any(|target| target == name);
    match args {
        [] => rotate(&targets, SECONDS_DEFAULT),
        ["--seconds", seconds] => rotate(&targets, parse(seconds)?),
        [name, "--input", file] if known(name) => replay(name, file),
        [name] if known(name) => rotate(&[(*name).to_owned()], SECONDS_DEFAULT),
        [name, "--seconds", seconds] if known(name) => rotate(&[(*name).to_owned()], parse(seconds)?),
        _ => Err(format!("{USAGE}\ntargets: {}", targets.join(", "))),
    }
}

/// A few seconds for each target, as part of the tests.
pub(crate) fn run_briefly() -> Result<(), String> {
    let targets = targets()?;
    let seconds = TURN_SECONDS.0 * u64::try_from(targets.len()).unwrap_or(1);
    rotate(&targets, seconds)
}

fn parse(seconds: &str) -> Result<u64, String> {
    let parsed = seconds.parse().ok().filter(|seconds| (1..=1_000_000).contains(seconds));
    parsed.ok_or_else(|| format!("`{seconds}` isn't a number of seconds from 1 to 1000000\n{USAGE}"))
}

/// Every target has a folder of seeds.
fn targets() -> Result<Vec<String>, String> {
    let folder = crate::root().join("crates/fuzz/seeds");
    let entries = std::fs::read_dir(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let mut names: Vec<String> =
        entries.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    Ok(names)
}

/// Builds the fuzzer; says where it is.
fn build() -> Result<PathBuf, String> {
    let version = output("rustc -vV")?;
    let host = version.lines().find_map(|line| line.strip_prefix("host: "));
    let host = host.ok_or("`rustc -vV` doesn't name the host")?;
    let folder = folder();
    let command =
        format!("cargo build -q -p tidegate-fuzz --features libfuzzer --profile fuzz --target {host}");
    let folder_text = folder.display().to_string();
    run_with(&command, &[("RUSTFLAGS", COVERAGE), ("CARGO_TARGET_DIR", &folder_text)])?;
    Ok(folder.join(host).join("fuzz/fuzz"))
}

/// Of the build, of the inputs that were found, and of those that failed.
fn folder() -> PathBuf {
    let target =
        std::env::var("CARGO_TARGET_DIR").map_or_else(|_| crate::root().join("target"), PathBuf::from);
    target.join("fuzz")
}

fn replay(target: &str, file: &str) -> Result<(), String> {
    let status = Command::new(build()?).env("TIDEGATE_FUZZ_TARGET", target).arg(file).status();
    match status.map_err(|error| error.to_string())? {
        status if status.success() => Ok(()),
        status => Err(format!("{target} fails on {file}: {status}")),
    }
}

/// Gives each target a turn, again and again, until the time is over.
#[expect(clippy::disallowed_methods, reason = "runs for as long as it is told to")]
fn rotate(targets: &[String], seconds: u64) -> Result<(), String> {
    let program = build()?;
    let count = u64::try_from(targets.len()).unwrap_or(1);
    let turn = (seconds / count).clamp(TURN_SECONDS.0, TURN_SECONDS.1);
    let mut tallies: Vec<Tally> =
        targets.iter().map(|target| Tally { target: target.clone(), ..Tally::default() }).collect();
    let begun = Instant::now();
    // Everybody has one turn at least.
    for round in 0.. {
        for tally in &mut tallies {
            if round == 0 || begun.elapsed() < Duration::from_secs(seconds) {
                take_turn(&program, tally, turn)?;
                println!("    {tally}");
            }
        }
        if begun.elapsed() >= Duration::from_secs(seconds) {
            break;
        }
    }
    let failures: Vec<String> = tallies.iter().flat_map(|tally| tally.failures.clone()).collect();
    let inputs: u64 = tallies.iter().map(|tally| tally.executions).sum();
    println!("\n{inputs} inputs in {} s, {} failures", begun.elapsed().as_secs(), failures.len());
    tallies.iter().for_each(|tally| println!("    {tally}"));
    if failures.is_empty() { Ok(()) } else { Err(failures.join("\n")) }
}

#[expect(clippy::disallowed_methods, reason = "tells how fast it was")]
fn take_turn(program: &Path, tally: &mut Tally, seconds: u64) -> Result<(), String> {
    let name = tally.target.as_str();
    let (folder, crates) = (folder(), crate::root().join("crates/fuzz"));
    let (found, failed) = (folder.join("corpus").join(name), folder.join("failures"));
    for path in [&found, &failed] {
        std::fs::create_dir_all(path).map_err(|error| format!("{}: {error}", path.display()))?;
    }
    let mut command = Command::new(program);
    command.env("TIDEGATE_FUZZ_TARGET", name).stdin(Stdio::null()).arg(&found);
    let known = ["seeds", "regressions"].map(|kind| crates.join(kind).join(name));
    command.args(known.iter().filter(|path| path.exists()));
    command.arg(format!("-max_total_time={seconds}")).arg(format!("-max_len={INPUT_BYTES_MAX}"));
    command.arg(format!("-timeout={TIMEOUT_SECONDS}")).arg(format!("-rss_limit_mb={MEMORY_MB_MAX}"));
    command.arg(format!("-artifact_prefix={}/{name}-", failed.display())).arg("-print_final_stats=1");
    let begun = Instant::now();
    let output = command.output().map_err(|error| format!("can't run {}: {error}", program.display()))?;
    tally.seconds += begun.elapsed().as_secs_f64();
    tally.read(&String::from_utf8_lossy(&output.stderr), output.status.success());
    Ok(())
}

impl Tally {
    /// Takes over what libFuzzer said of a turn.
    fn read(&mut self, text: &str, succeeded: bool) {
        let after = |line: &str, word: &str| {
            let rest = line.split_once(word)?.1.trim_start();
            rest.split(|c: char| !c.is_ascii_digit()).next()?.parse::<u64>().ok()
        };
        let all = |word: &str| text.lines().filter_map(|line| after(line, word)).collect::<Vec<_>>();
        let memory = all(" rss:");
        self.memory_mb = (memory.first().copied().unwrap_or(0), memory.last().copied().unwrap_or(0));
        self.memory_peak_mb =
            all("stat::peak_rss_mb:").into_iter().chain([self.memory_peak_mb]).max().unwrap_or(0);
        self.executions += all("stat::number_of_executed_units:").last().copied().unwrap_or(0);
        self.covered = all(" cov:").last().copied().unwrap_or(self.covered);
        self.slowest_micros = all("slowest:").into_iter().chain([self.slowest_micros]).max().unwrap_or(0);
        let (before, now) = self.memory_mb;
        if !succeeded {
            let kept =
                text.lines().find_map(|line| line.split_once("Test unit written to ")).map(|(_, path)| path);
            let said =
                text.lines().find(|line| line.contains("panicked at") || line.contains("ERROR: libFuzzer"));
            self.failures.push(match kept {
                Some(path) => format!(
                    "{0}: {1}\n  cargo xtask fuzz {0} --input {path}",
                    self.target,
                    said.unwrap_or("it failed")
                ),
                None => format!("{} can't be fuzzed: {text}", self.target),
            });
        } else if now > before + GROWTH_MB_MAX {
            self.failures.push(format!("{}: memory grew from {before} to {now} MB in one turn", self.target));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SAID: &str = "\
#31\tINITED cov: 1041 ft: 2049 corp: 29/3031b exec/s: 0 rss: 47Mb
slowest: 120 us for 90 bytes
slowest: 1210 us for 4000 bytes
#9000\tDONE   cov: 1200 ft: 2500 corp: 40/4000b lim: 4096 exec/s: 4500 rss: 50Mb
stat::number_of_executed_units: 9000
stat::peak_rss_mb:              51
";

    #[test]
    fn a_turn_is_read_from_what_the_fuzzer_says() {
        let mut tally = Tally::default();
        tally.read(SAID, true);
        assert_eq!((tally.executions, tally.covered, tally.memory_mb), (9000, 1200, (47, 50)));
        assert_eq!((tally.memory_peak_mb, tally.slowest_micros), (51, 1210));
        assert!(tally.failures.is_empty());
    }

    #[test]
    fn a_failure_names_the_input_and_how_to_replay_it() {
        let mut tally = Tally { target: "resp".into(), ..Tally::default() };
        let said = "thread '<unnamed>' panicked at x.rs:1:2:\nTest unit written to /f/resp-crash-1\n";
        tally.read(said, false);
        assert!(tally.failures[0].contains("panicked at x.rs:1:2"), "{tally:?}");
        assert!(tally.failures[0].contains("cargo xtask fuzz resp --input /f/resp-crash-1"), "{tally:?}");
    }

    #[test]
    fn growth_is_a_failure() {
        let mut tally = Tally::default();
        tally.read("INITED cov: 1 rss: 10Mb\nDONE cov: 1 rss: 900Mb\n", true);
        assert_eq!(tally.failures.len(), 1);
    }
}
