//! What `tidegate sim` is asked.

use crate::ask::Form;
use clap::{Arg, ArgAction, ArgMatches, Command, value_parser};
use std::path::PathBuf;
use tidegate_sim::swarm::Mistake;

const NOTE: &str = "\
SCENARIO is a name that `tidegate sim list` tells, or a file.
Exit code: 0 all is as expected, 1 something isn't, 2 the scenario can't be read. For example:
  tidegate sim burst
  tidegate sim ./mine.toml --seed 7 --out pictures
  tidegate sim swarm --seeds 100 --minutes 10
  tidegate sim replay crates/sim/scenarios";
const SWARM_NOTE: &str = "\
A seed that fails is made as small as it stays failing, and printed as a scenario file.
Exit code: 0 nothing is violated, 1 something is, 2 the file can't be written. For example:
  tidegate sim swarm --seeds 1000 --minutes 10
  tidegate sim swarm --from 17 --seeds 1 --save crates/sim/scenarios
  tidegate sim swarm --seeds 100 --mistake delta";
const REPLAY_NOTE: &str = "\
FILE is a scenario file of the swarm, or a directory of them.
Its `expect` says whether it passes, or which violation it is known for.
Exit code: 0 every file does what it expects, 1 one doesn't, 2 one can't be read. For example:
  tidegate sim replay crates/sim/scenarios
  tidegate sim replay found/seed-17-episode-3.toml";
const COVERAGE_NOTE: &str = "\
A situation is what a node knows of a key, what the store holds of its cell, and the event that
comes then. What the seeds meet too rarely is aimed at.
Exit code: 0 every situation was met 30 times or is listed in
crates/sim/coverage/unreachable.txt, and nothing was violated, 1 that isn't so, 2 the
list can't be read. For example:
  tidegate sim coverage --seeds 1000";
const SEEDS_MAX: u64 = 10_000_000;
const MINUTES_MAX: u64 = 10_000;

#[derive(Clone, Debug)]
pub(crate) struct Inputs {
    pub(crate) command: SimulateCommand,
}

#[derive(Clone, Debug)]
pub(crate) enum SimulateCommand {
    List,
    Scenario(ScenarioInputs),
    Swarm(SwarmInputs),
    Replay(ReplayInputs),
    Coverage(CoverageInputs),
}

#[derive(Clone, Debug)]
pub(crate) struct ScenarioInputs {
    pub(crate) scenario: String,
    pub(crate) seed: Option<u64>,
    pub(crate) pictures: Option<PathBuf>,
    pub(crate) form: Form,
}

#[derive(Clone, Debug)]
pub(crate) struct SwarmInputs {
    pub(crate) seeds: u64,
    pub(crate) from: u64,
    pub(crate) minutes: u64,
    pub(crate) mistake: Option<(&'static str, Mistake)>,
    /// Where the scenario that fails is written.
    pub(crate) save: Option<PathBuf>,
    pub(crate) form: Form,
}

#[derive(Clone, Debug)]
pub(crate) struct CoverageInputs {
    pub(crate) seeds: u64,
    pub(crate) from: u64,
}

#[derive(Clone, Debug)]
pub(crate) struct ReplayInputs {
    /// Files, and directories of them.
    pub(crate) paths: Vec<PathBuf>,
    pub(crate) form: Form,
}

#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum InputsError {
    #[error("name a scenario; `tidegate sim list` tells which there are")]
    Nothing,
}

fn json() -> Arg {
    Arg::new("json").long("json").action(ArgAction::SetTrue).help("print the figures as JSON")
}

fn number(name: &'static str, most: u64, default: &'static str, help: &'static str) -> Arg {
    Arg::new(name)
        .long(name)
        .value_name("N")
        .value_parser(value_parser!(u64).range(0..=most))
        .default_value(default)
        .help(help)
}

pub(crate) fn command() -> Command {
    let mistakes = Mistake::ALL.map(|(name, _)| name);
    let swarm = Command::new("swarm")
        .about("Random faults over random fleets: every step is compared with the truth")
        .after_help(SWARM_NOTE)
        .arg(number("seeds", SEEDS_MAX, "100", "how many"))
        .arg(number("from", u64::MAX, "0", "the first one"))
        .arg(number("minutes", MINUTES_MAX, "1", "of simulated time for each"))
        .arg(
            Arg::new("mistake")
                .long("mistake")
                .value_name("NAME")
                .value_parser(mistakes)
                .help("make a mistake on purpose, which must be found"),
        )
        .arg(
            Arg::new("save")
                .long("save")
                .value_name("DIR")
                .value_parser(value_parser!(PathBuf))
                .help("write the smallest scenario that fails there"),
        )
        .arg(json());
    let coverage = Command::new("coverage")
        .about("Count which situations the swarm's generator meets, and aim at those that it meets rarely")
        .after_help(COVERAGE_NOTE)
        .arg(number("seeds", SEEDS_MAX, "500", "how many, before rare situations are aimed at"))
        .arg(number("from", u64::MAX, "0", "the first one"));
    let replay = Command::new("replay")
        .about("Run scenario files of the swarm, and compare what happens with what they expect")
        .after_help(REPLAY_NOTE)
        .arg(
            Arg::new("file")
                .value_name("FILE")
                .required(true)
                .num_args(1..)
                .value_parser(value_parser!(PathBuf))
                .help("scenario files, or directories of them"),
        )
        .arg(json());
    Command::new("sim")
        .about("Simulate a fleet with the real engines, and compare it with what is expected")
        .after_help(NOTE)
        .args_conflicts_with_subcommands(true)
        .subcommand(Command::new("list").about("The scenarios that there are"))
        .subcommand(swarm)
        .subcommand(replay)
        .subcommand(coverage)
        .arg(Arg::new("scenario").value_name("SCENARIO").help("a name, or a file"))
        .arg(
            Arg::new("seed")
                .long("seed")
                .value_name("N")
                .value_parser(value_parser!(u64))
                .help("another run of the same scenario [the file's]"),
        )
        .arg(
            Arg::new("out")
                .long("out")
                .value_name("DIR")
                .value_parser(value_parser!(PathBuf))
                .help("write pictures there (SVG; PNG with rsvg-convert)"),
        )
        .arg(json())
}

fn form(matches: &ArgMatches) -> Form {
    if matches.get_flag("json") { Form::Json } else { Form::Text }
}

impl Inputs {
    pub(crate) fn read(matches: &ArgMatches) -> Result<Self, InputsError> {
        let command = match matches.subcommand() {
            Some(("list", _)) => SimulateCommand::List,
            Some(("coverage", matches)) => SimulateCommand::Coverage(CoverageInputs {
                seeds: matches.get_one::<u64>("seeds").copied().unwrap_or(0),
                from: matches.get_one::<u64>("from").copied().unwrap_or(0),
            }),
            Some(("replay", matches)) => SimulateCommand::Replay(ReplayInputs {
                paths: matches.get_many::<PathBuf>("file").into_iter().flatten().cloned().collect(),
                form: form(matches),
            }),
            Some((_, matches)) => SimulateCommand::Swarm(SwarmInputs::read(matches)),
            None => SimulateCommand::Scenario(ScenarioInputs {
                scenario: matches.get_one::<String>("scenario").cloned().ok_or(InputsError::Nothing)?,
                seed: matches.get_one::<u64>("seed").copied(),
                pictures: matches.get_one::<PathBuf>("out").cloned(),
                form: form(matches),
            }),
        };
        Ok(Inputs { command })
    }
}

impl SwarmInputs {
    fn read(matches: &ArgMatches) -> Self {
        let number = |name: &str| matches.get_one::<u64>(name).copied().unwrap_or(0);
        let named = matches.get_one::<String>("mistake");
        SwarmInputs {
            seeds: number("seeds"),
            from: number("from"),
            minutes: number("minutes"),
            mistake: named.and_then(|named| Mistake::ALL.into_iter().find(|(name, _)| name == named)),
            save: matches.get_one::<PathBuf>("save").cloned(),
            form: form(matches),
        }
    }
}
