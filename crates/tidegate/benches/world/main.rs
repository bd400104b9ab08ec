//! The bars of the world tier, measured with real processes: three regions of two nodes of the release binary,
//! each region with its own Redis, around one SQL database. `cargo xtask bars world` runs it and reads what it
//! prints.
//!
//! `world [--long] [--postgres] TARGET…`, TARGET one of 1, 2, 3, 4, 5, 7. The database's own bars (6, 8 and 9) are
//! measured without nodes, elsewhere.

mod alone;
mod even;
mod flash;
mod innocent;
mod ledger;
#[allow(dead_code, reason = "the benchmark of the region tier uses the rest of it")]
#[path = "../load/mod.rs"]
mod load;
mod outage;
mod overshoot;
mod packed;
mod partition;
mod propagation;
mod quotas;
mod scene;
mod slices;
mod watch;

use load::setting::{self, Setting};
use load::{connection, figures, fleet, generator, machine, plan, samples, time};
use std::process::ExitCode;

const USAGE: &str = "usage: world [--long] [--postgres] BAR…, where BAR is one of 1, 2, 3, 4, 5, 7";

fn main() -> ExitCode {
    setting::run(USAGE, measure)
}

fn measure(setting: &Setting, bar: &str) -> Result<(), String> {
    match bar {
        "1" => overshoot::measure(setting),
        "2" => propagation::measure(setting),
        "3" => alone::measure(setting),
        "4" => outage::measure(setting),
        "5" => partition::measure(setting),
        "7" => quotas::measure(setting),
        _ => Err(format!("there is no such bar\n{USAGE}")),
    }
}
