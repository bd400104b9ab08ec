//! HTTP/2 as an attacker writes it: the connection ends, others notice nothing.

use crate::envoy::client::{Client, SHOULD_RATE_LIMIT};
use crate::envoy::proto::Ask;
use crate::support::{Directory, Node, connect, rules_of};
use std::io::{Read, Write};
use std::net::TcpStream;

const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
pub(crate) const SETTINGS: u8 = 4;
pub(crate) const PING: u8 = 6;
const GOAWAY: u8 = 7;
const CONTINUATION: u8 = 9;
const END_HEADERS: u8 = 4;

pub(crate) fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
    [&length[1..], &[kind, flags], &stream.to_be_bytes(), payload].concat()
}

/// A call's headers: four names of the static table, nothing indexed.
fn call_headers() -> Vec<u8> {
    let literal = |name: &[u8], value: &[u8]| [name, &[u8::try_from(value.len()).unwrap()], value].concat();
    let path = literal(&[0x04], SHOULD_RATE_LIMIT.as_bytes());
    [vec![0x83, 0x86], path, literal(&[0x01], b"node"), literal(&[0x0f, 0x10], b"application/grpc")].concat()
}

pub(crate) fn begun(node: &Node) -> TcpStream {
    let mut stream = connect(&node.grpc);
    stream.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n").unwrap();
    stream.write_all(&frame(SETTINGS, 0, 0, &[])).unwrap();
    stream
}

/// Everything until the node closes the connection; fails when it doesn't.
fn until_closed(mut stream: TcpStream) -> Vec<u8> {
    let mut bytes = Vec::new();
    match stream.read_to_end(&mut bytes) {
        Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => panic!("the connection stays open"),
        // Closed, or reset because not everything was taken.
        _ => bytes,
    }
}

/// The kinds of the frames in it.
fn kinds(mut bytes: &[u8]) -> Vec<u8> {
    let mut kinds = Vec::new();
    while bytes.len() >= 9 {
        let length = usize::from(bytes[0]) << 16 | usize::from(bytes[1]) << 8 | usize::from(bytes[2]);
        kinds.push(bytes[3]);
        bytes = bytes.get(9 + length..).unwrap_or_default();
    }
    kinds
}

fn started() -> (Directory, Node) {
    let directory = Directory::new();
    directory.write("rules.yaml", rules_of(1000));
    let node = Node::start(&directory, &[]);
    (directory, node)
}

pub(crate) fn assert_serves(node: &Node) {
    assert!(!Client::connect(&node.grpc).ask(&Ask::of("api", &[&[("user", "1")]])).is_over);
}

/// Behind a proxy, callers that hang up reset streams of a connection that carries everybody's calls: if they could end
/// it, the proxy would admit what was in flight.
#[test]
fn a_flood_of_resets_leaves_the_connection_to_other_calls() {
    let (_directory, node) = started();
    let mut stream = begun(&node);
    let mut flood = Vec::new();
    for number in 0..3000_u32 {
        flood.extend(frame(HEADERS, END_HEADERS, 2 * number + 1, &call_headers()));
        flood.extend(frame(RST_STREAM, 0, 2 * number + 1, &8_u32.to_be_bytes()));
    }
    flood.extend(frame(PING, 0, 0, &[7; 8]));
    stream.write_all(&flood).unwrap();
    let (mut bytes, mut buffer) = (Vec::new(), [0; 4096]);
    while !kinds(&bytes).contains(&PING) {
        let count = stream.read(&mut buffer).expect("an answer to the ping");
        assert!(count > 0, "the connection was closed: {:?}", kinds(&bytes));
        bytes.extend_from_slice(&buffer[..count]);
    }
    assert!(!kinds(&bytes).contains(&GOAWAY), "{:?}", kinds(&bytes));
    assert_serves(&node);
}

#[test]
fn a_flood_of_continuations_ends_the_connection() {
    let (_directory, node) = started();
    let mut stream = begun(&node);
    let _ = stream.write_all(&frame(HEADERS, 0, 1, &call_headers()));
    let one = frame(CONTINUATION, 0, 1, &[]);
    for _ in 0..100 {
        if stream.write_all(&one.repeat(100)).is_err() {
            break;
        }
    }
    until_closed(stream);
    assert_serves(&node);
}

#[test]
fn headers_over_the_bound_are_no_call() {
    let (_directory, node) = started();
    let mut stream = begun(&node);
    let filler = [&[0x00, 1, b'x', 0x7f, 0xc1, 0x7e][..], &[b'y'; 16_320]].concat();
    let _ = stream.write_all(&frame(HEADERS, 0, 1, &call_headers()));
    for _ in 0..20 {
        let _ = stream.write_all(&frame(CONTINUATION, 0, 1, &filler[..filler.len().min(16_384)]));
    }
    until_closed(stream);
    assert_serves(&node);
}

#[test]
fn what_isnt_http2_is_closed() {
    let (_directory, node) = started();
    let mut stream = connect(&node.grpc);
    stream.write_all(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
    until_closed(stream);
    let mut broken = begun(&node);
    // A header block that is none.
    broken.write_all(&frame(HEADERS, END_HEADERS, 1, &[0xff; 9])).unwrap();
    assert!(kinds(&until_closed(broken)).contains(&GOAWAY));
    assert_serves(&node);
}

/// Four thousand streams that never send their message: 256 at most are open, the others refused.
#[test]
fn more_streams_than_allowed_are_refused() {
    let (_directory, node) = started();
    let mut stream = begun(&node);
    let mut flood = Vec::new();
    for number in 0..300_u32 {
        flood.extend(frame(HEADERS, END_HEADERS, 2 * number + 1, &call_headers()));
    }
    stream.write_all(&flood).unwrap();
    let mut seen = Vec::new();
    let mut buffer = [0; 4096];
    while kinds(&seen).iter().filter(|kind| **kind == RST_STREAM).count() < 44 {
        let count = stream.read(&mut buffer).expect("streams over the bound are reset");
        assert!(count > 0, "the connection was closed");
        seen.extend_from_slice(&buffer[..count]);
    }
    assert_serves(&node);
}
