//! What a run does, read from the command line: every number has its range, every mistake its remedy.

use super::keys::{EXPONENT_MAX, KEYS_MAX};
use super::request::{Question, QuestionError, Request};
use super::target::{Target, TargetError};
use crate::output::counted;
use clap::{Arg, ArgAction, ArgMatches, Command, value_parser};
use std::path::PathBuf;
use std::time::Duration;

const NOTE: &str = "\
Target: http://HOST:PORT, grpc://HOST:PORT, redis://HOST:PORT; on Unix sockets
http+unix:PATH, grpc+unix:PATH, redis+unix:PATH.
{key} in --path, --header, --body and --command is the key. For example:
  tidegate bench http://127.0.0.1:8080 --connections 50 --zipf 1.1
  tidegate bench http+unix:/run/tidegate --limits 5 --rate 2000 --svg latency.svg
  tidegate bench http://127.0.0.1:8080 --path '/auth?namespace=api&attributes=user' --header 'X-Tidegate-user: {key}'
  tidegate bench redis://127.0.0.1:6380 --pipeline 16
Exit code: 0 measured, 1 measured with errors, 2 not measured.";

/// When requests are sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Load {
    /// Each after the answer to the one before.
    Closed,
    /// At fixed times.
    Open,
}

#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub(crate) target: Target,
    pub(crate) request: Request,
    pub(crate) load: Load,
    /// Requests a second, of an open loop.
    pub(crate) rate: f64,
    pub(crate) connections: usize,
    /// Requests on their way at once, on each connection.
    pub(crate) pipeline: usize,
    pub(crate) threads: usize,
    pub(crate) warm_up: Duration,
    pub(crate) duration: Duration,
    pub(crate) timeout: Duration,
    pub(crate) keys: u64,
    pub(crate) zipf: Option<f64>,
    /// Every key once before any comes again.
    pub(crate) in_turn: bool,
    pub(crate) seed: u64,
    pub(crate) form: Form,
    pub(crate) picture: Option<PathBuf>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Form {
    Text,
    Json,
}

#[derive(Debug, PartialEq, thiserror::Error)]
pub(crate) enum PlanError {
    #[error(transparent)]
    Target(#[from] TargetError),
    #[error(transparent)]
    Question(#[from] QuestionError),
    #[error("--{flag} {given} is out of range; give it {range}")]
    Range { flag: &'static str, given: f64, range: &'static str },
    #[error(
        "--threads {threads} is more than --connections {connections}; give each thread a connection at least"
    )]
    Threads { threads: usize, connections: usize },
}

pub(crate) fn command() -> Command {
    let number = |name: &'static str, value: &'static str, help: &'static str| {
        Arg::new(name).long(name).value_name(value).allow_negative_numbers(true).help(help)
    };
    let text = |name: &'static str, value: &'static str, help: &'static str| {
        Arg::new(name).long(name).value_name(value).help(help)
    };
    let whole = |arg: Arg| arg.value_parser(value_parser!(u64));
    let broken = |arg: Arg| arg.value_parser(value_parser!(f64));
    Command::new("bench")
        .about("Send requests to a running node, and measure how fast it answers")
        .after_help(NOTE)
        .args([
            Arg::new("target").value_name("TARGET").required(true).help("the server's address"),
            broken(number(
                "rate",
                "N",
                "requests a second, even if answers are late [as fast as answers come]",
            )),
            whole(number("connections", "N", "connections to open [50]").short('c')),
            whole(number("pipeline", "N", "requests in flight on each connection [1]").short('p')),
            whole(number("threads", "N", "threads that send [1]").short('t')),
            broken(number("duration", "SECONDS", "how long to measure [10]").short('d')),
            broken(number("warm-up", "SECONDS", "how long to send before the measurement begins [1]")),
            whole(number("timeout-ms", "MS", "close a connection that is silent for so long [5000]")),
            whole(number("keys", "N", "how many different keys (callers) to use [100000]")),
            broken(number("zipf", "EXPONENT", "use some keys more often, by Zipf's law [all equally often]")),
            Arg::new("in-turn")
                .long("in-turn")
                .action(ArgAction::SetTrue)
                .conflicts_with("zipf")
                .help("use each key once before any key comes again [at random]"),
            whole(number("seed", "N", "runs with the same seed use the same keys [1]")),
            whole(number("limit", "N", "the limit that requests bring: N a minute for each key [100]")),
            whole(number("limits", "N", "how many such limits each request brings, all or none [1]")),
            Arg::new("rules")
                .long("rules")
                .action(ArgAction::SetTrue)
                .help("use the target's rules: namespace or domain `bench`, attribute `key`"),
            text("path", "PATH", "the HTTP path [/v1/limit], or the gRPC method [ShouldRateLimit]"),
            text("method", "METHOD", "the HTTP method [POST with a body, else GET]"),
            text("header", "HEADER", "an HTTP header; may be given repeatedly").action(ArgAction::Append),
            text("body", "TEXT", "the HTTP body, or the gRPC message in hexadecimal [the limits]"),
            text("command", "TEXT", "the Redis command [CL.THROTTLE {key} …]"),
            Arg::new("json").long("json").action(ArgAction::SetTrue).help("print the result as JSON"),
            text("svg", "FILE", "draw the distribution of latencies").value_parser(value_parser!(PathBuf)),
        ])
}

impl Plan {
    pub(crate) fn read(matches: &ArgMatches) -> Result<Self, PlanError> {
        let text = |name: &str| matches.get_one::<String>(name).cloned();
        let target = Target::parse(&text("target").unwrap_or_default())?;
        let question = Question {
            method: text("method"),
            path: text("path"),
            headers: matches.get_many("header").into_iter().flatten().cloned().collect(),
            body: text("body"),
            command: text("command"),
            by_rules: matches.get_flag("rules"),
            limit: whole(matches, "limit", 100, 1, 4_000_000_000, "from 1 to 4000000000")?,
            limits: count(matches, "limits", 1, 100, "from 1 to 100")?,
        };
        let request = Request::new(&target, &question)?;
        let rate = fraction(matches, "rate", 0.1, 100_000_000.0, "from 0.1 to 100000000")?;
        let plan = Plan {
            target,
            request,
            load: if rate.is_some() { Load::Open } else { Load::Closed },
            rate: rate.unwrap_or_default(),
            connections: count(matches, "connections", 50, 60_000, "from 1 to 60000")?,
            pipeline: count(matches, "pipeline", 1, 10_000, "from 1 to 10000")?,
            threads: count(matches, "threads", 1, 256, "from 1 to 256")?,
            warm_up: seconds(matches, "warm-up", 0.0, 1.0)?,
            duration: seconds(matches, "duration", 0.1, 10.0)?,
            timeout: Duration::from_millis(whole(
                matches,
                "timeout-ms",
                5000,
                10,
                600_000,
                "from 10 to 600000",
            )?),
            keys: whole(matches, "keys", 100_000, 1, KEYS_MAX, "from 1 to 1000000000000")?,
            zipf: fraction(matches, "zipf", 0.01, EXPONENT_MAX, "from 0.01 to 10")?,
            in_turn: matches.get_flag("in-turn"),
            seed: matches.get_one::<u64>("seed").copied().unwrap_or(1),
            form: if matches.get_flag("json") { Form::Json } else { Form::Text },
            picture: matches.get_one::<PathBuf>("svg").cloned(),
        };
        let (threads, connections) = (plan.threads, plan.connections);
        if threads > connections { Err(PlanError::Threads { threads, connections }) } else { Ok(plan) }
    }

    /// In one line, for whoever reads the result later.
    pub(crate) fn in_words(&self) -> String {
        let load = match self.load {
            Load::Closed => "closed loop".to_owned(),
            Load::Open => format!("open loop at {}/s", self.rate),
        };
        let keys = match self.zipf {
            None if self.in_turn => format!("{} keys in turn", self.keys),
            None => format!("{} keys", self.keys),
            Some(exponent) => format!("{} keys by Zipf {exponent}", self.keys),
        };
        let (connections, threads) =
            (counted(self.connections, "connection"), counted(self.threads, "thread"));
        format!("{load}, {connections} × {}, {threads}, {keys}", self.pipeline)
    }
}

fn whole(
    matches: &ArgMatches,
    flag: &'static str,
    default: u64,
    low: u64,
    high: u64,
    range: &'static str,
) -> Result<u64, PlanError> {
    let given = matches.get_one::<u64>(flag).copied().unwrap_or(default);
    if (low..=high).contains(&given) {
        Ok(given)
    } else {
        Err(PlanError::Range { flag, given: given as f64, range })
    }
}

fn count(
    matches: &ArgMatches,
    flag: &'static str,
    default: u64,
    high: u64,
    range: &'static str,
) -> Result<usize, PlanError> {
    whole(matches, flag, default, 1, high, range).map(|number| usize::try_from(number).unwrap_or(usize::MAX))
}

fn fraction(
    matches: &ArgMatches,
    flag: &'static str,
    low: f64,
    high: f64,
    range: &'static str,
) -> Result<Option<f64>, PlanError> {
    match matches.get_one::<f64>(flag).copied() {
        Some(given) if !(low..=high).contains(&given) => Err(PlanError::Range { flag, given, range }),
        given => Ok(given),
    }
}

fn seconds(matches: &ArgMatches, flag: &'static str, low: f64, default: f64) -> Result<Duration, PlanError> {
    let given = fraction(matches, flag, low, 86_400.0, "up to a day, and a tenth of a second to measure")?;
    Ok(Duration::from_secs_f64(given.unwrap_or(default)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(words: &[&str]) -> Result<Plan, PlanError> {
        let words = ["bench", "http://127.0.0.1:1"].iter().chain(words);
        Plan::read(&command().try_get_matches_from(words).unwrap())
    }

    #[test]
    fn a_rate_makes_the_loop_open() {
        let plan = read(&[]).unwrap();
        assert_eq!((plan.load, plan.connections, plan.duration), (Load::Closed, 50, Duration::from_secs(10)));
        let plan = read(&["--rate", "1000", "-c", "2", "-d", "0.5"]).unwrap();
        assert_eq!((plan.load, plan.connections, plan.duration), (Load::Open, 2, Duration::from_millis(500)));
    }

    #[test]
    fn numbers_out_of_range_are_refused_by_name() {
        for (words, wanted) in [
            (["--connections", "0"], "--connections 0 is out of range; give it from 1 to 60000"),
            (["--zipf", "-1"], "--zipf -1 is out of range; give it from 0.01 to 10"),
            (["--rate", "0"], "--rate 0 is out of range; give it from 0.1 to 100000000"),
            (["--rate", "NaN"], "--rate NaN is out of range; give it from 0.1 to 100000000"),
            (["--limits", "101"], "--limits 101 is out of range; give it from 1 to 100"),
            (
                ["--threads", "51"],
                "--threads 51 is more than --connections 50; give each thread a connection at least",
            ),
        ] {
            assert_eq!(read(&words).unwrap_err().to_string(), wanted);
        }
    }
}
