//! Runs seed after seed, tells what went wrong how often, and makes a failing seed small.

use super::inputs::SwarmInputs;
use super::progress::Progress;
use crate::ask::Form;
use crate::output::{self, grouped};
use serde_json::json;
use std::fmt::Write as _;
use std::process::ExitCode;
use tidegate_core::Nanos;
use tidegate_sim::fired::Fired;
use tidegate_sim::swarm::{self, Episode, Failure};

/// What all seeds came to.
struct Total {
    fired: Fired,
    seeds: u64,
    episodes: u64,
    simulated: Nanos,
    failure: Option<(u64, Failure)>,
}

pub(crate) fn run(inputs: &SwarmInputs) -> ExitCode {
    // What is violated is told below, once, and not for each attempt to make it smaller.
    let hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(|_| {}));
    let mut progress = Progress::new();
    let total = run_seeds(inputs, &mut progress);
    progress.clear();
    let smallest = total.failure.as_ref().map(|(seed, failure)| told(inputs, *seed, failure));
    std::panic::set_hook(hook);
    output::print(&match inputs.form {
        Form::Json => json_of(&total, smallest.as_deref()),
        Form::Text => text_of(&total, smallest.as_deref(), progress.seconds()),
    });
    if total.failure.is_some() { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}

fn run_seeds(inputs: &SwarmInputs, progress: &mut Progress) -> Total {
    let length = Nanos::from_secs(inputs.minutes.saturating_mul(60));
    let mut total =
        Total { fired: Fired::default(), seeds: 0, episodes: 0, simulated: Nanos::ZERO, failure: None };
    for seed in inputs.from..inputs.from.saturating_add(inputs.seeds) {
        let ran = swarm::run(seed, length, inputs.mistake.map(|(_, mistake)| mistake));
        total.fired.add_all(&ran.fired);
        total.seeds += 1;
        total.episodes += ran.episodes;
        total.simulated = total.simulated.plus(ran.simulated);
        if let Some(failure) = ran.failure {
            total.failure = Some((seed, failure));
            break;
        }
        progress.show(&format!("{} of {} seeds, nothing violated", total.seeds, inputs.seeds));
    }
    total
}

/// A failure as people need it: what is violated, how to replay it, and how little is left of it.
fn told(inputs: &SwarmInputs, seed: u64, failure: &Failure) -> String {
    let mistake = inputs.mistake.map(|(name, _)| format!(" --mistake {name}")).unwrap_or_default();
    let mut text = format!("seed {seed}, episode {}: {}\n", failure.episode, failure.message);
    // Writing to a string can't fail.
    let _ = writeln!(
        text,
        "\nreplay it with:\n  tidegate sim swarm --from {seed} --seeds 1 --minutes {}{mistake}\n",
        inputs.minutes
    );
    let episode = Episode::new(seed, failure.episode, inputs.mistake.map(|(_, mistake)| mistake));
    match swarm::minimise(&episode) {
        Some(smallest) => {
            let _ = writeln!(text, "the smallest of {} attempts that fails alike:", smallest.runs);
            text.push_str(&smallest.describe());
        }
        None => text.push_str("it didn't fail again: that alone is a mistake\n"),
    }
    text
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
