//! Tokens and tenants as operators and callers meet them: made by the command, used on every protocol, revoked.

mod callers;
mod files;
mod isolation;

use crate::envoy::client::{Client as Grpc, Reply, SHOULD_RATE_LIMIT, framed};
use crate::envoy::proto::Ask;
use crate::support::{CHECK, Directory, Node, SOON, connect, request_with, run};
use http::Request;
use std::io::{Read, Write};
use std::net::TcpStream;

const FILE: &str = "tokens.toml";
/// The same rules for two tenants and the operators.
const RULES: &str = "\
tenant: acme
namespace: api
rules: [{ name: acme-only, key: [user], limit: 3 per 365d }]
---
tenant: rival
namespace: api
rules: [{ name: rival-only, key: [user], limit: 3 per 365d }]
---
namespace: api
rules: [{ name: default-only, key: [user], limit: 3 per 365d }]
";

/// A new token.
pub(crate) fn make(directory: &Directory, tenant: &str, permissions: &str) -> String {
    let arguments = [
        "token",
        "new",
        "--tenant",
        tenant,
        "--permissions",
        permissions,
        "--auth-tokens",
        FILE,
        "--name",
        "test",
    ];
    let made = run(directory, &arguments, &[]);
    assert_eq!(made.code, Some(0), "{}", made.stderr);
    let token = made.stdout.trim_end().to_owned();
    assert!(token.starts_with("tg_") && token.len() == 80, "{token}");
    assert!(!made.stderr.contains(&token[16..]), "{}", made.stderr);
    token
}

fn revoke(directory: &Directory, token: &str) {
    let revoked = run(directory, &["token", "revoke", &token[3..15], "--auth-tokens", FILE], &[]);
    assert_eq!(revoked.code, Some(0), "{}", revoked.stderr);
}

pub(crate) fn start(directory: &Directory, arguments: &[&str]) -> Node {
    directory.write("rules.yaml", RULES);
    Node::start(directory, &[&["--auth-tokens", FILE], arguments].concat())
}

pub(crate) fn bearer(token: &str) -> String {
    format!("Authorization: Bearer {token}\r\n")
}

/// The status of one request, and everything that was said.
pub(crate) fn http(address: &str, line: &str, headers: &str, body: &str) -> (u16, String) {
    let answer = request_with(address, line, headers, body);
    (answer[9..12].parse().unwrap(), answer)
}

pub(crate) fn check(node: &Node, token: &str) -> (u16, String) {
    http(&node.http, "POST /v1/check", &bearer(token), CHECK)
}

pub(crate) fn grpc(node: &Node, header: (&str, &str)) -> Reply {
    let message = framed(&Ask::of("api", &[&[("user", "42")]]).encoded());
    let request = Request::post(format!("http://node{SHOULD_RATE_LIMIT}"));
    let request = request.header("content-type", "application/grpc").header(header.0, header.1);
    Grpc::connect(&node.grpc).exchange(request.body(()).unwrap(), &[&message])
}

/// A RESP connection that is read line by line.
struct Resp(TcpStream);

impl Resp {
    fn connect(node: &Node) -> Self {
        Resp(connect(&node.resp))
    }

    /// The first line of the answer to an inline command whose other lines are left alone by what follows.
    fn line(&mut self, command: &str) -> String {
        self.0.write_all(format!("{command}\r\n").as_bytes()).unwrap();
        let mut line = Vec::new();
        while !line.ends_with(b"\r\n") {
            let mut byte = [0];
            self.0.read_exact(&mut byte).unwrap();
            line.push(byte[0]);
        }
        String::from_utf8(line).unwrap().trim_end().to_owned()
    }

    /// The five integers of a throttle command, or the error.
    fn throttle(&mut self, key: &str) -> Result<[i64; 5], String> {
        let first = self.line(&format!("CL.THROTTLE {key} 2 1 3600"));
        if first != "*5" {
            return Err(first);
        }
        let mut text = String::new();
        while text.matches("\r\n").count() < 5 {
            let mut byte = [0];
            self.0.read_exact(&mut byte).unwrap();
            text.push(char::from(byte[0]));
        }
        let numbers: Vec<i64> = text.lines().map(|line| line[1..].parse().unwrap()).collect();
        Ok(numbers.try_into().unwrap())
    }
}

const WRONG: &str = "tg_0123456789ab_0000000000000000000000000000000000000000000000000000000000000000";
const NO_AUTH: &str = "-NOAUTH Authentication required.";
const WRONG_PASS: &str = "-WRONGPASS invalid username-password pair or user is disabled.";

#[test]
fn a_node_without_tokens_says_so_and_ignores_those_that_are_sent() {
    let directory = Directory::new();
    directory.write("rules.yaml", RULES);
    let node = Node::start(&directory, &[]);
    assert!(node.banner.contains("no tokens: only this machine is served"), "{}", node.banner);
    for header in [String::new(), bearer(WRONG), format!("X-Tidegate-Token: {WRONG}\r\n")] {
        let (status, said) = http(&node.http, "POST /v1/check", &header, CHECK);
        assert!(status == 200 && said.contains("default-only"), "{said}");
    }
    assert_eq!(grpc(&node, ("authorization", "Bearer x")).code, Some(0));
    let mut resp = Resp::connect(&node);
    assert_eq!(resp.line("AUTH whatever"), "+OK");
    assert_eq!(resp.throttle("k").unwrap()[0], 0);
}

#[test]
fn a_node_with_tokens_may_listen_for_everybody() {
    let directory = Directory::new();
    make(&directory, "acme", "check");
    let node = start(&directory, &["--listen-http", "0.0.0.0:0", "--listen-admin", "[::]:0"]);
    assert!(node.banner.contains("tokens.toml: 1 token of 1 tenant"), "{}", node.banner);
    let port = node.http.rsplit(':').next().unwrap();
    assert_eq!(http(&format!("127.0.0.1:{port}"), "POST /v1/check", "", CHECK).0, 401);
}

#[test]
fn secrets_are_never_printed() {
    let directory = Directory::new();
    let token = make(&directory, "acme", "check,admin");
    let secret = &token[16..];
    let mut node = start(&directory, &["--log-level", "trace"]);
    assert_eq!(check(&node, &token).0, 200);
    assert_eq!(check(&node, &token[..79]).0, 401);
    grpc(&node, ("x-tidegate-token", &token));
    let mut resp = Resp::connect(&node);
    assert_eq!(resp.line(&format!("AUTH {token}")), "+OK");
    node.process.signal(rustix::process::Signal::TERM);
    assert_eq!(node.process.exit_code(SOON), Some(0));
    let log = directory.read("stderr");
    assert!(log.contains("stopping") && !log.contains(&secret[..20]), "{log}");
    let listed = run(&directory, &["token", "list", "--auth-tokens", FILE], &[]);
    assert!(
        listed.stdout.contains(&token[3..15]) && listed.stdout.contains("check,admin"),
        "{}",
        listed.stdout
    );
    assert!(!directory.read(FILE).contains(&secret[..20]) && !listed.stdout.contains(&secret[..20]));
}
