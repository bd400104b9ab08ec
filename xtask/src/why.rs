//! The targets of the decision log: a search over ten gigabytes, a flood, and what a week takes on the disk.

use crate::instructions::{bench_program, collected};
use crate::measured::{Length, Printed};
use crate::report;

/// The targets of each benchmark, and about how many seconds each takes.
const OF_LOG: &[(u8, u32)] = &[(1, 180), (3, 20)];
const OF_ENGINE: &[(u8, u32)] = &[(2, 180)];
const WITH: &str = "Targets 1 to 3. Target 1 is about the log's speed, over ten gigabytes of segments that are \
                    generated first, from the page cache and from the disk; that it names causes correctly is tested with real \
                    processes (`crates/tidegate/tests/region/incident.rs`). Target 2 is a node's engine on all cores, \
                    deciding as fast as it can, without its journal, with it, with it and without in turns; each ratio \
                    is of one such turn. A million denials a second come by the clock, all other requests pass; in the \
                    last case, which is harder than the target, all are denied. Instructions are callgrind's, of those who \
                    decide, for a request of one limit.";
/// How many denials to count, and of the two numbers the larger.
const FOLDED: (u64, u64) = (20_000, 120_000);
/// Fewer than the keys that are told apart at a time.
const WRITTEN: (u64, u64) = (2_000, 9_000);

pub(crate) fn measure(length: Length) -> Result<(), String> {
    let mut printed = Printed::default();
    let program = format!("{} --gigabytes 10", bench_program("tidegate-decisions", "why")?);
    printed.run(&program, OF_LOG, length)?;
    let program = bench_program("tidegate-node", "journal")?;
    printed.run(&program, OF_ENGINE, length)?;
    printed.read(&instructions(&program)?)?;
    let text = printed.table(WITH, length);
    println!("{text}");
    report::write("why", &text)
}

/// What a denial takes without the log, and how much more with it.
fn instructions(program: &str) -> Result<String, String> {
    let each = |case: &str, (few, many): (u64, u64)| {
        let count = |denials| collected(program, &format!("--callgrind {case}"), denials);
        Ok::<u64, String>(count(many)?.saturating_sub(count(few)?) / (many - few))
    };
    let unlogged = each("unlogged", FOLDED)?;
    let folded = each("folded", FOLDED)?.saturating_sub(unlogged);
    let written = each("written", WRITTEN)?.saturating_sub(each("unwritten", WRITTEN)?);
    let figures = [
        ("a denial without the log", unlogged),
        ("more, when it is folded into a count", folded),
        ("more, when it is kept by itself", written),
    ];
    let line =
        |(figure, value)| format!("bar=2; case=instructions; figure={figure}; value={value}; by=median\n");
    Ok(figures.map(line).concat())
}
