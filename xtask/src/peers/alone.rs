//! What is measured of a node alone: how long a check takes, what many keys cost, and what idle clients hold.

use super::Length;
use super::figures::spread;
use super::generator::{Generator, Sample};
use super::program::Programs;
use super::subjects::{self, Tidegate};
use crate::report::{median, verdict};
use std::fmt::Write as _;
use std::io::{Read, Write};
use std::os::unix::net::UnixListener;

const FIVE: &str = r#"{"namespace":"five","attributes":{"key":"{key}","endpoint":"/search"}}"#;
const KEYS: [&str; 4] = ["1000", "100000", "1000000", "10000000"];
const CONNECTIONS: f64 = 10_000.0;
const KIBIBYTE: f64 = 1024.0;

fn bench(words: &[&str]) -> Generator {
    Generator::Bench { arguments: words.iter().map(|&word| word.to_owned()).collect() }
}

fn run(programs: &Programs, node: &Tidegate, words: &[&str]) -> Result<Sample, String> {
    bench(words).run(&programs.tidegate, &node.server)
}

/// A check of five limits over the Unix socket: one at a time, and at half of what it can take.
pub(super) fn unix(programs: &Programs, length: Length) -> Result<String, String> {
    let node = subjects::tidegate(programs, "unix")?;
    let target = format!("http+unix:{}", node.unix);
    let check = [&target, "--path", "/v1/check", "--body", FIVE];
    let seconds = length.seconds().to_string();
    let (mut alone, mut saturated, mut half) = (Vec::new(), Vec::new(), Vec::new());
    let (echo, mut floor) = (format!("http+unix:{}", echo(&node.unix)?), Vec::new());
    let picture = crate::root().join("docs/benchmarks-unix.svg").display().to_string();
    for round in 0..length.rounds() {
        let drawn: &[&str] = if round == 0 { &["--svg", &picture] } else { &[] };
        let one = ["-c", "1", "-d", &seconds];
        alone.push(run(programs, &node, &[&check, &one[..], drawn].concat())?);
        floor.push(run(programs, &node, &[&[echo.as_str()][..], &check[1..], &one[..]].concat())?);
        saturated.push(run(programs, &node, &[&check[..], &["-c", "16", "-d", &seconds]].concat())?);
        let rate = format!("{:.0}", saturated[round].per_second / 2.0);
        half.push(run(
            programs,
            &node,
            &[&check[..], &["-c", "16", "-d", &seconds, "--rate", &rate]].concat(),
        )?);
    }
    let values =
        |samples: &[Sample], value: fn(&Sample) -> f64| samples.iter().map(value).collect::<Vec<_>>();
    let mut text = String::from(
        "`POST /v1/check` with five rules over the Unix socket, `tidegate bench http+unix:PATH --path /v1/check`. At half \
         of saturation the load is an open loop: latencies count from when a request was due. The echo is a thread that only \
         reads a request and writes as many bytes as an answer has. It shows how long this machine takes to wake two \
         processes.\n\n\
         ![Latency over the Unix socket, one at a time](benchmarks-unix.svg)\n\n\
         | load | requests/s | p50, µs | p99, µs | target | |\n|---|---|---|---|---|---|\n",
    );
    for (load, samples, bars) in [
        ("one at a time", &alone, [Some(50.0), Some(200.0)]),
        ("the same, of an echo", &floor, [None, None]),
        ("16 connections, saturated", &saturated, [None, None]),
        ("16 connections, half of that", &half, [None, Some(2000.0)]),
    ] {
        let p50 = values(samples, |sample| sample.p50_micros);
        let p99 = values(samples, |sample| sample.p99_micros);
        let holds =
            bars[0].is_none_or(|bar| median(&p50) < bar) && bars[1].is_none_or(|bar| median(&p99) < bar);
        let bar = match bars {
            [Some(low), Some(high)] => format!("p50 < {low}, p99 < {high}"),
            [_, Some(high)] => format!("p99 < {high}"),
            _ => String::new(),
        };
        let judged = if bar.is_empty() { "" } else { verdict(holds) };
        let _ = writeln!(
            text,
            "| {load} | {} | {} | {} | {bar} | {judged} |",
            spread(&values(samples, |sample| sample.per_second), 0),
            spread(&p50, 1),
            spread(&p99, 1)
        );
    }
    let p50 = |samples: &[Sample]| median(&values(samples, |sample| sample.p50_micros));
    let (ours, echoed) = (p50(&alone), p50(&floor));
    let _ = writeln!(
        text,
        "\nOne at a time, the p50 is {:.1} µs longer than the echo's: {:.2} times as long.",
        ours - echoed,
        ours / echoed
    );
    Ok(text)
}

/// The floor of any answer over a Unix socket: reads a request, writes an answer, beside the node's own socket.
fn echo(beside: &str) -> Result<String, String> {
    let path = format!("{beside}.echo");
    let listener = UnixListener::bind(&path).map_err(|error| format!("{path}: {error}"))?;
    let body = format!("{{\"allowed\":true,\"limits\":[{}]}}\n", "0,".repeat(400) + "0");
    let answer = format!(
        "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    );
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let mut request = [0; 4096];
            // Until the client leaves.
            while stream.read(&mut request).is_ok_and(|bytes| bytes > 0)
                && stream.write_all(answer.as_bytes()).is_ok()
            {}
        }
    });
    Ok(path)
}

/// Throughput with ten million keys in the table, against a hundred thousand.
pub(super) fn keys(programs: &Programs, length: Length) -> Result<String, String> {
    let node = subjects::tidegate(programs, "keys")?;
    let target = format!("redis://127.0.0.1:{}", node.resp);
    // Each hit is remembered for five minutes, so that all keys are live.
    let command = "CL.THROTTLE {key} 100000 100000 31536000";
    let common = [&target, "-p", "64", "--command", command];
    let seconds = length.seconds().to_string();
    let with = |keys: &str, warm_up: &str| {
        run(programs, &node, &[&common[..], &["--keys", keys, "--warm-up", warm_up, "-d", &seconds]].concat())
    };
    let mut found = KEYS.map(|_| Vec::new());
    with("10000000", if length == Length::Quick { "20" } else { "40" })?;
    for _ in 0..length.rounds() {
        for (keys, found) in KEYS.iter().zip(&mut found) {
            found.push(with(keys, "0.5")?.per_second);
        }
    }
    let mut text = format!(
        "`tidegate bench redis://… -p 64 --command '{command}'`. An earlier run has put ten million keys into the \
         table, and all of them stay in it. Ratios are to a hundred thousand keys.\n\n\
         | keys asked for | requests/s | ratio | target | |\n|---|---|---|---|---|\n",
    );
    for (keys, values) in KEYS.iter().zip(&found) {
        let ratio = median(values) / median(&found[1]);
        let judged = if *keys == "10000000" {
            format!("≥ 0.7 | {}", verdict(ratio >= 0.7))
        } else {
            " | ".to_owned()
        };
        let _ = writeln!(text, "| {keys} | {} | {ratio:.2} | {judged} |", spread(values, 0));
    }
    Ok(text)
}

/// What ten thousand connections hold that ask once in ten seconds.
pub(super) fn idle(programs: &Programs, length: Length) -> Result<String, String> {
    let mut text = String::from(
        "How much the resident memory of a fresh node grows with 10,000 connections, on each of which a request comes \
         every ten seconds (`tidegate bench … -c 10000 --rate 1000`).\n\n\
         | protocol | KiB per connection | target | |\n|---|---|---|---|\n",
    );
    for protocol in ["HTTP", "gRPC", "RESP"] {
        let each = idle_bytes(programs, protocol, length)? / CONNECTIONS / KIBIBYTE;
        println!("    {protocol}: {each:.1} KiB");
        let _ = writeln!(text, "| {protocol} | {each:.1} | ≤ 20 | {} |", verdict(each <= 20.0));
    }
    Ok(text)
}

/// Of all connections together.
fn idle_bytes(programs: &Programs, protocol: &str, length: Length) -> Result<f64, String> {
    let node = subjects::tidegate(programs, "idle")?;
    let target = match protocol {
        "HTTP" => format!("http://127.0.0.1:{}", node.http),
        "gRPC" => format!("grpc://127.0.0.1:{}", node.grpc),
        _ => format!("redis://127.0.0.1:{}", node.resp),
    };
    // So that what any request needs is there before.
    run(programs, &node, &[&target, "-d", "1", "--keys", "100"])?;
    let before = node.server.resident_bytes();
    let duration = if length == Length::Quick { 12 } else { 14 };
    let seconds = duration.to_string();
    let words = [&target, "-c", "10000", "--rate", "1000", "--warm-up", "0", "-d", &seconds, "--keys", "100"];
    std::thread::scope(|scope| {
        let running = scope.spawn(|| run(programs, &node, &words));
        pause(duration - 1);
        let held = node.server.resident_bytes() - before;
        let errors = running.join().map_err(|_| "the generator panicked".to_owned())??.errors;
        if errors > 0.0 {
            Err(format!("{errors} errors with 10,000 connections of {protocol}"))
        } else {
            Ok(held)
        }
    })
}

#[expect(clippy::disallowed_methods, reason = "memory is looked at while another process puts load on")]
fn pause(seconds: u64) {
    std::thread::sleep(std::time::Duration::from_secs(seconds));
}
