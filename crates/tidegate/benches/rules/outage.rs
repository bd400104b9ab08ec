//! Target 4: the control plane dies, then all brokers, then nodes are restarted. What is enforced stays, and when all
//! are back, everybody has the newest within a second.

use crate::Setting;
use crate::client::Client;
use crate::figures::{Bounds, Figures, count, note};
use crate::scene::{RULES, Running, override_of, push, version_of};
use crate::time::{Stopwatch, poll};
use serde_json::json;
use std::time::Duration;

const BAR: u8 = 4;
const BROKERS: usize = 3;
const NODES: usize = 6;
const LIMIT: u64 = 7;
const ROUNDS: u64 = 5;
const SOON: Duration = Duration::from_secs(30);

pub(crate) fn measure(_setting: &Setting) -> Result<(), String> {
    note(
        BAR,
        "one control plane, 3 brokers, 6 nodes; 5 rounds. A change is made as soon as the control plane answers again, \
         and the time is from then to the last node that goes by it",
    );
    let mut control = Running::control()?;
    let mut brokers: Vec<Running> =
        (0..BROKERS).map(|_| Running::broker(&control)).collect::<Result<_, _>>()?;
    let servers: Vec<&Running> = brokers.iter().collect();
    let mut nodes: Vec<Running> =
        (0..NODES).map(|_| Running::node(&servers, &[])).collect::<Result<_, _>>()?;
    push(&control, RULES)?;
    let mut version = control.client()?.change("PUT", "/v1/overrides", &override_of("vip", LIMIT))?;
    let figures = Figures::of(BAR, "killed, restarted and back");
    let mut wrong = 0;
    for round in 0..ROUNDS {
        reached(&nodes, version)?;
        control.kill();
        wrong += wrong_answers(&nodes, &format!("{round}-a"))?;
        brokers.iter_mut().for_each(Running::kill);
        wrong += wrong_answers(&nodes, &format!("{round}-b"))?;
        for node in &mut nodes {
            node.kill();
            node.start()?;
        }
        wrong += wrong_answers(&nodes, &format!("{round}-c"))?;
        control.start()?;
        brokers.iter_mut().try_for_each(Running::start)?;
        let user = format!("back-{round}");
        version = poll("the control plane", SOON, || {
            control.client().ok()?.change("PUT", "/v1/overrides", &override_of(&user, LIMIT)).ok()
        })?;
        let stopwatch = Stopwatch::start();
        reached(&nodes, version)?;
        figures.worst("converged after, s", stopwatch.elapsed().as_secs_f64(), Bounds::AtMost(1.0));
    }
    figures.worst("answers other than the rules say", count(wrong), Bounds::AtMost(0.0));
    Ok(())
}

fn reached(nodes: &[Running], version: u64) -> Result<(), String> {
    for node in nodes {
        let mut client = node.client()?;
        poll(&format!("version {version}"), SOON, || {
            (version_of(&mut client).ok()? >= version).then_some(())
        })
        .map_err(|problem| format!("{problem}\n{}", node.log()))?;
    }
    Ok(())
}

/// The override and the rule itself, at every node, for callers that nobody knows yet.
fn wrong_answers(nodes: &[Running], name: &str) -> Result<usize, String> {
    let mut wrong = 0;
    for node in nodes {
        let mut client = Client::connect(node.http)?;
        for (user, limit) in [("vip", LIMIT), (&*format!("somebody-{name}"), 100)] {
            let body = json!({ "namespace": "api", "attributes": { "user": user }, "cost": 0 }).to_string();
            let (_, answer) = client.ask("POST", "/v1/check", &body)?;
            wrong += usize::from(answer["limits"][0]["limit"].as_u64() != Some(limit));
        }
    }
    Ok(wrong)
}
