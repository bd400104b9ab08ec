//! Target 8: a limit is changed under load. What is admitted follows at once, and what was admitted before still counts.

use crate::Setting;
use crate::client::Client;
use crate::figures::{Bounds, Figures, note};
use crate::scene::{Running, push};
use crate::time::Stopwatch;
use serde_json::json;
use std::thread;
use std::time::Duration;
use tidegate_testkit::Redis;

const BAR: u8 = 8;
const NODES: usize = 3;
const OFFERED_PER_SECOND: u32 = 600;
const RATES: [u32; 5] = [100, 200, 50, 300, 100];
const FIRST: Duration = Duration::from_secs(5);
const AFTER: Duration = Duration::from_secs(10);

pub(crate) fn measure(setting: &Setting) -> Result<(), String> {
    note(
        BAR,
        "3 nodes that share a Redis; 600 requests a second of one caller, spread over them; a rate with a tenth of a \
         second's burst goes from 100 to 200, 50, 300 and 100 a second. The time counts from the push",
    );
    let redis = setting.wait_for(Redis::start());
    let control = Running::control()?;
    let broker = Running::broker(&control)?;
    let arguments = ["--origin-url", &redis.url()];
    let nodes: Vec<Running> =
        (0..NODES).map(|_| Running::node(&[&broker], &arguments)).collect::<Result<_, _>>()?;
    push(&control, &rules(RATES[0]))?;
    let length = (FIRST + AFTER) * u32::try_from(RATES.len()).unwrap_or(1);
    let stopwatch = Stopwatch::start();
    let admitted: Result<Vec<Duration>, String> = thread::scope(|scope| {
        let callers: Vec<_> = nodes
            .iter()
            .enumerate()
            .map(|(at, node)| scope.spawn(move || call(node, at, stopwatch, length)))
            .collect();
        for (index, rate) in (0_u32..).zip(RATES).skip(1) {
            stopwatch.wait_until((FIRST + AFTER) * index);
            push(&control, &rules(rate))?;
        }
        let mut admitted = Vec::new();
        for caller in callers {
            admitted.extend(caller.join().map_err(|_| "a caller panicked")??);
        }
        Ok(admitted)
    });
    let admitted = admitted?;
    for (index, rate) in (0_u32..).zip(RATES).skip(1) {
        let begins = (FIRST + AFTER) * index;
        let share = |from: Duration, length: Duration| {
            let count = admitted.iter().filter(|at| (from..from + length).contains(*at)).count();
            f64::from(u32::try_from(count).unwrap_or(u32::MAX)) / (f64::from(rate) * length.as_secs_f64())
        };
        let before = RATES[usize::try_from(index - 1).unwrap_or(0)];
        let figures = Figures::of(BAR, format!("{before}/s to {rate}/s"));
        figures.worst(
            "admitted in the first 5 s, of what is allowed",
            share(begins, FIRST),
            Bounds::Within(0.8, 1.2),
        );
        figures.worst("in the 10 s after", share(begins + FIRST, AFTER), Bounds::Within(0.95, 1.05));
    }
    Ok(())
}

fn rules(rate: u32) -> String {
    let burst = rate / 10;
    format!("namespace: api\nrules:\n  - {{ name: per-user, key: [user], rate: {rate}/s, burst: {burst} }}\n")
}

/// One node's part of the load; when requests were admitted.
fn call(node: &Running, at: usize, stopwatch: Stopwatch, length: Duration) -> Result<Vec<Duration>, String> {
    let mut client = Client::connect(node.http)?;
    let body = json!({ "namespace": "api", "attributes": { "user": "busy" } }).to_string();
    let nodes = u32::try_from(NODES).unwrap_or(1);
    let apart = Duration::from_secs(1) * nodes / OFFERED_PER_SECOND;
    let mut due = apart * u32::try_from(at).unwrap_or(0) / nodes;
    let mut admitted = Vec::new();
    while due < length {
        stopwatch.wait_until(due);
        let (_, answer) = client.ask("POST", "/v1/check", &body)?;
        if answer["allowed"] == true {
            admitted.push(stopwatch.elapsed());
        }
        due += apart;
    }
    Ok(admitted)
}
