//! HTTP/1.1 written by hand: a caller may send any bytes, from any address of this machine.

use crate::attacks::{Caller, Request};
use crate::support::SOON;
use socket2::{Domain, Socket, Type};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};

/// Sends a request from the caller's address; returns the answer's status, or `None` when the connection was closed
/// without one.
pub(crate) fn send(server: &str, request: &Request, caller: &Caller) -> Option<u16> {
    let mut bytes =
        format!("{} {} HTTP/1.1\r\nHost: {server}\r\n", request.method, request.target).into_bytes();
    let mut header = |name: &str, value: &[u8]| {
        bytes.extend_from_slice(name.as_bytes());
        bytes.extend_from_slice(b": ");
        bytes.extend_from_slice(value);
        bytes.extend_from_slice(b"\r\n");
    };
    if let Some(user) = &request.user {
        header("X-User", user);
    }
    request.headers.iter().for_each(|(name, value)| header(name, value));
    if !request.headers.iter().any(|(name, _)| *name == "Connection") {
        header("Connection", b"close");
    }
    if matches!(request.method, "POST" | "PUT") {
        header("Content-Length", b"5");
        bytes.extend_from_slice(b"\r\nhello");
    } else {
        bytes.extend_from_slice(b"\r\n");
    }
    let mut stream = connect_from(caller, server);
    // A server may refuse a head before all of it was read.
    let _ = stream.write_all(&bytes);
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    let mut rest = &answer[..];
    // `100 Continue` comes before the answer.
    while rest.get(9..12) == Some(b"100") {
        let end = rest.windows(4).position(|window| window == b"\r\n\r\n")?;
        rest = &rest[end + 4..];
    }
    std::str::from_utf8(rest.get(9..12)?).ok()?.parse().ok()
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
