//! A run's figures, as a table and as JSON.

use crate::output::{Colour, Colours, counted, grouped};
use serde_json::{Value, json};
use std::fmt::Write as _;
use tidegate_sim::fleet::{FigureVerdict, FleetReport, Plan};

pub(crate) fn text(name: &str, plan: &Plan, seed: u64, outcome: &FleetReport) -> String {
    let colours = Colours::of_stdout();
    let mut text = format!("{}: {}\n", colours.paint(Colour::Bold, name), plan.title);
    // Writing to a string can't fail.
    let _ = writeln!(text, "{}", subtitle(plan, seed, outcome));
    let _ = writeln!(text, "compared with: {}\n", plan.beside.name());
    let _ = writeln!(
        text,
        "{:<28} {:>10}  {:>12} {:>11} {:>11}",
        "figure", "seconds", "expected", "tidegate", "compared"
    );
    for judged in &outcome.judged {
        let verdict = match judged.holds() {
            None => String::new(),
            Some(true) => colours.paint(Colour::Green, "holds"),
            Some(false) => colours.paint(Colour::Red, "misses"),
        };
        let line = format!(
            "{:<28} {:>10}  {:>12} {:>11} {:>11}  {verdict}",
            judged.figure.name(),
            format!("{}–{}", judged.from_s, judged.until_s),
            expected(judged),
            shown(judged.ours),
            shown(judged.beside),
        );
        let _ = writeln!(text, "{}", line.trim_end());
    }
    text
}

/// What was simulated, in a line.
pub(crate) fn subtitle(plan: &Plan, seed: u64, outcome: &FleetReport) -> String {
    let count = |number: u64, noun| counted(usize::try_from(number).unwrap_or(usize::MAX), noun);
    let keys = plan.keys.iter().map(|keys| keys.get_ref().count).sum();
    let scale = if plan.scale == 1 {
        "full size".to_owned()
    } else {
        format!("rates, limits and keys at 1/{}", plan.scale)
    };
    format!(
        "{}, {}, {} each, {}, {} s, {} requests, {scale}, seed {seed}",
        count(plan.fleet.regions, "region"),
        count(plan.fleet.nodes, "node"),
        count(plan.fleet.shards, "shard"),
        count(keys, "key"),
        plan.seconds,
        grouped(usize::try_from(outcome.requests).unwrap_or(usize::MAX)),
    )
}

fn expected(judged: &FigureVerdict) -> String {
    match (judged.least, judged.most) {
        (None, None) => String::new(),
        (Some(least), None) => format!("≥ {least}"),
        (None, Some(most)) => format!("≤ {most}"),
        (Some(least), Some(most)) => format!("{least}–{most}"),
    }
}

/// As many digits as say something.
fn shown(value: f64) -> String {
    match value.abs() {
        size if size >= 1000.0 => grouped(format!("{value:.0}").parse().unwrap_or(0)),
        size if size >= 100.0 => format!("{value:.0}"),
        size if size >= 10.0 => format!("{value:.1}"),
        _ => format!("{value:.3}"),
    }
}

pub(crate) fn json(name: &str, plan: &Plan, seed: u64, outcome: &FleetReport) -> Value {
    let figures: Vec<Value> = outcome
        .judged
        .iter()
        .map(|judged| {
            json!({
                "figure": judged.figure.name(),
                "from_s": judged.from_s,
                "until_s": judged.until_s,
                "least": judged.least,
                "most": judged.most,
                "tidegate": judged.ours,
                "compared": judged.beside,
                "holds": judged.holds(),
            })
        })
        .collect();
    let series = &outcome.series;
    json!({
        "scenario": name,
        "title": plan.title,
        "seed": seed,
        "scale": plan.scale,
        "compared_with": plan.beside.name(),
        "requests": outcome.requests,
        "trace": format!("{:016x}", outcome.trace_hash),
        "figures": figures,
        "by_second": {
            "offered": series.offered,
            "perfect": series.perfect,
            "tidegate": series.ours,
            "compared": series.beside,
            "store_operations": series.operations,
            "store_operations_compared": series.operations_beside,
            "sql_rows_written": series.rows_written,
            "sql_rows_written_compared": series.rows_written_beside,
            "sql_rows_read": series.rows_read,
            "sql_rows_read_compared": series.rows_read_beside,
        },
    })
}
