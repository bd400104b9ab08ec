//! `tidegate why`: why a caller was denied, from a running node or from the files of its log.
//!
//! Both answer with the same JSON; people get it in words.

mod command_line;
mod groups;
mod nodes;
mod time;

use crate::ask::{Form, NodeArguments};
use crate::output::{self, plain};
use crate::rules_client::RulesError;
use crate::settings::{SettingErrors, Settings};
pub(crate) use command_line::{command, options};
use serde_json::Value;
use std::fmt::Write as _;
use std::fs::DirEntry;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use tidegate_core::Nanos;
use tidegate_decisions::LogReadError;
use tidegate_decisions::why::{Audience, utc};
use tidegate_node::clock::Clock;
use tidegate_node::journal::log_query::LogQuery;

/// What was typed.
#[derive(Debug)]
pub(crate) struct Options {
    /// Times are in [`Typed`].
    query: LogQuery,
    typed: Typed,
    /// Of nodes' admin listeners; none: of the node that is started by the settings.
    admin: Vec<String>,
    /// A control plane or a broker, which asks all who follow it.
    control: Option<String>,
    /// Files instead.
    log: Option<PathBuf>,
    form: Form,
}

/// Times as they were typed.
#[derive(Debug)]
struct Typed {
    at: Option<String>,
    since: Option<String>,
    until: Option<String>,
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum WhyError {
    #[error(transparent)]
    Asked(#[from] RulesError),
    #[error(transparent)]
    Settings(#[from] SettingErrors),
    #[error("--log: {0}")]
    Read(#[from] LogReadError),
    #[error(
        "{0:?} isn't a time; write it as 03:47 or 2026-11-16T03:47:00Z (UTC), or as 10m for ten minutes ago (s, m, h, d)"
    )]
    Time(String),
    #[error(
        "--log: {} has no log of decisions; name the directory that the node's log.decisions names, `decisions` in its data.dir unless that says otherwise",
        .0.display()
    )]
    NoLog(PathBuf),
    #[error(
        "from {since} until {until} is no time: it ends before it begins; turn --since and --until around"
    )]
    Backwards { since: String, until: String },
    #[error("what was read isn't an answer about decisions; check the address")]
    Foreign,
}

/// 0: something was found; 1: nothing was.
pub(crate) fn run(whom: &NodeArguments, mut options: Options) -> Result<ExitCode, WhyError> {
    (options.query.since, options.query.until) = options.typed.range(Clock::system().now().now)?;
    let answer = match &options.log {
        Some(directory) => {
            if is_empty_of_segments(directory) {
                return Err(WhyError::NoLog(directory.clone()));
            }
            let secret = Settings::secret(whom.settings.clone())?;
            let json = options.query.answer(directory, &secret, Audience::Operator)?;
            serde_json::from_str(&json).map_err(|_| WhyError::Foreign)?
        }
        None => nodes::ask(whom, &options)?,
    };
    match options.form {
        Form::Json => output::print(&format!("{answer}\n")),
        Form::Text => output::print(&in_words(&answer, &options.query)),
    }
    let is_empty = |name: &str| answer[name].as_array().is_none_or(Vec::is_empty);
    Ok(ExitCode::from(u8::from(is_empty("decisions") && is_empty("counted"))))
}

/// A directory that is there, and isn't one of a log. Whether it can be read is said by who reads it.
fn is_empty_of_segments(directory: &Path) -> bool {
    let is_segment = |entry: &DirEntry| entry.path().extension().is_some_and(|ending| ending == "decisions");
    std::fs::read_dir(directory).is_ok_and(|entries| !entries.flatten().any(|entry| is_segment(&entry)))
}

fn in_words(answer: &Value, asked: &LogQuery) -> String {
    let decisions = answer["decisions"].as_array().map_or(&[][..], Vec::as_slice);
    let is_shadow = |decision: &&Value| decision["outcome"] == "would_deny";
    let (would_deny, decided): (Vec<&Value>, Vec<&Value>) = decisions.iter().partition(is_shadow);
    let mut text = groups::in_words(&decided);
    if !would_deny.is_empty() {
        text.push_str("Rules that only shadow would have denied:\n");
        text.push_str(&groups::in_words(&would_deny));
    }
    for count in answer["counted"].as_array().into_iter().flatten() {
        let word = |name: &str| plain(count[name].as_str().unwrap_or(""));
        let (rule, first, last) = (word("rule"), word("first"), word("last"));
        let denials = &count["denials"];
        let _ = writeln!(
            text,
            "{denials} more denials by rule {rule} between {first} and {last}: too many callers at once to name each"
        );
    }
    if text.is_empty() {
        text.push_str(&nothing(asked));
        text.push_str(&nearest(&answer["nearest"]));
    }
    text.push_str(&silence(&answer["nodes"]));
    if answer["is_cut"] == true {
        text.push_str("There is more: ask for an earlier time (--until), or for more at once (--limit).\n");
    }
    if answer["damaged"].as_u64().is_some_and(|damaged| damaged > 0) {
        let _ = writeln!(text, "Parts of the log can't be read any more: {}.", answer["damaged"]);
    }
    text
}

/// The callers that were denied then, where the one that was asked for wasn't.
fn nearest(callers: &Value) -> String {
    let mut text = String::new();
    let callers = callers.as_array().map_or(&[][..], Vec::as_slice);
    if callers.is_empty() {
        return text;
    }
    text.push_str("These were denied then:\n");
    for near in callers {
        let word = |name: &str| plain(near[name].as_str().unwrap_or(""));
        let denials = usize::try_from(near["denials"].as_u64().unwrap_or(0)).unwrap_or(usize::MAX);
        let (rule, namespace, last) = (word("rule"), word("namespace"), word("last"));
        let _ = writeln!(
            text,
            "  {}  by rule {rule} of {namespace}, {}, last at {last}",
            groups::who(near),
            output::counted(denials, "time")
        );
    }
    if callers.iter().all(|near| near["caller"].is_null()) {
        text.push_str(
            "Callers are shown by the hashes of their keys: `tidegate why HASH` asks about one. Nodes with \
             `log.identifiers = plain` log names.\n",
        );
    }
    text
}

/// What was looked for in vain, and what to look at.
fn nothing(asked: &LogQuery) -> String {
    let mut text = String::from("Nothing in the log fits");
    match (asked.since > Nanos::ZERO, asked.until < Nanos::MAX) {
        (true, true) => drop(write!(text, " between {} and {} (UTC)", utc(asked.since), utc(asked.until))),
        (true, false) => drop(write!(text, " since {} (UTC)", utc(asked.since))),
        (false, true) => drop(write!(text, " until {} (UTC)", utc(asked.until))),
        (false, false) => {}
    }
    text.push_str(". Of denials it has all, as far as it reaches back (log.decisions_max_mb)");
    text.push_str(if asked.admissions {
        ", of admissions one in a thousand."
    } else {
        "; of admissions a sample: --admissions."
    });
    if asked.identifier.is_some() {
        text.push_str(
            " A caller is found by its whole identifier ('alice,/search'), by one value of it (alice, user=alice), or by \
             its hash.",
        );
    }
    if asked.rule.is_some() || asked.namespace.is_some() {
        text.push_str(
            " Rules and namespaces go by their whole names; without them, all that there are is shown.",
        );
    }
    if asked.request_id.is_some() {
        text.push_str(
            " Of a flood on one key only the first requests of each second are kept with their ids.",
        );
    }
    text.push('\n');
    text
}

/// Of many nodes, those that didn't say anything.
fn silence(nodes: &Value) -> String {
    let mut text = String::new();
    let (asked, answered) = (&nodes["asked"], &nodes["answered"]);
    if nodes.is_object() && asked != answered {
        let _ = writeln!(text, "Only {answered} of {asked} nodes answered.");
    }
    for name in nodes["silent"].as_array().into_iter().flatten().filter_map(Value::as_str) {
        let _ = writeln!(text, "  no answer from {}", plain(name));
    }
    for problem in nodes["problems"].as_array().into_iter().flatten() {
        let word = |name: &str| plain(problem[name].as_str().unwrap_or(""));
        let _ = writeln!(text, "  {}: {}", word("node"), word("problem"));
    }
    text
}
