//! Telling HTTP/2 from HTTP/1.1 on a socket that serves both: by the preface that HTTP/2 begins with.
//!
//! No method of HTTP/1.1 is `PRI`, so four bytes decide, and nearly always they come in the first read.

use crate::counters::COUNTERS;
use crate::socket::Socket;
use std::time::Duration;
use tokio::io::AsyncReadExt;

const PREFACE: &[u8] = b"PRI ";
/// A client that has sent fewer bytes by then gets nothing.
const PREFACE_TIMEOUT: Duration = Duration::from_secs(10);

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Protocol {
    Http1,
    Http2,
}

/// Detects the protocol, and returns the socket with nothing taken from it; `None` when it is gone or too slow.
pub(crate) async fn detect(mut socket: Socket) -> Option<(Socket, Protocol)> {
    let mut first = Vec::with_capacity(1024);
    let read = async {
        while PREFACE.starts_with(&first) && first.len() < PREFACE.len() {
            if !socket.read_buf(&mut first).await.is_ok_and(|count| count > 0) {
                return None;
            }
        }
        Some(if first.starts_with(PREFACE) { Protocol::Http2 } else { Protocol::Http1 })
    };
    match tokio::time::timeout(PREFACE_TIMEOUT, read).await {
        Ok(told) => told.map(|protocol| (Socket::LookedAt { first, rest: Box::new(socket) }, protocol)),
        Err(_) => {
            COUNTERS.connections_too_slow.add_one();
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::AsyncWriteExt;
    use tokio::net::UnixStream;

    #[tokio::test]
    async fn four_bytes_tell_and_none_are_lost() {
        let cases = [
            ("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", Protocol::Http2),
            ("POST /json HTTP/1.1\r\n\r\n", Protocol::Http1),
            ("PR", Protocol::Http1),
            ("x", Protocol::Http1),
        ];
        for (bytes, wanted) in cases {
            let (mut client, server) = UnixStream::pair().unwrap();
            // In two pieces, the first of them too short to tell.
            client.write_all(&bytes.as_bytes()[..1]).await.unwrap();
            let told = tokio::spawn(detect(Socket::Unix(server)));
            client.write_all(&bytes.as_bytes()[1..]).await.unwrap();
            if bytes == "PR" {
                drop(client);
                assert!(told.await.unwrap().is_none());
                continue;
            }
            let (mut socket, protocol) = told.await.unwrap().unwrap();
            assert_eq!(protocol, wanted);
            client.shutdown().await.unwrap();
            let mut text = String::new();
            socket.read_to_string(&mut text).await.unwrap();
            assert_eq!(text, bytes);
        }
    }
}
