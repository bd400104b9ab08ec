//! What `tidegate sim` is asked.

use crate::ask::Form;
use clap::{Arg, ArgAction, ArgMatches, Command, value_parser};
use std::path::PathBuf;
use tidegate_sim::swarm::Mistake;

const NOTE: &str = "\
SCENARIO is a name that `tidegate sim list` tells, or a file. Exit code: 0 everything is as expected, 1 something
isn't, 2 the scenario can't be read. For example:
  tidegate sim burst
  tidegate sim ./mine.toml --seed 7 --out pictures
  tidegate sim swarm --seeds 100 --minutes 10";
const SWARM_NOTE: &str = "\
A seed that fails is made as small as it stays failing. Exit code: 0 nothing is violated, 1 something is. For example:
  tidegate sim swarm --seeds 1000 --minutes 10
  tidegate sim swarm --from 17 --seeds 1
  tidegate sim swarm --seeds 100 --mistake delta";
const SEEDS_MAX: u64 = 10_000_000;
const MINUTES_MAX: u64 = 10_000;

#[derive(Clone, Debug)]
pub(crate) struct Inputs {
    pub(crate) what: What,
}

#[derive(Clone, Debug)]
pub(crate) enum What {
    List,
    Scenario(ScenarioInputs),
    Swarm(SwarmInputs),
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
        .arg(json());
    Command::new("sim")
        .about("Simulate a fleet with the real engines, and compare it with what is expected")
        .after_help(NOTE)
        .args_conflicts_with_subcommands(true)
        .subcommand(Command::new("list").about("The scenarios that there are"))
        .subcommand(swarm)
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
        let what = match matches.subcommand() {
            Some(("list", _)) => What::List,
            Some((_, matches)) => What::Swarm(SwarmInputs::read(matches)),
            None => What::Scenario(ScenarioInputs {
                scenario: matches.get_one::<String>("scenario").cloned().ok_or(InputsError::Nothing)?,
                seed: matches.get_one::<u64>("seed").copied(),
                pictures: matches.get_one::<PathBuf>("out").cloned(),
                form: form(matches),
            }),
        };
        Ok(Inputs { what })
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
            form: form(matches),
        }
    }
}
