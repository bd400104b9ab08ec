//! Where a node listens, and a connection to there.

use std::io;
use std::path::PathBuf;
use std::pin::Pin;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, UnixStream};

#[derive(Clone, Debug)]
pub(crate) enum Endpoint {
    /// `host:port`.
    Tcp(String),
    Unix(PathBuf),
}

pub(crate) trait Bytes: AsyncRead + AsyncWrite + Send {}

impl<T: AsyncRead + AsyncWrite + Send> Bytes for T {}

pub(crate) type Stream = Pin<Box<dyn Bytes>>;

impl Endpoint {
    pub(crate) async fn connect(&self) -> io::Result<Stream> {
        match self {
            Endpoint::Tcp(address) => {
                let stream = TcpStream::connect(address).await?;
                stream.set_nodelay(true)?;
                Ok(Box::pin(stream))
            }
            Endpoint::Unix(path) => Ok(Box::pin(UnixStream::connect(path).await?)),
        }
    }
}
