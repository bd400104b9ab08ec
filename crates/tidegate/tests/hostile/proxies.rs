//! Real proxies before a real node, with the configurations of `examples/`, changed only in their addresses and in
//! where they write.

use crate::support::{Directory, Node, Process, SOON, poll, rules_of};
use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Command, Stdio};
use std::time::Duration;
use tidegate_testkit::{envoy, guarded};

/// Of a debug machine under load.
const START_MAX: Duration = Duration::from_secs(30);

pub(crate) struct Proxy {
    /// Where callers connect.
    pub(crate) address: String,
    _process: Process,
}

/// Starts a service that answers everything with 200, on threads that end with the test.
fn upstream() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    std::thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            std::thread::spawn(move || answer_all(stream));
        }
    });
    address
}

fn answer_all(mut stream: TcpStream) {
    let mut lines = BufReader::new(stream.try_clone().unwrap()).split(b'\n').map_while(Result::ok);
    while lines.by_ref().any(|line| line == b"\r") {
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
        let _ = stream.shutdown(std::net::Shutdown::Write);
    }
}

pub(crate) fn free_address() -> String {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string()
}

/// Reads an example and replaces each of its addresses, which it must name.
fn example(name: &str, addresses: &[(&str, &str)]) -> String {
    let path = format!("{}/../../examples/{name}", env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(path).unwrap();
    addresses.iter().fold(text, |text, (from, to)| {
        assert!(text.contains(from), "{name} names {from}");
        text.replace(from, to)
    })
}

fn spawn(directory: &Directory, mut command: Command, address: String) -> Proxy {
    command.current_dir(directory.path("")).env("HOME", directory.path("")).stdin(Stdio::null());
    command.stdout(File::create(directory.path("proxy-stdout")).unwrap());
    command.stderr(File::create(directory.path("proxy-stderr")).unwrap());
    let program = command.get_program().to_owned();
    let process = command.spawn();
    let process = process
        .unwrap_or_else(|error| panic!("{}: {error}; `cargo xtask test` installs it", program.display()));
    let proxy = Proxy { address, _process: Process(process) };
    poll("a proxy that listens", START_MAX, || TcpStream::connect(&proxy.address).ok());
    proxy
}

pub(crate) fn start_nginx(directory: &Directory, node: &Node) -> Proxy {
    let address = free_address();
    let addresses =
        [("127.0.0.1:8000", &*address), ("127.0.0.1:8080", &node.http), ("127.0.0.1:9000", &upstream())];
    // Where nginx writes by default, only root may.
    let places = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"];
    let places: String = places.iter().map(|place| format!("{place}_temp_path {place};\n")).collect();
    let config = example("nginx/nginx.conf", &addresses)
        .replace("http {", &format!("http {{\n{places}access_log off;\n"));
    directory.write("nginx.conf", format!("daemon off;\nmaster_process off;\npid nginx.pid;\n{config}"));
    let mut command = Command::new("nginx");
    command
        .arg("-p")
        .arg(directory.path(""))
        .arg("-c")
        .arg(directory.path("nginx.conf"))
        .args(["-e", "stderr"]);
    spawn(directory, command, address)
}

pub(crate) fn start_caddy(directory: &Directory, node: &Node) -> Proxy {
    let address = free_address();
    let addresses =
        [("127.0.0.1:8000", &*address), ("127.0.0.1:8080", &node.http), ("127.0.0.1:9000", &upstream())];
    directory.write("Caddyfile", example("caddy/Caddyfile", &addresses));
    let mut command = Command::new("caddy");
    command.args(["run", "--adapter", "caddyfile", "--config"]).arg(directory.path("Caddyfile"));
    spawn(directory, command, address)
}

pub(crate) fn start_envoy(directory: &Directory, node: &Node) -> Proxy {
    let (address, upstream) = (free_address(), upstream());
    let port = |address: &str| format!("port_value: {}", address.rsplit(':').next().unwrap());
    let addresses = [
        ("port_value: 10000", &*port(&address)),
        ("port_value: 3000", &*port(&upstream)),
        ("port_value: 8081", &*port(&node.grpc)),
    ];
    directory.write("envoy.yaml", example("envoy/envoy.yaml", &addresses));
    let mut command = guarded(envoy().unwrap());
    command.arg("-c").arg(directory.path("envoy.yaml"));
    command.args(["--disable-hot-restart", "--concurrency", "1", "--log-level", "warning"]);
    spawn(directory, command, address)
}

/// Returns the head of a proxied answer, in lower case.
fn get(proxy: &Proxy, user: &str) -> String {
    let mut stream = TcpStream::connect(&proxy.address).unwrap();
    stream.set_read_timeout(Some(SOON)).unwrap();
    let host = &proxy.address;
    let request =
        format!("GET /things HTTP/1.1\r\nHost: {host}\r\nX-User: {user}\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    text.split_once("\r\n\r\n").map(|(head, _)| head.to_lowercase()).unwrap()
}

fn status(head: &str) -> &str {
    &head[9..12]
}

/// Two pass and the third doesn't, for each caller.
fn limits_two(proxy: &Proxy) -> String {
    let heads = [(); 3].map(|()| get(proxy, "caller"));
    assert_eq!(heads.each_ref().map(|head| status(head)), ["200", "200", "429"], "{heads:?}");
    assert_eq!(status(&get(proxy, "another")), "200");
    let [_, _, denied] = heads;
    assert!(denied.contains("\r\nretry-after: "), "{denied}");
    assert!(denied.contains("\r\nx-ratelimit-limit: 2"), "{denied}");
    denied
}

#[test]
fn nginx_passes_on_denials_and_passes_requests_without_a_node() {
    let directory = Directory::new();
    directory.write("rules.yaml", rules_of(2));
    let node = Node::start(&directory, &[]);
    let nginx = start_nginx(&directory, &node);
    limits_two(&nginx);
    drop(node);
    assert_eq!(status(&get(&nginx, "caller")), "200", "Tidegate is down");
}

#[test]
fn nginx_passes_requests_when_its_token_is_refused() {
    let directory = Directory::new();
    directory.write("rules.yaml", rules_of(0));
    directory.write("tokens", "");
    let node = Node::start(&directory, &["--auth-tokens", "tokens"]);
    let nginx = start_nginx(&directory, &node);
    assert_eq!(status(&get(&nginx, "caller")), "200");
    poll("the node's log", SOON, || directory.read("stderr").contains("refused for its token").then_some(()));
}

#[test]
fn caddy_passes_on_denials() {
    let directory = Directory::new();
    directory.write("rules.yaml", rules_of(2));
    let node = Node::start(&directory, &[]);
    let denied = limits_two(&start_caddy(&directory, &node));
    assert!(denied.contains("\r\nratelimit-policy: \"per-user\";q=2;w=31536000"), "{denied}");
}

/// A configuration from before `attributes=` was known names no attribute: `/auth` denies and says what to set.
#[test]
fn a_proxy_that_names_no_attributes_is_denied_until_the_setting_names_them() {
    let directory = Directory::new();
    directory.write("rules.yaml", rules_of(2));
    let ask = |node: &Node| {
        crate::support::request_with(&node.http, "GET /auth?namespace=api", "X-Tidegate-User: ann\r\n", "")
    };
    let node = Node::start(&directory, &[]);
    let answer = ask(&node);
    assert!(answer.starts_with("HTTP/1.1 429") && answer.contains("forward_auth.accept"), "{answer}");
    drop(node);
    let node = Node::start(&directory, &["--forward-auth-accept", "user, ip"]);
    let answer = ask(&node);
    assert!(answer.starts_with("HTTP/1.1 204"), "{answer}");
}
