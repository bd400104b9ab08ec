//! The targets of the simulation: scenarios beside simpler limiters, the swarm, and the same runs with real processes.

use crate::instructions::bench_program;
use crate::measured::{Length, Printed};
use crate::report;
use crate::steps::{output, output_of, run};
use std::fmt::Write as _;
use std::time::Instant;

const BINARY: &str = "target/release/tidegate";
const SCENARIOS: [&str; 13] = [
    "burst",
    "free-zone",
    "attacker",
    "failover",
    "rule-change",
    "brokers-down",
    "fourth-region",
    "hot-key",
    "store-down",
    "ten-regions-headroom",
    "ten-regions-floor",
    "ten-regions-240k",
    "sidecars",
];
const WITH: &str = "`tidegate sim` with every scenario of `scenarios/`, and its swarm. `tidegate` is what the real engines did, \
                    `compared` a model of the simpler limiter that the scenario names, on the same requests; bounds are held against \
                    the first.";

/// The benchmark's cases, and about how many seconds each takes.
const CASES: [(u8, u32); 8] = [(1, 45), (2, 25), (3, 35), (4, 5), (5, 25), (6, 20), (7, 20), (8, 40)];
const AGREEING: &str = "Target 4: the same requests to the same nodes at the same times, once to nodes of the release \
                        binary that share a `redis-server` behind a proxy, once simulated (the mean of five seeds).";

/// Simulated and real runs beside each other.
pub(crate) fn agree() -> Result<(), String> {
    let program = bench_program("tidegate", "agree")?;
    let mut printed = Printed::default();
    printed.run(&program, &CASES, Length::Quick)?;
    let text = printed.table(AGREEING, Length::Quick);
    println!("{text}");
    report::write("agree", &text)
}

#[expect(clippy::disallowed_methods, reason = "tells people how long a scenario took")]
pub(crate) fn measure(length: Length) -> Result<(), String> {
    run("cargo build --release --quiet")?;
    let mut text = format!("{WITH}\n\n");
    for name in SCENARIOS {
        println!("    {name}");
        let words = ["sim", name].map(str::to_owned);
        let begun = Instant::now();
        let printed = output_of(BINARY, &words)?;
        let took = begun.elapsed().as_secs();
        let _ = writeln!(text, "```text\n{}\n```\n\nIn {took} s.\n", without_progress(&printed));
    }
    let seeds = if length == Length::Long { 10_000 } else { 100 };
    println!("    swarm, {seeds} seeds");
    let printed = output(&format!("{BINARY} sim swarm --seeds {seeds} --minutes 10"))?;
    let _ = writeln!(
        text,
        "`tidegate sim swarm --seeds {seeds} --minutes 10`:\n\n```text\n{}\n```",
        without_progress(&printed)
    );
    println!("{text}");
    report::write("sim", &text)
}

/// Lines of progress are for who waits.
fn without_progress(printed: &str) -> String {
    let is_result =
        |line: &&str| !line.contains(" simulated seconds, ") && !line.ends_with("nothing violated");
    printed.lines().filter(is_result).collect::<Vec<_>>().join("\n").trim_end().to_owned()
}
