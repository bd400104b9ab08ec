//! `cargo xtask bars`: runs the benchmarks, compares them with their bars, writes the report.

use crate::instructions::{self, bench_program};
use crate::measured::Length;
use crate::report::{median, verdict, with_spread};
use crate::steps::{Steps, output, run as run_command};
use crate::{hot, packages, recovery, region, report, rules, sim, why, world};
use std::collections::BTreeMap;
use std::fmt::Write as _;

type Group = (&'static str, fn() -> Result<(), String>);
const GROUPS: [Group; 12] = [
    ("decide", decide),
    ("memory", memory),
    ("instructions", count_instructions),
    ("oracle", oracle),
    ("region", || region::measure(Length::Quick)),
    ("recovery", || recovery::measure(Length::Quick)),
    ("world", || world::measure(Length::Quick)),
    ("rules", || rules::measure(Length::Quick)),
    ("hot", || hot::measure(Length::Quick)),
    ("why", || why::measure(Length::Quick)),
    ("sim", || sim::measure(Length::Quick)),
    ("agree", sim::agree),
];

pub(crate) fn run(only: Option<&str>) -> Result<(), String> {
    let names: Vec<&str> = GROUPS.iter().map(|(name, _)| *name).collect();
    if let Some(unknown) = only.filter(|group| !names.contains(group)) {
        return Err(format!("there is no group {unknown:?} of targets; there are {}", names.join(", ")));
    }
    packages::install()?;
    let mut steps = Steps::default();
    for (name, measure) in GROUPS {
        if only.is_none_or(|only| only == name) {
            steps.step(name, measure)?;
        }
    }
    steps.summary();
    Ok(())
}

/// A tier, with long faults.
pub(crate) fn run_long(group: &str) -> Result<(), String> {
    packages::install()?;
    match group {
        "region" => region::measure(Length::Long),
        "recovery" => recovery::measure(Length::Long),
        "world" => world::measure(Length::Long),
        "hot" => hot::measure(Length::Long),
        "sim" => sim::measure(Length::Long),
        _ => Err(format!("{group} has no --long; there are region, recovery, world, hot and sim")),
    }
}

/// Nanoseconds per decision: (keys, threads) → subject → one figure per round.
type Figures = BTreeMap<(u64, u64), BTreeMap<String, Vec<f64>>>;

/// Target 3: a decision beside governor's and beside the floor, in one run.
fn decide() -> Result<(), String> {
    let program = bench_program("tidegate-node", "decide")?;
    let mut figures = Figures::new();
    for keys in [100_000, 10_000_000] {
        println!("    {keys} keys, 7 rounds of each subject in turn");
        let printed = output(&format!("{program} --keys {keys} --rounds 7"))?;
        printed.lines().filter_map(parse_figure).for_each(|(place, subject, nanos)| {
            figures.entry(place).or_default().entry(subject).or_default().push(nanos);
        });
    }
    let body = decide_table(&figures);
    println!("{body}");
    report::write("decide", &body)
}

/// `governor keys=100000 threads=1 round=0 ns=132.1`
fn parse_figure(line: &str) -> Option<((u64, u64), String, f64)> {
    let mut words = line.split(' ');
    let subject = words.next()?.to_owned();
    let mut value = |name: &str| words.next()?.strip_prefix(name);
    let keys = value("keys=")?.parse().ok()?;
    let threads = value("threads=")?.parse().ok()?;
    value("round=")?;
    let nanos = value("ns=")?.parse().ok()?;
    Some(((keys, threads), subject, nanos))
}

fn decide_table(figures: &Figures) -> String {
    let mut text = String::from(
        "Nanoseconds per decision in process, median (lowest–highest) of 7 rounds, all subjects in turn in each \
         round. 16-byte keys made in registers, clock included. governor 0.10.4 is keyed by `String` with its \
         default store. The floor is hash + shard lock + table probe + clock. `-16` reads the clock once for 16 \
         decisions. `five` is one request of five limits over as many entries.\n\n\
         | keys | threads | subject | ns | ÷ governor | ÷ floor | ÷ single | target |\n|---|---|---|---|---|---|---|---|\n",
    );
    for ((keys, threads), subjects) in figures {
        for (subject, values) in subjects {
            let ratio = |to: &str| median(values) / subjects.get(to).map_or(f64::NAN, |other| median(other));
            let (governor, floor, single) = (ratio("governor"), ratio("floor"), ratio("tidegate-sliding"));
            let bar = match subject.as_str() {
                "tidegate-gcra" | "tidegate-sliding" => {
                    format!("≤ 0.85 and ≤ 1.5 of the floor: {}", verdict(governor <= 0.85 && floor <= 1.5))
                }
                "tidegate-gcra-16" | "tidegate-sliding-16" => format!("≤ 0.7: {}", verdict(governor <= 0.7)),
                "tidegate-five" => format!("≤ 4 singles: {}", verdict(single <= 4.0)),
                _ => String::new(),
            };
            let spread = with_spread(values);
            let _ = writeln!(
                text,
                "| {keys} | {threads} | {subject} | {spread} | {governor:.2} | {floor:.2} | {single:.2} | {bar} |"
            );
        }
    }
    text
}

/// Target 4: memory per key, and what growth costs.
fn memory() -> Result<(), String> {
    let program = bench_program("tidegate-node", "memory")?;
    let mut text = String::from(
        "Resident bytes per live key, both cells in use, and the longest that any single decision took on the clock \
         while the table grew from empty: the best of three runs, since growth comes at the same decisions in each \
         and the host's interruptions of this virtual machine don't; all three in brackets. `local` is the `memory:` \
         origin, `shared` has both tiers in use.\n\n\
         | state | keys | bytes per key | target | longest decision, ms | target |\n|---|---|---|---|---|---|\n",
    );
    for (state, bytes_max) in [("local", 96.0), ("shared", 160.0)] {
        for keys in [8_000_000_u64, 10_000_000, 12_000_000] {
            let runs: Vec<(f64, f64)> =
                (0..3).map(|_| fill(&program, state, keys)).collect::<Result<_, _>>()?;
            let bytes = runs.iter().map(|(bytes, _)| *bytes).fold(0.0, f64::max);
            let longest = runs.iter().map(|(_, millis)| *millis).fold(f64::INFINITY, f64::min);
            let all: Vec<String> = runs.iter().map(|(_, millis)| format!("{millis:.1}")).collect();
            let (fits, quick) = (verdict(bytes <= bytes_max), verdict(longest <= 10.0));
            let _ = writeln!(
                text,
                "| {state} | {keys} | {bytes:.1} | ≤ {bytes_max}: {fits} | {longest:.2} ({}) | ≤ 10: {quick} |",
                all.join(", ")
            );
        }
    }
    println!("{text}");
    report::write("memory", &text)
}

/// Fills a table once: bytes per key, and milliseconds of the longest decision.
fn fill(program: &str, state: &str, keys: u64) -> Result<(f64, f64), String> {
    let printed = output(&format!("{program} {state} --keys {keys}"))?;
    let value = |name: &str| -> Option<f64> {
        printed.split([' ', '\n']).find_map(|word| word.strip_prefix(name))?.parse().ok()
    };
    match (value("bytes_per_key="), value("worst_decision_us=")) {
        (Some(bytes), Some(micros)) => Ok((bytes, micros / 1000.0)),
        _ => Err(format!("the memory benchmark printed something else:\n{printed}")),
    }
}

/// Instructions per decision, recorded so that `cargo xtask test` notices a regression.
fn count_instructions() -> Result<(), String> {
    let counts = instructions::count()?;
    instructions::record(&counts)?;
    let mut text = String::from(
        "Instructions per warm decision, counted by callgrind: identity hash of a 16-byte key, look-up, decision and \
         commit, without the clock. `shared` has the counts of a region, warm; `engine` is the whole of \
         `Engine::decide` for one given limit, with `memory:` and with Redis. `cargo xtask test` fails when one \
         rises by more than 5 %.\n\n\
         | case | instructions |\n|---|---|\n",
    );
    for (case, count) in &counts {
        let _ = writeln!(text, "| {case} | {count} |");
    }
    println!("{text}");
    report::write("instructions", &text)
}

/// Target 1: ten million random operations per algorithm against the independent oracle.
fn oracle() -> Result<(), String> {
    run_command("cargo test --package tidegate-core --test algorithms_match_the_oracle")?;
    let text = "10 million random operations each for the sliding, fixed and calendar windows, GCRA, and INV-7, \
                against the oracle in `crates/core/tests/oracle/mod.rs`: 0 disagreements. `cargo xtask test` runs the \
                same.";
    report::write("oracle", text)
}
