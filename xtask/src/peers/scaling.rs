//! How cost grows: with keys in memory, with connections, with limits in a request, with nodes of a region; and how
//! long answers take when requests come whether the last one was answered or not.

use super::Length;
use super::alone::bench;
use super::figures::spread;
use super::generator::Sample;
use super::program::Programs;
use super::server::Server;
use super::subjects::{self, Tidegate, write};
use crate::chart::{Bar as Drawn, Group, svg};
use crate::report::median;
use std::fmt::Write as _;

const MEMORY_KEYS: f64 = 1_000_000.0;
const THROTTLE: &str = "CL.THROTTLE {key} 1000000 1000000 86400";
const THEIR_BODY: &str =
    r#"{"key":"{key}","max_burst":1000000,"count_per_period":1000000,"period":60,"quantity":1}"#;
const JSON: &str = "content-type: application/json";

/// Who is asked, and how.
struct Subject<'s> {
    name: &'static str,
    server: &'s Server,
    words: Vec<String>,
}

impl Subject<'_> {
    fn run(&self, programs: &Programs, more: &[&str]) -> Result<Sample, String> {
        let words: Vec<&str> = self.words.iter().map(String::as_str).chain(more.iter().copied()).collect();
        let sample = bench(&words).run(&programs.tidegate, self.server)?;
        println!(
            "    {}, {}: {:.0}/s, p99 {:.0} µs",
            self.name,
            more.join(" "),
            sample.per_second,
            sample.p99_micros
        );
        Ok(sample)
    }

    fn rounds(&self, programs: &Programs, length: Length, more: &[&str]) -> Result<Vec<Sample>, String> {
        let seconds = length.seconds().to_string();
        let more = [more, &["--warm-up", "0.5", "-d", &seconds]].concat();
        (0..length.rounds()).map(|_| self.run(programs, &more)).collect()
    }
}

fn subject<'s>(name: &'static str, server: &'s Server, target: String, more: &[&str]) -> Subject<'s> {
    Subject {
        name,
        server,
        words: std::iter::once(target).chain(more.iter().map(|&word| word.to_owned())).collect(),
    }
}

fn ours(node: &Tidegate) -> [Subject<'_>; 3] {
    [
        subject(
            "Tidegate, HTTP",
            &node.server,
            format!("http://127.0.0.1:{}", node.http),
            &["--limit", "1000000"],
        ),
        subject("Tidegate, gRPC", &node.server, format!("grpc://127.0.0.1:{}", node.grpc), &["--rules"]),
        subject(
            "Tidegate, RESP",
            &node.server,
            format!("redis://127.0.0.1:{}", node.resp),
            &["--command", THROTTLE],
        ),
    ]
}

fn column(samples: &[Sample], value: fn(&Sample) -> f64, digits: usize) -> String {
    spread(&samples.iter().map(value).collect::<Vec<_>>(), digits)
}

/// What of a sample is told, with how many digits.
type Told = (fn(&Sample) -> f64, usize);
const CPU: Told = (|sample| sample.cpu_micros, 2);
const P999: Told = (|sample| sample.p999_micros, 0);

fn row(text: &mut String, first: &str, second: &str, samples: &[Sample], [before, after]: [Option<Told>; 2]) {
    let common: [Told; 2] = [(|sample| sample.p50_micros, 0), (|sample| sample.p99_micros, 0)];
    let per_second: Told = (|sample| sample.per_second, 0);
    let told = [per_second].into_iter().chain(before).chain(common).chain(after);
    let columns: Vec<String> = told.map(|(value, digits)| column(samples, value, digits)).collect();
    let errors: f64 = samples.iter().map(|sample| sample.errors).sum();
    let _ = writeln!(text, "| {first} | {second} | {} | {errors:.0} |", columns.join(" | "));
}

const COLUMNS: &str =
    "requests/s | server CPU per request, µs | p50, µs | p99, µs | errors |\n|---|---|---|---|---|---|---|\n";

/// Resident memory for each of a million keys, beside peers.
pub(super) fn memory(programs: &Programs, _: Length) -> Result<String, String> {
    let node = subjects::tidegate(programs, "memory")?;
    let redis = subjects::redis(programs, "memory-redis", None);
    let cell = subjects::redis(programs, "memory-cell", Some(&programs.redis_cell));
    let crab = subjects::throttlecrab(programs);
    let mut subjects = vec![subject(
        "Tidegate CL.THROTTLE",
        &node.server,
        format!("redis://127.0.0.1:{}", node.resp),
        &["-p", "64", "--command", THROTTLE],
    )];
    for (name, started, command) in
        [("redis INCR", &redis, "INCR {key}"), ("redis-cell CL.THROTTLE", &cell, THROTTLE)]
    {
        if let Ok((server, port)) = started {
            let target = format!("redis://127.0.0.1:{port}");
            subjects.push(subject(name, server, target, &["-p", "64", "--command", command]));
        }
    }
    if let Ok((server, http, _)) = &crab {
        let words = ["--path", "/throttle", "--header", JSON, "--body", THEIR_BODY];
        subjects.push(subject("throttlecrab-server", server, format!("http://127.0.0.1:{http}"), &words));
    }
    let mut text = String::from(
        "A million keys of 12 characters, asked for by chance until 99 of 100 were at least once: resident memory beyond \
         what the server had after its first thousand, divided by the keys that it has seen. A table that has grown in steps has \
         room for more.\n\n| subject | requests | bytes per key |\n|---|---|---|\n",
    );
    for subject in &subjects {
        subject.run(programs, &["--keys", "1000", "-d", "1", "--warm-up", "0"])?;
        let (before, mut asked) = (subject.server.resident_bytes(), 0.0);
        // Of a key that is asked for by chance, e^-n weren't when n requests came for each.
        for seed in 2..200 {
            let seed = seed.to_string();
            let words = ["--keys", "1000000", "-d", "3", "--warm-up", "0", "--seed", &seed];
            asked += subject.run(programs, &words)?.per_second * 3.0;
            if asked > 4.6 * MEMORY_KEYS {
                break;
            }
        }
        let seen = MEMORY_KEYS * (1.0 - (-asked / MEMORY_KEYS).exp());
        let each = (subject.server.resident_bytes() - before) / seen;
        let _ = writeln!(text, "| {} | {asked:.0} | {each:.0} |", subject.name);
    }
    Ok(text)
}

/// With connections, with limits in a request, with nodes.
pub(super) fn scaling(programs: &Programs, length: Length) -> Result<String, String> {
    let node = subjects::tidegate(programs, "scaling")?;
    let mut text = format!(
        "One node, as fast as answers come (`tidegate bench … -c N`), 100,000 keys.\n\n| protocol | connections | {COLUMNS}"
    );
    for subject in ours(&node) {
        for connections in ["1", "10", "100", "1000", "10000"] {
            let samples = subject.rounds(programs, length, &["-c", connections])?;
            row(&mut text, subject.name, connections, &samples, [Some(CPU), None]);
        }
    }
    let _ = write!(
        text,
        "\nLimits in one request, all or none (`--limits N`), 50 connections.\n\n| protocol | limits | {COLUMNS}"
    );
    let [http, ..] = ours(&node);
    for limits in ["1", "2", "3", "4", "5"] {
        let samples = http.rounds(programs, length, &["--limits", limits])?;
        row(&mut text, http.name, limits, &samples, [Some(CPU), None]);
    }
    text += &nodes(programs, length)?;
    Ok(text)
}

/// The same 6,000 requests a second, by one, two and three nodes of a region.
fn nodes(programs: &Programs, length: Length) -> Result<String, String> {
    let mut text = String::from(
        "\nNodes of a region that share one redis-server: 6,000 requests a second in all, spread over them and over 10,000 \
         keys (`tidegate bench … --rate`), each limited to 1,000,000 in a minute by the region.\n\n\
         | nodes | requests/s in all | CPU per request of the nodes, µs | of redis-server, µs | p99, µs |\n|---|---|---|---|---|\n",
    );
    for count in 1..=3_u32 {
        let (redis, port) = subjects::redis(programs, &format!("scaling-redis-{count}"), None)?;
        let origin = format!("redis://127.0.0.1:{port}");
        let nodes = (0..count)
            .map(|number| {
                let name = format!("scaling-{count}-{number}");
                subjects::tidegate_with(programs, &name, &["--origin-url", &origin])
            })
            .collect::<Result<Vec<_>, _>>()?;
        let (rate, seconds) = ((6_000 / count).to_string(), (3 * length.seconds()).to_string());
        let words =
            ["--limit", "1000000", "--keys", "10000", "--rate", &rate, "--warm-up", "0", "-d", &seconds];
        let before = redis.processor_seconds();
        let samples = std::thread::scope(|scope| {
            let running: Vec<_> = nodes
                .iter()
                .map(|node| {
                    scope.spawn(|| {
                        let [http, ..] = ours(node);
                        http.run(programs, &words)
                    })
                })
                .collect();
            let ended = running.into_iter().map(|thread| thread.join());
            ended
                .map(|ended| ended.map_err(|_| "a generator panicked".to_owned())?)
                .collect::<Result<Vec<_>, _>>()
        })?;
        let all: f64 = samples.iter().map(|sample| sample.per_second).sum();
        let asked = all * f64::from(3 * length.seconds());
        let of_nodes: f64 = samples.iter().map(|sample| sample.cpu_micros * sample.per_second / all).sum();
        let slowest = samples.iter().map(|sample| sample.p99_micros).fold(0.0, f64::max);
        let of_redis = (redis.processor_seconds() - before) / asked * 1e6;
        let _ = writeln!(text, "| {count} | {all:.0} | {of_nodes:.1} | {of_redis:.1} | {slowest:.0} |");
    }
    Ok(text)
}

const PARTS: [(&str, f64); 5] = [("10 %", 0.1), ("25 %", 0.25), ("50 %", 0.5), ("75 %", 0.75), ("90 %", 0.9)];

/// Latencies under an open load, at parts of what each can take.
pub(super) fn tail(programs: &Programs, length: Length) -> Result<String, String> {
    let node = subjects::tidegate(programs, "tail")?;
    let crab = subjects::throttlecrab(programs);
    let limitador = subjects::limitador(programs);
    let cell = subjects::redis(programs, "tail-cell", Some(&programs.redis_cell));
    let mut subjects: Vec<Subject<'_>> = ours(&node).into();
    if let Ok((server, http, _)) = &crab {
        let words = ["--path", "/throttle", "--header", JSON, "--body", THEIR_BODY];
        subjects.push(subject("throttlecrab, HTTP", server, format!("http://127.0.0.1:{http}"), &words));
    }
    if let Ok((server, port)) = &limitador {
        subjects.push(subject("limitador, gRPC", server, format!("grpc://127.0.0.1:{port}"), &["--rules"]));
    }
    if let Ok((server, port)) = &cell {
        let target = format!("redis://127.0.0.1:{port}");
        subjects.push(subject("redis-cell, RESP", server, target, &["--command", THROTTLE]));
    }
    let mut text = String::from(
        "![Tail latency under an open load](benchmarks-tail.svg)\n\n\
         50 connections, 100,000 keys. First as fast as answers come: saturation. Then requests at a fixed rate, a part of that of \
         the same subject, whether the last one was answered or not; latencies count from when a request was due, so that \
         waiting is counted. Generator and server share two cores.\n\n\
         | subject | load | requests/s | p50, µs | p99, µs | p99.9, µs | errors |\n|---|---|---|---|---|---|---|\n",
    );
    let mut groups: Vec<Group> = PARTS
        .iter()
        .map(|(part, _)| Group { title: format!("p99 at {part} of saturation"), bars: Vec::new() })
        .collect();
    for subject in &subjects {
        let saturated = subject.rounds(programs, length, &[])?;
        row(&mut text, subject.name, "saturation", &saturated, [None, Some(P999)]);
        let most = median(&saturated.iter().map(|sample| sample.per_second).collect::<Vec<_>>());
        for ((part, share), group) in PARTS.iter().zip(&mut groups) {
            let rate = format!("{:.0}", most * share);
            let samples = subject.rounds(programs, length, &["--rate", &rate])?;
            row(&mut text, subject.name, part, &samples, [None, Some(P999)]);
            let values = samples.iter().map(|sample| sample.p99_micros).collect();
            let is_ours = subject.name.starts_with("Tidegate");
            group.bars.push(Drawn { label: subject.name.to_owned(), values, is_ours });
        }
    }
    let picture = svg(
        "Tail latency under an open load",
        "p99 from when a request was due: median of the rounds, the line is their range; less is better",
        &groups,
        |micros| format!("{micros:.0} µs"),
    );
    write(&crate::root().join("docs/benchmarks-tail.svg"), &picture)?;
    Ok(text)
}
