//! How the cost of a request grows: with connections, with limits in it, with nodes of a region.

use super::Length;
use super::cases::{Case, commands, measure_warm, picture};
use super::everybody::ours;
use super::figures::{Columns, Figures, Of, spread};
use super::generator::Sample;
use super::program::Programs;
use super::server::Server;
use super::subjects::{self, Tidegate};
use super::tail::{duration, thousands};
use crate::curves::{Axis, Curve, Panel, Scale, svg};
use std::fmt::Write as _;

const CONNECTIONS: [(&str, f64); 5] =
    [("1", 1.0), ("10", 10.0), ("100", 100.0), ("1000", 1000.0), ("10000", 10_000.0)];
const LIMITS: [(&str, f64); 5] = [("1", 1.0), ("2", 2.0), ("3", 3.0), ("4", 4.0), ("5", 5.0)];
const TITLE: &str = "How a node scales";

pub(super) fn scaling(programs: &Programs, length: Length) -> Result<String, String> {
    let node = subjects::tidegate(programs, "scaling")?;
    let seconds = length.short_seconds().to_string();
    let common = ["--warm-up", "0.5", "-d", &seconds];
    let asked = ours(&node);
    let over = |subject: usize, flag: &str, numbers: &[(&'static str, f64)]| -> Vec<Case<'_>> {
        let case = |&(number, _): &(&'static str, f64)| {
            asked[subject].case(number, &[&common[..], &[flag, number]].concat())
        };
        numbers.iter().map(case).collect()
    };
    let by_connections: Vec<Case<'_>> =
        (0..asked.len()).flat_map(|subject| over(subject, "-c", &CONNECTIONS)).collect();
    let connections = measure_warm(programs, &by_connections, length.rounds())?;
    let by_limits = over(0, "--limits", &LIMITS);
    let limits = measure_warm(programs, &by_limits, length.rounds())?;
    let names = asked.each_ref().map(|asked| asked.name);
    let panels = [
        panel("Connections", "requests/s", &connections, &names, &CONNECTIONS, Of::PerSecond),
        panel("Connections", "p99", &connections, &names, &CONNECTIONS, Of::P99),
        panel("Limits in a request", "server CPU per request", &limits, &names[..1], &LIMITS, Of::Cpu),
    ];
    let shown =
        picture("scaling", TITLE, &svg(TITLE, "medians of the rounds, as fast as answers come", &panels))?;
    Ok(format!(
        "{shown}\nIn the first table, the load is the number of connections to one node, with 100,000 keys. Each connection \
         sends the next request when the answer has arrived (closed loop). So the p99 is mostly the time that a \
         request waits behind those of the other connections. The processor time includes opening the connections. \
         For the number of keys, see the section `keys`.\n\n{}\n\
         In the second table, the load is the number of limits in one request, all or none, over 50 connections.\n\n{}{}{}",
        connections.table(Columns::Saturated),
        limits.table(Columns::Saturated),
        nodes(programs, length)?,
        commands(&[by_connections, by_limits].concat()),
    ))
}

fn panel(
    of_what: &str,
    name: &'static str,
    figures: &Figures,
    subjects: &[&'static str],
    numbers: &[(&'static str, f64)],
    of: Of,
) -> Panel {
    let curve = |&subject: &&'static str| Curve {
        label: subject.to_owned(),
        points: numbers
            .iter()
            .filter_map(|(load, number)| Some((*number, figures.middle(load, subject, of)?)))
            .collect(),
    };
    let (number, x_scale): (fn(f64) -> String, _) = match of {
        Of::PerSecond => (thousands, Scale::Log),
        Of::Cpu => (duration, Scale::Linear),
        Of::P99 => (duration, Scale::Log),
    };
    let y_scale = if of == Of::P99 { Scale::Log } else { Scale::Linear };
    Panel {
        title: of_what.to_owned(),
        x: Axis { name: "how many", scale: x_scale, number: |count| format!("{count}") },
        y: Axis { name, scale: y_scale, number },
        curves: subjects.iter().map(curve).collect(),
    }
}

const RATE: u32 = 6_000;

/// What was seen of nodes that share an origin, in one round.
struct Shared {
    per_second: f64,
    of_nodes: f64,
    of_redis: f64,
    p99_micros: f64,
}

/// The same requests by one, two and three nodes of a region.
fn nodes(programs: &Programs, length: Length) -> Result<String, String> {
    let mut found: [Vec<Shared>; 3] = Default::default();
    for _ in 0..length.rounds() {
        for (count, found) in (1..).zip(&mut found) {
            found.push(region(programs, count, length)?);
        }
    }
    let mut text = format!(
        "\nIn the third table, the nodes of a region share one redis-server. Together they receive {RATE} requests a \
         second (`--rate`, an open loop) for 10,000 keys, each limited to 1,000,000 a minute in the region. All \
         nodes run on the same two cores, so more nodes can't answer more requests. The table shows what sharing \
         costs. The p99 is that of the slowest node.\n\n\
         | nodes | requests/s in all | CPU per request of the nodes, µs | of redis-server, µs | p99, µs |\n|---|---|---|---|---|\n"
    );
    for (count, found) in (1..).zip(&found) {
        let column = |value: fn(&Shared) -> f64, digits: usize| {
            spread(&found.iter().map(value).collect::<Vec<_>>(), digits)
        };
        let _ = writeln!(
            text,
            "| {count} | {} | {} | {} | {} |",
            column(|shared| shared.per_second, 0),
            column(|shared| shared.of_nodes, 1),
            column(|shared| shared.of_redis, 1),
            column(|shared| shared.p99_micros, 0)
        );
    }
    Ok(text)
}

fn region(programs: &Programs, count: u32, length: Length) -> Result<Shared, String> {
    let (redis, port) = subjects::redis(programs, &format!("scaling-redis-{count}"), None)?;
    let origin = format!("redis://127.0.0.1:{port}");
    let start = |number: u32| {
        let name = format!("scaling-{count}-{number}");
        subjects::tidegate_with(programs, &name, &["--origin-url", &origin])
    };
    let nodes = (0..count).map(start).collect::<Result<Vec<_>, _>>()?;
    let seconds = f64::from(length.short_seconds());
    let (rate, duration) = ((RATE / count).to_string(), seconds.to_string());
    let words = ["--keys", "10000", "--rate", &rate, "--warm-up", "1", "-d", &duration];
    let before = redis.processor_seconds();
    let samples = at_once(programs, &nodes, &words)?;
    let sum = |value: fn(&Sample) -> f64| samples.iter().map(value).sum::<f64>();
    let per_second = sum(|sample| sample.per_second);
    Ok(Shared {
        per_second,
        of_nodes: sum(|sample| sample.cpu_micros * sample.per_second) / per_second,
        // The warm-up's requests cost it too.
        of_redis: (redis.processor_seconds() - before) / (per_second * (1.0 + seconds)) * 1e6,
        p99_micros: samples.iter().map(|sample| sample.p99_micros).fold(0.0, f64::max),
    })
}

/// A generator for each node.
fn at_once(programs: &Programs, nodes: &[Tidegate], words: &[&str]) -> Result<Vec<Sample>, String> {
    let run = |node: &Tidegate| {
        let [http, ..] = ours(node);
        let server: &Server = http.server;
        http.generator(words).run(&programs.tidegate, server)
    };
    std::thread::scope(|scope| {
        let running: Vec<_> = nodes.iter().map(|node| scope.spawn(move || run(node))).collect();
        let ended = running.into_iter().map(std::thread::ScopedJoinHandle::join);
        ended.map(|ended| ended.map_err(|_| "a generator panicked".to_owned())?).collect()
    })
}
