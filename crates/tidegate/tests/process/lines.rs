//! Decisions as JSON lines: to standard output and to a file that is rotated, whether there is a log or not.

use crate::support::{
    CHECK, Directory, Node, Process, SOON, connect, poll, request, request_with, rules_of, start,
};
use rustix::process::Signal;
use serde_json::Value;
use std::io::{Read, Write};
use std::process::{Command, Stdio};

fn lines(text: &str) -> Vec<Value> {
    // The last one may be half written.
    let whole = text.rsplit_once('\n').map_or("", |(whole, _)| whole);
    whole
        .lines()
        .filter(|line| line.starts_with('{'))
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

/// One request on a connection that isn't closed; the whole answer.
fn kept_alive(address: &str, headers: &str) -> String {
    let mut stream = connect(address);
    let length = CHECK.len();
    let head =
        format!("POST /v1/check HTTP/1.1\r\nHost: x\r\nContent-Length: {length}\r\n{headers}\r\n{CHECK}");
    stream.write_all(head.as_bytes()).unwrap();
    let (mut text, mut bytes) = (String::new(), [0; 4096]);
    while !text.ends_with("}\n") {
        let count = stream.read(&mut bytes).unwrap();
        text.push_str(std::str::from_utf8(&bytes[..count]).unwrap());
    }
    text
}

fn denials(lines: &[Value]) -> usize {
    lines.iter().filter(|line| line["outcome"] == "denied").count()
}

#[test]
fn a_file_has_a_line_for_each_denial_and_event_and_is_made_anew_when_it_was_moved() {
    let directory = Directory::new();
    directory.write("rules.yaml", rules_of(1));
    let flags = ["--log-decisions", "none", "--log-decisions-json", "lines.json", "--node", "n1"];
    let node = Node::start(&directory, &flags);
    let trace = "traceparent: 00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01\r\n";
    request_with(&node.http, "POST /v1/check", trace, CHECK);
    // On a connection that stays open: the short way.
    assert!(kept_alive(&node.http, trace).contains("\"allowed\":false"));
    request_with(&node.http, "POST /v1/check", "traceparent: 00-nonsense\r\n", CHECK);
    let read = |name: &str| std::fs::read_to_string(directory.path(name)).unwrap_or_default();
    let told =
        poll("two denials", SOON, || Some(lines(&read("lines.json"))).filter(|told| denials(told) == 2));
    assert!(told.iter().any(|line| line["kind"] == "event" && line["what"] == "started"), "{told:?}");
    assert!(told.iter().all(|line| line["node"] == "n1" && line["region"] == "local"), "{told:?}");
    let denied: Vec<&Value> = told.iter().filter(|line| line["outcome"] == "denied").collect();
    assert_eq!(
        (&denied[0]["rule"], &denied[0]["limit"], &denied[0]["kind"]),
        (&"per-user".into(), &1.into(), &"decision".into())
    );
    let traces: Vec<&Value> =
        denied.iter().map(|line| &line["trace"]).filter(|trace| trace.is_string()).collect();
    assert_eq!(traces, ["4bf92f3577b34da6a3ce929d0e0e4736"], "a header that isn't valid is none: {denied:?}");
    assert!(!read("lines.json").contains("\"42\""), "no caller's name");

    std::fs::rename(directory.path("lines.json"), directory.path("lines.json.1")).unwrap();
    node.process.signal(Signal::HUP);
    request(&node.http, "POST", "/v1/check", CHECK);
    poll("the next file", SOON, || (denials(&lines(&read("lines.json"))) == 1).then_some(()));
    assert_eq!(denials(&lines(&read("lines.json.1"))), 2);
    let metrics = request_with(&node.admin, "GET /metrics", "", "");
    assert!(metrics.contains("tidegate_decisions_json_lines_lost_total 0"), "{metrics}");
    assert_eq!(request(&node.admin, "GET", "/v1/why", "").0, 503, "there is no log to ask");
}

#[test]
fn standard_output_has_them_too_and_all_of_them_at_the_end() {
    let directory = Directory::new();
    directory.write("rules.yaml", rules_of(1));
    let any = "127.0.0.1:0";
    let mut flags = vec!["serve", "--log-decisions-json", "stdout"];
    for listen in ["--listen-http", "--listen-grpc", "--listen-resp", "--listen-admin"] {
        flags.extend([listen, any]);
    }
    let mut process = start(&directory, &flags, &[]);
    let http = poll("the banner", SOON, || {
        let text = directory.read("stdout");
        let line = text
            .contains("curl")
            .then(|| text.lines().find(|line| line.trim().starts_with("http ")).map(str::to_owned));
        line.flatten().map(|line| line.trim().rsplit('/').next().unwrap().to_owned())
    });
    for _ in 0..3 {
        request(&http, "POST", "/v1/check", CHECK);
    }
    process.signal(Signal::TERM);
    assert_eq!(process.exit_code(SOON), Some(0));
    assert_eq!(denials(&lines(&directory.read("stdout"))), 2, "{}", directory.read("stdout"));
}

#[test]
fn a_reader_that_doesnt_read_costs_lines_and_no_decisions() {
    let directory = Directory::new();
    directory.write("rules.yaml", rules_of(1));
    // A pipe that nobody opens for reading: whoever opens it for writing waits for ever.
    assert!(Command::new("mkfifo").arg(directory.path("pipe")).status().unwrap().success());
    let node = Node::start(&directory, &["--log-decisions-json", "pipe"]);
    assert_eq!(node.allowed(3, CHECK), 1);
    // The log itself goes on.
    poll("the denials", SOON, || {
        let (_, answer) = request(&node.admin, "GET", "/v1/why?identifier=42", "");
        (answer["decisions"].as_array()?.len() == 2).then_some(())
    });
}

#[test]
fn where_the_log_and_the_banner_are_one_file_the_banner_is_a_line_of_the_log() {
    let directory = Directory::new();
    let both = std::fs::File::create(directory.path("both")).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_tidegate"));
    command.current_dir(directory.path("")).env_clear().args(["serve", "--log-format", "json"]);
    for listen in ["--listen-http", "--listen-grpc", "--listen-resp", "--listen-admin"] {
        command.args([listen, "127.0.0.1:0"]);
    }
    command.stdin(Stdio::null()).stdout(both.try_clone().unwrap()).stderr(both);
    let _process = Process(command.spawn().unwrap());
    let text =
        poll("the start", SOON, || Some(directory.read("both")).filter(|text| text.contains("; http ")));
    for line in text.lines() {
        assert!(serde_json::from_str::<serde_json::Value>(line).is_ok(), "{line}");
    }
}
