//! A listening socket and a connection, over TCP or a Unix socket: front ends don't care which.

use crate::rota::{Seated, Turn};
use std::io::{self, IoSlice};
use std::net;
use std::os::unix;
use std::pin::Pin;
use std::task::{Context, Poll};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};

/// One thread's share of a listening socket.
#[derive(Debug)]
pub struct Listener {
    socket: ListeningSocket,
    turn: Turn,
}

#[derive(Debug)]
pub enum ListeningSocket {
    Tcp(TcpListener),
    Unix(UnixListener),
}

impl Listener {
    pub fn new(socket: ListeningSocket, turn: Turn) -> Self {
        Listener { socket, turn }
    }

    /// The next connection for this thread. Dropping the future loses none.
    pub(crate) async fn accept(&mut self) -> io::Result<(Socket, Seated)> {
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
            ListeningSocket::Unix(listener) => {
                listener.accept().await.map(|(stream, _)| Socket::Unix(stream))
            }
        }
    }
}

impl From<TcpListener> for Listener {
    /// Served by one thread.
    fn from(listener: TcpListener) -> Self {
        Listener::new(ListeningSocket::Tcp(listener), Turn::alone())
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

/// A connection between two threads' runtimes.
#[derive(Debug)]
pub(crate) enum Handed {
    Tcp(net::TcpStream),
    Unix(unix::net::UnixStream),
}

impl Handed {
    /// On the runtime that will serve it.
    pub(crate) fn arrive(self) -> io::Result<Socket> {
        match self {
            Handed::Tcp(stream) => TcpStream::from_std(stream).map(Socket::Tcp),
            Handed::Unix(stream) => UnixStream::from_std(stream).map(Socket::Unix),
        }
    }
}

impl Socket {
    /// Leaves the runtime that accepted it.
    pub(crate) fn leave(self) -> io::Result<Handed> {
        match self {
            Socket::Tcp(stream) => stream.into_std().map(Handed::Tcp),
            Socket::Unix(stream) => stream.into_std().map(Handed::Unix),
            Socket::LookedAt { .. } => Err(io::Error::other("bytes were read from it")),
        }
    }

    /// What is written leaves at once.
    pub(crate) fn set_nodelay(&self) -> io::Result<()> {
        match self {
            Socket::Tcp(stream) => stream.set_nodelay(true),
            Socket::Unix(_) => Ok(()),
            Socket::LookedAt { rest, .. } => rest.set_nodelay(),
        }
    }
}

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

    /// Answers are short: copying one into the buffer of its head costs less than a call with two pieces.
    fn is_write_vectored(&self) -> bool {
        false
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
