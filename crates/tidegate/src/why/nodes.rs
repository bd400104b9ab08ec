//! Asking one node or several, or a control plane that asks for us.
//!
//! Of several, those that answer are enough: which didn't is told beside what the others said.

use super::{Options, WhyError};
use crate::ask::NodeArguments;
use crate::rules_client::{Client, RulesError};
use crate::settings::Settings;
use serde_json::{Value, json};

/// Of several nodes, all of it together, the newest first.
pub(super) fn ask(whom: &NodeArguments, options: &Options) -> Result<Value, WhyError> {
    let addresses = match options.admin.as_slice() {
        _ if let Some(control) = &options.control => vec![control.clone()],
        [] => vec![format!("http://{}", Settings::listen_admin(whom.settings.clone())?)],
        given => given.to_vec(),
    };
    let path = format!("/v1/why?{}", options.query.query());
    let (mut all, mut failed): (Option<Value>, Vec<(String, RulesError)>) = (None, Vec::new());
    for url in &addresses {
        match one(whom, url, &path) {
            Ok(answer) => merge(&mut all, answer)?,
            Err(error) => failed.push((url.clone(), error)),
        }
    }
    let Some(mut all) = all else {
        return Err(failed.into_iter().next().map_or(WhyError::Foreign, |(_, error)| error.into()));
    };
    if !failed.is_empty() {
        let problem =
            |(url, error): &(String, RulesError)| json!({ "node": url, "problem": error.to_string() });
        let problems: Vec<Value> = failed.iter().map(problem).collect();
        let (asked, answered) = (addresses.len(), addresses.len() - failed.len());
        all["nodes"] = json!({ "asked": asked, "answered": answered, "silent": [], "problems": problems });
    }
    let decisions = all["decisions"].as_array_mut().ok_or(WhyError::Foreign)?;
    decisions.sort_by(|a, b| b["at"].as_str().cmp(&a["at"].as_str()));
    Ok(all)
}

fn one(whom: &NodeArguments, url: &str, path: &str) -> Result<Value, RulesError> {
    let (token, authorities) = (whom.token.clone(), whom.authorities.clone());
    let whom = NodeArguments { url: None, token, authorities, settings: whom.settings.clone() };
    Client::at(url.to_owned(), whom)?.get(path).map_err(|error| match error {
        // The listener for callers knows no such path, and says which ones it knows.
        RulesError::Refused(said) if said.contains("there is nothing at") => RulesError::Refused(format!(
            "{url} can't say why: it isn't an admin listener; give the address of one (listen.admin, port 9090 by default)"
        )),
        other => other,
    })
}

fn merge(all: &mut Option<Value>, mut answer: Value) -> Result<(), WhyError> {
    let Some(all) = all else {
        *all = Some(answer);
        return Ok(());
    };
    for name in ["decisions", "counted"] {
        let more = answer[name].as_array_mut().map(std::mem::take).unwrap_or_default();
        all[name].as_array_mut().ok_or(WhyError::Foreign)?.extend(more);
    }
    // Nodes of an earlier release name none.
    let nearest = answer["nearest"].as_array_mut().map(std::mem::take).unwrap_or_default();
    if let Some(all) = all["nearest"].as_array_mut() {
        all.extend(nearest);
    }
    all["is_cut"] = (all["is_cut"] == true || answer["is_cut"] == true).into();
    let damaged = |of: &Value| of["damaged"].as_u64().unwrap_or(0);
    all["damaged"] = (damaged(all) + damaged(&answer)).into();
    Ok(())
}
