//! How long answers take when requests come whether the last one was answered or not, at parts of what each subject
//! can take.

use super::Length;
use super::cases::{Case, commands, not_measured, picture};
use super::everybody::{Everybody, SubjectEndpoint};
use super::figures::{Columns, Figures, Of};
use super::program::Programs;
use crate::curves::{Axis, Curve, Panel, Scale, svg};

const PARTS: [(&str, f64); 4] = [("25 %", 0.25), ("50 %", 0.5), ("75 %", 0.75), ("90 %", 0.9)];
const SATURATED: &str = "saturated";
const TITLE: &str = "Tail latency under an open load";

pub(super) fn tail(programs: &Programs, length: Length) -> Result<String, String> {
    let everybody = Everybody::start(programs, "tail")?;
    let asked = everybody.asked();
    let seconds = length.short_seconds().to_string();
    let common = ["--warm-up", "0.5", "-d", &seconds];
    let saturated: Vec<Case<'_>> = asked.iter().map(|asked| asked.case(SATURATED, &common)).collect();
    let mut figures = Figures::default();
    for _ in 0..length.rounds() {
        for (asked, saturated) in asked.iter().zip(&saturated) {
            let most = saturated.add_to(&mut figures, programs)?.per_second;
            for (part, share) in PARTS {
                let rate = format!("{:.0}", most * share);
                asked
                    .case(part, &[&common[..], &["--rate", &rate]].concat())
                    .add_to(&mut figures, programs)?;
            }
        }
    }
    let subtitle =
        "p99 from when a request was due; the last point of a curve is 90 % of saturation; less is better";
    let text = picture("tail", TITLE, &svg(TITLE, subtitle, &panels(&asked, &figures)))?;
    Ok(format!(
        "{text}\n50 connections, 100,000 keys. In the rows `saturated`, each connection sends the next request when the \
         answer has arrived (closed loop). The other rows are an open loop: requests are due at a fixed rate, \
         whether or not earlier ones have been answered. The rate is a part of what the same subject answered just \
         before. Latencies count from when a request was due, so they include the wait for a free connection. `not \
         sent` is the share of requests that were due and still waited at the end. Generator (one thread) and \
         server share two cores. Where the generator keeps nearly one core busy, the subject could do more than is \
         shown here.\n\n{}{}{}",
        figures.table(Columns::Tail),
        not_measured(&everybody.missing),
        commands(&saturated),
    ))
}

/// One for each protocol.
fn panels(asked: &[SubjectEndpoint<'_>], figures: &Figures) -> Vec<Panel> {
    let curve = |asked: &SubjectEndpoint<'_>| Curve {
        label: asked.name.rsplit_once(", ").map_or(asked.name, |(name, _)| name).to_owned(),
        points: PARTS
            .iter()
            .filter_map(|(part, _)| {
                let middle = |of| figures.middle(part, asked.name, of);
                Some((middle(Of::PerSecond)?, middle(Of::P99)?))
            })
            .collect(),
    };
    let panel = |protocol: &str| Panel {
        title: protocol.to_owned(),
        x: Axis { name: "requests/s", scale: Scale::Linear, number: thousands },
        y: Axis { name: "p99", scale: Scale::Log, number: duration },
        curves: asked.iter().filter(|asked| asked.protocol == protocol).map(curve).collect(),
    };
    ["HTTP", "gRPC", "RESP"].map(panel).into()
}

pub(super) fn thousands(number: f64) -> String {
    if number < 1000.0 { format!("{number:.0}") } else { format!("{:.0}k", number / 1000.0) }
}

/// Of microseconds.
pub(super) fn duration(micros: f64) -> String {
    if micros < 1000.0 { format!("{micros:.0} µs") } else { format!("{:.0} ms", micros / 1000.0) }
}
