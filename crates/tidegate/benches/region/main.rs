//! The bars of the region tier, measured with real processes: nodes of the release binary, Redis, and a load
//! generator of our own. `cargo xtask bars region` runs it and reads what it prints.
//!
//! `region [--long] TARGET…`, TARGET one of 1 to 10 but 8, which counts instructions.

mod accuracy;
mod burst;
mod calls;
mod cluster;
mod cold;
mod forgetting;
#[allow(dead_code, reason = "the benchmark of the world tier uses the rest of it")]
#[path = "../load/mod.rs"]
mod load;
mod mortality;
mod outage;
mod recovery;
mod relay;

use load::setting::{self, Setting};
use load::{connection, figures, fleet, generator, machine, plan, samples, time};
use std::process::ExitCode;

const USAGE: &str = "usage: region [--long] BAR…, where BAR is one of 1, 2, 3, 4, 5, 6, 7, 9, 10";

fn main() -> ExitCode {
    setting::run(USAGE, measure)
}

fn measure(setting: &Setting, bar: &str) -> Result<(), String> {
    match bar {
        "1" => accuracy::measure(setting),
        "2" => burst::measure(setting),
        "3" => calls::measure(setting),
        "4" => outage::measure(setting),
        "5" => forgetting::measure(setting),
        "6" => cluster::measure(setting),
        "7" => mortality::measure(setting),
        "9" => cold::measure(setting),
        "10" => recovery::measure(setting),
        _ => Err(format!("there is no such bar\n{USAGE}")),
    }
}
