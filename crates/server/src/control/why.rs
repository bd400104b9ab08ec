//! `GET /v1/why` of a control plane or a broker: asks every node that follows it, and puts their answers together.
//!
//! Says which nodes didn't answer, so that nobody takes silence for "nothing happened".

use super::ControlApp;
use super::answer::ControlResponse;
use super::problem::Problem;
use super::write::document;
use crate::access::Caller;
use crate::for_caller;
use crate::refusal::{Code, Refusal};
use crate::why::asked_by;
use serde_json::{Value, json};
use std::time::Duration;
use tidegate_control::stream::{Answers, Asker, NodeAnswer};
use tidegate_decisions::why::Audience;

/// For the slowest node.
const WITHIN: Duration = Duration::from_secs(2);

pub(super) async fn answer(
    app: &ControlApp,
    caller: &Caller,
    query: Option<&str>,
) -> Result<ControlResponse, Problem> {
    let (asked, audience) = asked_by(caller, query)?;
    let asker = match audience {
        Audience::Operator => Asker::Operator,
        Audience::Tenant => Asker::Tenant,
    };
    let answers = app
        .feed
        .ask(&asked.query(), asker, WITHIN)
        .await
        .map_err(|busy| Refusal::new(Code::LogUnavailable, busy.to_string(), "try again in a second"))?;
    // May be many megabytes: not on the thread that heartbeats come from.
    let merging = for_caller::spawn_blocking(move || document(&merged(answers, asked.records_max, audience)));
    let merged = merging
        .await
        .map_err(|_| Refusal::new(Code::LogUnavailable, "the answers can't be put together", "try again"))?;
    Ok(ControlResponse::Json(merged))
}

/// Callers that are named where the one that was asked for isn't found.
const NEAREST_MAX: usize = 5;

fn merged(Answers { answers, silent }: Answers, records_max: usize, audience: Audience) -> Value {
    let asked = answers.len() + silent.len();
    let (mut decisions, mut counted, mut nearest) = (Vec::new(), Vec::new(), Vec::new());
    let (mut is_cut, mut damaged, mut answered) = (false, 0, 0);
    let mut problems = Vec::new();
    for NodeAnswer { node, result, .. } in answers {
        let result = result.and_then(|bytes| {
            serde_json::from_slice::<Value>(&bytes).map_err(|_| "its answer can't be read".to_owned())
        });
        match result {
            Ok(mut result) => {
                answered += 1;
                for (name, all) in
                    [("decisions", &mut decisions), ("counted", &mut counted), ("nearest", &mut nearest)]
                {
                    all.extend(result[name].as_array_mut().map(std::mem::take).unwrap_or_default());
                }
                is_cut |= result["is_cut"] == true;
                damaged += result["damaged"].as_u64().unwrap_or(0);
            }
            Err(problem) => problems.push(json!({ "node": &*node, "problem": problem })),
        }
    }
    nearest.sort_by_key(|one: &Value| std::cmp::Reverse(one["denials"].as_u64()));
    nearest.truncate(NEAREST_MAX);
    if !decisions.is_empty() {
        // Some node knows the one that was asked for.
        nearest.clear();
    }
    decisions.sort_by(|a, b| b["at"].as_str().cmp(&a["at"].as_str()));
    is_cut |= decisions.len() > records_max;
    decisions.truncate(records_max);
    let mut nodes = json!({ "asked": asked, "answered": answered });
    if audience == Audience::Operator {
        nodes["silent"] = silent.iter().map(|node| &**node).collect();
        nodes["problems"] = problems.into();
    }
    json!({
        "decisions": decisions,
        "counted": counted,
        "nearest": nearest,
        "is_cut": is_cut,
        "damaged": damaged,
        "nodes": nodes,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(node: &str, result: Result<&'static str, &str>) -> NodeAnswer {
        let result = result.map(|text| text.as_bytes().into()).map_err(str::to_owned);
        NodeAnswer { node: node.into(), region: "eu".into(), result }
    }

    #[test]
    fn answers_are_put_together_the_newest_first_and_no_more_than_asked_for() {
        let answers = vec![
            answer(
                "a",
                Ok(
                    r#"{"decisions":[{"at":"2026-11-16T03:47:12.480Z"},{"at":"2026-11-16T03:00:00.000Z"}],"counted":[{"denials":7}],"is_cut":false,"damaged":1}"#,
                ),
            ),
            answer(
                "b",
                Ok(
                    r#"{"decisions":[{"at":"2026-11-16T03:47:13.000Z"}],"counted":[],"is_cut":false,"damaged":2}"#,
                ),
            ),
            answer("c", Err("this node keeps no decision log")),
            answer("d", Ok("nonsense")),
        ];
        let merged = merged(Answers { answers, silent: vec!["e".into()] }, 2, Audience::Operator);
        let at: Vec<&str> =
            merged["decisions"].as_array().unwrap().iter().map(|one| one["at"].as_str().unwrap()).collect();
        assert_eq!(at, ["2026-11-16T03:47:13.000Z", "2026-11-16T03:47:12.480Z"]);
        assert_eq!((&merged["is_cut"], &merged["damaged"]), (&json!(true), &json!(3)));
        assert_eq!(merged["counted"], json!([{"denials": 7}]));
        let nodes = &merged["nodes"];
        assert_eq!(
            (&nodes["asked"], &nodes["answered"], &nodes["silent"]),
            (&json!(5), &json!(2), &json!(["e"]))
        );
        assert_eq!(nodes["problems"].as_array().unwrap().len(), 2);
    }

    #[test]
    fn a_tenant_isnt_told_which_nodes_there_are() {
        let answers = Answers { answers: vec![answer("a", Err("busy"))], silent: vec!["b".into()] };
        let nodes = merged(answers, 20, Audience::Tenant)["nodes"].clone();
        assert_eq!(nodes, json!({ "asked": 2, "answered": 0 }));
    }
}
