//! Runs seeds on all cores, tells what went wrong how often, and makes a failing seed small: a scenario file.

use super::SimError;
use super::inputs::SwarmInputs;
use super::progress::Progress;
use crate::ask::Form;
use crate::output::{self, grouped};
use serde_json::json;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc;
use tidegate_core::Nanos;
use tidegate_sim::fired::Fired;
use tidegate_sim::swarm::{self, Episode, Failure, SeedReport, Smallest};

/// What all seeds came to.
#[derive(Default)]
struct Total {
    fired: Fired,
    seeds: u64,
    episodes: u64,
    simulated: Nanos,
    failure: Option<(u64, Failure)>,
}

pub(crate) fn run(inputs: &SwarmInputs) -> Result<ExitCode, SimError> {
    // What is violated is told below, once, and not for each attempt to make it smaller.
    let hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(|_| {}));
    let mut progress = Progress::new();
    let total = run_seeds(inputs, &mut progress);
    progress.clear();
    let smallest =
        total.failure.as_ref().map(|(seed, failure)| failure_text(inputs, *seed, failure)).transpose();
    std::panic::set_hook(hook);
    let smallest = smallest?;
    output::print(&match inputs.form {
        Form::Json => json_of(&total, smallest.as_deref()),
        Form::Text => text_of(&total, smallest.as_deref(), progress.seconds()),
    });
    Ok(if total.failure.is_some() { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// Seed after seed, on all cores. Ends with the lowest that fails, whichever is found first: those below it are run to
/// their end, and nothing of those above it counts.
fn run_seeds(inputs: &SwarmInputs, progress: &mut Progress) -> Total {
    let length = Nanos::from_secs(inputs.minutes.saturating_mul(60));
    let mistake = inputs.mistake.map(|(_, mistake)| mistake);
    let (next, end) = (AtomicU64::new(inputs.from), inputs.from.saturating_add(inputs.seeds));
    let failed = AtomicU64::new(end);
    let (report, reports) = mpsc::channel::<(u64, SeedReport)>();
    let run_next = || {
        let seed = next.fetch_add(1, Ordering::Relaxed);
        (seed < failed.load(Ordering::Relaxed)).then(|| (seed, swarm::run(seed, length, mistake)))
    };
    let mut all = BTreeMap::new();
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(1, usize::from) {
            let report = report.clone();
            scope.spawn(move || std::iter::from_fn(run_next).all(|ran| report.send(ran).is_ok()));
        }
        drop(report);
        for (seed, ran) in reports {
            if ran.failure.is_some() {
                failed.fetch_min(seed, Ordering::Relaxed);
            }
            all.insert(seed, ran);
            progress.show(&progress_text(all.len(), inputs.seeds, failed.load(Ordering::Relaxed), end));
        }
    });
    let last = failed.into_inner();
    all.into_iter().take_while(|(seed, _)| *seed <= last).fold(Total::default(), Total::and)
}

fn progress_text(done: usize, seeds: u64, failed: u64, end: u64) -> String {
    if failed < end {
        return format!("seed {failed} fails; those before it are run to their end");
    }
    format!("{done} of {seeds} seeds, nothing violated")
}

impl Total {
    fn and(mut self, (seed, ran): (u64, SeedReport)) -> Total {
        self.fired.add_all(&ran.fired);
        self.seeds += 1;
        self.episodes += ran.episodes;
        self.simulated = self.simulated.plus(ran.simulated);
        self.failure = self.failure.or(ran.failure.map(|failure| (seed, failure)));
        self
    }
}

/// Returns the report of a failure: what is violated, how to replay it, and how little is left of it.
fn failure_text(inputs: &SwarmInputs, seed: u64, failure: &Failure) -> Result<String, SimError> {
    let mistake = inputs.mistake.map(|(name, _)| format!(" --mistake {name}")).unwrap_or_default();
    let mut text = format!("seed {seed}, episode {}: {}\n", failure.episode, failure.message);
    // Writing to a string can't fail.
    let _ = writeln!(
        text,
        "\nreplay it with:\n  tidegate sim swarm --from {seed} --seeds 1 --minutes {}{mistake}\n",
        inputs.minutes
    );
    let mistake = inputs.mistake.map(|(_, mistake)| mistake);
    let episode = Episode::new(seed, failure.episode, mistake);
    match swarm::minimise(&episode) {
        Some(smallest) => {
            let _ = writeln!(text, "the smallest of {} attempts that fails alike:", smallest.runs);
            text.push_str(&smallest.describe());
            text.push_str(&save_smallest(inputs, seed, failure, &smallest)?);
        }
        None => text.push_str("it didn't fail again: that alone is a mistake\n"),
    }
    Ok(text)
}

/// Writes the scenario file if that was requested. Returns where it is, or how to get it.
fn save_smallest(
    inputs: &SwarmInputs,
    seed: u64,
    failure: &Failure,
    smallest: &Smallest,
) -> Result<String, SimError> {
    let name = format!("seed-{seed}-episode-{}", failure.episode);
    let Some(directory) = &inputs.save else {
        return Ok(format!(
            "\nadd `--save DIR` to write it to DIR/{name}.toml, which `tidegate sim replay` runs\n"
        ));
    };
    let path = write(directory, &name, &smallest.file(&name, smallest.violation()).write())?;
    let path = path.display();
    Ok(format!(
        "\nwritten to {path}; say in `about` what goes wrong, and run it with:\n  tidegate sim replay {path}\n"
    ))
}

fn write(directory: &Path, name: &str, text: &str) -> Result<PathBuf, SimError> {
    let path = directory.join(format!("{name}.toml"));
    let failed = |source| SimError::Write { path: path.clone(), source };
    std::fs::create_dir_all(directory).map_err(failed)?;
    std::fs::write(&path, text).map_err(failed)?;
    Ok(path)
}

fn text_of(total: &Total, smallest: Option<&str>, took: f64) -> String {
    let minutes = total.simulated.get() as f64 / 60e9;
    let mut text = format!(
        "{} seeds, {} episodes, {minutes:.0} simulated minutes in {took:.0} s\n\n{:>14}  what went wrong\n",
        grouped(usize::try_from(total.seeds).unwrap_or(usize::MAX)),
        grouped(usize::try_from(total.episodes).unwrap_or(usize::MAX)),
        "times"
    );
    for (name, count) in total.fired.named() {
        let _ = writeln!(text, "{:>14}  {name}", grouped(usize::try_from(count).unwrap_or(usize::MAX)));
    }
    match smallest {
        Some(failure) => {
            let _ = write!(text, "\n{failure}");
        }
        None => text.push_str("\nno invariant was violated, and all was well again after each episode\n"),
    }
    text
}

fn json_of(total: &Total, smallest: Option<&str>) -> String {
    let fired: serde_json::Map<String, serde_json::Value> =
        total.fired.named().map(|(name, count)| (name.to_owned(), json!(count))).collect();
    let json = json!({
        "seeds": total.seeds,
        "episodes": total.episodes,
        "simulated_minutes": total.simulated.get() as f64 / 60e9,
        "fired": fired,
        "failure": smallest,
    });
    format!("{json}\n")
}
