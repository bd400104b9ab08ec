//! Runs scenario files of the swarm, and says of each whether it does what it expects.

use super::inputs::ReplayInputs;
use super::{SimError, read_text};
use crate::ask::Form;
use crate::output::{self, Colour, Colours, counted};
use serde_json::json;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use tidegate_sim::file::{Expectation, ScenarioFile, ScenarioVerdict};

pub(crate) fn run(inputs: &ReplayInputs) -> Result<ExitCode, SimError> {
    let mut files = Vec::new();
    for path in &inputs.paths {
        files.extend(read_all(path)?);
    }
    // What is violated is told below, in a line.
    let hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(|_| {}));
    let verdicts: Vec<ScenarioVerdict> = files.iter().map(ScenarioFile::run).collect();
    std::panic::set_hook(hook);
    output::print(&match inputs.form {
        Form::Json => json_of(&files, &verdicts),
        Form::Text => text_of(&files, &verdicts),
    });
    let all_are = verdicts.iter().all(ScenarioVerdict::is_as_expected);
    Ok(if all_are { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// A file, or all files of a directory in the order of their names.
fn read_all(path: &Path) -> Result<Vec<ScenarioFile>, SimError> {
    if !path.is_dir() {
        return Ok(vec![read(path)?]);
    }
    let failed = |source| SimError::Read { path: path.to_owned(), source };
    let entries: Result<Vec<_>, _> = std::fs::read_dir(path).map_err(failed)?.collect();
    let mut paths: Vec<PathBuf> = entries.map_err(failed)?.into_iter().map(|entry| entry.path()).collect();
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "toml"));
    paths.sort();
    if paths.is_empty() {
        return Err(SimError::Empty { path: path.to_owned() });
    }
    paths.iter().map(|path| read(path)).collect()
}

fn read(path: &Path) -> Result<ScenarioFile, SimError> {
    let text = read_text(path)?;
    ScenarioFile::read(&text).map_err(|source| SimError::File { path: path.to_owned(), source })
}

/// A word for each verdict.
fn word(verdict: &ScenarioVerdict) -> &'static str {
    match verdict {
        ScenarioVerdict::Passed => "ok",
        ScenarioVerdict::FailedAsExpected(_) => "found as expected",
        ScenarioVerdict::Violated(_) => "violated",
        ScenarioVerdict::FailedOtherwise(_) => "found as something else",
        ScenarioVerdict::PassedUnexpectedly => "passes, which isn't expected",
    }
}

fn message(verdict: &ScenarioVerdict) -> Option<&str> {
    match verdict {
        ScenarioVerdict::Violated(message)
        | ScenarioVerdict::FailedOtherwise(message)
        | ScenarioVerdict::FailedAsExpected(message) => Some(message),
        ScenarioVerdict::Passed | ScenarioVerdict::PassedUnexpectedly => None,
    }
}

fn text_of(files: &[ScenarioFile], verdicts: &[ScenarioVerdict]) -> String {
    let colours = Colours::of_stdout();
    let mut text = String::new();
    for (file, verdict) in files.iter().zip(verdicts) {
        let colour = if verdict.is_as_expected() { Colour::Green } else { Colour::Red };
        text.push_str(&format!("{}: {}\n", file.name, colours.paint(colour, word(verdict))));
        if verdict.is_as_expected() {
            continue;
        }
        text.push_str(&format!("  about: {}\n", file.about));
        if let Expectation::Violation(known) = &file.expect {
            text.push_str(&format!("  known as: {known}\n"));
        }
        for line in message(verdict).unwrap_or_default().lines() {
            text.push_str(&format!("  {line}\n"));
        }
    }
    let others = verdicts.iter().filter(|verdict| !verdict.is_as_expected()).count();
    let summary = match others {
        0 => "all do what they expect".to_owned(),
        others => format!("{others} of them not as expected"),
    };
    text.push_str(&format!("{}, {summary}\n", counted(files.len(), "scenario")));
    text
}

fn json_of(files: &[ScenarioFile], verdicts: &[ScenarioVerdict]) -> String {
    let scenarios: Vec<_> = files
        .iter()
        .zip(verdicts)
        .map(|(file, verdict)| {
            json!({
                "name": file.name,
                "about": file.about,
                "verdict": word(verdict),
                "is_as_expected": verdict.is_as_expected(),
                "message": message(verdict),
            })
        })
        .collect();
    format!("{}\n", json!({ "scenarios": scenarios }))
}
