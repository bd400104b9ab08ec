//! What an OpenTelemetry collector receives, read by OpenTelemetry's own definitions: metrics, denials and events as
//! logs, and spans of the slow paths.

use crate::fleet::{Member, PATIENT, wait_for};
use crate::support::{Directory, Process, SOON, parse, poll, request_with};
use serde_json::Value;
use std::process::{Command, Stdio};
use std::time::Duration;
use tidegate_testkit::{Redis, wheel};

/// The collector asks to be tried again, and the node sends twice a second.
const RECEIVED_WITHIN: Duration = Duration::from_secs(15);
const RULES: &str = "namespace: api\nrules:\n  - { name: per-user, key: [user], limit: 2 per 365d }\n";
const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
const CALLER: &str = "00f067aa0ba902b7";

struct Collector {
    _process: Process,
    directory: Directory,
}

impl Collector {
    fn start() -> Self {
        let package = wheel("opentelemetry-proto", "opentelemetry-proto==1.45.2", &[]).unwrap();
        let directory = Directory::new();
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/region/collector.py");
        let mut command = Command::new("python3");
        command.arg(script).env("PYTHONPATH", package).env("PYTHONDONTWRITEBYTECODE", "1");
        let file = |name: &str| std::fs::File::create(directory.path(name)).unwrap();
        command.stdin(Stdio::null()).stdout(file("received")).stderr(file("stderr"));
        Collector { _process: Process(command.spawn().expect("python3")), directory }
    }

    fn url(&self) -> String {
        let port = poll("the collector's port", RECEIVED_WITHIN, || {
            let text = self.directory.read("received");
            text.split_once('\n').map(|(port, _)| port.to_owned())
        });
        format!("http://127.0.0.1:{port}/")
    }

    /// What was understood so far; nothing may be wrong.
    fn received(&self, path: &str) -> Vec<Value> {
        let text = self.directory.read("received");
        let whole = text.rsplit_once('\n').map_or("", |(whole, _)| whole);
        let lines = whole.lines().skip(1).map(|line| serde_json::from_str::<Value>(line).unwrap());
        let of_path: Vec<Value> = lines
            .inspect(|line| assert!(line["problem"].is_null(), "{line}"))
            .filter(|line| line["path"] == path && line["sent"].is_object())
            .map(|line| line["sent"].clone())
            .collect();
        of_path
    }

    fn items(&self, path: &str, [resources, scopes, items]: [&str; 3]) -> Vec<Value> {
        let mut found = Vec::new();
        for message in self.received(path) {
            for resource in message[resources].as_array().unwrap() {
                let attributes = resource["resource"]["attributes"].to_string();
                assert!(attributes.contains("tidegate") && attributes.contains("n1"), "{attributes}");
                for scope in resource[scopes].as_array().unwrap() {
                    found.extend(scope[items].as_array().unwrap().clone());
                }
            }
        }
        found
    }

    fn spans(&self) -> Vec<Value> {
        self.items("/v1/traces", ["resourceSpans", "scopeSpans", "spans"])
    }
}

fn is_called(name: &'static str) -> impl Fn(&&Value) -> bool {
    move |item| item["name"] == name
}

#[test]
fn a_collector_understands_metrics_logs_and_spans() {
    let (redis, collector) = (wait_for(Redis::start()), Collector::start());
    let directory = Directory::new();
    directory.write("rules.yaml", RULES);
    let (origin, endpoint) = (format!("redis://{}", redis.address()), collector.url());
    let flags = [
        &["--origin-url", &origin, "--node", "n1", "--region", "eu", "--world-url", "sqlite:world.db"][..],
        &["--otlp-endpoint", &endpoint, "--otlp-interval-ms", "500"],
        &PATIENT,
    ]
    .concat();
    let member = Member::start_in(directory, &flags);
    member.wait_joined();
    let check = |headers: &str| {
        request_with(
            &member.node.http,
            "POST /v1/check",
            headers,
            r#"{"namespace":"api","attributes":{"user":"42"}}"#,
        )
    };
    let header = format!("traceparent: 00-{TRACE}-{CALLER}-01\r\ntracestate: vendor=1\r\n");
    // Cold: it asks its region.
    let asked = check(&header);
    let told = asked
        .lines()
        .find_map(|line| line.strip_prefix("traceparent: 00-"))
        .expect("a span was made")
        .to_owned();
    assert!(told.starts_with(TRACE) && !told.contains(CALLER), "{told}");
    check("");
    let denied = check(&header);
    assert_eq!(parse(&denied).1["allowed"], false, "{denied}");
    assert!(!denied.contains("traceparent"), "a warm decision has no span: {denied}");

    let asked = poll("a span", RECEIVED_WITHIN, || {
        collector.spans().into_iter().find(|span| span["traceId"] == TRACE)
    });
    for (field, expected) in [
        ("name", "ask the region"),
        ("parentSpanId", CALLER),
        ("traceState", "vendor=1"),
        ("spanId", &told[33..49]),
    ] {
        assert_eq!(asked[field], expected, "{asked}");
    }
    let nanos = |field: &str| asked[field].as_str().unwrap().parse::<u64>().unwrap();
    assert!(nanos("startTimeUnixNano") < nanos("endTimeUnixNano"), "{asked}");
    poll("a publish", RECEIVED_WITHIN, || {
        collector.spans().iter().find(is_called("publish to the world's store")).map(|_| ())
    });
    assert_eq!(collector.spans().iter().filter(|span| span["traceId"] == TRACE).count(), 1);

    let records = poll("log records", RECEIVED_WITHIN, || {
        let records = collector.items("/v1/logs", ["resourceLogs", "scopeLogs", "logRecords"]);
        records.iter().any(|record| record["eventName"] == "tidegate.decision").then_some(records)
    });
    let decision = records.iter().find(|record| record["eventName"] == "tidegate.decision").unwrap();
    assert_eq!((&decision["traceId"], &decision["spanId"]), (&TRACE.into(), &CALLER.into()), "{decision}");
    assert_eq!(decision["body"]["stringValue"], "denied by per-user", "{decision}");
    assert!(records.iter().any(|record| record["eventName"] == "tidegate.event"), "{records:?}");

    let metrics = poll("metrics", RECEIVED_WITHIN, || {
        let metrics = collector.items("/v1/metrics", ["resourceMetrics", "scopeMetrics", "metrics"]);
        let is_denial = |metric: &&Value| metric["name"] == "tidegate_requests_denied_total";
        let denials = metrics.iter().rfind(is_denial)?["sum"]["dataPoints"][0]["asInt"].clone();
        (denials == "1").then_some(metrics)
    });
    for kind in ["sum", "gauge", "histogram"] {
        assert!(metrics.iter().any(|metric| metric[kind].is_object()), "{kind}");
    }
    poll("nothing was dropped", SOON, || {
        let text = request_with(&member.node.admin, "GET /metrics", "", "");
        assert!(text.contains("tidegate_otlp_records_dropped_total 0"), "{text}");
        // The collector was busy once.
        text.contains("tidegate_otlp_failures_total 1\n").then_some(())
    });
}

#[test]
fn without_a_collector_a_trace_costs_no_span_and_is_in_the_log() {
    let redis = wait_for(Redis::start());
    let directory = Directory::new();
    directory.write("rules.yaml", RULES.replace("2 per", "1 per"));
    let origin = format!("redis://{}", redis.address());
    let flags = [&["--origin-url", &origin][..], &PATIENT].concat();
    let member = Member::start_in(directory, &flags);
    member.wait_joined();
    let header = format!("traceparent: 00-{TRACE}-{CALLER}-01\r\n");
    for _ in 0..2 {
        let body = r#"{"namespace":"api","attributes":{"user":"42"}}"#;
        assert!(!request_with(&member.node.http, "POST /v1/check", &header, body).contains("traceparent"));
    }
    let decision = poll("the denial", SOON, || {
        let (_, answer) = parse(&request_with(&member.node.admin, "GET /v1/why?identifier=42", "", ""));
        answer["decisions"].as_array()?.first().cloned()
    });
    assert_eq!((&decision["trace"], &decision["span"]), (&TRACE.into(), &CALLER.into()), "{decision}");
}
