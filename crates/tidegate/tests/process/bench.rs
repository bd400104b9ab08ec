//! `tidegate bench` against a real node, in every protocol; and what it says when there is none.

use crate::support::{Directory, Finished, Node, SOON, poll, run, start};
use rustix::process::Signal;
use serde_json::Value;

/// Runs for a moment, and returns what it printed as JSON.
fn bench(directory: &Directory, arguments: &[&str]) -> (Finished, Value) {
    let brief = ["--warm-up", "0", "--duration", "0.3", "--connections", "4", "--keys", "100", "--json"];
    let finished = run(directory, &[&["bench"], arguments, &brief].concat(), &[]);
    let json = serde_json::from_str(&finished.stdout).unwrap_or(Value::Null);
    assert!(!json.is_null(), "{arguments:?}: {}{}", finished.stdout, finished.stderr);
    (finished, json)
}

fn answered(json: &Value) -> u64 {
    json["answered"].as_u64().unwrap()
}

#[test]
fn every_protocol_is_answered_over_tcp_and_unix_sockets() {
    let directory = Directory::new();
    let path = directory.path("s").display().to_string();
    let node = Node::start(&directory, &["--listen-unix", &path]);
    let (http, grpc, resp) = (node.url(), format!("grpc://{}", node.grpc), format!("redis://{}", node.resp));
    let unix = ["http", "grpc"].map(|protocol| format!("{protocol}+unix:{path}"));
    let unix_resp = format!("redis+unix:{path}.resp");
    let cases: [&[&str]; 9] = [
        &[&http],
        &[&http, "--limits", "5", "--pipeline", "4"],
        &[&http, "--rules", "--threads", "2"],
        &[&grpc, "--pipeline", "8"],
        &[&grpc, "--limits", "3"],
        &[&resp, "--pipeline", "16"],
        &[&unix[0]],
        &[&unix[1], "--zipf", "1.1"],
        &[&unix_resp, "--command", "PING"],
    ];
    for arguments in cases {
        let (finished, json) = bench(&directory, arguments);
        assert_eq!(finished.code, Some(0), "{arguments:?}: {json}");
        assert!(answered(&json) > 100, "{arguments:?}: {json}");
        assert!(json["latency_us"]["p99"].as_f64().unwrap() > 0.0, "{json}");
    }
}

#[test]
fn denials_are_told_from_admissions_and_errors_from_both() {
    let directory = Directory::new();
    // Envoy's protocol limits nothing in a domain that nobody has heard of.
    directory.write(
        "rules.yaml",
        "namespace: bench\nrules:\n  - { name: key, key: [key], limit: 100 per 365d }\n",
    );
    let node = Node::start(&directory, &[]);
    let (grpc, resp) = (format!("grpc://{}", node.grpc), format!("redis://{}", node.resp));
    for target in [&node.url(), &grpc, &resp] {
        let (finished, json) = bench(&directory, &[target, "--limit", "2"]);
        assert_eq!(finished.code, Some(0), "{json}");
        let (allowed, denied) = (json["allowed"].as_u64().unwrap(), json["denied"].as_u64().unwrap());
        assert!(allowed > 0 && denied > 0 && allowed + denied == answered(&json), "{target}: {json}");
    }
    let (finished, json) = bench(&directory, &[&node.url(), "--path", "/nowhere"]);
    assert_eq!(finished.code, Some(1), "{json}");
    assert_eq!(json["errors"]["refused"].as_u64(), Some(answered(&json)), "{json}");
}

#[test]
fn an_open_loop_sends_as_much_as_it_was_told_and_a_picture_is_drawn() {
    let directory = Directory::new();
    let node = Node::start(&directory, &[]);
    let (_, json) = bench(&directory, &[&node.url(), "--rate", "500", "--svg", "latency.svg"]);
    let sent = answered(&json) + json["unsent"].as_u64().unwrap();
    assert_eq!(sent, 150, "{json}");
    assert!(directory.read("latency.svg").contains("p99"), "{}", directory.read("latency.svg"));
}

#[test]
fn what_makes_no_sense_and_who_isnt_there_is_told() {
    let directory = Directory::new();
    for (arguments, wanted) in [
        (&["bench", "127.0.0.1:80"][..], "isn't a target; write http://HOST:PORT"),
        (&["bench", "http://127.0.0.1:1", "--keys", "0"], "--keys 0 is out of range"),
        (&["bench", "redis://127.0.0.1:1", "--limits", "2"], "no command for several limits"),
        (&["bench", "http://127.0.0.1:1"], "can't connect: Connection refused"),
    ] {
        let finished = run(&directory, arguments, &[]);
        assert_eq!(finished.code, Some(2), "{arguments:?}");
        assert!(finished.stderr.contains(wanted), "{arguments:?}: {}", finished.stderr);
    }
}

#[test]
fn an_interrupt_ends_a_run_with_what_was_measured() {
    let directory = Directory::new();
    let node = Node::start(&directory, &[]);
    let url = node.url();
    let mut process = start(&directory, &["bench", &url, "--warm-up", "0", "--duration", "600"], &[]);
    poll("the first requests", SOON, || node.state()["keys"].as_u64().filter(|keys| *keys > 0));
    process.signal(Signal::INT);
    assert_eq!(process.exit_code(SOON), Some(0));
    let printed = directory.read("stdout");
    assert!(printed.contains("cut short") && printed.contains("requests/s"), "{printed}");
}
