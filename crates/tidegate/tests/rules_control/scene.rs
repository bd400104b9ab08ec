//! What these tests stand on: a control plane, brokers behind it, nodes behind those.

use crate::support::{Directory, Node, Process, SOON, poll, request};
use serde_json::{Value, json};
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::sync::mpsc;

/// Longer than anything here takes on a busy machine.
pub(crate) const REACHED_WITHIN: std::time::Duration = std::time::Duration::from_secs(10);

/// A control plane or a broker.
pub(crate) struct Server {
    pub(crate) process: Process,
    /// `127.0.0.1:port`.
    pub(crate) address: String,
    pub(crate) directory: Directory,
    arguments: Vec<String>,
}

impl Server {
    pub(crate) fn control() -> Self {
        Server::start(Directory::new(), &["--store", "sqlite:rules.db"], "127.0.0.1:0")
    }

    pub(crate) fn with_store(url: &str) -> Self {
        Server::start(Directory::new(), &["--store", url], "127.0.0.1:0")
    }

    pub(crate) fn with_tokens(path: &str) -> Self {
        Server::start(Directory::new(), &["--store", "sqlite:rules.db", "--auth-tokens", path], "127.0.0.1:0")
    }

    /// `directory` has its `tidegate.toml`.
    pub(crate) fn configured(directory: Directory) -> Self {
        Server::start(directory, &["--store", "sqlite:rules.db"], "127.0.0.1:0")
    }

    /// Over TLS; `directory` has the certificate and its key.
    pub(crate) fn with_tls(directory: Directory) -> Self {
        let flags =
            ["--store", "sqlite:rules.db", "--tls-certificate", "server.pem", "--tls-key", "server.key"];
        Server::start(directory, &flags, "127.0.0.1:0")
    }

    pub(crate) fn broker(upstream: &[&Server]) -> Self {
        let urls: Vec<String> = upstream.iter().map(|server| server.url()).collect();
        Server::start(Directory::new(), &["--upstream", &urls.join(",")], "127.0.0.1:0")
    }

    fn start(directory: Directory, arguments: &[&str], listen: &str) -> Self {
        let stderr =
            std::fs::File::options().create(true).append(true).open(directory.path("stderr")).unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_tidegate"));
        command.current_dir(directory.path("")).env_clear();
        command.args(["control", "--listen", listen]).args(arguments);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(stderr);
        let mut process = Process(command.spawn().unwrap());
        let stdout = BufReader::new(process.0.stdout.take().unwrap());
        let (sender, lines) = mpsc::channel();
        std::thread::spawn(move || {
            stdout.lines().map_while(Result::ok).try_for_each(|line| sender.send(line))
        });
        let address = loop {
            let line = lines.recv_timeout(SOON);
            let line = line.unwrap_or_else(|_| panic!("no banner; stderr: {}", directory.read("stderr")));
            if let Some(url) = line.trim().strip_prefix("control ") {
                break url.trim().rsplit('/').next().unwrap().to_owned();
            }
        };
        Server { process, address, directory, arguments: arguments.iter().map(ToString::to_string).collect() }
    }

    /// SIGKILL.
    pub(crate) fn kill(&mut self) {
        self.process.0.kill().unwrap();
        self.process.0.wait().unwrap();
    }

    /// On the same port, with what it had written.
    pub(crate) fn restart(self) -> Self {
        let Server { address, directory, arguments, mut process } = self;
        let _ = process.0.kill();
        process.0.wait().unwrap();
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        Server::start(directory, &arguments, &address)
    }

    /// The same with nothing but its store: it builds its file anew, and has no change that led to it.
    pub(crate) fn restart_without_files(mut self) -> Self {
        self.kill();
        std::fs::remove_dir_all(self.directory.path("data/control")).unwrap();
        let server = self.restart();
        poll("a file", REACHED_WITHIN, || {
            (request(&server.address, "GET", "/readyz", "").0 == 200).then_some(())
        });
        server
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    pub(crate) fn get(&self, path: &str) -> Value {
        request(&self.address, "GET", path, "").1
    }

    /// Sends a change once the store is reached; the version that it made.
    fn change(&self, method: &str, path: &str, body: &Value) -> u64 {
        let (status, answer) = poll("a change", SOON, || {
            let (status, answer) = request(&self.address, method, path, &body.to_string());
            (status != 503).then_some((status, answer))
        });
        assert_eq!(status, 200, "{answer}");
        answer["version"].as_u64().unwrap()
    }

    pub(crate) fn push(&self, rules: &str) -> u64 {
        self.change("POST", "/v1/rules", &json!({ "files": [{ "name": "rules.yaml", "text": rules }] }))
    }

    /// One override of `per-user` in `api`.
    pub(crate) fn set_override(&self, entry: &Value) -> u64 {
        self.change("PUT", "/v1/overrides", &json!({ "namespace": "api", "override": entry }))
    }

    pub(crate) fn mode(&self, mode: &str) -> u64 {
        self.change("POST", "/v1/rules/mode", &json!({ "mode": mode }))
    }

    pub(crate) fn reset(&self, user: &str) -> u64 {
        let entry = json!({ "rule": "per-user", "user": user });
        self.change("POST", "/v1/rules/reset", &json!({ "namespace": "api", "override": entry }))
    }
}

/// A node that follows.
pub(crate) struct Follower {
    pub(crate) node: Node,
    pub(crate) directory: Directory,
}

impl Follower {
    pub(crate) fn start(servers: &[&Server], arguments: &[&str]) -> Self {
        let urls: Vec<String> = servers.iter().map(|server| server.url()).collect();
        Follower::start_in(Directory::new(), &urls.join(","), arguments)
    }

    pub(crate) fn start_in(directory: Directory, urls: &str, arguments: &[&str]) -> Self {
        let node = Node::start(&directory, &[&["--rules-control", urls], arguments].concat());
        Follower { node, directory }
    }

    pub(crate) fn version(&self) -> u64 {
        self.node.state()["rules_stream"]["version"].as_u64().unwrap_or(0)
    }

    /// How often it loaded a file.
    pub(crate) fn snapshots(&self) -> u64 {
        self.node.state()["rules_stream"]["rule_snapshots_loaded"].as_u64().unwrap_or(0)
    }

    /// How often it was connected.
    pub(crate) fn connects(&self) -> u64 {
        self.node.state()["rules_stream"]["rule_stream_connects"].as_u64().unwrap_or(0)
    }

    pub(crate) fn wait_version(&self, version: u64) {
        poll(&format!("version {version}"), REACHED_WITHIN, || (self.version() >= version).then_some(()));
    }

    /// How many of so many requests of a user are allowed.
    pub(crate) fn allowed(&self, requests: u32, user: &str) -> usize {
        self.node.allowed(requests, &check(user))
    }

    pub(crate) fn log(&self) -> String {
        self.directory.read("stderr")
    }
}

pub(crate) fn check(user: &str) -> String {
    json!({ "namespace": "api", "attributes": { "user": user } }).to_string()
}
