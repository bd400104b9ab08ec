//! A connection that sends one command at a time: what tests ask servers with.
//!
//! Our own, so that a test never trusts the client library that it tests. It never retries and never
//! reconnects.

use crate::reply::{RespValue, encode};
use std::fmt::{self, Debug};
use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpStream, UnixStream};

/// A stopped server's sockets still accept; nobody waits for it longer than this.
const REPLY_TIMEOUT: Duration = Duration::from_secs(10);

trait Stream: AsyncRead + AsyncWrite + Unpin + Send {}
impl<S: AsyncRead + AsyncWrite + Unpin + Send> Stream for S {}

/// A RESP connection that sends one command at a time.
pub struct RespClient {
    stream: Box<dyn Stream>,
    received: Vec<u8>,
}

impl RespClient {
    pub async fn connect(address: SocketAddr) -> io::Result<Self> {
        let stream = within_deadline(TcpStream::connect(address)).await?;
        stream.set_nodelay(true)?;
        Ok(RespClient::over(stream))
    }

    pub async fn connect_unix(path: &Path) -> io::Result<Self> {
        Ok(RespClient::over(within_deadline(UnixStream::connect(path)).await?))
    }

    /// Over a stream that somebody else opened, e.g. with TLS.
    pub fn over(stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static) -> Self {
        RespClient { stream: Box::new(stream), received: Vec::new() }
    }

    /// The server's answer, which may be [`RespValue::Error`]; `Err` when there is none within ten seconds.
    pub async fn command<A: AsRef<[u8]>>(&mut self, arguments: &[A]) -> io::Result<RespValue> {
        let request = encode(arguments);
        within_deadline(async {
            self.stream.write_all(&request).await?;
            self.stream.flush().await?;
            self.receive().await
        })
        .await
    }

    async fn receive(&mut self) -> io::Result<RespValue> {
        loop {
            if let Some((reply, length)) = RespValue::parse(&self.received)? {
                self.received.drain(..length);
                return Ok(reply);
            }
            if self.stream.read_buf(&mut self.received).await? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
    }
}

async fn within_deadline<T>(work: impl Future<Output = io::Result<T>>) -> io::Result<T> {
    let done = tokio::time::timeout(REPLY_TIMEOUT, work).await;
    done.unwrap_or_else(|_| Err(io::Error::new(io::ErrorKind::TimedOut, "no answer in time")))
}

impl Debug for RespClient {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Client").field("received", &self.received.len()).finish_non_exhaustive()
    }
}
