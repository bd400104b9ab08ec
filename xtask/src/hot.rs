//! The targets of hot keys: the benchmark with real processes, and what it costs to look who comes most often.

use crate::instructions::{self, bench_program};
use crate::measured::{Length, Printed};
use crate::report;

/// The benchmark's targets, and about how many seconds each takes.
const BARS: [(u8, u32); 5] = [(1, 45), (2, 80), (3, 30), (4, 45), (5, 45)];
const WATCHED: (&str, &str) = ("engine-redis", "engine-unwatched");
const RATIO_MAX: f64 = 1.05;
const WITH: &str = "Measured with real processes: nodes of the release binary, a Redis Cluster of three \
                    shards, and a load generator that sends at intended times and measures from them, all on one machine.";

pub(crate) fn measure(length: Length) -> Result<(), String> {
    let program = bench_program("tidegate", "hot")?;
    let mut printed = Printed::default();
    printed.run(&program, &BARS, length)?;
    println!("    target 7, by callgrind");
    add_instructions(&mut printed, &instructions::count()?);
    let text = printed.table(WITH, length);
    println!("{text}");
    report::write("hot", &text)
}

#[expect(clippy::cast_precision_loss, reason = "some thousands of instructions")]
fn add_instructions(printed: &mut Printed, counts: &instructions::Counts) {
    let (watched, unwatched) = WATCHED;
    let count = |case| counts.get(case).map_or(f64::NAN, |count| *count as f64);
    let row = printed.row(7, &format!("{watched} ÷ {unwatched}"), "instructions of a warm decision");
    row.high = Some(RATIO_MAX);
    row.values.push(count(watched) / count(unwatched));
}
