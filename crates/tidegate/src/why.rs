//! `tidegate why`: why a caller was denied, from a running node or from the files of its log.
//!
//! Both answer with the same JSON; people get it in words.

mod command_line;
mod time;

use crate::ask::{Form, Whom};
use crate::output::{self, plain};
use crate::rules_client::{Client, RulesError};
use crate::settings::{SettingErrors, Settings};
pub(crate) use command_line::{command, options};
use serde_json::Value;
use std::fmt::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;
use tidegate_decisions::ReadError;
use tidegate_decisions::why::Audience;
use tidegate_node::clock::Clock;
use tidegate_node::journal::asked::Asked;

/// What was typed.
#[derive(Debug)]
pub(crate) struct Options {
    /// Times are in [`Typed`].
    asked: Asked,
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
    Read(#[from] ReadError),
    #[error(
        "{0:?} isn't a time; write it as 03:47 or 2026-11-16T03:47:00Z (UTC), or as 10m for ten minutes ago (s, m, h, d)"
    )]
    Time(String),
    #[error("what was read isn't an answer about decisions; check the address")]
    Foreign,
}

/// 0: something was found; 1: nothing was.
pub(crate) fn run(whom: &Whom, mut options: Options) -> Result<ExitCode, WhyError> {
    (options.asked.since, options.asked.until) = options.typed.range(Clock::system().now().now)?;
    let answer = match &options.log {
        Some(directory) => {
            let secret = Settings::secret(whom.settings.clone())?;
            let json = options.asked.answer(directory, &secret, Audience::Operator)?;
            serde_json::from_str(&json).map_err(|_| WhyError::Foreign)?
        }
        None => ask_nodes(whom, &options)?,
    };
    match options.form {
        Form::Json => output::print(&format!("{answer}\n")),
        Form::Text => output::print(&in_words(&answer)),
    }
    let is_empty = |name: &str| answer[name].as_array().is_none_or(Vec::is_empty);
    Ok(ExitCode::from(u8::from(is_empty("decisions") && is_empty("counted"))))
}

/// Of several nodes, all of it together, the newest first.
fn ask_nodes(whom: &Whom, options: &Options) -> Result<Value, WhyError> {
    let admin = match options.admin.as_slice() {
        _ if let Some(control) = &options.control => vec![control.clone()],
        [] => vec![format!("http://{}", Settings::listen_admin(whom.settings.clone())?)],
        given => given.to_vec(),
    };
    let path = format!("/v1/why?{}", options.asked.query());
    let mut all: Option<Value> = None;
    for url in admin {
        let (token, authorities) = (whom.token.clone(), whom.authorities.clone());
        let whom = Whom { url: None, token, authorities, settings: whom.settings.clone() };
        let mut answer = Client::at(url, whom)?.get(&path)?;
        let Some(all) = &mut all else {
            all = Some(answer);
            continue;
        };
        for name in ["decisions", "counted"] {
            let more = answer[name].as_array_mut().map(std::mem::take).unwrap_or_default();
            all[name].as_array_mut().ok_or(WhyError::Foreign)?.extend(more);
        }
        all["is_cut"] = (all["is_cut"] == true || answer["is_cut"] == true).into();
    }
    let mut all = all.ok_or(WhyError::Foreign)?;
    let decisions = all["decisions"].as_array_mut().ok_or(WhyError::Foreign)?;
    decisions.sort_by(|a, b| b["at"].as_str().cmp(&a["at"].as_str()));
    Ok(all)
}

fn in_words(answer: &Value) -> String {
    let mut text = String::new();
    let decisions = answer["decisions"].as_array().map_or(&[][..], Vec::as_slice);
    for decision in decisions {
        let word = |name: &str| plain(decision[name].as_str().unwrap_or(""));
        let _ = writeln!(text, "{}", word("sentence"));
        let mut known = Vec::new();
        for (name, shown) in [
            ("cause", "cause"),
            ("path", "path"),
            ("shard", "shard"),
            ("node", "node"),
            ("request", "request"),
        ] {
            if decision[name].is_string() {
                known.push(format!("{shown} {}", word(name)));
            }
        }
        let _ = writeln!(text, "  {}", known.join(", "));
        for (name, shown) in [("unwell", "unwell then"), ("changed_before", "changed before")] {
            for event in decision[name].as_array().into_iter().flatten() {
                let word = |name: &str| plain(event[name].as_str().unwrap_or(""));
                let [what, subject, since, more] = ["what", "subject", "since", "text"].map(word);
                let line = format!("{shown}: {what} {subject} since {since} {more}");
                let _ = writeln!(text, "  {}", line.split_whitespace().collect::<Vec<_>>().join(" "));
            }
        }
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
        text.push_str(
            "Nothing in the log fits. Of admissions it has a sample (--admissions), of denials all.\n",
        );
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
