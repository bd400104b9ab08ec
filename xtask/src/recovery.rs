//! The target of recovery: how long nodes take to restore a store that lost its data, with real processes.

use crate::instructions::bench_program;
use crate::measured::{Length, Printed};
use crate::report;

/// The target of the region's benchmark, and about how many seconds it takes.
const BARS: [(u8, u32); 1] = [(10, 90)];
const WITH: &str = "A store that loses all that it holds, with real processes: nodes of the release binary, `redis-server`, and a \
                    load generator that sends at intended times and measures from them, all on one machine.";

pub(crate) fn measure(length: Length) -> Result<(), String> {
    let program = bench_program("tidegate", "region")?;
    let mut printed = Printed::default();
    printed.run(&program, &BARS, length)?;
    let text = printed.table(WITH, length);
    println!("{text}");
    report::write("recovery", &text)
}
