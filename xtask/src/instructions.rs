//! Instructions per decision, counted by callgrind: the same on a noisy machine as on a quiet one.
//!
//! Each case runs twice with different numbers of decisions; the difference has no start-up in it.

use crate::steps::output;
use std::collections::BTreeMap;

const RECORD: &str = "crates/node/benches/instructions.txt";
const CASES: [&str; 14] = [
    "hash",
    "gcra",
    "sliding",
    "fixed",
    "denied",
    "five",
    "five-denied",
    "five-suspected",
    "shared-gcra",
    "shared-sliding",
    "shared-five",
    "engine-memory",
    "engine-redis",
    "engine-unwatched",
];
const FEW: u64 = 20_000;
const MANY: u64 = 60_000;
/// What a count may exceed the record by, in per cent: the C library's own choices differ by processor.
const TOLERANCE_PERCENT: u64 = 5;

pub(crate) type Counts = BTreeMap<String, u64>;

/// Fails when a decision got more expensive than the record says.
pub(crate) fn check() -> Result<(), String> {
    let recorded = read_record()?;
    let counted = count()?;
    let mut worse = Vec::new();
    for (case, count) in &counted {
        let record = recorded.get(case).copied().unwrap_or(0);
        println!("    {case:>16}: {count} instructions, {record} recorded");
        if count * 100 > record * (100 + TOLERANCE_PERCENT) {
            worse.push(format!("{case}: {count} instructions, {record} recorded"));
        }
    }
    if worse.is_empty() {
        return Ok(());
    }
    Err(format!("{}\nif that is wanted, record it: cargo xtask bars instructions", worse.join("\n")))
}

/// Counts all cases. Builds the program first.
pub(crate) fn count() -> Result<Counts, String> {
    let program = program()?;
    let mut counts = Counts::new();
    for case in CASES {
        let (few, many) = (collected(&program, case, FEW)?, collected(&program, case, MANY)?);
        counts.insert(case.to_owned(), (many.saturating_sub(few)) / (MANY - FEW));
    }
    Ok(counts)
}

pub(crate) fn record(counts: &Counts) -> Result<(), String> {
    let text: String = counts.iter().map(|(case, count)| format!("{case} {count}\n")).collect();
    std::fs::write(crate::root().join(RECORD), text).map_err(|error| format!("can't write {RECORD}: {error}"))
}

fn read_record() -> Result<Counts, String> {
    let text = std::fs::read_to_string(crate::root().join(RECORD)).map_err(|error| {
        format!("can't read {RECORD}: {error}; make it with: cargo xtask bars instructions")
    })?;
    let parse = |line: &str| {
        let (case, count) = line.split_once(' ')?;
        Some((case.to_owned(), count.parse().ok()?))
    };
    text.lines().map(|line| parse(line).ok_or_else(|| format!("{RECORD}: can't read {line:?}"))).collect()
}

fn program() -> Result<String, String> {
    bench_program("tidegate-node", "instructions")
}

/// Builds a package's benchmark and says where it is.
pub(crate) fn bench_program(package: &str, name: &str) -> Result<String, String> {
    executable(&output(&format!("cargo bench --package {package} --bench {name} --no-run"))?, name)
}

/// Where a program is that cargo has built, by what it printed.
pub(crate) fn executable(built: &str, name: &str) -> Result<String, String> {
    let marker = "Executable ";
    let line = built.lines().find(|line| line.trim_start().starts_with(marker));
    let path = line.and_then(|line| line.rsplit_once('(')).map(|(_, path)| path.trim_end_matches(')'));
    path.map(str::to_owned).ok_or_else(|| format!("cargo didn't say where the benchmark {name} is:\n{built}"))
}

/// How many instructions a program executes, for so many operations of a case.
pub(crate) fn collected(program: &str, case: &str, operations: u64) -> Result<u64, String> {
    let callgrind = "valgrind --tool=callgrind --callgrind-out-file=/dev/null";
    let printed = output(&format!("{callgrind} {program} {case} {operations}"))?;
    let line = printed.lines().find_map(|line| line.split_once("Collected : "));
    let count = line.and_then(|(_, count)| count.trim().parse().ok());
    count.ok_or_else(|| format!("callgrind didn't say what it collected:\n{printed}"))
}
