//! What these tests stand on: a directory of their own, a process that never outlives its test, and HTTP.

use serde_json::Value;
use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};
pub(crate) use tidegate_testkit::Directory;

pub(crate) const SOON: Duration = Duration::from_secs(5);

/// Asks until there is an answer.
#[expect(
    clippy::disallowed_methods,
    reason = "another process can't be given a clock: polled, with a deadline"
)]
pub(crate) fn poll<T>(what: &str, within: Duration, mut look: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + within;
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(Instant::now() < deadline, "{what}: not within {within:?}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// A process that is killed when its test ends, however it ends.
pub(crate) struct Process(pub(crate) Child);

impl Process {
    pub(crate) fn exit_code(&mut self, within: Duration) -> Option<i32> {
        poll("the end of the process", within, || self.0.try_wait().unwrap()).code()
    }

    pub(crate) fn signal(&self, signal: rustix::process::Signal) {
        let id = rustix::process::Pid::from_raw(self.0.id().try_into().unwrap()).unwrap();
        rustix::process::kill_process(id, signal).unwrap();
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

type Environment<'a> = &'a [(&'a str, &'a str)];

fn command(directory: &Directory, arguments: &[&str], environment: Environment<'_>) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tidegate"));
    let stderr = File::create(directory.path("stderr")).unwrap();
    command.current_dir(directory.root()).env_clear().envs(environment.iter().copied());
    command.args(arguments).stdin(Stdio::null()).stderr(stderr);
    command
}

pub(crate) struct Finished {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

/// Starts a command that writes to the files `stdout` and `stderr`.
pub(crate) fn start(directory: &Directory, arguments: &[&str], environment: Environment<'_>) -> Process {
    let mut command = command(directory, arguments, environment);
    command.stdout(File::create(directory.path("stdout")).unwrap());
    Process(command.spawn().unwrap())
}

/// Runs a command to its end, which must come soon.
pub(crate) fn run(directory: &Directory, arguments: &[&str], environment: Environment<'_>) -> Finished {
    let mut process = start(directory, arguments, environment);
    let code = process.exit_code(Duration::from_secs(30));
    Finished { code, stdout: directory.read("stdout"), stderr: directory.read("stderr") }
}

/// A running node, on ports of its own.
pub(crate) struct Node {
    pub(crate) process: Process,
    pub(crate) banner: String,
    /// `127.0.0.1:port` each.
    pub(crate) http: String,
    pub(crate) admin: String,
    pub(crate) grpc: String,
    pub(crate) resp: String,
}

impl Node {
    pub(crate) fn start(directory: &Directory, arguments: &[&str]) -> Self {
        Self::start_with(directory, arguments, &[])
    }

    /// Within limits that this shell command sets, such as `ulimit -n 60`.
    pub(crate) fn start_limited(directory: &Directory, limits: &str, arguments: &[&str]) -> Self {
        let serve = Self::command_line(arguments);
        let mut shell = Command::new("/bin/sh");
        shell.current_dir(directory.root()).env_clear();
        shell
            .args(["-c", &format!("{limits}; exec \"$0\" \"$@\""), env!("CARGO_BIN_EXE_tidegate")])
            .args(serve);
        shell.stdin(Stdio::null()).stderr(File::create(directory.path("stderr")).unwrap());
        Self::spawned(shell, directory)
    }

    pub(crate) fn start_with(
        directory: &Directory,
        arguments: &[&str],
        environment: Environment<'_>,
    ) -> Self {
        Self::spawned(command(directory, &Self::command_line(arguments), environment), directory)
    }

    fn command_line<'a>(arguments: &[&'a str]) -> Vec<&'a str> {
        let mut serve = vec!["serve"];
        for flag in ["--listen-http", "--listen-grpc", "--listen-resp", "--listen-admin"] {
            if !arguments.contains(&flag) {
                serve.extend([flag, "127.0.0.1:0"]);
            }
        }
        serve.extend(arguments);
        serve
    }

    fn spawned(mut command: Command, directory: &Directory) -> Self {
        let mut process = Process(command.stdout(Stdio::piped()).spawn().unwrap());
        let banner = read_banner(&mut process, directory);
        let address = |label: &str| {
            let line = banner.lines().find_map(|line| line.trim().strip_prefix(label));
            line.map(|rest| rest.trim().rsplit('/').next().unwrap().to_owned()).unwrap()
        };
        let [http, admin, grpc, resp] = ["http ", "admin ", "grpc ", "resp "].map(address);
        Node { process, banner, http, admin, grpc, resp }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.http)
    }

    pub(crate) fn state(&self) -> Value {
        request(&self.admin, "GET", "/v1/state", "").1
    }

    /// How many of so many requests by a namespace's rules are allowed.
    pub(crate) fn allowed(&self, requests: u32, body: &str) -> usize {
        let allowed = |_: &u32| request(&self.http, "POST", "/v1/check", body).1["allowed"] == true;
        (0..requests).filter(allowed).count()
    }
}

/// Up to the line to try, which comes last.
fn read_banner(process: &mut Process, directory: &Directory) -> String {
    let stdout = BufReader::new(process.0.stdout.take().unwrap());
    let (sender, lines) = mpsc::channel();
    std::thread::spawn(move || stdout.lines().map_while(Result::ok).try_for_each(|line| sender.send(line)));
    let mut banner = String::new();
    while !banner.contains("curl") {
        let line = lines.recv_timeout(SOON);
        let line = line.unwrap_or_else(|_| panic!("no banner; stderr: {}", directory.read("stderr")));
        banner.push_str(&line);
        banner.push('\n');
    }
    banner
}

pub(crate) fn connect(address: &str) -> TcpStream {
    let stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(SOON)).unwrap();
    stream
}

/// One request on a connection of its own; the status and the body, which must be JSON.
pub(crate) fn request(address: &str, method: &str, path: &str, body: &str) -> (u16, Value) {
    let mut stream = connect(address);
    let length = body.len();
    let head = format!(
        "{method} {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: {length}\r\n\r\n"
    );
    stream.write_all((head + body).as_bytes()).unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    parse(&text)
}

/// The same with headers, each ended by a line break; the whole answer as it came.
pub(crate) fn request_with(address: &str, line: &str, headers: &str, body: &str) -> String {
    request_within(SOON, address, line, headers, body)
}

/// The same, for what may take longer.
pub(crate) fn request_within(
    patience: Duration,
    address: &str,
    line: &str,
    headers: &str,
    body: &str,
) -> String {
    let mut stream = connect(address);
    stream.set_read_timeout(Some(patience)).unwrap();
    let length = body.len();
    let head = format!(
        "{line} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: {length}\r\n{headers}\r\n"
    );
    stream.write_all((head + body).as_bytes()).unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    text
}

pub(crate) fn parse(response: &str) -> (u16, Value) {
    let status = response[9..12].parse().unwrap();
    let (_, body) = response.split_once("\r\n\r\n").unwrap();
    (status, serde_json::from_str(body).unwrap())
}

/// Rules for the namespace `api`: so many requests a year for each user: no test meets a turn of its window.
pub(crate) fn rules_of(limit: u32) -> String {
    format!("namespace: api\nrules:\n  - {{ name: per-user, key: [user], limit: {limit} per 365d }}\n")
}

/// A request by those rules.
pub(crate) const CHECK: &str = r#"{"namespace":"api","attributes":{"user":"42"}}"#;
