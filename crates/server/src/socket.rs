//! A listening socket and a connection, over TCP, TLS or a Unix socket: front ends don't care which.

use crate::budget::ConnectionBudget;
use crate::connection_balancer::{BalancedListener, ThreadSlot};
use crate::tls::ServerTls;
use crate::{App, Surface};
use std::io::{self, IoSlice, Write};
use std::net;
use std::os::unix;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};
use tokio_rustls::server::TlsStream;

/// One thread's share of a listening socket.
#[derive(Debug)]
pub struct Listener {
    socket: ListeningSocket,
    turn: BalancedListener,
}

#[derive(Debug)]
pub enum ListeningSocket {
    Tcp(TcpListener),
    Tls(TcpListener, Arc<ServerTls>),
    Unix(UnixListener),
}

impl Listener {
    pub fn new(socket: ListeningSocket, turn: BalancedListener) -> Self {
        Listener { socket, turn }
    }

    /// Served by one thread, with so many connections at one time.
    pub fn alone(socket: ListeningSocket, connections_max: usize) -> Self {
        Listener::new(socket, BalancedListener::alone(connections_max))
    }

    pub(crate) fn budget(&self) -> Arc<ConnectionBudget> {
        Arc::clone(&self.turn.budget)
    }

    /// The next connection for this thread. Dropping the future loses none.
    pub(crate) async fn accept(&mut self) -> io::Result<(Socket, ThreadSlot)> {
        loop {
            tokio::select! {
                handed = self.turn.handed() => return handed,
                accepted = self.socket.accept() => {
                    if let Some(ours) = self.turn.deal(accepted?)? {
                        return Ok(ours);
                    }
                }
            }
        }
    }
}

impl ListeningSocket {
    async fn accept(&self) -> io::Result<Socket> {
        match self {
            ListeningSocket::Tcp(listener) => listener.accept().await.map(|(stream, _)| Socket::Tcp(stream)),
            ListeningSocket::Tls(listener, tls) => {
                listener.accept().await.map(|(stream, _)| Socket::Unproven(stream, Arc::clone(tls)))
            }
            ListeningSocket::Unix(listener) => {
                listener.accept().await.map(|(stream, _)| Socket::Unix(stream))
            }
        }
    }
}

impl From<ListeningSocket> for Listener {
    /// Served by one thread.
    fn from(socket: ListeningSocket) -> Self {
        Listener::alone(socket, App::CONNECTIONS_MAX)
    }
}

impl From<TcpListener> for Listener {
    fn from(listener: TcpListener) -> Self {
        ListeningSocket::Tcp(listener).into()
    }
}

#[derive(Debug)]
pub(crate) enum Socket {
    Tcp(TcpStream),
    Unix(UnixStream),
    /// One that has yet to shake hands: nothing is read from it or written to it before.
    Unproven(TcpStream, Arc<ServerTls>),
    Tls(Box<TlsStream<TcpStream>>),
    /// One whose first bytes were looked at: they are read again.
    LookedAt {
        first: Vec<u8>,
        rest: Box<Socket>,
    },
}

/// A connection between two threads' runtimes.
#[derive(Debug)]
pub(crate) enum HandedConnection {
    Tcp(net::TcpStream),
    Unproven(net::TcpStream, Arc<ServerTls>),
    Unix(unix::net::UnixStream),
}

impl HandedConnection {
    /// On the runtime that will serve it.
    pub(crate) fn arrive(self) -> io::Result<Socket> {
        match self {
            HandedConnection::Tcp(stream) => TcpStream::from_std(stream).map(Socket::Tcp),
            HandedConnection::Unproven(stream, tls) => {
                TcpStream::from_std(stream).map(|stream| Socket::Unproven(stream, tls))
            }
            HandedConnection::Unix(stream) => UnixStream::from_std(stream).map(Socket::Unix),
        }
    }
}

impl Socket {
    /// Leaves the runtime that accepted it.
    pub(crate) fn leave(self) -> io::Result<HandedConnection> {
        match self {
            Socket::Tcp(stream) => stream.into_std().map(HandedConnection::Tcp),
            Socket::Unix(stream) => stream.into_std().map(HandedConnection::Unix),
            Socket::Unproven(stream, tls) => {
                stream.into_std().map(|stream| HandedConnection::Unproven(stream, tls))
            }
            Socket::Tls(_) | Socket::LookedAt { .. } => Err(io::Error::other("bytes were read from it")),
        }
    }

    pub(crate) fn is_unix(&self) -> bool {
        match self {
            Socket::Unix(_) => true,
            Socket::LookedAt { rest, .. } => rest.is_unix(),
            Socket::Tcp(_) | Socket::Unproven(..) | Socket::Tls(_) => false,
        }
    }

    /// What is written leaves at once.
    pub(crate) fn set_nodelay(&self) -> io::Result<()> {
        match self {
            Socket::Tcp(stream) | Socket::Unproven(stream, _) => stream.set_nodelay(true),
            Socket::Tls(stream) => stream.get_ref().0.set_nodelay(true),
            Socket::Unix(_) => Ok(()),
            Socket::LookedAt { rest, .. } => rest.set_nodelay(),
        }
    }

    /// Shakes hands where that has yet to be done; `None` when it can't be.
    pub(crate) async fn proven(self, surface: Surface) -> Option<Socket> {
        match self {
            Socket::Unproven(stream, tls) => {
                tls.accept(stream, surface).await.map(|stream| Socket::Tls(Box::new(stream)))
            }
            socket => Some(socket),
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
        // Without the runtime, which doesn't know yet that it can be written to. Who isn't there any more misses
        // nothing.
        let _ = match self {
            Socket::Tcp(stream) => stream.into_std().and_then(|mut stream| stream.write(words)),
            Socket::Unix(stream) => stream.into_std().and_then(|mut stream| stream.write(words)),
            // Without a handshake nothing can be said.
            Socket::Unproven(..) | Socket::Tls(_) | Socket::LookedAt { .. } => Ok(0),
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
            Socket::Tls(stream) => Pin::new(&mut **stream).poll_read(cx, buffer),
            Socket::Unproven(..) => Poll::Ready(Err(io::ErrorKind::NotConnected.into())),
            Socket::LookedAt { first, rest } if first.is_empty() => {
                Pin::new(&mut **rest).poll_read(cx, buffer)
            }
            Socket::LookedAt { first, .. } => {
                let count = first.len().min(buffer.remaining());
                buffer.put_slice(&first[..count]);
                first.drain(..count);
                if first.is_empty() {
                    // Its room, too: connections that are idle are many.
                    *first = Vec::new();
                }
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
            Socket::Tls(stream) => Pin::new(&mut **stream).poll_write(cx, bytes),
            Socket::Unproven(..) => Poll::Ready(Err(io::ErrorKind::NotConnected.into())),
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
            Socket::Tls(stream) => Pin::new(&mut **stream).poll_write_vectored(cx, pieces),
            Socket::Unproven(..) => Poll::Ready(Err(io::ErrorKind::NotConnected.into())),
            Socket::LookedAt { rest, .. } => Pin::new(&mut **rest).poll_write_vectored(cx, pieces),
        }
    }

    /// Answers are short: copying one into the buffer of its head costs less than a call with two pieces.
    fn is_write_vectored(&self) -> bool {
        false
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Socket::Tcp(stream) => Pin::new(stream).poll_flush(cx),
            Socket::Unix(stream) => Pin::new(stream).poll_flush(cx),
            Socket::Tls(stream) => Pin::new(&mut **stream).poll_flush(cx),
            Socket::Unproven(..) => Poll::Ready(Err(io::ErrorKind::NotConnected.into())),
            Socket::LookedAt { rest, .. } => Pin::new(&mut **rest).poll_flush(cx),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Socket::Tcp(stream) => Pin::new(stream).poll_shutdown(cx),
            Socket::Unix(stream) => Pin::new(stream).poll_shutdown(cx),
            Socket::Tls(stream) => Pin::new(&mut **stream).poll_shutdown(cx),
            Socket::Unproven(..) => Poll::Ready(Err(io::ErrorKind::NotConnected.into())),
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
