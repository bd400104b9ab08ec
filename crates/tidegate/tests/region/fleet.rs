//! What these tests stand on: nodes that share a store, limits to ask about, and callers who keep their
//! connection.

use crate::support::{Directory, Node, SOON, connect, poll};
use serde_json::Value;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::time::Duration;
use tidegate_core::identity::Shape;
use tidegate_core::{FleetSecret, KeyId, KeyPrefix, Nanos, Period};
use tokio::time::Instant;

pub(crate) const NAMESPACE: &str = "shared";
/// No test meets the end of a cell that is as long.
const YEAR: Nanos = Nanos::from_secs(365 * 86_400);
/// The rate that goes with a burst here: nothing of it comes back during a test.
const RATE_PER_S: &str = "0.001";
/// A request waits as long as the call lives. The usual 5 ms are what a busy machine may take by itself.
pub(crate) const PATIENT: [&str; 2] = ["--origin-timeout-ms", "1000"];
/// Tells of every call that failed: shown when a test fails.
const LOG_LEVEL: (&str, &str) = ("TIDEGATE_LOG_LEVEL", "info,tidegate_node=debug");
const SHOWN_LINES: usize = 40;

/// Runs what testkit does to its end.
pub(crate) fn wait_for<T>(work: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(work)
}

/// Lets time pass where a load has a pace.
#[expect(clippy::disallowed_methods, reason = "callers of another process come when they come")]
pub(crate) fn pause(length: Duration) {
    std::thread::sleep(length);
}

/// The library that stands between a process and the wall clock.
pub(crate) fn faketime() -> String {
    let libraries = std::fs::read_dir("/usr/lib").unwrap().flatten();
    let mut found = libraries.map(|entry| entry.path().join("faketime/libfaketimeMT.so.1"));
    let library = found.find(|path| path.exists()).expect("Debian's package faketime is installed");
    library.display().to_string()
}

/// One node, and where it runs. Dropping it kills it.
pub(crate) struct Member {
    pub(crate) node: Node,
    pub(crate) directory: Directory,
}

/// Of the fleets here, so that tests find their keys in the store.
const SECRET: &str = "the-secret-of-a-fleet-under-test";

impl Member {
    /// Serves, and may not be connected yet.
    pub(crate) fn start(url: &str, arguments: &[&str]) -> Self {
        Member::start_with_secret(Directory::new(), &[&["--origin-url", url], arguments].concat())
    }

    /// With the secret that [`Limit::key`] goes by.
    pub(crate) fn start_with_secret(directory: Directory, arguments: &[&str]) -> Self {
        directory.write("fleet-secret", SECRET);
        Member::start_in(directory, &[&["--cluster-secret-file", "fleet-secret"], arguments].concat())
    }

    pub(crate) fn start_in(directory: Directory, arguments: &[&str]) -> Self {
        Member { node: Node::start_with(&directory, arguments, &[LOG_LEVEL]), directory }
    }

    /// Kills the process and starts another one in the same directory.
    pub(crate) fn restart(&mut self, url: &str) {
        self.node.process.signal(rustix::process::Signal::KILL);
        self.node.process.exit_code(SOON);
        let arguments = ["--cluster-secret-file", "fleet-secret", "--origin-url", url];
        self.node = Node::start_with(&self.directory, &arguments, &[LOG_LEVEL]);
    }

    /// Has heard of its store.
    pub(crate) fn join(url: &str, arguments: &[&str]) -> Self {
        let member = Member::start(url, arguments);
        member.wait_joined();
        member
    }

    pub(crate) fn wait_joined(&self) {
        self.wait_logged("the origin answers");
    }

    pub(crate) fn wait_logged(&self, words: &str) {
        poll(words, SOON, || self.log().contains(words).then_some(()));
    }

    pub(crate) fn log(&self) -> String {
        self.directory.read("stderr")
    }

    /// The region tier as the node tells of it.
    pub(crate) fn origin(&self) -> Value {
        self.node.state()["origin"].clone()
    }

    pub(crate) fn live_nodes(&self) -> u64 {
        self.origin()["live_nodes"].as_u64().expect("a number of nodes")
    }

    pub(crate) fn wait_live_nodes(&self, nodes: u64, within: Duration) {
        poll(&format!("{nodes} live nodes"), within, || (self.live_nodes() == nodes).then_some(()));
    }

    /// Whether the breaker of the shard at an address is open; `None` when there is no such shard.
    pub(crate) fn is_open(&self, address: &str) -> Option<bool> {
        let origin = self.origin();
        let shards = origin["shards"].as_array().expect("shards");
        let shard = shards.iter().find(|shard| shard["address"] == address)?;
        Some(shard["breaker"] == "open")
    }

    pub(crate) fn wait_breaker(&self, address: &str, is_open: bool, within: Duration) {
        let what = format!("a breaker that is {}", if is_open { "open" } else { "closed" });
        poll(&what, within, || (self.is_open(address) == Some(is_open)).then_some(()));
    }

    pub(crate) fn caller(&self) -> Caller {
        Caller(BufReader::new(connect(&self.node.http)))
    }

    /// One request on a connection of its own.
    pub(crate) fn ask(&self, limit: &Limit) -> Answer {
        self.caller().ask(limit)
    }

    /// Asks until the region has confirmed an admission: a machine that stands still for a moment is none that
    /// answers. Says how many were admitted by then, and what the last one was told.
    pub(crate) fn ask_until_verified(&self, limit: &Limit) -> (u64, Answer) {
        let mut admitted = 0;
        let last = poll("a verified admission", SOON, || {
            let answer = self.ask(limit);
            admitted += u64::from(answer.is_allowed());
            (answer.is_allowed() && !answer.is_unverified()).then_some(answer)
        });
        (admitted, last)
    }
}

/// What a failed test is about.
impl Drop for Member {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let log = self.log();
            let lines: Vec<&str> = log.lines().collect();
            let shown = &lines[lines.len().saturating_sub(SHOWN_LINES)..];
            println!("the log of {} ends with:\n{}", self.node.http, shown.join("\n"));
        }
    }
}

/// As many that share a store and know of each other.
pub(crate) fn fleet(url: &str, nodes: u64, arguments: &[&str]) -> Vec<Member> {
    let members: Vec<Member> = (0..nodes).map(|_| Member::join(url, arguments)).collect();
    for member in &members {
        member.wait_live_nodes(nodes, SOON);
    }
    members
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Algorithm {
    Sliding,
    Fixed,
    Gcra,
}

/// A limit as a request gives it: so many a year, or a burst that doesn't come back.
#[derive(Clone, Debug)]
pub(crate) struct Limit {
    pub(crate) identifier: String,
    pub(crate) number: u64,
    pub(crate) algorithm: Algorithm,
    pub(crate) period: Nanos,
    pub(crate) accuracy: &'static str,
    pub(crate) class: &'static str,
    pub(crate) cost: u64,
}

impl Limit {
    pub(crate) fn new(identifier: &str, number: u64) -> Self {
        Limit {
            identifier: identifier.to_owned(),
            number,
            algorithm: Algorithm::Fixed,
            period: YEAR,
            accuracy: "bounded",
            class: "paid",
            cost: 1,
        }
    }

    /// Every admission asks, and none is given that couldn't: never more than the limit, whatever happens.
    pub(crate) fn strict(identifier: &str, number: u64) -> Self {
        Limit { accuracy: "exact", class: "abuse", ..Limit::new(identifier, number) }
    }

    pub(crate) fn exact(self) -> Self {
        Limit { accuracy: "exact", ..self }
    }

    pub(crate) fn class(self, class: &'static str) -> Self {
        Limit { class, ..self }
    }

    pub(crate) fn algorithm(self, algorithm: Algorithm) -> Self {
        Limit { algorithm, ..self }
    }

    pub(crate) fn cost(self, cost: u64) -> Self {
        Limit { cost, ..self }
    }

    pub(crate) fn json(&self) -> String {
        let Limit { identifier, number, accuracy, class, cost, .. } = self;
        let period_ms = self.period.as_millis_ceil();
        let numbers = match self.algorithm {
            Algorithm::Sliding => format!(r#""limit":{number},"duration_ms":{period_ms}"#),
            Algorithm::Fixed => {
                format!(r#""limit":{number},"duration_ms":{period_ms},"algorithm":"fixed""#)
            }
            Algorithm::Gcra => format!(r#""rate_per_s":{RATE_PER_S},"burst":{number}"#),
        };
        format!(
            r#"{{"namespace":"{NAMESPACE}","identifier":"{identifier}",{numbers},"accuracy":"{accuracy}","class":"{class}","cost":{cost}}}"#
        )
    }

    /// What its counts are known by in the store of nodes that [`Member::start`] started.
    pub(crate) fn key(&self) -> KeyId {
        let period = Period::new(self.period).expect("a period within the range");
        let shape = match self.algorithm {
            Algorithm::Sliding => Shape::Sliding(period),
            Algorithm::Fixed => Shape::Fixed(period),
            Algorithm::Gcra => Shape::Gcra,
        };
        let secret = FleetSecret::from_bytes(SECRET.as_bytes());
        KeyPrefix::new(&secret, "default", NAMESPACE, "", shape).key(&self.identifier)
    }
}

/// What a node said, and how long that took.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) body: Value,
    pub(crate) took: Duration,
}

impl Answer {
    pub(crate) fn is_allowed(&self) -> bool {
        assert_eq!(self.status, 200, "{}", self.body);
        self.body["allowed"] == true
    }

    pub(crate) fn path(&self) -> &str {
        self.body["path"].as_str().unwrap_or_default()
    }

    pub(crate) fn is_unverified(&self) -> bool {
        self.path() == "unverified"
    }

    /// Of the first limit.
    pub(crate) fn remaining(&self) -> u64 {
        self.body["limits"][0]["remaining"].as_u64().expect("a limit in the answer")
    }
}

/// Somebody who asks one node again and again.
pub(crate) struct Caller(BufReader<TcpStream>);

impl Caller {
    pub(crate) fn ask(&mut self, limit: &Limit) -> Answer {
        self.post("/v1/limit", &limit.json())
    }

    /// All or none.
    pub(crate) fn ask_all(&mut self, limits: &[Limit]) -> Answer {
        let limits: Vec<String> = limits.iter().map(Limit::json).collect();
        self.post("/v1/limit-many", &format!(r#"{{"limits":[{}]}}"#, limits.join(",")))
    }

    pub(crate) fn post(&mut self, path: &str, body: &str) -> Answer {
        let began = Instant::now();
        self.send(path, body);
        let (status, body) = self.receive();
        Answer { status, body, took: began.elapsed() }
    }

    pub(crate) fn send(&mut self, path: &str, body: &str) {
        let length = body.len();
        let head = format!("POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {length}\r\n\r\n");
        self.0.get_mut().write_all((head + body).as_bytes()).unwrap();
    }

    pub(crate) fn receive(&mut self) -> (u16, Value) {
        let status = self.line().get(9..12).and_then(|code| code.parse().ok()).expect("a status");
        let mut length = 0;
        loop {
            let line = self.line().to_ascii_lowercase();
            if line.is_empty() {
                break;
            }
            if let Some(value) = line.strip_prefix("content-length:") {
                length = value.trim().parse().unwrap();
            }
        }
        let mut body = vec![0; length];
        self.0.read_exact(&mut body).unwrap();
        (status, serde_json::from_slice(&body).unwrap())
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.0.read_line(&mut line).unwrap();
        line.trim_end().to_owned()
    }
}
