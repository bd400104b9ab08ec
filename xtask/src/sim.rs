//! The bars of the simulation: scenarios beside the documents' schemes, and the swarm.

use crate::measured::Length;
use crate::report;
use crate::steps::{output, output_of, run};
use std::fmt::Write as _;

const BINARY: &str = "target/release/tidegate";
const SCENARIOS: [&str; 12] = [
    "burst",
    "free-zone",
    "attacker",
    "failover",
    "rule-change",
    "fourth-region",
    "hot-key",
    "store-down",
    "ten-regions-headroom",
    "ten-regions-floor",
    "ten-regions-240k",
    "sidecars",
];
const WITH: &str = "`tidegate sim` with every scenario of `scenarios/`, and its swarm. `tidegate` is what the real engines did, \
                    `documents'` a model of the scheme that the scenario names, on the same requests; bounds are held against \
                    the first.";

pub(crate) fn measure(length: Length) -> Result<(), String> {
    run("cargo build --release --quiet")?;
    let mut text = format!("{WITH}\n\n");
    for name in SCENARIOS {
        println!("    {name}");
        let words = ["sim", name].map(str::to_owned);
        let printed = output_of(BINARY, &words)?;
        let _ = writeln!(text, "```text\n{}\n```\n", without_progress(&printed));
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
