//! A page of `docs/` as its reader meets it: its commands, block after block, in one shell and an empty directory.
//!
//! What the reader would see printed is compared with what the page shows. Only ports differ from what is written:
//! those of the page belong to whoever runs on this machine, so each is replaced by a free one.

use crate::support::{Directory, poll, request};
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::time::Duration;
use tidegate_testkit::{free_port, guarded};

/// For a block's commands, and for a server's start, on a busy machine.
const BLOCK_MAX: Duration = Duration::from_secs(60);
const END_OF_BLOCK: &str = "~~~ end of block";
/// Where a node and a control plane listen unless they are told otherwise.
const DEFAULTS: [(u16, &str); 5] = [
    (8080, "TIDEGATE_LISTEN_HTTP"),
    (8081, "TIDEGATE_LISTEN_GRPC"),
    (6380, "TIDEGATE_LISTEN_RESP"),
    (9090, "TIDEGATE_LISTEN_ADMIN"),
    (7070, "TIDEGATE_CONTROL_LISTEN"),
];
const UNSET_LISTENERS: &str =
    "-u TIDEGATE_LISTEN_HTTP -u TIDEGATE_LISTEN_GRPC -u TIDEGATE_LISTEN_RESP -u TIDEGATE_LISTEN_ADMIN ";
/// Programs that can't run in a test; what they are given is checked.
const STAND_INS: [&str; 7] = ["kubectl", "docker", "systemctl", "journalctl", "sudo", "cargo", "npm"];
/// A server ends with its shell, also when the test is killed.
const GUARDED: &str =
    r#"guarded() { exec $(command -v setpriv > /dev/null && echo setpriv --pdeathsig KILL) env "$@"; }"#;

pub(super) fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// A block of `sh`, and what the block of `text` right behind it says that it prints.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Block {
    pub(super) line: usize,
    pub(super) script: String,
    pub(super) printed: Option<String>,
}

pub(super) fn blocks(page: &str) -> Vec<Block> {
    let (mut found, mut open): (Vec<Block>, Option<(usize, &str, String)>) = (Vec::new(), None);
    let mut is_behind_block = false;
    for (number, line) in page.lines().enumerate() {
        match (&mut open, line.strip_prefix("```")) {
            (None, Some(language)) => open = Some((number + 1, language, String::new())),
            (None, None) => is_behind_block &= line.is_empty(),
            (Some((_, _, text)), None) => *text += &format!("{line}\n"),
            (Some(_), Some(_)) => {
                let (line, language, text) = open.take().unwrap();
                match (language, found.last_mut()) {
                    ("sh", _) => found.push(Block { line, script: text, printed: None }),
                    ("text", Some(block)) if is_behind_block => block.printed = Some(text),
                    _ => {}
                }
                is_behind_block = language == "sh";
            }
        }
    }
    found
}

/// One shell for a whole page. What it started ends with it.
pub(super) struct Shell {
    name: String,
    child: Child,
    stdin: ChildStdin,
    lines: Receiver<String>,
    pub(super) directory: Directory,
    ports: BTreeMap<u16, u16>,
    servers: usize,
}

impl Drop for Shell {
    fn drop(&mut self) {
        let group = rustix::process::Pid::from_child(&self.child);
        let _ = rustix::process::kill_process_group(group, rustix::process::Signal::KILL);
        let _ = self.child.wait();
    }
}

impl Shell {
    /// For a page with this text, with `programs` on the path beside `tidegate`.
    pub(super) fn start(name: &str, page: &str, programs: &[(&str, PathBuf)]) -> Self {
        let directory = Directory::new();
        let mut ports = BTreeMap::new();
        for port in DEFAULTS.map(|(port, _)| port).into_iter().chain(ports_of(page)) {
            ports.entry(port).or_insert_with(free_port);
        }
        for base in ports_after(page, "--port-base ") {
            ports.insert(base, free_ports_in_a_row());
        }
        std::fs::create_dir(directory.path("bin")).unwrap();
        let binary = PathBuf::from(env!("CARGO_BIN_EXE_tidegate"));
        let stand_in = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/process/documents/stand_ins.sh");
        let programs = programs.iter().map(|(program, path)| (*program, path)).chain([("tidegate", &binary)]);
        for (program, path) in programs.chain(STAND_INS.map(|program| (program, &stand_in))) {
            std::os::unix::fs::symlink(path, directory.path("bin").join(program)).unwrap();
        }
        std::os::unix::fs::symlink(repository().join("deploy"), directory.path("deploy")).unwrap();
        for example in examples(&repository().join("examples")) {
            let text = std::fs::read_to_string(&example).unwrap();
            let name = example.strip_prefix(repository()).unwrap();
            std::fs::create_dir_all(directory.path(name.parent().unwrap().to_str().unwrap())).unwrap();
            directory.write(name.to_str().unwrap(), with_ports(&patient(&text), &ports));
        }
        let mut command = guarded("bash");
        command.args(["--noprofile", "--norc"]).current_dir(directory.root()).process_group(0);
        let search = std::env::var("PATH").unwrap_or_default();
        command.env("PATH", format!("{}:{search}:/usr/sbin", directory.path("bin").display()));
        command.env("TIDEGATE_ORIGIN_TIMEOUT_MS", "1000");
        for (port, variable) in DEFAULTS {
            command.env(variable, format!("127.0.0.1:{}", ports[&port]));
        }
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        command.stderr(std::fs::File::create(directory.path("shell.stderr")).unwrap());
        let mut child = command.spawn().expect("bash");
        let (mut stdin, stdout) = (child.stdin.take().unwrap(), BufReader::new(child.stdout.take().unwrap()));
        let (sender, lines) = mpsc::channel();
        std::thread::spawn(move || {
            stdout.lines().map_while(Result::ok).try_for_each(|line| sender.send(line))
        });
        writeln!(stdin, "set -e -o pipefail\n{GUARDED}").unwrap();
        Shell { name: name.to_owned(), child, stdin, lines, directory, ports, servers: 0 }
    }

    /// What has to be there before the page's first block.
    pub(super) fn prepare(&mut self, script: &str) {
        self.run(&Block { line: 0, script: script.to_owned(), printed: None });
    }

    pub(super) fn run_all(&mut self, page: &str) {
        let blocks = blocks(page);
        assert!(!blocks.is_empty(), "{} has no commands", self.name);
        for block in &blocks {
            let printed = self.run(block);
            if let Some(sample) = &block.printed {
                let sample = with_ports(sample, &self.ports);
                assert!(
                    is_alike(&sample, &printed),
                    "docs/{}:{}: the page shows\n{sample}\nand this was printed:\n{printed}",
                    self.name,
                    block.line
                );
            }
        }
    }

    /// What a block printed; its servers are listened to from here on.
    fn run(&mut self, block: &Block) -> String {
        let (script, listening) = self.with_guarded_servers(&with_ports(&block.script, &self.ports));
        self.directory.write("block.sh", script);
        // A command that reads must not read our script.
        writeln!(self.stdin, "source ./block.sh </dev/null; echo; echo '{END_OF_BLOCK}'").unwrap();
        let mut printed = String::new();
        loop {
            let line = self.lines.recv_timeout(BLOCK_MAX).unwrap_or_else(|_| {
                let complaints = self.directory.read("shell.stderr");
                panic!(
                    "docs/{}:{} failed, or didn't end:\n{}\nprinted: {printed}\ncomplained: {complaints}\n{}",
                    self.name,
                    block.line,
                    block.script,
                    self.logs()
                )
            });
            if line == END_OF_BLOCK {
                break;
            }
            printed += &format!("{line}\n");
        }
        for port in listening {
            let what = format!("docs/{}:{}: a server on port {port}; {}", self.name, block.line, self.logs());
            poll(&what, BLOCK_MAX, || TcpStream::connect(("127.0.0.1", port)).ok());
            // A control plane listens before it has read its store; people type slower than that takes.
            if port == self.ports[&7070] {
                let is_ready = || request(&format!("127.0.0.1:{port}"), "GET", "/readyz", "").0 == 200;
                poll(&what, BLOCK_MAX, || is_ready().then_some(()));
            }
        }
        printed
    }

    fn logs(&self) -> String {
        let log =
            |number| format!("server {number}: {}", self.directory.read(&format!("server-{number}.log")));
        (1..=self.servers).map(log).collect()
    }

    /// Lines that end in `&` start servers: each ends with the shell, and writes to a file. With the ports on which
    /// they will listen.
    fn with_guarded_servers(&mut self, script: &str) -> (String, Vec<u16>) {
        let (mut changed, mut listening) = (String::new(), Vec::new());
        for line in script.replace("\\\n", " ").lines() {
            let Some(server) = line.strip_suffix(" &") else {
                changed += &format!("{line}\n");
                continue;
            };
            self.servers += 1;
            let log = if server.contains('>') {
                String::new()
            } else {
                format!(" > server-{}.log 2>&1", self.servers)
            };
            // Where a node's line gives it ports, they count.
            let unset = if server.contains("--port-base") { UNSET_LISTENERS } else { "" };
            changed += &format!("guarded {unset}{server}{log} &\n");
            listening.extend(self.listens(server));
        }
        (changed, listening)
    }

    /// Where a server will listen: as its line says, or as its program does by default.
    fn listens(&self, server: &str) -> Vec<u16> {
        let words: Vec<&str> = server.split_whitespace().collect();
        let flags = [
            "--listen-http",
            "--listen-admin",
            "--control-listen",
            "--listen",
            "--port",
            "--port-base",
            "--bind",
        ];
        let port = |text: &str| text.rsplit(':').next().and_then(|port| port.parse::<u16>().ok());
        let mut said: Vec<u16> = words
            .windows(2)
            .filter(|pair| flags.contains(&pair[0]))
            .filter_map(|pair| port(pair[1]).filter(|port| *port != 0))
            .collect();
        let has = |word: &str| words.contains(&word);
        let by_default: &[(&str, u16)] = &[
            ("control", 7070),
            ("port-forward", 7070),
            ("nginx", 8000),
            ("envoy", 10000),
            ("tidegate", 8080),
        ];
        let last = words.last().copied().unwrap_or_default();
        if has("http.server") || (said.is_empty() && last.starts_with("127.0.0.1:")) {
            said = port(last).into_iter().collect();
        }
        if said.is_empty() {
            let program = by_default.iter().find(|(word, _)| has(word));
            said.extend(program.and_then(|(_, port)| self.ports.get(port)));
        }
        assert!(!said.is_empty(), "docs/{}: where will `{server}` listen?", self.name);
        said
    }
}

/// The files below a folder.
fn examples(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    entries.flat_map(|path| if path.is_dir() { examples(&path) } else { vec![path] }).collect()
}

/// An example for a machine under load, and for whoever may not write where nginx does: what is tested isn't how fast
/// it is.
fn patient(example: &str) -> String {
    let places = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"];
    let places: String = places.iter().map(|place| format!("{place}_temp_path {place};\n")).collect();
    example
        .replace("timeout: 1s", "timeout: 5s")
        .replace("_timeout 1s", "_timeout 5s")
        .replace("http {", &format!("http {{\n{places}access_log off;\n"))
}

/// Ports that a page's commands name.
fn ports_of(page: &str) -> Vec<u16> {
    let before = ["127.0.0.1:", "localhost:", "--port ", "-p ", "--bind 127.0.0.1 "];
    let named = before.iter().flat_map(|mark| ports_after(page, mark));
    // Proxies of `examples` listen and pass on there.
    named.chain([8000, 9000, 10000, 3000]).filter(|port| *port > 1023).collect()
}

/// Numbers behind a mark in a page's commands.
fn ports_after(page: &str, mark: &str) -> Vec<u16> {
    let scripts: Vec<String> = blocks(page).into_iter().map(|block| block.script).collect();
    let number = |rest: &str| rest.split(|c: char| !c.is_ascii_digit()).next().unwrap().parse().ok();
    scripts.iter().flat_map(|script| script.split(mark).skip(1).filter_map(number)).collect()
}

/// The first of four ports in a row, for a node; nobody else is given one of them.
fn free_ports_in_a_row() -> u16 {
    let mut given = vec![free_port()];
    while given.len() < 4 {
        let next = free_port();
        if Some(next) != given.last().and_then(|last| last.checked_add(1)) {
            given.clear();
        }
        given.push(next);
    }
    given[0]
}

/// Every number that is one of the ports, by itself, replaced.
fn with_ports(text: &str, ports: &BTreeMap<u16, u16>) -> String {
    let (mut changed, mut rest) = (String::new(), text);
    while let Some(start) = rest.find(|c: char| c.is_ascii_digit()) {
        let length = rest[start..].find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len() - start);
        let (before, number) = (&rest[..start], &rest[start..start + length]);
        changed += before;
        let is_part = |c: Option<char>| c.is_some_and(|c| c.is_ascii_alphanumeric() || c == '_' || c == '.');
        let after = rest[start + length..].chars().next();
        let is_whole =
            !is_part(before.chars().next_back()) && !after.is_some_and(|c| c.is_ascii_alphanumeric());
        match number.parse::<u16>().ok().and_then(|port| ports.get(&port)).filter(|_| is_whole) {
            Some(port) => changed += &port.to_string(),
            None => changed += number,
        }
        rest = &rest[start + length..];
    }
    changed + rest
}

/// Line by line; `…` stands for anything, and a word of four characters or more with a digit in it, such as an id or
/// a time, for another one.
pub(super) fn is_alike(sample: &str, printed: &str) -> bool {
    let lines = |text: &str| -> Vec<String> {
        text.lines().map(str::trim_end).filter(|line| !line.is_empty()).map(without_ids).collect()
    };
    let (sample, printed) = (lines(sample), lines(printed));
    sample.len() == printed.len()
        && sample.iter().zip(&printed).all(|(sample, printed)| fits(sample, printed))
}

fn without_ids(line: &str) -> String {
    let (mut made, mut word) = (String::new(), String::new());
    for c in line.chars().chain(['\n']) {
        if c.is_alphanumeric() {
            word.push(c);
            continue;
        }
        let is_id = word.len() >= 4 && word.contains(|c: char| c.is_ascii_digit());
        made += if is_id { "#" } else { &word };
        word.clear();
        made.push(c);
    }
    made.trim_end().to_owned()
}

fn fits(sample: &str, printed: &str) -> bool {
    let mut parts = sample.split('…');
    let Some(mut rest) = parts.next().and_then(|first| printed.strip_prefix(first)) else { return false };
    let mut last = "";
    for part in parts {
        let Some(at) = rest.find(part) else { return false };
        rest = &rest[at + part.len()..];
        last = part;
    }
    rest.is_empty() || (sample.contains('…') && rest.ends_with(last))
}

#[test]
fn a_block_has_the_text_that_follows_it_and_no_other() {
    let page = "# P\n```sh\na\nb\n```\n\n```text\nout\n```\nwords\n```text\nno\n```\n```console\n$ c\n```\n```sh\nd\n```\n";
    let expected = [
        Block { line: 2, script: "a\nb\n".into(), printed: Some("out\n".into()) },
        Block { line: 17, script: "d\n".into(), printed: None },
    ];
    assert_eq!(blocks(page), expected);
}

#[test]
fn what_is_printed_may_differ_in_ids_and_where_the_page_leaves_something_out() {
    assert!(is_alike("id 5c1d0e, 3 left\n", "id 99aa00ff, 3 left\n\n"));
    assert!(!is_alike("id 5c1d0e, 3 left", "id 5c1d0e, 2 left"));
    assert!(is_alike("HTTP/1.1 429\nretry … s…", "HTTP/1.1 429\nretry in 3 s or more"));
    assert!(!is_alike("HTTP/1.1 429\nretry … s.", "HTTP/1.1 429\nretry in 3 s or more"));
    assert!(!is_alike("one line", "one line\nand another"));
}

#[test]
fn ports_are_replaced_where_they_stand_alone() {
    let ports = BTreeMap::from([(8080, 1), (9000, 2)]);
    let text = "http://127.0.0.1:8080/x --bind 127.0.0.1 9000 \"duration\":80800 tidegate-8080x 18080 0.8080";
    let expected = "http://127.0.0.1:1/x --bind 127.0.0.1 2 \"duration\":80800 tidegate-8080x 18080 0.8080";
    assert_eq!(with_ports(text, &ports), expected);
}
