//! Resident memory for each of a million keys, beside peers.

use super::Length;
use super::cases::{not_measured, picture};
use super::everybody::{Everybody, LASTING, SubjectEndpoint};
use super::figures::spread;
use super::program::Programs;
use crate::chart::{Bar, Group, svg};
use crate::report::{median, verdict};
use crate::steps::output_of;
use std::fmt::Write as _;
use std::path::Path;

/// A table that doubles when it is seven eighths full has the most room free at the first, the least at the second.
const KEYS: [u32; 2] = [1_000_000, 1_800_000];
const BYTES_MAX: f64 = 96.0;
const TITLE: &str = "Memory per key";

pub(super) fn memory(programs: &Programs, length: Length) -> Result<String, String> {
    let mut found: Vec<(&str, Vec<f64>)> = Vec::new();
    let mut add = |name, bytes: f64| {
        println!("    {name}: {bytes:.1} B");
        match found.iter_mut().find(|(known, _)| *known == name) {
            Some((_, values)) => values.push(bytes),
            None => found.push((name, vec![bytes])),
        }
    };
    let table = Programs::built("tidegate-node", "memory")?;
    let governor = Programs::built("tidegate-server", "governor")?;
    let mut missing = Vec::new();
    let counts = if length == Length::Quick { &KEYS[..1] } else { &KEYS[..] };
    for &keys in counts {
        add("Tidegate's table, in process", in_process(&table, keys)?);
        add("governor, in process", in_process(&governor, keys)?);
        let everybody = Everybody::start(programs, "memory")?;
        for asked in everybody.asked().iter().filter(|asked| is_counted(asked.name)) {
            add(asked.name, bytes_per_key(programs, asked, keys)?);
        }
        missing = everybody.missing;
    }
    let group = Group {
        title: "bytes per key".to_owned(),
        bars: found
            .iter()
            .map(|(name, values)| Bar {
                label: (*name).to_owned(),
                values: values.clone(),
                is_ours: name.starts_with("Tidegate"),
            })
            .collect(),
    };
    let subtitle = "resident memory beyond that of a server with a thousand keys; less is better";
    let mut text =
        picture("memory", TITLE, &svg(TITLE, subtitle, &[group], |bytes| format!("{bytes:.0} B")))?;
    let _ = write!(
        text,
        "\n{} keys of 12 characters. Each key is asked for at least once (`tidegate bench … --in-turn --keys N`), with limits \
         that remember a request for minutes (`{LASTING}`: burst, count, seconds), so that nothing expires meanwhile. A figure \
         is the resident memory of a fresh server, minus its memory after a thousand keys over the same connections, divided \
         by the number of keys. Of several numbers of keys, the figure is the largest (lowest–highest), because a table that \
         has just doubled has the most free room. *In process* is the data structure alone; governor's keys are `String`s. \
         nginx is missing, because it reserves its memory beforehand.\n\n\
         | subject | bytes per key | target | |\n|---|---|---|---|\n",
        counts.iter().map(u32::to_string).collect::<Vec<_>>().join(" and ")
    );
    for (name, values) in &found {
        let judged = if name.starts_with("Tidegate") {
            format!("≤ {BYTES_MAX} | {}", verdict(median(values) <= BYTES_MAX))
        } else {
            " | ".to_owned()
        };
        let _ = writeln!(text, "| {name} | {} | {judged} |", spread(values, 0));
    }
    Ok(text + &not_measured(&missing))
}

/// Each server once, by the protocol that fills it soonest.
fn is_counted(name: &str) -> bool {
    !["Tidegate, HTTP", "Tidegate, gRPC", "throttlecrab, HTTP", "nginx limit_req, HTTP"].contains(&name)
}

fn in_process(program: &Path, keys: u32) -> Result<f64, String> {
    let words = ["--keys".to_owned(), keys.to_string()];
    let printed = output_of(&program.display().to_string(), &words)?;
    let number = printed.split_once("bytes_per_key=").and_then(|(_, rest)| rest.split_whitespace().next());
    number.and_then(|number| number.parse().ok()).ok_or_else(|| format!("printed something else: {printed}"))
}

fn bytes_per_key(programs: &Programs, asked: &SubjectEndpoint<'_>, keys: u32) -> Result<f64, String> {
    let at_once: &[&str] = match asked.protocol {
        "RESP" => &["-p", "64"],
        "gRPC" => &["-c", "4", "-p", "32"],
        _ => &[],
    };
    let run = |keys: &str, seconds: f64| {
        let seconds = seconds.to_string();
        let words = ["--in-turn", "--warm-up", "0", "--keys", keys, "-d", &seconds];
        asked.generator(&[at_once, &words].concat()).run(&programs.tidegate, asked.server)
    };
    let (wanted, keys) = (f64::from(keys), keys.to_string());
    let mut per_second = run("1000", 1.0)?.per_second;
    let before = asked.server.resident_bytes();
    for _ in 0..5 {
        let seconds = (1.3 * wanted / per_second).ceil();
        let sample = run(&keys, seconds)?;
        if sample.errors > 0.0 {
            return Err(format!("{}: {} errors while it was filled", asked.name, sample.errors));
        }
        per_second = sample.per_second;
        if per_second * seconds >= wanted {
            return Ok((asked.server.resident_bytes() - before) / wanted);
        }
    }
    Err(format!("{} gets slower with each run: {per_second:.0}/s", asked.name))
}
