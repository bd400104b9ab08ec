//! Whether the simulator tells the truth: the same requests to the same nodes at the same times, once with real
//! processes and a real Redis, once simulated. `cargo xtask bars agree` runs it and reads what it prints.
//!
//! `agree CASE…`, CASE one of 1 to 8.

mod both;
mod case;
#[allow(dead_code, reason = "the benchmarks of the tiers use the rest of it")]
#[path = "../load/mod.rs"]
mod load;

use load::setting::{self, Setting};
use load::{connection, figures, fleet, generator, plan, samples, time};
use std::process::ExitCode;

const USAGE: &str = "usage: agree CASE…, where CASE is one of 1 to 8";

fn main() -> ExitCode {
    setting::run(USAGE, measure)
}

fn measure(setting: &Setting, number: &str) -> Result<(), String> {
    let number: usize = number.parse().map_err(|_| USAGE.to_owned())?;
    let cases = case::all();
    let case = number.checked_sub(1).and_then(|index| cases.get(index)).ok_or(USAGE)?;
    both::compare(setting, case)
}
