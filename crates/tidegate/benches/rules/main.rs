//! The bars of the rules' control plane, measured with real processes of the release binary: a control plane, brokers
//! and nodes; past what the machine holds, real streams that put changes in force in real rule sets.
//! `cargo xtask bars rules` runs it and reads what it prints.
//!
//! `rules [--long] TARGET…`, TARGET one of 1, 3, 4, 8. The others are measured in `crates/rules`.

mod change;
mod client;
mod first_load;
mod from_store;
#[allow(dead_code, reason = "the benchmarks of the other tiers use the rest of it")]
#[path = "../load/mod.rs"]
mod load;
mod outage;
mod reach;
#[allow(dead_code, reason = "the soak uses the rest of it")]
mod scene;
mod streams;

use load::setting::{self, Setting};
#[allow(unused_imports, reason = "what is shared looks for these here")]
use load::{connection, figures, fleet, generator, machine, plan, samples, time};
use std::process::ExitCode;

const USAGE: &str = "usage: rules [--long] BAR…, where BAR is one of 1, 3, 4, 8";

fn main() -> ExitCode {
    setting::run(USAGE, measure)
}

fn measure(setting: &Setting, bar: &str) -> Result<(), String> {
    match bar {
        "1" => reach::measure(setting),
        "3" => first_load::measure(setting).and_then(|()| from_store::measure(setting)),
        "4" => outage::measure(setting),
        "8" => change::measure(setting),
        _ => Err(format!("there is no such bar\n{USAGE}")),
    }
}
