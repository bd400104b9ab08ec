//! `cargo xtask bench peers`: a node beside other limiters, with the same generators, interleaved in rounds;
//! writes `docs/benchmarks.md`.
//!
//! Figures of one table are of one run: only their ratios mean something on another machine.

mod alone;
mod cases;
mod everybody;
mod figures;
mod generator;
mod groups;
mod memory;
mod program;
mod scaling;
mod server;
mod subjects;
mod tail;

use crate::packages;
use crate::report::{self, Document};
use crate::steps::Steps;
use program::Programs;
use std::fmt::Write as _;

const DOCUMENT: Document = Document {
    path: "docs/benchmarks.md",
    head: "\
# Benchmarks: beside other limiters

`cargo xtask bench peers [--quick] [GROUP…]` writes this page. Each section shows its command, its date and the machine.
The *subjects* of a table are the programs that it compares. They took turns in one run, with the same load generator on
the same two cores. So compare ratios within a table, not absolute numbers. A figure is the median of several rounds,
with the lowest and the highest round in brackets.

The generator shares the cores with the server, so it may be the slower of the two. The column `generator, cores` shows
how many cores the generator kept busy. If that is near its number of threads (2 for `wrk`, 1 for the other generators),
the server could have answered more. Then compare the server's processor time for each request instead.
",
    command: "cargo xtask bench peers",
};

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Length {
    Quick,
    Whole,
}

impl Length {
    fn rounds(self) -> usize {
        if self == Length::Quick { 3 } else { 5 }
    }

    /// Of one run.
    fn seconds(self) -> u32 {
        if self == Length::Quick { 2 } else { 4 }
    }

    /// Of one run where there are many.
    fn short_seconds(self) -> u32 {
        if self == Length::Quick { 1 } else { 3 }
    }

    /// What a number of requests is divided by.
    fn divisor(self) -> u64 {
        if self == Length::Quick { 3 } else { 1 }
    }
}

type Measure = fn(&Programs, Length) -> Result<String, String>;
const GROUPS: [(&str, Measure); 9] = [
    ("resp", groups::resp),
    ("http", groups::http),
    ("grpc", groups::grpc),
    ("unix", alone::unix),
    ("keys", alone::keys),
    ("idle", alone::idle),
    ("memory", memory::memory),
    ("scaling", scaling::scaling),
    ("tail", tail::tail),
];

pub(crate) fn run(words: &[&str]) -> Result<(), String> {
    let length = if words.contains(&"--quick") { Length::Quick } else { Length::Whole };
    let wanted: Vec<&str> = words.iter().copied().filter(|word| *word != "--quick").collect();
    let names = GROUPS.map(|(name, _)| name);
    if let Some(unknown) = wanted.iter().find(|wanted| !names.contains(wanted)) {
        return Err(format!("there is no group {unknown:?} of benchmarks; there are {}", names.join(", ")));
    }
    packages::install_for_benchmarks()?;
    let programs = Programs::find()?;
    let mut versions = String::from("| program | version |\n|---|---|\n");
    for (program, version) in programs.versions() {
        let _ = writeln!(versions, "| {program} | {version} |");
    }
    report::write_to(&DOCUMENT, "versions", &versions)?;
    let mut steps = Steps::default();
    for (name, measure) in GROUPS {
        if wanted.is_empty() || wanted.contains(&name) {
            steps.step(name, || {
                let body = measure(&programs, length)?;
                println!("{body}");
                report::write_to(&DOCUMENT, name, &body)
            })?;
        }
    }
    steps.summary();
    Ok(())
}
