//! The end of a node: what is in flight is answered, within the drain time, unless somebody insists.

use crate::support::{Directory, Node, SOON, connect, parse, poll, request};
use rustix::process::Signal;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

const BODY: &str = r#"{"namespace":"demo","identifier":"me","limit":5,"duration_ms":60000}"#;

/// Sends half a request, once the node is known to wait for the rest.
fn half_a_request(node: &Node) -> TcpStream {
    let mut stream = connect(&node.http);
    let length = BODY.len();
    let head = format!(
        "POST /v1/limit HTTP/1.1\r\nHost: x\r\nContent-Length: {length}\r\nExpect: 100-continue\r\n\r\n"
    );
    stream.write_all(head.as_bytes()).unwrap();
    let mut go_on = [0; 25];
    stream.read_exact(&mut go_on).unwrap();
    assert_eq!(&go_on, b"HTTP/1.1 100 Continue\r\n\r\n");
    stream.write_all(&BODY.as_bytes()[..20]).unwrap();
    stream
}

fn wait_until_refused(node: &Node) {
    poll("an end of accepting", SOON, || TcpStream::connect(&node.http).is_err().then_some(()));
}

#[test]
fn a_request_in_flight_is_answered_after_the_signal() {
    let directory = Directory::new();
    let mut node = Node::start(&directory, &[]);
    let mut stream = half_a_request(&node);
    node.process.signal(Signal::TERM);
    wait_until_refused(&node);
    stream.write_all(&BODY.as_bytes()[20..]).unwrap();
    let mut response = String::new();
    stream.read_to_string(&mut response).unwrap();
    let (status, answer) = parse(&response);
    assert_eq!((status, &answer["allowed"]), (200, &true.into()));
    assert_eq!(node.process.exit_code(SOON), Some(0));
}

#[test]
fn an_idle_node_ends_at_once_on_either_signal() {
    for signal in [Signal::TERM, Signal::INT] {
        let directory = Directory::new();
        let mut node = Node::start(&directory, &["--shutdown-drain-ms", "60000"]);
        let _idle = connect(&node.http);
        assert_eq!(request(&node.http, "POST", "/v1/limit", BODY).0, 200);
        node.process.signal(signal);
        assert_eq!(node.process.exit_code(Duration::from_secs(2)), Some(0), "{signal:?}");
    }
}

#[test]
fn a_request_that_never_ends_is_dropped_after_the_drain_time() {
    let directory = Directory::new();
    let mut node = Node::start(&directory, &["--shutdown-drain-ms", "50"]);
    let _stream = half_a_request(&node);
    node.process.signal(Signal::TERM);
    assert_eq!(node.process.exit_code(Duration::from_secs(2)), Some(0));
}

#[test]
fn a_second_signal_ends_at_once() {
    let directory = Directory::new();
    let mut node = Node::start(&directory, &["--shutdown-drain-ms", "60000"]);
    let _stream = half_a_request(&node);
    node.process.signal(Signal::TERM);
    wait_until_refused(&node);
    node.process.signal(Signal::INT);
    assert_eq!(node.process.exit_code(Duration::from_secs(2)), Some(130));
}

#[test]
fn a_hangup_is_answered_in_the_log() {
    let directory = Directory::new();
    let node = Node::start(&directory, &[]);
    node.process.signal(Signal::HUP);
    poll("a line about the signal", SOON, || directory.read("stderr").contains("SIGHUP").then_some(()));
    assert_eq!(request(&node.http, "POST", "/v1/limit", BODY).0, 200);
}

/// A client has connected and its request is on its way: neither it nor one that waits to be accepted is cut off.
#[test]
fn a_connection_without_a_byte_yet_is_answered_after_the_signal() {
    let directory = Directory::new();
    let mut node = Node::start(&directory, &[]);
    let (mut http, mut resp) = (connect(&node.http), connect(&node.resp));
    node.process.signal(Signal::TERM);
    let head = format!("POST /v1/limit HTTP/1.1\r\nHost: x\r\nContent-Length: {}\r\n\r\n", BODY.len());
    http.write_all((head + BODY).as_bytes()).unwrap();
    resp.write_all(b"PING\r\n").unwrap();
    let (mut response, mut pong) = (String::new(), String::new());
    http.read_to_string(&mut response).unwrap();
    resp.read_to_string(&mut pong).unwrap();
    assert_eq!((parse(&response).0, pong.as_str()), (200, "+PONG\r\n"));
    assert_eq!(node.process.exit_code(SOON), Some(0));
}

#[test]
fn while_it_stops_the_node_is_alive_and_not_ready() {
    let directory = Directory::new();
    let mut node = Node::start(&directory, &[]);
    let ready = |node: &Node| request(&node.admin, "GET", "/readyz", "");
    assert_eq!((ready(&node).0, &ready(&node).1["ready"]), (200, &true.into()));
    let mut stream = half_a_request(&node);
    node.process.signal(Signal::TERM);
    wait_until_refused(&node);
    assert_eq!((ready(&node).0, &ready(&node).1["ready"]), (503, &false.into()));
    stream.write_all(&BODY.as_bytes()[20..]).unwrap();
    stream.read_to_string(&mut String::new()).unwrap();
    assert_eq!(node.process.exit_code(SOON), Some(0));
}
