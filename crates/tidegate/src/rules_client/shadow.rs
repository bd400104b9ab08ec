//! `tidegate rules shadow-report`: whom shadow rules would have denied, over all nodes that are asked.

use super::RulesError;
use super::client::Client;
use super::command_line::ShadowReport;
use crate::ask::{Form, NodeArguments};
use crate::output::{self, Colour, Colours, grouped, plain};
use crate::settings::Settings;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::process::ExitCode;

/// Callers of a rule that are shown.
const CALLERS_SHOWN: usize = 20;

#[derive(Default)]
struct OfRule {
    denials: u64,
    /// Denials of each, and by how many of them it may be too high.
    callers: BTreeMap<String, (u64, u64)>,
}

type Rules = BTreeMap<(String, String, String), OfRule>;

pub(super) fn run(whom: &NodeArguments, report: &ShadowReport) -> Result<ExitCode, RulesError> {
    let admin = match report.admin.as_slice() {
        [] => vec![format!("http://{}", Settings::listen_admin(whom.settings.clone())?)],
        given => given.to_vec(),
    };
    let mut rules = Rules::new();
    for url in &admin {
        let whom = NodeArguments {
            url: None,
            token: whom.token.clone(),
            authorities: whom.authorities.clone(),
            settings: whom.settings.clone(),
        };
        add(&mut rules, &Client::at(url.clone(), whom)?.get("/v1/shadow")?);
    }
    output::print(&match report.form {
        Form::Json => as_json(&rules),
        Form::Text => in_words(&rules, Colours::of_stdout()),
    });
    Ok(ExitCode::SUCCESS)
}

fn add(rules: &mut Rules, answer: &Value) {
    for rule in answer["rules"].as_array().into_iter().flatten() {
        let text = |name: &str| rule[name].as_str().unwrap_or("").to_owned();
        let of_rule = rules.entry((text("tenant"), text("namespace"), text("rule"))).or_default();
        of_rule.denials += rule["denials"].as_u64().unwrap_or(0);
        for caller in rule["callers"].as_array().into_iter().flatten() {
            let name = caller["identifier"].as_str().unwrap_or("").to_owned();
            let counts = of_rule.callers.entry(name).or_default();
            counts.0 += caller["denials"].as_u64().unwrap_or(0);
            counts.1 += caller["at_most_too_many"].as_u64().unwrap_or(0);
        }
    }
}

fn sorted(of_rule: &OfRule) -> Vec<(&String, u64, u64)> {
    let mut callers: Vec<_> =
        of_rule.callers.iter().map(|(name, (denials, error))| (name, *denials, *error)).collect();
    callers.sort_by_key(|(_, denials, _)| std::cmp::Reverse(*denials));
    callers
}

fn as_json(rules: &Rules) -> String {
    let rule = |((tenant, namespace, rule), of_rule): (&(String, String, String), &OfRule)| {
        let caller = |(name, denials, error): (&String, u64, u64)| json!({ "identifier": name, "denials": denials, "at_most_too_many": error });
        json!({
            "tenant": tenant,
            "namespace": namespace,
            "rule": rule,
            "denials": of_rule.denials,
            "callers": sorted(of_rule).into_iter().map(caller).collect::<Vec<_>>(),
        })
    };
    format!("{}\n", json!({ "rules": rules.iter().map(rule).collect::<Vec<_>>() }))
}

fn in_words(rules: &Rules, colours: Colours) -> String {
    if rules.is_empty() {
        return "no shadow rule would have denied anything since these nodes started\n".to_owned();
    }
    let count = |number: u64| grouped(usize::try_from(number).unwrap_or(usize::MAX));
    let mut text = String::new();
    for ((tenant, namespace, rule), of_rule) in rules {
        let heading = format!(
            "{}/{}/{}: would have denied {} requests",
            plain(tenant),
            plain(namespace),
            plain(rule),
            count(of_rule.denials)
        );
        // Writing to a String can't fail.
        let _ = writeln!(text, "{}", colours.paint(Colour::Bold, &heading));
        let callers = sorted(of_rule);
        for (name, denials, error) in callers.iter().take(CALLERS_SHOWN) {
            let about =
                if *error > 0 { format!(" (at least {})", count(denials - error)) } else { String::new() };
            let _ = writeln!(text, "  {:>12}  {}{about}", count(*denials), plain(name));
        }
        if callers.len() > CALLERS_SHOWN {
            let _ = writeln!(text, "  and {} more callers; --json lists them", callers.len() - CALLERS_SHOWN);
        }
    }
    text
}
