//! Changes: looked at first, then asked about, then made upon the version that was looked at.

use super::client::{Client, author};
use super::command_line::{Files, Single, Terms};
use super::{RulesError, show};
use crate::output::{self, Colour, Colours, counted};
use crate::rules_source;
use serde_json::{Map, Value, json};
use std::io::{self, BufRead as _, IsTerminal as _, Write as _};
use std::process::ExitCode;

pub(super) fn push(client: &Client, files: &Files, terms: &Terms) -> Result<ExitCode, RulesError> {
    let body = files_body(files)?;
    propose(client, "POST", "/v1/rules", body, terms)
}

pub(super) fn diff(client: &Client, files: &Files) -> Result<ExitCode, RulesError> {
    let mut body = files_body(files)?;
    body["dry_run"] = true.into();
    let preview = client.json("POST", "/v1/rules", &body)?;
    output::print(&show::outcome(&preview, Colours::of_stdout()));
    let changes = preview["changes"].as_u64().unwrap_or(0);
    if changes == 0 {
        output::print(&format!("nothing would change: the rules are at version {}\n", preview["version"]));
    }
    Ok(if changes == 0 { ExitCode::SUCCESS } else { ExitCode::from(1) })
}

fn files_body(files: &Files) -> Result<Value, RulesError> {
    let mut list = Vec::new();
    for source in rules_source::read(&files.path)? {
        // What isn't UTF-8 is told of by the reader there, with its place.
        list.push(json!({ "name": source.name, "text": String::from_utf8_lossy(&source.text) }));
    }
    let replace = if files.replaces_all { "all" } else { "named" };
    Ok(json!({ "files": list, "replace": replace, "prune_overrides": files.prunes_overrides }))
}

pub(super) fn single(client: &Client, ask: &Single, terms: &Terms) -> Result<ExitCode, RulesError> {
    let mut body = ask.body.clone();
    if let Value::Object(entry) = &mut body["override"] {
        add_attributes(entry, &ask.attributes)?;
    }
    if body["override"].is_null()
        && let Value::Object(fields) = &mut body
    {
        fields.remove("override");
    }
    propose(client, ask.method, ask.path, body, terms)
}

fn add_attributes(entry: &mut Map<String, Value>, attributes: &[String]) -> Result<(), RulesError> {
    for attribute in attributes {
        let (name, value) = attribute
            .split_once('=')
            .filter(|(name, _)| !name.is_empty())
            .ok_or_else(|| RulesError::Attribute(attribute.clone()))?;
        entry.insert(name.to_owned(), value.into());
    }
    Ok(())
}

fn propose(
    client: &Client,
    method: &'static str,
    path: &str,
    mut body: Value,
    terms: &Terms,
) -> Result<ExitCode, RulesError> {
    body["author"] = author().into();
    body["reason"] = terms.reason.clone().unwrap_or_default().into();
    if let Some(version) = terms.if_version {
        body["if_version"] = version.into();
    }
    let mut preview = body.clone();
    preview["dry_run"] = true.into();
    let preview = client.json(method, path, &preview)?;
    output::print(&show::outcome(&preview, Colours::of_stdout()));
    if preview["changes"].as_u64() == Some(0) {
        output::print(&format!("nothing to change: the rules are at version {}\n", preview["version"]));
        return Ok(ExitCode::SUCCESS);
    }
    if !terms.is_confirmed {
        confirm("make this change?")?;
        // What was shown is what is made.
        body["if_version"] = preview["version"].clone();
    }
    let outcome = client.json(method, path, &body)?;
    let changes = usize::try_from(outcome["changes"].as_u64().unwrap_or(0)).unwrap_or(usize::MAX);
    let version = Colours::of_stdout().paint(Colour::Green, &format!("version {}", outcome["version"]));
    output::print(&format!("{}: the rules are at {version}\n", counted(changes, "change")));
    Ok(ExitCode::SUCCESS)
}

pub(super) fn confirm(question: &str) -> Result<(), RulesError> {
    if !io::stdin().is_terminal() || !io::stdout().is_terminal() {
        return Err(RulesError::NobodyToAsk);
    }
    output::print(&format!("{question} [y/N] "));
    // Who can't be shown the question can't be answered either.
    let _ = io::stdout().flush();
    let mut answer = String::new();
    let read = io::stdin().lock().read_line(&mut answer);
    if read.is_ok() && matches!(answer.trim(), "y" | "Y" | "yes" | "Yes" | "YES") {
        Ok(())
    } else {
        Err(RulesError::Declined)
    }
}
