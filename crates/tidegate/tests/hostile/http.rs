//! HTTP/1.1 written by hand: a caller may send any bytes, from any address of this machine.

use crate::attacks::{Caller, Request};
use crate::support::SOON;
use socket2::{Domain, Socket, Type};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};

/// Sends a request from the caller's address; returns the answer's status, or `None` when the connection was closed
/// without one.
pub(crate) fn send(server: &str, request: &Request, caller: &Caller) -> Option<u16> {
    let mut head = head(server, request.method, &request.target.replace("{server}", server));
    if let Some(user) = &request.user {
        put(&mut head, "X-User", user);
    }
    status(&exchange(server, head, &request.headers, request.body.as_bytes(), caller))
}

/// The first lines of a request.
pub(crate) fn head(server: &str, method: &str, target: &str) -> Vec<u8> {
    format!("{method} {target} HTTP/1.1\r\nHost: {server}\r\n").into_bytes()
}

fn put(head: &mut Vec<u8>, name: &str, value: &[u8]) {
    for part in [name.as_bytes(), b": ", value, b"\r\n"] {
        head.extend_from_slice(part);
    }
}

/// Ends a head with these headers, sends it with a body, and returns what is answered.
pub(crate) fn exchange(
    server: &str,
    mut head: Vec<u8>,
    headers: &[(&'static str, Vec<u8>)],
    body: &[u8],
    caller: &Caller,
) -> Vec<u8> {
    let has = |wanted: &str| headers.iter().any(|(name, _)| *name == wanted);
    if !has("Connection") {
        put(&mut head, "Connection", b"close");
    }
    // A chunked body comes with its own framing.
    if !body.is_empty() && !has("Transfer-Encoding") {
        put(&mut head, "Content-Length", body.len().to_string().as_bytes());
    }
    headers.iter().for_each(|(name, value)| put(&mut head, name, value));
    head.extend_from_slice(b"\r\n");
    head.extend_from_slice(body);
    let mut stream = connect_from(caller, server);
    // A server may refuse a head before all of it was read.
    let _ = stream.write_all(&head);
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    // `100 Continue` comes before the answer.
    while answer.get(9..12) == Some(b"100") {
        let end =
            answer.windows(4).position(|window| window == b"\r\n\r\n").map_or(answer.len(), |end| end + 4);
        answer.drain(..end);
    }
    answer
}

pub(crate) fn status(answer: &[u8]) -> Option<u16> {
    std::str::from_utf8(answer.get(9..12)?).ok()?.parse().ok()
}

fn connect_from(caller: &Caller, server: &str) -> TcpStream {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
    socket.bind(&SocketAddr::from((caller.address, 0)).into()).unwrap();
    let server: SocketAddr = server.parse().unwrap();
    socket.connect(&server.into()).unwrap();
    let stream = TcpStream::from(socket);
    stream.set_read_timeout(Some(SOON)).unwrap();
    stream
}
