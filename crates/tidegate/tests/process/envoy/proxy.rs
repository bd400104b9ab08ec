//! A real Envoy in front of a real upstream, with the configuration of `examples/envoy/envoy.yaml`.

use crate::support::{Directory, Node, poll};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::Stdio;
use std::time::Duration;
use tidegate_testkit::{Process, envoy, free_port, guarded};

/// Of a debug machine under load.
const START_MAX: Duration = Duration::from_secs(30);

/// The rules that `docs/envoy.md` writes, and Envoy's configuration.
fn samples() -> [String; 2] {
    let file = |name: &str| {
        let path = format!("{}/../../{name}", env!("CARGO_MANIFEST_DIR"));
        std::fs::read_to_string(path).unwrap()
    };
    let page = file("docs/envoy.md");
    let rules = page.split("<<'EOF'\n").nth(1).and_then(|rest| rest.split("EOF\n").next()).unwrap();
    [rules.to_owned(), file("examples/envoy/envoy.yaml")]
}

/// Answers every request on every connection, until the test process ends.
fn start_upstream() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            std::thread::spawn(move || answer_all(stream));
        }
    });
    port
}

fn answer_all(mut stream: TcpStream) {
    let mut lines = BufReader::new(stream.try_clone().unwrap()).lines().map_while(Result::ok);
    while lines.by_ref().any(|line| line.is_empty()) {
        if stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 8\r\n\r\nupstream").is_err() {
            return;
        }
    }
}

struct Proxied {
    _envoy: Process,
    port: u16,
}

#[derive(Debug)]
struct Reply {
    status: u16,
    head: String,
    body: String,
}

impl Proxied {
    fn start(directory: &Directory, node: &Node, failure_mode_deny: bool) -> Self {
        let (port, upstream) = (free_port(), start_upstream());
        let node_port = node.grpc.rsplit(':').next().unwrap();
        let config = samples()[1]
            .replace("port_value: 10000", &format!("port_value: {port}"))
            .replace("port_value: 3000", &format!("port_value: {upstream}"))
            .replace("port_value: 8081", &format!("port_value: {node_port}"))
            // A machine under load: what is tested isn't how fast it is.
            .replace("timeout: 1s", "timeout: 5s")
            .replace("failure_mode_deny: false", &format!("failure_mode_deny: {failure_mode_deny}"));
        let name = format!("envoy-{failure_mode_deny}.yaml");
        directory.write(&name, config);
        let log = std::fs::File::create(directory.path("envoy.log")).unwrap();
        let mut command = guarded(envoy().unwrap());
        command.arg("-c").arg(directory.path(&name)).args(["--disable-hot-restart", "--concurrency", "1"]);
        command.args(["--log-level", "warning"]).stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);
        let proxied = Proxied { _envoy: Process::spawn(command).unwrap(), port };
        poll("an Envoy that listens", START_MAX, || TcpStream::connect(("127.0.0.1", port)).ok());
        proxied
    }

    fn get(&self, path: &str, user: &str) -> Reply {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).unwrap();
        stream.set_read_timeout(Some(START_MAX)).unwrap();
        let head = format!("GET {path} HTTP/1.1\r\nHost: app\r\nX-User: {user}\r\nConnection: close\r\n\r\n");
        stream.write_all(head.as_bytes()).unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).unwrap();
        let (head, body) = text.split_once("\r\n\r\n").unwrap();
        let status = head[9..12].parse().unwrap();
        Reply { status, head: head.to_ascii_lowercase(), body: body.to_owned() }
    }
}

impl Reply {
    fn header(&self, name: &str) -> Option<&str> {
        let prefix = format!("{name}: ");
        self.head.lines().find_map(|line| line.strip_prefix(&prefix))
    }
}

#[test]
fn envoy_limits_an_upstream_and_follows_its_own_failure_mode_without_us() {
    let directory = Directory::new();
    directory.write("rules.yaml", &samples()[0]);
    let mut node = Node::start(&directory, &[]);
    let lenient = Proxied::start(&directory, &node, false);
    let strict = Proxied::start(&directory, &node, true);

    let first = lenient.get("/", "ann");
    assert_eq!((first.status, first.body.as_str()), (200, "upstream"), "{first:?}");
    assert_eq!(first.header("x-ratelimit-limit"), Some("3"), "{first:?}");
    assert_eq!(first.header("x-ratelimit-remaining"), Some("2"));
    assert_eq!(first.header("ratelimit-policy"), Some("\"per-user\";q=3;w=86400"));
    assert_eq!([(); 2].map(|()| lenient.get("/", "ann").status), [200, 200]);
    let over = lenient.get("/", "ann");
    assert_eq!(over.status, 429, "{over:?}");
    assert!(!over.body.contains("upstream"));
    assert!(
        over.header("retry-after").is_some_and(|seconds| seconds.parse::<u64>().unwrap() > 0),
        "{over:?}"
    );
    assert_eq!(strict.get("/", "ann").status, 429, "both ask the same node");
    assert_eq!(strict.get("/", "bob").status, 200);

    node.process.0.kill().unwrap();
    node.process.0.wait().unwrap();
    let (open, closed) = (lenient.get("/", "ann"), strict.get("/", "bob"));
    assert_eq!((open.status, open.body.as_str()), (200, "upstream"), "{open:?}");
    assert_eq!(closed.status, 500, "{closed:?}");
}
