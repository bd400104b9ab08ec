//! The rules and their history, for people or programs.

use super::RulesError;
use super::client::{Client, encoded};
use super::command_line::{Get, History};
use super::text_diff::{self, Fate};
use crate::ask::Form;
use crate::output::{self, Colour, Colours, plain};
use jiff::Timestamp;
use serde_json::Value;
use std::fmt::Write as _;
use std::io::{self, IsTerminal as _};
use std::process::ExitCode;
use tidegate_control::plane::json::ChangeJson;
use tidegate_control::plane::override_words;
use tidegate_rules::RuleChange;

pub(super) fn get(client: &Client, get: &Get) -> Result<ExitCode, RulesError> {
    if get.with_overrides {
        return overrides(client, get);
    }
    let mut query = vec!["overrides=true".to_owned()];
    for (name, value) in [("namespace", &get.namespace), ("tenant", &get.tenant)] {
        query.extend(value.as_deref().map(|value| format!("{name}={}", encoded(value))));
    }
    let rules = client.get(&format!("/v1/rules?{}", query.join("&")))?;
    if get.form == Form::Json {
        output::print(&format!("{rules}\n"));
        return Ok(ExitCode::SUCCESS);
    }
    output::print(&as_file(&rules, io::stdout().is_terminal()));
    Ok(ExitCode::SUCCESS)
}

/// Returns rules as a file that a push takes. What isn't part of any document stands above the first `---`, so that
/// pushing the file back changes nothing.
fn as_file(rules: &Value, is_terminal: bool) -> String {
    let mut text = format!("# version {}\n", rules["version"]);
    match (rules["overrides_written"].as_u64(), rules["overrides_left_out"].as_u64()) {
        (Some(_), None) => text.push_str(
            "# There are more than 10,000 overrides, so none are printed; a push leaves them as they are.\n\
             # To see them: tidegate rules get NAMESPACE --overrides\n",
        ),
        (_, Some(left_out)) if left_out > 0 => {
            let overrides = output::counted(usize::try_from(left_out).unwrap_or(usize::MAX), "override");
            // Writing to a String can't fail.
            let _ = writeln!(
                text,
                "# {overrides} of rules that are gone, or have another key now, aren't printed; a push leaves them.\n\
                 # To see them: tidegate rules get NAMESPACE --overrides"
            );
        }
        _ => {}
    }
    if let Some(mode) = rules["fleet_mode"].as_str().filter(|mode| *mode != "enforce") {
        let _ = writeln!(text, "---\nfleet_mode: {}", plain(mode));
    }
    for document in rules["documents"].as_array().map_or(&[][..], Vec::as_slice) {
        text.push_str("---\n");
        let written = document["text"].as_str().unwrap_or("");
        text.push_str(&if is_terminal { without_controls(written) } else { written.to_owned() });
    }
    text
}

/// With its line breaks.
fn without_controls(text: &str) -> String {
    let kept = |c: char| if c == '\n' || c == '\t' || !c.is_control() { c } else { '\u{fffd}' };
    text.replace("\r\n", "\n").chars().map(kept).collect()
}

fn overrides(client: &Client, get: &Get) -> Result<ExitCode, RulesError> {
    let namespace = get.namespace.as_deref().unwrap_or_default();
    let tenant = get.tenant.as_deref().map_or(String::new(), |tenant| format!("&tenant={}", encoded(tenant)));
    let mut after = String::new();
    loop {
        let path = format!("/v1/overrides?namespace={}{tenant}{after}", encoded(namespace));
        let page = client.ask("GET", &path, b"")?;
        output::print(&String::from_utf8_lossy(&page.body));
        match page.next {
            Some(next) if !page.body.is_empty() => after = format!("&after={}", encoded(&next)),
            _ => return Ok(ExitCode::SUCCESS),
        }
    }
}

pub(super) fn history(client: &Client, history: &History) -> Result<ExitCode, RulesError> {
    if let Some(version) = history.version {
        let entry = client.get(&format!("/v1/rules/{version}"))?;
        let text = if history.form == Form::Json { format!("{entry}\n") } else { whole(&entry) };
        output::print(&text);
        return Ok(ExitCode::SUCCESS);
    }
    let mut query = Vec::new();
    for (name, value) in [("namespace", &history.namespace), ("tenant", &history.tenant)] {
        query.extend(value.as_deref().map(|value| format!("{name}={}", encoded(value))));
    }
    for (name, value) in [("before", history.before), ("limit", history.limit)] {
        query.extend(value.map(|value| format!("{name}={value}")));
    }
    let found = client.get(&format!("/v1/rules/history?{}", query.join("&")))?;
    if history.form == Form::Json {
        output::print(&format!("{found}\n"));
        return Ok(ExitCode::SUCCESS);
    }
    let entries = found["history"].as_array().map_or(&[][..], Vec::as_slice);
    let lines: String = entries.iter().map(|entry| format!("{}\n", summary(entry))).collect();
    output::print(if lines.is_empty() { "no changes yet\n" } else { &lines });
    Ok(ExitCode::SUCCESS)
}

/// Until the program is stopped.
pub(super) fn watch(client: &Client, form: Form) -> Result<ExitCode, RulesError> {
    let mut after = client.get("/v1/rules?namespace=")?["version"].as_u64().unwrap_or(0);
    output::print(&format!("at version {after}; waiting for changes\n"));
    loop {
        let news = client.get(&format!("/v1/rules/watch?after={after}"))?;
        after = news["seen"].as_u64().unwrap_or(after);
        for entry in news["entries"].as_array().into_iter().flatten() {
            let text = if form == Form::Json { format!("{entry}\n") } else { whole(entry) };
            output::print(&text);
        }
    }
}

/// `7  2026-11-16 14:02:11Z  alice@laptop  3 changes  more for acme`.
pub(super) fn summary(entry: &Value) -> String {
    let at = entry["at_us"].as_i64().and_then(|micros| Timestamp::from_microsecond(micros).ok());
    let at = at.map_or_else(|| "?".to_owned(), |at| at.strftime("%Y-%m-%d %H:%M:%SZ").to_string());
    let changes = entry["changes"].as_u64().unwrap_or(0);
    let changes = output::counted(usize::try_from(changes).unwrap_or(usize::MAX), "change");
    let text = |name: &str| plain(entry[name].as_str().unwrap_or(""));
    format!("{}  {at}  {}  {changes}  {}", entry["version"], text("author"), text("reason"))
        .trim_end()
        .to_owned()
}

fn whole(entry: &Value) -> String {
    let mut text = format!("{}\n", summary(entry));
    for change in entry["changed"].as_array().into_iter().flatten() {
        let (before, after) = (&change["before"], &change["after"]);
        let of = |value: &Value| value["document"]["text"].as_str().unwrap_or("").to_owned();
        if after["document"].is_object() {
            let name = |field: &str| plain(after["document"][field].as_str().unwrap_or(""));
            let _ = writeln!(text, "  namespace {}, tenant {}", name("namespace"), name("tenant"));
            text.push_str(&text_lines(&of(before), &of(after), Colours::of_stdout()));
        } else {
            for (sign, colour, side) in [("-", Colour::Red, before), ("+", Colour::Green, after)] {
                if let Some(words) = change_words(side) {
                    let line = Colours::of_stdout().paint(colour, &format!("  {sign} {}", plain(&words)));
                    let _ = writeln!(text, "{line}");
                }
            }
        }
    }
    text
}

/// One side of a change that isn't of a document; `None` where there was nothing, or nothing is left.
fn change_words(side: &Value) -> Option<String> {
    let read = serde_json::from_value::<ChangeJson>(side.clone()).ok().and_then(|json| json.change().ok());
    match read {
        Some(RuleChange::Override { value: None, .. }) => None,
        Some(RuleChange::Override { name, value: Some(value) }) => {
            Some(format!("override {name}: {}", override_words(&value)))
        }
        Some(RuleChange::FleetMode(mode)) => Some(format!("fleet mode {mode}")),
        Some(RuleChange::Reset { epoch: 0, .. }) => None,
        Some(RuleChange::Reset { name, epoch }) => Some(format!("{name} started afresh, {}", times(epoch))),
        Some(RuleChange::Document { text: None, .. }) => None,
        Some(RuleChange::Document { text: Some(text), .. }) => Some(text.to_string()),
        // Of a newer control plane.
        None => Some(side.to_string()),
    }
}

fn times(count: u32) -> String {
    output::counted(usize::try_from(count).unwrap_or(usize::MAX), "time")
}

/// What a push changes, or would: in plain words, and then line by line.
pub(super) fn outcome(outcome: &Value, colours: Colours) -> String {
    let mut text = String::new();
    for line in outcome["lines"].as_array().into_iter().flatten() {
        let plain = plain_line(line);
        let painted = match line["sign"].as_str() {
            Some("+") => colours.paint(Colour::Green, &plain),
            Some("-") => colours.paint(Colour::Red, &plain),
            Some("~") => colours.paint(Colour::Yellow, &plain),
            _ => colours.paint(Colour::Bold, &plain),
        };
        let _ = writeln!(text, "{painted}");
    }
    for document in outcome["documents"].as_array().into_iter().flatten() {
        let of = |name: &str| document[name].as_str().unwrap_or("");
        let heading = format!("--- {}/{}", plain(of("tenant")), plain(of("namespace")));
        let _ = writeln!(text, "{}", colours.paint(Colour::Bold, &heading));
        text.push_str(&text_lines(of("before"), of("after"), colours));
    }
    text
}

/// `  + per-user user=acme: limit 5`.
pub(super) fn plain_line(line: &Value) -> String {
    let text = plain(line["text"].as_str().unwrap_or(""));
    match line["sign"].as_str() {
        None | Some("") => text,
        Some(sign) => format!("  {} {text}", plain(sign)),
    }
}

fn text_lines(before: &str, after: &str, colours: Colours) -> String {
    let mut text = String::new();
    for (fate, line) in text_diff::lines(before, after) {
        let line = plain(line);
        let _ = match fate {
            Fate::Stays => writeln!(text, "    {line}"),
            Fate::Goes => writeln!(text, "{}", colours.paint(Colour::Red, &format!("  - {line}"))),
            Fate::Comes => writeln!(text, "{}", colours.paint(Colour::Green, &format!("  + {line}"))),
            Fate::Gap => writeln!(text, "    …"),
        };
    }
    text
}
