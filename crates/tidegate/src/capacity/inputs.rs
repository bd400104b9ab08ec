//! What is planned for, read from the command line: every number has its range, every mistake its remedy.

use crate::ask::Form;
use clap::{Arg, ArgAction, ArgMatches, Command, value_parser};
use std::path::PathBuf;

const NOTE: &str = "\
A kind of limit is its name and how many keys of it are active in a region (users, say).
For example:
  tidegate plan --requests 200000 --regions 2 --nodes 40 --limit user=3000000 --limit global=1
  tidegate plan --json
  tidegate plan --svg plan.svg";
const LIMITS_MAX: usize = 100;
const NAME_CHARS_MAX: usize = 32;
const KEYS_MAX: f64 = 1e12;

/// A kind of limit that every request is checked against.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Kind {
    pub(crate) name: String,
    /// Active in a region.
    pub(crate) keys: f64,
}

#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Inputs {
    /// A second, over all regions, on average.
    pub(crate) requests: f64,
    pub(crate) regions: f64,
    /// Of a region's peak to its average.
    pub(crate) peak: f64,
    /// What is planned for beyond the peak, as a factor.
    pub(crate) headroom: f64,
    /// In a region.
    pub(crate) nodes: f64,
    /// Nodes of a region that the requests of one key reach.
    pub(crate) spread: f64,
    pub(crate) kinds: Vec<Kind>,
    pub(crate) hot_keys: f64,
    /// Counters in use within ten seconds, in a region.
    pub(crate) active_keys: f64,
    pub(crate) rules: f64,
    /// Of all requests.
    pub(crate) denied: f64,
    /// What a shard does in a second without strain, where an operation is a plain one.
    pub(crate) shard_operations: f64,
    /// Dollars a month.
    pub(crate) shard_price: f64,
    pub(crate) fixed_price: f64,
    pub(crate) form: Form,
    pub(crate) picture: Option<PathBuf>,
}

#[derive(Debug, PartialEq, thiserror::Error)]
pub(crate) enum InputsError {
    #[error("--{flag} {given} is out of range; give it from {low} to {high}")]
    Range { flag: &'static str, given: f64, low: f64, high: f64 },
    #[error(
        "--limit {given:?} isn't a kind of limit; write its name and how many keys it has, such as user=50000000"
    )]
    Kind { given: String },
    #[error("there are more than {LIMITS_MAX} kinds of limits; a request has at most that many")]
    Kinds,
}

/// A flag, its default in words, its range, and what it means.
type Number = (&'static str, &'static str, f64, f64, &'static str);
const REQUESTS: Number = ("requests", "2000", 1.0, 1e12, "requests a second, over all regions");
const REGIONS: Number = ("regions", "1", 1.0, 100.0, "");
const PEAK: Number = ("peak", "1.5", 1.0, 100.0, "a region's peak, as a multiple of its average");
const HEADROOM: Number = ("headroom", "1.2", 1.0, 100.0, "beyond the peak");
const NODES: Number = ("nodes", "2, or one for 20,000 requests/s", 1.0, 1e6, "in each region");
const SPREAD: Number = (
    "spread",
    "all nodes",
    1.0,
    1e6,
    "nodes that one key's requests reach: few, if a balancer keeps callers together",
);
const HOT_KEYS: Number =
    ("hot-keys", "by the limits", 0.0, 1e6, "keys with more than 10,000 requests a second");
const ACTIVE_KEYS: Number =
    ("active-keys", "by the limits", 1.0, KEYS_MAX, "counters in use within 10 s, in a region");
const RULES: Number = ("rules", "100", 0.0, 1e9, "rules and overrides");
const DENIED: Number = ("denied", "0.001", 0.0, 1.0, "share of requests");
const SHARD_OPERATIONS: Number =
    ("shard-operations", "100000", 1.0, 1e9, "plain operations a second that a shard does without strain");
const SHARD_PRICE: Number = ("shard-price", "100", 0.0, 1e9, "of a Redis with one core, dollars a month");
const FIXED_PRICE: Number =
    ("fixed-price", "0", 0.0, 1e12, "what else is paid for, such as a database: dollars a month");
const NUMBERS: [Number; 13] = [
    REQUESTS,
    REGIONS,
    PEAK,
    HEADROOM,
    NODES,
    SPREAD,
    HOT_KEYS,
    ACTIVE_KEYS,
    RULES,
    DENIED,
    SHARD_OPERATIONS,
    SHARD_PRICE,
    FIXED_PRICE,
];
/// What a node is planned to answer beside other work: a fifth of what one core answers alone.
const NODE_REQUESTS: f64 = 20_000.0;
/// Users, where no limits are given: each comes once in so many seconds.
pub(crate) const SECONDS_BETWEEN_REQUESTS: f64 = 25.0;
/// Within which a counter counts as in use.
pub(crate) const ACTIVE_SECONDS: f64 = 10.0;
/// Above which a key is hot.
const HOT_REQUESTS: f64 = 10_000.0;

pub(crate) fn command() -> Command {
    let number = |(name, default, _, _, help): Number| {
        Arg::new(name)
            .long(name)
            .value_name("N")
            .allow_negative_numbers(true)
            .value_parser(value_parser!(f64))
            .help(format!("{help}{}[{default}]", if help.is_empty() { "" } else { " " }))
    };
    let limit = Arg::new("limit")
        .long("limit")
        .value_name("NAME=KEYS")
        .action(ArgAction::Append)
        .help("a kind of limit that every request is checked against; several [user, global]");
    let json = Arg::new("json").long("json").action(ArgAction::SetTrue).help("print it as JSON");
    let svg = Arg::new("svg")
        .long("svg")
        .value_name("FILE")
        .value_parser(value_parser!(PathBuf))
        .help("draw what each kind of limit costs");
    Command::new("plan")
        .about("Work out what a fleet needs: shards, operations, memory, money")
        .after_help(NOTE)
        .args(NUMBERS.map(number))
        .args([limit, json, svg])
}

impl Inputs {
    pub(crate) fn read(matches: &ArgMatches) -> Result<Self, InputsError> {
        let given = |(flag, _, low, high, _): Number| {
            let given = matches.get_one::<f64>(flag).copied();
            // Not a number is in no range.
            match given.filter(|given| !(low..=high).contains(given)) {
                Some(given) => Err(InputsError::Range { flag, given, low, high }),
                None => Ok(given),
            }
        };
        let requests = given(REQUESTS)?.unwrap_or(2000.0);
        let regions = given(REGIONS)?.unwrap_or(1.0).round();
        let (peak, headroom) = (given(PEAK)?.unwrap_or(1.5), given(HEADROOM)?.unwrap_or(1.2));
        let load = requests / regions * peak * headroom;
        let limits: Vec<&String> = matches.get_many("limit").into_iter().flatten().collect();
        let kinds: Vec<Kind> = match limits.len() {
            0 => {
                let users = (requests / regions * SECONDS_BETWEEN_REQUESTS).ceil();
                let kind = |name: &str, keys| Kind { name: name.to_owned(), keys };
                vec![kind("user", users), kind("global", 1.0)]
            }
            1..=LIMITS_MAX => limits.into_iter().map(|text| kind(text)).collect::<Result<_, _>>()?,
            _ => return Err(InputsError::Kinds),
        };
        let nodes = given(NODES)?.unwrap_or((load / NODE_REQUESTS).ceil().max(2.0));
        let active = || kinds.iter().map(|kind| kind.keys.min(load * ACTIVE_SECONDS)).sum::<f64>().max(1.0);
        let is_hot = |kind: &&Kind| load / kind.keys > HOT_REQUESTS;
        let hot = || kinds.iter().filter(is_hot).fold(0.0, |sum, kind| sum + kind.keys);
        Ok(Inputs {
            requests,
            regions,
            peak,
            headroom,
            nodes,
            spread: given(SPREAD)?.unwrap_or(nodes).min(nodes),
            hot_keys: given(HOT_KEYS)?.unwrap_or_else(hot),
            active_keys: given(ACTIVE_KEYS)?.unwrap_or_else(active),
            rules: given(RULES)?.unwrap_or(100.0),
            denied: given(DENIED)?.unwrap_or(0.001),
            shard_operations: given(SHARD_OPERATIONS)?.unwrap_or(100_000.0),
            shard_price: given(SHARD_PRICE)?.unwrap_or(100.0),
            fixed_price: given(FIXED_PRICE)?.unwrap_or(0.0),
            kinds,
            form: if matches.get_flag("json") { Form::Json } else { Form::Text },
            picture: matches.get_one::<PathBuf>("svg").cloned(),
        })
    }
}

fn kind(text: &str) -> Result<Kind, InputsError> {
    let refused = || InputsError::Kind { given: text.chars().take(2 * NAME_CHARS_MAX).collect() };
    let (name, keys) = text.split_once('=').ok_or_else(refused)?;
    let keys: f64 = keys.parse().map_err(|_| refused())?;
    let is_name =
        !name.is_empty() && name.chars().count() <= NAME_CHARS_MAX && !name.contains(char::is_control);
    if is_name && (1.0..=KEYS_MAX).contains(&keys) {
        Ok(Kind { name: name.to_owned(), keys })
    } else {
        Err(refused())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(words: &[&str]) -> Result<Inputs, InputsError> {
        let words = std::iter::once(&"plan").chain(words);
        Inputs::read(&command().try_get_matches_from(words).unwrap())
    }

    #[test]
    fn numbers_have_ranges_and_kinds_are_names_with_numbers() {
        for (words, flag) in [
            (["--requests", "0"], "requests"),
            (["--regions", "101"], "regions"),
            (["--denied", "nan"], "denied"),
            (["--nodes", "-1"], "nodes"),
        ] {
            let refused = read(&words).unwrap_err().to_string();
            assert!(refused.starts_with(&format!("--{flag} ")) && refused.contains("from"), "{refused}");
        }
        for bad in ["user", "=5", "user=", "user=x", "user=0", "user=nan", "user=1e99", "\n=5"] {
            assert!(matches!(read(&["--limit", bad]), Err(InputsError::Kind { .. })), "{bad}");
        }
        let inputs =
            read(&["--limit", "user=5", "--limit", "all=1", "--nodes", "20", "--spread", "500"]).unwrap();
        assert_eq!(
            inputs.kinds,
            [("user", 5.0), ("all", 1.0)].map(|(name, keys)| Kind { name: name.into(), keys })
        );
        assert!((inputs.spread - 20.0).abs() < 1e-9, "no more than there are");
    }
}
