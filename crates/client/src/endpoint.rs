//! Where a node listens, and a connection to there.

use std::fmt;
use std::io;
use std::path::PathBuf;
use std::pin::Pin;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, UnixStream};

#[derive(Clone)]
pub(crate) enum Endpoint {
    /// `host:port`.
    Tcp(String),
    #[cfg(feature = "tls")]
    Tls {
        address: String,
        name: tokio_rustls::rustls::pki_types::ServerName<'static>,
        connector: tokio_rustls::TlsConnector,
    },
    Unix(PathBuf),
}

impl fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Endpoint::Tcp(address) => f.write_str(address),
            #[cfg(feature = "tls")]
            Endpoint::Tls { address, .. } => write!(f, "{address} (TLS)"),
            Endpoint::Unix(path) => path.display().fmt(f),
        }
    }
}

pub(crate) trait Bytes: AsyncRead + AsyncWrite + Send {}

impl<T: AsyncRead + AsyncWrite + Send> Bytes for T {}

pub(crate) type Stream = Pin<Box<dyn Bytes>>;

impl Endpoint {
    pub(crate) async fn connect(&self) -> io::Result<Stream> {
        match self {
            Endpoint::Tcp(address) => Ok(Box::pin(tcp(address).await?)),
            #[cfg(feature = "tls")]
            Endpoint::Tls { address, name, connector } => {
                Ok(Box::pin(connector.connect(name.clone(), tcp(address).await?).await?))
            }
            Endpoint::Unix(path) => Ok(Box::pin(UnixStream::connect(path).await?)),
        }
    }
}

async fn tcp(address: &str) -> io::Result<TcpStream> {
    let stream = TcpStream::connect(address).await?;
    stream.set_nodelay(true)?;
    Ok(stream)
}

#[cfg(feature = "tls")]
impl Endpoint {
    pub(crate) fn tls(address: String, tls: &crate::tls::Tls) -> Result<Self, crate::tls::TlsError> {
        let name = crate::tls::server_name(&address)?;
        Ok(Endpoint::Tls { address, name, connector: tls.connector() })
    }
}
