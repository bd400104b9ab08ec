//! The bars of the decision log: a search over ten gigabytes, a flood, and what a week takes on the disk.

use crate::instructions::bench_program;
use crate::measured::{Length, Printed};
use crate::report;

/// The bars of its benchmark, and about how many seconds each takes.
const BARS: &[(u8, u32)] = &[(1, 180), (2, 60), (3, 20)];
const WITH: &str = "Bars 1 to 3 of issue 8, of the log by itself. Bar 1 is about its speed only, over ten gigabytes of \
                    segments that are generated first and mostly in the page cache. Bar 2 is CPU time of a thread that \
                    decides, with the writer beside it.";

pub(crate) fn measure(length: Length) -> Result<(), String> {
    let mut printed = Printed::default();
    let program = format!("{} --gigabytes 10", bench_program("tidegate-decisions", "why")?);
    printed.run(&program, BARS, length)?;
    let text = printed.table(WITH, length);
    println!("{text}");
    report::write("why", &text)
}
