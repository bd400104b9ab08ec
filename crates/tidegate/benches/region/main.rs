//! The bars of the region tier, measured with real processes: nodes of the release binary, Redis, and a load
//! generator of our own. `cargo xtask bars region` runs it and reads what it prints.
//!
//! `region [--long] BAR…`, BAR one of 1 to 9 but 8, which counts instructions. Without a bar it does nothing,
//! so that `cargo test --all-targets` is done with it at once.

mod accuracy;
mod burst;
mod calls;
mod cluster;
mod cold;
mod connection;
mod figures;
mod fleet;
mod forgetting;
mod generator;
mod machine;
mod mortality;
mod outage;
mod plan;
mod samples;
mod time;

use std::process::ExitCode;
use std::time::Duration;
use tokio::runtime::{Builder, Runtime};

const USAGE: &str = "usage: region [--long] BAR…, where BAR is one of 1, 2, 3, 4, 5, 6, 7, 9";

/// What every bar is measured with.
#[derive(Debug)]
pub(crate) struct Setting {
    /// For the test kit's servers.
    runtime: Runtime,
    length: Length,
}

/// How long faults last, and how often windows come round.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Length {
    Quick,
    Long,
}

impl Setting {
    /// Does what the test kit does, to its end.
    pub(crate) fn wait_for<T>(&self, work: impl Future<Output = T>) -> T {
        self.runtime.block_on(work)
    }

    pub(crate) fn seconds(&self, quick: u64, long: u64) -> Duration {
        Duration::from_secs(if self.length == Length::Long { long } else { quick })
    }
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).filter(|argument| argument != "--bench").collect();
    let (options, bars): (Vec<&String>, Vec<&String>) =
        arguments.iter().partition(|argument| argument.starts_with("--"));
    let length = if options.iter().any(|option| *option == "--long") { Length::Long } else { Length::Quick };
    if bars.is_empty() {
        println!("{USAGE}");
        return ExitCode::SUCCESS;
    }
    let runtime = Builder::new_current_thread().enable_all().build();
    let setting = Setting { runtime: runtime.expect("a runtime"), length };
    for bar in bars {
        if let Err(problem) = measure(&setting, bar) {
            eprintln!("bar {bar}: {problem}");
            return ExitCode::FAILURE;
        }
    }
    ExitCode::SUCCESS
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
        _ => Err(format!("there is no such bar\n{USAGE}")),
    }
}
