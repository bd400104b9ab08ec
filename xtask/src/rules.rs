//! The targets of rules for millions: the rules file by itself, and the control plane with real processes.

use crate::instructions::bench_program;
use crate::measured::{Length, Printed};
use crate::report;
use crate::steps::output;

/// A package's benchmark, its targets, and about how many seconds each takes.
type Programs = &'static [(&'static str, &'static str, &'static [(u8, u32)])];
const PROGRAMS: Programs = &[
    ("tidegate", "rules", &[(1, 120), (3, 150), (4, 60), (8, 90)]),
    ("tidegate-rules", "lookup", &[(2, 20)]),
];
/// Tests that print what they found: targets 5 and 6.
const TESTS: &str = "cargo test --package tidegate-rules --test rules_file -- --nocapture";
const WITH: &str = "Targets 2, 5 and 6 are about the rules file and deltas by themselves. Targets 1, 3, 4 and 8 with real processes of the release binary, all on one \
                    machine: a control plane on SQLite, brokers and nodes; past what the machine holds, real streams \
                    with their files and engines.";

pub(crate) fn measure(length: Length) -> Result<(), String> {
    let mut printed = Printed::default();
    for (package, benchmark, bars) in PROGRAMS {
        let program = bench_program(package, benchmark)?;
        printed.run(&program, bars, length)?;
    }
    println!("    targets 5 and 6, about 60 s");
    printed.read(&output(TESTS)?)?;
    let text = printed.table(WITH, length);
    println!("{text}");
    report::write("rules", &text)
}
