//! The targets of the region tier: its benchmark with real processes, and what a warm decision costs in
//! instructions.

use crate::instructions::{self, bench_program};
use crate::measured::{Length, Printed};
use crate::report;

/// The benchmark's targets, and about how many seconds each takes.
const BARS: [(u8, u32); 8] = [(1, 45), (2, 10), (3, 45), (4, 305), (5, 70), (6, 80), (7, 60), (9, 20)];
/// With Redis, and the same with `memory:`: the whole engine, and the table's part of it.
const PAIRS: [(&str, &str); 4] = [
    ("engine-redis", "engine-memory"),
    ("shared-sliding", "sliding"),
    ("shared-gcra", "gcra"),
    ("shared-five", "five"),
];
const RATIO_MAX: f64 = 1.2;
const WITH: &str = "Measured with real processes: nodes of the release binary, `redis-server`, and a load \
                    generator that sends at intended times and measures from them, all on one machine.";

pub(crate) fn measure(length: Length) -> Result<(), String> {
    let program = bench_program("tidegate", "region")?;
    let mut printed = Printed::default();
    printed.run(&program, &BARS, length)?;
    println!("    target 8, by callgrind");
    add_instructions(&mut printed, &instructions::count()?);
    let text = printed.table(WITH, length);
    println!("{text}");
    report::write("region", &text)
}

#[expect(clippy::cast_precision_loss, reason = "some thousands of instructions")]
fn add_instructions(printed: &mut Printed, counts: &instructions::Counts) {
    for (shared, alone) in PAIRS {
        let count = |case| counts.get(case).map_or(f64::NAN, |count| *count as f64);
        let row = printed.row(8, &format!("{shared} ÷ {alone}"), "instructions of a warm decision");
        row.high = Some(RATIO_MAX);
        row.values.push(count(shared) / count(alone));
    }
}
