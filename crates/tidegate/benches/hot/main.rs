//! The bars of hot keys, measured with real processes: nodes of the release binary, a Redis Cluster of three
//! shards, and a load generator of our own. `cargo xtask bars hot` runs it and reads what it prints.
//!
//! `hot [--long] TARGET…`, TARGET one of 1 to 5. Target 7 counts instructions; target 6 is a test of the sketch.

mod dead;
mod exact;
mod leased;
#[allow(dead_code, reason = "the benchmarks of the other tiers use the rest of it")]
#[path = "../load/mod.rs"]
mod load;
mod scene;
mod skew;
mod start;

use load::setting::{self, Setting};
use load::{connection, figures, fleet, generator, plan, samples, time};
use std::process::ExitCode;

const USAGE: &str = "usage: hot [--long] BAR…, where BAR is one of 1, 2, 3, 4, 5";

fn main() -> ExitCode {
    setting::run(USAGE, measure)
}

fn measure(setting: &Setting, bar: &str) -> Result<(), String> {
    match bar {
        "1" => skew::measure(setting),
        "2" => leased::measure(setting),
        "3" => start::measure(setting),
        "4" => dead::measure(setting),
        "5" => exact::measure(setting),
        _ => Err(format!("there is no such bar\n{USAGE}")),
    }
}
