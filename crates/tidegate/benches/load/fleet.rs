//! Nodes of the release binary that share a store, and single requests to them.

use crate::load::secret;
use crate::plan::Limit;
use crate::time::{Stopwatch, poll};
use serde_json::Value;
use std::fs::File;
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;
use tidegate_testkit::{Directory, Process, free_port, guarded};

/// A busy machine starts nodes slowly; a node that needs longer is broken.
const SOON: Duration = Duration::from_secs(10);

/// Dropping it kills it.
#[derive(Debug)]
pub(crate) struct Node {
    pub(crate) process: Process,
    pub(crate) http: SocketAddr,
    /// Its Unix socket.
    pub(crate) socket: PathBuf,
    admin: SocketAddr,
    directory: Directory,
}

impl Node {
    /// Started, and perhaps not yet listening.
    pub(crate) fn spawn(origin_url: &str, arguments: &[&str]) -> Result<Self, String> {
        Node::try_spawn(origin_url, arguments).map_err(|error| format!("can't start a node: {error}"))
    }

    fn try_spawn(origin_url: &str, arguments: &[&str]) -> io::Result<Self> {
        let directory = Directory::new();
        let [http, admin] = [(); 2].map(|()| SocketAddr::from((Ipv4Addr::LOCALHOST, free_port())));
        let mut command = guarded(env!("CARGO_BIN_EXE_tidegate"));
        command.arg("serve").args(["--origin-url", origin_url, "--cluster-secret-file", secret::FILE]);
        command.args(arguments);
        command.args(["--listen-http", &http.to_string(), "--listen-admin", &admin.to_string()]);
        command.args(["--listen-grpc", "127.0.0.1:0", "--listen-resp", "127.0.0.1:0"]);
        let socket = directory.path("s");
        command.arg("--listen-unix").arg(&socket);
        command.env_clear().current_dir(directory.root()).stdin(Stdio::null());
        command.stdout(File::create(directory.path("stdout"))?);
        command.stderr(File::create(directory.path("stderr"))?);
        Ok(Node { process: Process::spawn(command)?, http, socket, admin, directory })
    }

    /// What it logged, for whoever wants to know why something went wrong.
    pub(crate) fn log(&self) -> String {
        self.directory.read("stderr")
    }

    pub(crate) fn state(&self) -> Option<Value> {
        exchange(self.admin, b"GET /v1/state HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").ok()
    }

    /// Whether it draws the counts of a caller ahead.
    pub(crate) fn is_leased(&self, identifier: &str) -> bool {
        let top = b"GET /v1/top HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
        let callers = exchange(self.admin, top).unwrap_or_default();
        let busiest = callers["busiest"].as_array().map_or(&[][..], Vec::as_slice);
        busiest.iter().any(|caller| caller["identifier"] == identifier && caller["leased"] == true)
    }

    /// A number that the region tier tells.
    pub(crate) fn origin_number(&self, name: &str) -> Option<u64> {
        self.state()?["origin"][name].as_u64()
    }

    /// The shards whose breaker is open, by their address.
    pub(crate) fn open_breakers(&self) -> Vec<String> {
        let state = self.state().unwrap_or_default();
        let shards = state["origin"]["shards"].as_array().cloned().unwrap_or_default();
        let open = shards.iter().filter(|shard| shard["breaker"] == "open");
        open.filter_map(|shard| shard["address"].as_str().map(str::to_owned)).collect()
    }

    /// One request on a connection of its own.
    pub(crate) fn ask(&self, limit: &Limit) -> Result<RequestOutcome, String> {
        let answer = self.request(limit).map_err(|error| format!("no answer: {error}\n{}", self.log()))?;
        RequestOutcome::read(&answer).ok_or_else(|| format!("no decision: {answer}"))
    }

    fn request(&self, limit: &Limit) -> io::Result<Value> {
        exchange(self.http, &limit.request())
    }

    /// Sends a request whose answer is read later: a stopped node's kernel takes it.
    pub(crate) fn send(&self, limit: &Limit) -> io::Result<TcpStream> {
        let mut stream = TcpStream::connect(self.http)?;
        stream.write_all(&limit.request())?;
        Ok(stream)
    }

    /// Waits for its first decision, and says how long that took.
    pub(crate) fn wait_first_answer(&self, limit: &Limit, since: Stopwatch) -> Result<Duration, String> {
        poll("a first answer", SOON, || {
            self.request(limit).ok().and_then(|answer| RequestOutcome::read(&answer))
        })
        .map(|_| since.elapsed())
        .map_err(|problem| format!("{problem}\n{}", self.log()))
    }
}

/// What one request was told.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RequestOutcome {
    pub(crate) allowed: bool,
    pub(crate) remaining: u64,
    pub(crate) unverified: bool,
}

impl RequestOutcome {
    fn read(answer: &Value) -> Option<Self> {
        let remaining = answer["limits"][0]["remaining"].as_u64()?;
        let (allowed, unverified) = (answer["allowed"].as_bool()?, answer["path"] == "unverified");
        Some(RequestOutcome { allowed, remaining, unverified })
    }
}

/// One request, answered with JSON.
fn exchange(address: SocketAddr, request: &[u8]) -> io::Result<Value> {
    let mut stream = TcpStream::connect(address)?;
    stream.write_all(request)?;
    read_answer(stream)
}

pub(crate) fn read_decision(stream: TcpStream) -> Result<RequestOutcome, String> {
    let answer = read_answer(stream).map_err(|error| error.to_string())?;
    RequestOutcome::read(&answer).ok_or_else(|| format!("no decision: {answer}"))
}

/// A kept connection doesn't end: the answer is complete when its JSON is.
fn read_answer(mut stream: TcpStream) -> io::Result<Value> {
    stream.set_read_timeout(Some(SOON))?;
    let (mut received, mut buffer) = (Vec::new(), [0; 16 << 10]);
    loop {
        let read = stream.read(&mut buffer)?;
        received.extend_from_slice(&buffer[..read]);
        let body = received.windows(4).position(|window| window == b"\r\n\r\n").map(|head| head + 4);
        let parsed = body.and_then(|body| serde_json::from_slice(&received[body..]).ok());
        match parsed {
            Some(answer) => return Ok(answer),
            None if read == 0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            None => {}
        }
    }
}

/// Nodes that share a store and know of each other.
#[derive(Debug)]
pub(crate) struct Fleet(pub(crate) Vec<Node>);

impl Fleet {
    pub(crate) fn start(origin_url: &str, nodes: usize) -> Result<Self, String> {
        let fleet = Fleet::spawn(origin_url, nodes, &[])?;
        fleet.wait_acquainted()?;
        Ok(fleet)
    }

    /// Started, and perhaps not yet listening.
    pub(crate) fn spawn(origin_url: &str, nodes: usize, arguments: &[&str]) -> Result<Self, String> {
        (0..nodes).map(|_| Node::spawn(origin_url, arguments)).collect::<Result<_, _>>().map(Fleet)
    }

    /// Every node knows of all the others.
    pub(crate) fn wait_acquainted(&self) -> Result<(), String> {
        let expected = u64::try_from(self.0.len()).ok();
        for node in &self.0 {
            let knows_all = || {
                let has_heard = node.log().contains("the origin answers");
                (has_heard && node.origin_number("live_nodes") == expected).then_some(())
            };
            poll("a node that knows the others", SOON, knows_all)
                .map_err(|problem| format!("{problem}\n{}", node.log()))?;
        }
        Ok(())
    }

    /// The nodes' Unix sockets.
    pub(crate) fn sockets(&self) -> Vec<PathBuf> {
        self.0.iter().map(|node| node.socket.clone()).collect()
    }

    pub(crate) fn addresses(&self) -> Vec<SocketAddr> {
        self.0.iter().map(|node| node.http).collect()
    }

    /// The sum of a number that the nodes' region tiers tell.
    pub(crate) fn sum(&self, name: &str) -> u64 {
        self.0.iter().filter_map(|node| node.origin_number(name)).sum()
    }
}
