//! Processes of the release binary, each in a directory of its own.

use crate::client::Client;
use crate::time::poll;
use serde_json::json;
use std::fs::{self, File};
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::process::Stdio;
use std::time::Duration;
use tidegate_testkit::{Directory, Process, free_port, guarded};

const SOON: Duration = Duration::from_secs(60);

/// A process that can be killed and started again. Dropping it kills it.
#[derive(Debug)]
pub(crate) struct Running {
    process: Option<Process>,
    /// Where it answers HTTP: the control listener, or a node's operators.
    pub(crate) address: SocketAddr,
    /// Where a node is asked for decisions.
    pub(crate) http: SocketAddr,
    arguments: Vec<String>,
    /// Variables that it is started with; it gets no others.
    environment: Vec<(&'static str, String)>,
    pub(crate) directory: Directory,
}

impl Running {
    /// Not started yet.
    pub(crate) fn new(arguments: Vec<String>, address: SocketAddr, http: SocketAddr) -> Self {
        let environment = Vec::new();
        Running { process: None, address, http, arguments, environment, directory: Directory::new() }
    }

    pub(crate) fn control() -> Result<Self, String> {
        Self::server(&["--store", "sqlite:rules.db"])
    }

    pub(crate) fn broker(upstream: &Running) -> Result<Self, String> {
        Self::server(&["--upstream", &upstream.url()])
    }

    fn server(arguments: &[&str]) -> Result<Self, String> {
        let address = free_address();
        let mut all = vec!["control".to_owned(), "--listen".to_owned(), address.to_string()];
        all.extend(arguments.iter().map(ToString::to_string));
        let mut server = Running::new(all, address, address);
        server.start()?;
        Ok(server)
    }

    /// Follows these servers, and perhaps doesn't listen yet.
    pub(crate) fn node(servers: &[&Running], arguments: &[&str]) -> Result<Self, String> {
        let urls: Vec<String> = servers.iter().map(|server| server.url()).collect();
        let [http, admin] = [free_address(), free_address()];
        let mut all = ["serve", "--rules-control", &urls.join(",")].map(str::to_owned).to_vec();
        for (flag, address) in [("--listen-http", http), ("--listen-admin", admin)] {
            all.extend([flag.to_owned(), address.to_string()]);
        }
        all.extend(["--listen-grpc", "127.0.0.1:0", "--listen-resp", "127.0.0.1:0"].map(str::to_owned));
        all.extend(arguments.iter().map(ToString::to_string));
        let mut node = Running::new(all, admin, http);
        node.start()?;
        Ok(node)
    }

    /// With what it had written; waits until it answers.
    pub(crate) fn start(&mut self) -> Result<(), String> {
        self.spawn().map_err(|error| format!("can't start a process: {error}"))?;
        let is_up = || Client::connect(self.address).and_then(|mut client| client.get("/healthz")).ok();
        poll("a process that answers", SOON, is_up)
            .map(drop)
            .map_err(|problem| format!("{problem}\n{}", self.log()))
    }

    fn spawn(&mut self) -> io::Result<()> {
        let path = self.directory.root();
        let mut command = guarded(env!("CARGO_BIN_EXE_tidegate"));
        command.args(&self.arguments).env_clear().current_dir(path).stdin(Stdio::null());
        command.envs(self.environment.iter().map(|(name, value)| (name, value)));
        command.stdout(File::create(path.join("stdout"))?);
        command.stderr(File::options().create(true).append(true).open(path.join("stderr"))?);
        self.process = Some(Process::spawn(command)?);
        Ok(())
    }

    /// Kills it and starts it again, with other variables.
    pub(crate) fn restart_with(&mut self, environment: Vec<(&'static str, String)>) -> Result<(), String> {
        self.kill();
        self.environment = environment;
        self.start()
    }

    /// SIGTERM: it publishes what it has, and ends.
    pub(crate) fn terminate(self) -> Result<(), String> {
        let Some(process) = &self.process else { return Ok(()) };
        process.terminate();
        poll("a process that ends", SOON, || process.exit_status()).map(drop)
    }

    /// SIGKILL.
    pub(crate) fn kill(&mut self) {
        self.process = None;
    }

    /// SIGSTOP: it stands still and keeps its sockets.
    pub(crate) fn stop(&self) {
        self.process.iter().for_each(Process::stop);
    }

    /// SIGCONT.
    pub(crate) fn resume(&self) {
        self.process.iter().for_each(Process::resume);
    }

    /// Of the process that runs now.
    pub(crate) fn id(&self) -> Option<u32> {
        self.process.as_ref().map(Process::id)
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    pub(crate) fn client(&self) -> Result<Client, String> {
        Client::connect(self.address)
    }

    pub(crate) fn log(&self) -> String {
        self.directory.read("stderr")
    }

    /// The memory that is its own and not a file's, in bytes.
    pub(crate) fn anonymous_bytes(&self) -> Option<u64> {
        let id = self.process.as_ref()?.id();
        let status = fs::read_to_string(format!("/proc/{id}/status")).ok()?;
        let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:"))?;
        line.trim().strip_suffix(" kB")?.parse::<u64>().ok().map(|kib| kib * 1024)
    }
}

pub(crate) fn free_address() -> SocketAddr {
    SocketAddr::from((Ipv4Addr::LOCALHOST, free_port()))
}

/// Rules for `api`, and the version that they are.
pub(crate) fn push(control: &Running, rules: &str) -> Result<u64, String> {
    let body = json!({ "files": [{ "name": "rules.yaml", "text": rules }] });
    poll("the control plane's store", SOON, || control.client().ok()?.change("POST", "/v1/rules", &body).ok())
        .map_err(|problem| format!("{problem}\n{}", control.log()))
}

pub(crate) const RULES: &str =
    "namespace: api\nrules:\n  - { name: per-user, key: [user], limit: 100 per 1h }\n";

/// One override's body.
pub(crate) fn override_of(user: &str, limit: u64) -> serde_json::Value {
    json!({ "namespace": "api", "override": { "rule": "per-user", "user": user, "limit": limit } })
}

/// The version that a node goes by.
pub(crate) fn version_of(client: &mut Client) -> Result<u64, String> {
    Ok(client.get("/readyz")?["rule_version"].as_u64().unwrap_or(0))
}
