//! A listening socket and a connection, over TCP or a Unix socket: front ends don't care which.

use crate::Surface;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};

#[derive(Debug)]
pub enum Listener {
    Tcp(TcpListener),
    Unix(UnixListener),
}

impl Listener {
    pub(crate) async fn accept(&self) -> io::Result<Socket> {
        match self {
            Listener::Tcp(listener) => listener.accept().await.map(|(stream, _)| Socket::Tcp(stream)),
            Listener::Unix(listener) => listener.accept().await.map(|(stream, _)| Socket::Unix(stream)),
        }
    }
}

impl From<TcpListener> for Listener {
    fn from(listener: TcpListener) -> Self {
        Listener::Tcp(listener)
    }
}

#[derive(Debug)]
pub(crate) enum Socket {
    Tcp(TcpStream),
    Unix(UnixStream),
    /// One whose first bytes were looked at: they are read again.
    LookedAt {
        first: Vec<u8>,
        rest: Box<Socket>,
    },
}

impl Socket {
    /// What is written leaves at once.
    pub(crate) fn set_nodelay(&self) -> io::Result<()> {
        match self {
            Socket::Tcp(stream) => stream.set_nodelay(true),
            Socket::Unix(_) => Ok(()),
            Socket::LookedAt { rest, .. } => rest.set_nodelay(),
        }
    }
}

impl Socket {
    /// Says in the client's own protocol that there is no room for it, as far as that can be said at once, and
    /// closes.
    #[cold]
    pub(crate) fn refuse(self, surface: Surface) {
        let words: &[u8] = match surface {
            Surface::Api | Surface::Admin => NO_ROOM_HTTP.as_bytes(),
            Surface::Resp => b"-ERR max number of clients reached\r\n",
            // HTTP/2 has words only after both sides have introduced themselves.
            Surface::Grpc | Surface::ApiAndGrpc => b"",
        };
        // Who isn't there any more misses nothing.
        let _ = match &self {
            Socket::Tcp(stream) => stream.try_write(words),
            Socket::Unix(stream) => stream.try_write(words),
            Socket::LookedAt { .. } => Ok(0),
        };
    }
}

const NO_ROOM_HTTP: &str = "HTTP/1.1 503 Service Unavailable\r\ncontent-type: application/json\r\n\
    retry-after: 1\r\nconnection: close\r\ncontent-length: 162\r\n\r\n\
    {\"error\":{\"code\":\"too_many_connections\",\"message\":\"the node has as many connections as it may\",\
    \"field\":null,\"fix\":\"reuse connections, or raise max_connections\"}}\n";

impl AsyncRead for Socket {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Socket::Tcp(stream) => Pin::new(stream).poll_read(cx, buffer),
            Socket::Unix(stream) => Pin::new(stream).poll_read(cx, buffer),
            Socket::LookedAt { first, rest } if first.is_empty() => {
                Pin::new(&mut **rest).poll_read(cx, buffer)
            }
            Socket::LookedAt { first, .. } => {
                let count = first.len().min(buffer.remaining());
                buffer.put_slice(&first[..count]);
                first.drain(..count);
                Poll::Ready(Ok(()))
            }
        }
    }
}

impl AsyncWrite for Socket {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Socket::Tcp(stream) => Pin::new(stream).poll_write(cx, bytes),
            Socket::Unix(stream) => Pin::new(stream).poll_write(cx, bytes),
            Socket::LookedAt { rest, .. } => Pin::new(&mut **rest).poll_write(cx, bytes),
        }
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        pieces: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Socket::Tcp(stream) => Pin::new(stream).poll_write_vectored(cx, pieces),
            Socket::Unix(stream) => Pin::new(stream).poll_write_vectored(cx, pieces),
            Socket::LookedAt { rest, .. } => Pin::new(&mut **rest).poll_write_vectored(cx, pieces),
        }
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Socket::Tcp(stream) => Pin::new(stream).poll_flush(cx),
            Socket::Unix(stream) => Pin::new(stream).poll_flush(cx),
            Socket::LookedAt { rest, .. } => Pin::new(&mut **rest).poll_flush(cx),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Socket::Tcp(stream) => Pin::new(stream).poll_shutdown(cx),
            Socket::Unix(stream) => Pin::new(stream).poll_shutdown(cx),
            Socket::LookedAt { rest, .. } => Pin::new(&mut **rest).poll_shutdown(cx),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::NO_ROOM_HTTP;

    #[test]
    fn the_refusal_is_as_long_as_it_says() {
        let (head, body) = NO_ROOM_HTTP.split_once("\r\n\r\n").unwrap();
        let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")).unwrap();
        assert_eq!(length.parse(), Ok(body.len()));
        serde_json::from_str::<serde_json::Value>(body).unwrap();
    }
}
