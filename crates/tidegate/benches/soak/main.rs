//! The chaos soak: three regions of two nodes around one database, with everything that can fail between them failing
//! in turn, while a constant load is sent and what comes of it is held against what was promised. `cargo xtask soak`
//! runs it.
//!
//! `soak run [--minutes N] [--seed S] [--document PATH]`. Without `run` it does nothing, so that `cargo test
//! --all-targets` is done with it at once. Ends with 1 where something that was promised didn't hold.

mod agreement;
mod bag;
mod books;
mod bounds;
mod bucket;
#[path = "../rules/client.rs"]
mod client;
mod denials;
mod episode;
mod idle;
#[allow(dead_code, reason = "other benchmarks use the rest of it")]
#[path = "../world/ledger.rs"]
mod ledger;
#[allow(dead_code, reason = "other benchmarks use the rest of it")]
#[path = "../load/mod.rs"]
mod load;
mod memory;
#[path = "../world/packed.rs"]
mod packed;
mod progress;
mod recovering;
#[allow(dead_code, reason = "the benchmark of the rules uses the rest of it")]
#[path = "../rules/scene.rs"]
mod running;
mod scene;
mod sender;
#[allow(dead_code, reason = "the benchmark of the world tier uses the rest of it")]
#[path = "../world/slices.rs"]
mod slices;
mod soak;
mod stores;
mod subject;
mod summary;
mod trouble;
#[allow(dead_code, reason = "the benchmark of the world tier uses the rest of it")]
#[path = "../world/watch.rs"]
mod watch;

#[allow(unused_imports, reason = "what is shared looks for these here")]
use load::{connection, figures, fleet, generator, machine, plan, samples, setting, time};
use std::process::ExitCode;
use std::time::Duration;

const USAGE: &str = "usage: soak run [--minutes N] [--seed S] [--document PATH]";
const MINUTES: u64 = 30;
const MINUTES_MAX: u64 = 24 * 60;

/// What a run is asked for.
#[derive(Clone, Debug)]
pub(crate) struct SoakOptions {
    pub(crate) minutes: u64,
    pub(crate) seed: u64,
    /// Where the report goes, beside the terminal.
    pub(crate) document: Option<String>,
}

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).filter(|word| word != "--bench").collect();
    if words.first().map(String::as_str) != Some("run") {
        println!("{USAGE}");
        return ExitCode::SUCCESS;
    }
    match SoakOptions::read(&words[1..]).and_then(|order| soak::run(&order)) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(problem) => {
            eprintln!("{problem}");
            ExitCode::FAILURE
        }
    }
}

impl SoakOptions {
    fn read(words: &[String]) -> Result<Self, String> {
        // A seed of the moment, so that runs differ; it is printed.
        let mut order = SoakOptions { minutes: MINUTES, seed: moment_seed(), document: None };
        for pair in words.chunks(2) {
            let [name, value] = pair else { return Err(format!("{} has no value\n{USAGE}", pair[0])) };
            let number = || value.parse::<u64>().map_err(|_| format!("{name} {value} is no number\n{USAGE}"));
            match name.as_str() {
                "--minutes" => order.minutes = number()?,
                "--seed" => order.seed = number()?,
                "--document" => order.document = Some(value.clone()),
                _ => return Err(format!("there is no {name}\n{USAGE}")),
            }
        }
        if !(1..=MINUTES_MAX).contains(&order.minutes) {
            return Err(format!("--minutes goes from 1 to {MINUTES_MAX}"));
        }
        Ok(order)
    }

    pub(crate) fn length(&self) -> Duration {
        Duration::from_secs(60 * self.minutes)
    }

    /// How long a run is held to what only a long one can show.
    pub(crate) fn is_long(&self) -> bool {
        self.minutes >= 10
    }
}

fn moment_seed() -> u64 {
    u64::from(time::wall_clock().subsec_nanos())
}
