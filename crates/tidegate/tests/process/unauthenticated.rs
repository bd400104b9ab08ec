//! Connections that present no token: they hold no place that an authenticated caller needs, and little memory.

use crate::auth::{bearer, check, grpc, make, start};
use crate::envoy::client::{Client as Grpc, framed};
use crate::support::{Directory, Node, SOON, connect, poll};
use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

const CONNECTIONS_MAX: &str = "8";
const HEALTH_CHECK: &str = "/grpc.health.v1.Health/Check";
const RESOURCE_EXHAUSTED: u32 = 8;

/// Sockets that connect and say nothing.
fn silent(address: &str, count: usize) -> Vec<TcpStream> {
    (0..count).map(|_| connect(address)).collect()
}

fn is_closed(stream: &mut TcpStream) -> bool {
    stream.set_read_timeout(Some(Duration::from_millis(1))).unwrap();
    match stream.read(&mut [0; 512]) {
        Ok(count) => count == 0,
        Err(error) => !matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut),
    }
}

fn started(arguments: &[&str]) -> (Directory, Node, String) {
    let directory = Directory::new();
    let token = make(&directory, "default", "check,read,admin");
    let node = start(&directory, arguments);
    (directory, node, token)
}

fn stat(node: &Node, token: &str, name: &str) -> u64 {
    let (status, answer) = crate::auth::http(&node.admin, "GET /v1/state", &bearer(token), "");
    assert_eq!(status, 200, "{answer}");
    crate::support::parse(&answer).1["stats"][name].as_u64().unwrap()
}

#[test]
fn silent_sockets_on_every_listener_keep_no_authenticated_caller_out() {
    let (_directory, node, token) = started(&["--listen-max-connections", CONNECTIONS_MAX]);
    let mut resp = connect(&node.resp);
    let mut say = |words: &str| {
        resp.write_all(format!("{words}\r\n").as_bytes()).unwrap();
        let mut answer = [0; 128];
        let count = resp.read(&mut answer).unwrap();
        String::from_utf8_lossy(&answer[..count]).into_owned()
    };
    assert_eq!(say(&format!("AUTH {token}")), "+OK\r\n");
    let mut held = Vec::new();
    for address in [&node.http, &node.grpc, &node.resp, &node.admin] {
        held.extend(silent(address, 20));
        // More than all places are taken, and more sockets wait.
        assert_eq!(check(&node, &token).0, 200);
        assert_eq!(grpc(&node, ("authorization", &format!("Bearer {token}"))).code, Some(0));
    }
    assert_eq!(say("PING"), "+PONG\r\n", "who has authenticated stays");
    assert!(stat(&node, &token, "connections_evicted") > 0);
    assert_eq!(stat(&node, &token, "connections_refused"), 0);
    // Those that still wait to be accepted push out others.
    poll("the end of those in excess", SOON, || {
        let closed = held.iter_mut().map(is_closed).filter(|is_closed| *is_closed).count();
        (closed >= 3 * 12).then_some(())
    });
}

#[test]
fn a_socket_that_stays_silent_is_closed() {
    let (_directory, node, token) = started(&[]);
    let mut held: Vec<TcpStream> =
        [&node.http, &node.grpc, &node.resp, &node.admin].map(|address| connect(address)).into();
    // Words that need no token don't help.
    held[0].write_all(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
    poll("the end of them", Duration::from_secs(20), || held.iter_mut().all(is_closed).then_some(()));
    // gRPC's own deadline, for its first bytes, comes at the same time.
    assert!(stat(&node, &token, "connections_unauthenticated") >= 3);
}

#[test]
fn before_auth_a_redis_command_has_sixteen_kibibytes_and_ten_words() {
    let (_directory, node, _) = started(&[]);
    let long = format!("*2\r\n$4\r\nAUTH\r\n$60000\r\n{}", "x".repeat(20_000));
    let many = format!("*11\r\n{}", "$1\r\nx\r\n".repeat(11));
    for (sent, said) in
        [(long, "-ERR Protocol error: before AUTH a command has"), (many, "-ERR Protocol error: unauth")]
    {
        let mut stream = connect(&node.resp);
        stream.write_all(sent.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        assert!(answer.starts_with(said), "{answer}");
    }
}

#[test]
fn a_health_check_has_four_kibibytes_and_a_connection_sixteen_watches() {
    let (_directory, node, _) = started(&[]);
    let client = Grpc::connect(&node.grpc);
    let named = |bytes: usize| {
        // A field of bytes, with a length of two bytes.
        let varint = [0x0a, u8::try_from(bytes & 0x7f).unwrap() | 0x80, u8::try_from(bytes >> 7).unwrap()];
        framed(&[&varint[..], &vec![b'x'; bytes]].concat())
    };
    assert_eq!(client.send(HEALTH_CHECK, &[&named(4000)]).code, Some(5), "no such service");
    assert_eq!(client.send(HEALTH_CHECK, &[&named(5000)]).code, Some(RESOURCE_EXHAUSTED));
    assert_eq!(client.send(HEALTH_CHECK, &[&framed(&[])]).code, Some(0), "the connection goes on");
    poll("room again", SOON, || (check(&node, "none").0 == 401).then_some(()));
}
