//! What every bar is measured with, and how a benchmark is told which.
//!
//! `BENCHMARK [--long] BAR…`. Without a target it does nothing, so that `cargo test --all-targets` is done with it
//! at once.

use std::process::ExitCode;
use std::time::Duration;
use tokio::runtime::{Builder, Runtime};

#[derive(Debug)]
pub(crate) struct Setting {
    /// For the test kit's servers.
    runtime: Runtime,
    length: Length,
    options: Vec<String>,
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

    pub(crate) fn is_long(&self) -> bool {
        self.length == Length::Long
    }

    /// Whether that was among the arguments, e.g. `--postgres`.
    pub(crate) fn has_option(&self, option: &str) -> bool {
        self.options.iter().any(|given| given == option)
    }
}

/// Measures the bars that the arguments name, one after the other, until one can't be.
pub(crate) fn run(usage: &str, measure: fn(&Setting, &str) -> Result<(), String>) -> ExitCode {
    let arguments = std::env::args().skip(1).filter(|argument| argument != "--bench");
    let (options, bars): (Vec<String>, Vec<String>) =
        arguments.partition(|argument| argument.starts_with("--"));
    if bars.is_empty() {
        println!("{usage}");
        return ExitCode::SUCCESS;
    }
    let is_long = options.iter().any(|option| *option == "--long");
    let length = if is_long { Length::Long } else { Length::Quick };
    let runtime = Builder::new_current_thread().enable_all().build();
    let setting = Setting { runtime: runtime.expect("a runtime"), length, options };
    for bar in bars {
        if let Err(problem) = measure(&setting, &bar) {
            eprintln!("bar {bar}: {problem}");
            return ExitCode::FAILURE;
        }
    }
    ExitCode::SUCCESS
}
