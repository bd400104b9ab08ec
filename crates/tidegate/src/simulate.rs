//! `tidegate sim`: fleets and bad luck, simulated with the real engines, from a file or a seed.
//!
//! Reads files, writes pictures and shows progress; everything that is simulated is in `crates/sim`.

mod coverage;
mod inputs;
mod picture;
mod progress;
mod replay;
mod show;
mod swarm;

pub(crate) use inputs::{Inputs, InputsError, command};

use crate::ask::Form;
use crate::output;
use inputs::{ScenarioInputs, SimulateCommand};
use progress::Progress;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use tidegate_sim::file::FileError;
use tidegate_sim::fleet::{self, FleetReport, KNOWN, Plan, PlanError, known};

/// No scenario is longer.
const FILE_BYTES_MAX: u64 = 1_000_000;
const DRAWS_SVG: &str = "rsvg-convert";

#[derive(Debug, thiserror::Error)]
pub(crate) enum SimError {
    #[error(
        "there is no scenario {name:?}; `tidegate sim list` tells which there are, and a file has a / or ends in .toml"
    )]
    Unknown { name: String },
    #[error("can't read {}: {source}", .path.display())]
    Read { path: PathBuf, source: io::Error },
    #[error("{} is longer than {FILE_BYTES_MAX} bytes; a scenario isn't", .path.display())]
    TooLong { path: PathBuf },
    #[error("{name}: {source}")]
    Plan { name: String, source: PlanError },
    #[error("{}: {source}", .path.display())]
    File { path: PathBuf, source: FileError },
    #[error("there is no scenario file in {}; their names end in .toml", .path.display())]
    Empty { path: PathBuf },
    #[error("can't write {}: {source}; choose another directory", .path.display())]
    Write { path: PathBuf, source: io::Error },
}

pub(crate) fn run(inputs: &Inputs) -> Result<ExitCode, SimError> {
    match &inputs.command {
        SimulateCommand::List => {
            output::print(&list());
            Ok(ExitCode::SUCCESS)
        }
        SimulateCommand::Scenario(scenario) => run_scenario(scenario),
        SimulateCommand::Swarm(swarm) => swarm::run(swarm),
        SimulateCommand::Coverage(inputs) => Ok(coverage::run(inputs)),
        SimulateCommand::Replay(replay) => replay::run(replay),
    }
}

fn list() -> String {
    let mut text = String::new();
    for (name, file) in KNOWN {
        let title = fleet::read(file).map(|plan| plan.title).unwrap_or_default();
        text.push_str(&format!("{name:<22}  {title}\n"));
    }
    text
}

fn run_scenario(inputs: &ScenarioInputs) -> Result<ExitCode, SimError> {
    let (name, text) = text_of(&inputs.scenario)?;
    let plan = fleet::read(&text).map_err(|source| SimError::Plan { name: name.clone(), source })?;
    let seed = inputs.seed.unwrap_or(plan.seed);
    let Some(outcome) = simulate(&plan, seed) else { return Ok(ExitCode::FAILURE) };
    if let Some(directory) = &inputs.pictures {
        write_pictures(directory, &name, &plan, &outcome)?;
    }
    output::print(&match inputs.form {
        Form::Json => format!("{}\n", show::json(&name, &plan, seed, &outcome)),
        Form::Text => show::text(&name, &plan, seed, &outcome),
    });
    let misses = outcome.judged.iter().any(|judged| judged.holds() == Some(false));
    Ok(if misses { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// `None` when an invariant was violated, which was told.
fn simulate(plan: &Plan, seed: u64) -> Option<FleetReport> {
    let mut progress = Progress::new();
    let run = catch_unwind(AssertUnwindSafe(|| fleet::run(plan, seed, &mut |at| progress.show_fleet(at))));
    progress.clear();
    run.ok()
}

/// A scenario's name, and what its file says.
fn text_of(scenario: &str) -> Result<(String, String), SimError> {
    if let Some(text) = known(scenario) {
        return Ok((scenario.to_owned(), text.to_owned()));
    }
    if !scenario.contains('/') && !scenario.ends_with(".toml") {
        return Err(SimError::Unknown { name: scenario.to_owned() });
    }
    let path = PathBuf::from(scenario);
    let text = read_text(&path)?;
    let name =
        path.file_stem().map_or_else(|| scenario.to_owned(), |stem| stem.to_string_lossy().into_owned());
    Ok((name, text))
}

fn read_text(path: &Path) -> Result<String, SimError> {
    let failed = |source| SimError::Read { path: path.to_owned(), source };
    if std::fs::metadata(path).map_err(failed)?.len() > FILE_BYTES_MAX {
        return Err(SimError::TooLong { path: path.to_owned() });
    }
    std::fs::read_to_string(path).map_err(failed)
}

fn write_pictures(
    directory: &PathBuf,
    name: &str,
    plan: &Plan,
    outcome: &FleetReport,
) -> Result<(), SimError> {
    let failed = |path: &PathBuf| {
        let path = path.clone();
        move |source| SimError::Write { path, source }
    };
    std::fs::create_dir_all(directory).map_err(failed(directory))?;
    let mut pixels = Ok(());
    for (kind, svg) in picture::all(name, plan, outcome) {
        let path = directory.join(format!("{name}-{kind}.svg"));
        std::fs::write(&path, svg).map_err(failed(&path))?;
        pixels = pixels.and_then(|()| draw(&path));
    }
    if let Err(problem) = pixels {
        eprintln!("no PNG beside the SVG files: {problem}");
    }
    Ok(())
}

/// The same as PNG, twice as wide as it is shown, by a program that draws SVG: a library for it would be larger than
/// the rest of us.
fn draw(svg: &Path) -> Result<(), String> {
    let png = svg.with_extension("png");
    let drawn = Command::new(DRAWS_SVG).args(["--zoom", "2", "--output"]).args([png.as_path(), svg]).output();
    match drawn {
        Ok(drawn) if drawn.status.success() => Ok(()),
        Ok(drawn) => Err(format!("{DRAWS_SVG}: {}", String::from_utf8_lossy(&drawn.stderr).trim())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            Err(format!("{DRAWS_SVG} isn't installed; Debian's package librsvg2-bin has it"))
        }
        Err(error) => Err(format!("{DRAWS_SVG}: {error}")),
    }
}
