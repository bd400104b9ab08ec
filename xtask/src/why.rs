//! The bars of the decision log: a search over ten gigabytes, a flood, and what a week takes on the disk.

use crate::instructions::bench_program;
use crate::measured::{Length, Printed};
use crate::report;

/// The bars of each benchmark, and about how many seconds each takes.
const OF_LOG: &[(u8, u32)] = &[(1, 180), (3, 20)];
const OF_ENGINE: &[(u8, u32)] = &[(2, 180)];
const WITH: &str = "Bars 1 to 3 of issue 8. Bar 1 is about the log's speed, over ten gigabytes of segments that are \
                    generated first, from the page cache and from the disk; that it names causes correctly is tested with real \
                    processes (`crates/tidegate/tests/region/incident.rs`). Bar 2 is CPU time of a node's engine on \
                    all cores, with its journal and without in turns, the writer's own time included.";

pub(crate) fn measure(length: Length) -> Result<(), String> {
    let mut printed = Printed::default();
    let program = format!("{} --gigabytes 10", bench_program("tidegate-decisions", "why")?);
    printed.run(&program, OF_LOG, length)?;
    printed.run(&bench_program("tidegate-node", "journal")?, OF_ENGINE, length)?;
    let text = printed.table(WITH, length);
    println!("{text}");
    report::write("why", &text)
}
