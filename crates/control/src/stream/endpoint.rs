//! Where a server of rules listens, and a connection to there: TCP, TLS or a Unix socket.

use std::fmt;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, UnixStream};
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::ClientConfig;
use tokio_rustls::rustls::pki_types::ServerName;

/// As many as a list may name.
const ENDPOINTS_MAX: usize = 16;
const URL_BYTES_MAX: usize = 512;

/// `http://host:port`, `https://host:port`, the same with `?ca=/path`, or `unix:/path`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Endpoint {
    Tcp { host: String, port: u16, trust: Option<Trust> },
    Unix(PathBuf),
}

/// Whose word a server's certificate is believed on.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Trust {
    System,
    Authorities(PathBuf),
}

/// One or more, separated by commas.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Endpoints(Vec<Endpoint>);

/// What is wrong with an address, and what to write instead.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{message}; {fix}")]
pub struct EndpointError {
    pub message: String,
    pub fix: &'static str,
}

const FIX: &str =
    "write http://host:port, https://host:port?ca=/path.pem or unix:/path, several separated by commas";

impl Endpoints {
    pub fn parse(text: &str) -> Result<Self, EndpointError> {
        let refused = |message: String| EndpointError { message, fix: FIX };
        let endpoints: Vec<&str> = text.split(',').map(str::trim).collect();
        if endpoints.len() > ENDPOINTS_MAX {
            return Err(refused(format!("there are more than {ENDPOINTS_MAX} addresses")));
        }
        let parse = |text: &&str| {
            Endpoint::parse(text)
                .ok_or_else(|| refused(format!("`{}` is no address of a control plane", shown(text))))
        };
        endpoints.iter().map(parse).collect::<Result<_, _>>().map(Endpoints)
    }

    pub fn as_slice(&self) -> &[Endpoint] {
        &self.0
    }
}

/// Not more of it than a person would read.
fn shown(text: &str) -> String {
    text.chars().take(64).collect()
}

impl fmt::Display for Endpoints {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, endpoint) in self.0.iter().enumerate() {
            let comma = if index > 0 { "," } else { "" };
            write!(f, "{comma}{endpoint}")?;
        }
        Ok(())
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Endpoint::Unix(path) => write!(f, "unix:{}", path.display()),
            Endpoint::Tcp { trust, .. } => {
                write!(f, "{}://{}", self.scheme(), self.authority())?;
                match trust {
                    Some(Trust::Authorities(path)) => write!(f, "?ca={}", path.display()),
                    Some(Trust::System) | None => Ok(()),
                }
            }
        }
    }
}

/// Bytes both ways.
pub trait Duplex: AsyncRead + AsyncWrite + Send {}
impl<T: AsyncRead + AsyncWrite + Send> Duplex for T {}
pub type Stream = Pin<Box<dyn Duplex>>;

impl Endpoint {
    fn parse(text: &str) -> Option<Self> {
        if text.len() > URL_BYTES_MAX {
            return None;
        }
        if let Some(path) = text.strip_prefix("unix:") {
            return path.starts_with('/').then(|| Endpoint::Unix(path.into()));
        }
        let (is_tls, rest) = match text.strip_prefix("https://") {
            Some(rest) => (true, rest),
            None => (false, text.strip_prefix("http://")?),
        };
        let (rest, authorities) = match rest.split_once('?') {
            Some((rest, parameter)) => {
                (rest, Some(parameter.strip_prefix("ca=").filter(|path| !path.is_empty())?))
            }
            None => (rest, None),
        };
        let trust = match (is_tls, authorities) {
            (false, None) => None,
            (false, Some(_)) => return None,
            (true, None) => Some(Trust::System),
            (true, Some(path)) => Some(Trust::Authorities(path.into())),
        };
        let (host, port) = rest.strip_suffix('/').unwrap_or(rest).rsplit_once(':')?;
        let host = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
        let is_host = |c: char| c.is_ascii_alphanumeric() || "-._:%".contains(c);
        let port = port.parse().ok().filter(|port| *port != 0)?;
        (!host.is_empty() && host.chars().all(is_host)).then(|| Endpoint::Tcp {
            host: host.to_owned(),
            port,
            trust,
        })
    }

    /// Within whatever deadline the caller sets. The error says what a person would look into.
    pub(super) async fn connect(&self) -> Result<Stream, String> {
        self.connect_as(b"h2").await
    }

    /// The same for HTTP/1.1, which people and their pages speak.
    pub async fn connect_for_http(&self) -> Result<Stream, String> {
        self.connect_as(b"http/1.1").await
    }

    async fn connect_as(&self, protocol: &[u8]) -> Result<Stream, String> {
        let (host, port, trust) = match self {
            Endpoint::Unix(path) => {
                let stream = UnixStream::connect(path).await.map_err(|error| error.to_string())?;
                return Ok(Box::pin(stream));
            }
            Endpoint::Tcp { host, port, trust } => (host.as_str(), *port, trust),
        };
        let stream = TcpStream::connect((host, port)).await.map_err(|error| error.to_string())?;
        stream.set_nodelay(true).map_err(|error| error.to_string())?;
        let Some(trust) = trust.clone() else { return Ok(Box::pin(stream)) };
        let connector = connector(trust, protocol).await?;
        let name = ServerName::try_from(host.to_owned())
            .map_err(|_| format!("{host:?} is no name that a certificate can have"))?;
        let stream = connector.connect(name, stream).await.map_err(|error| format!("TLS: {error}"))?;
        Ok(Box::pin(stream))
    }

    pub(super) fn scheme(&self) -> &'static str {
        match self {
            Endpoint::Tcp { trust: Some(_), .. } => "https",
            Endpoint::Tcp { trust: None, .. } | Endpoint::Unix(_) => "http",
        }
    }

    /// What HTTP calls the server.
    pub fn authority(&self) -> String {
        match self {
            Endpoint::Unix(_) => "localhost".to_owned(),
            Endpoint::Tcp { host, port, .. } if host.contains(':') => format!("[{host}]:{port}"),
            Endpoint::Tcp { host, port, .. } => format!("{host}:{port}"),
        }
    }
}

/// Read anew for each connection, which are few: a file that was replaced is believed from then on.
async fn connector(trust: Trust, protocol: &[u8]) -> Result<TlsConnector, String> {
    let read = move || match &trust {
        Trust::System => tidegate_origin::client_config(None),
        Trust::Authorities(path) => tidegate_origin::client_config(Some(path)),
    };
    let config = tokio::task::spawn_blocking(read).await;
    let config = config.map_err(|_| "the certificate authorities couldn't be read".to_owned())??;
    let mut config = ClientConfig::clone(&config);
    // Proxies choose by it.
    config.alpn_protocols = vec![protocol.to_vec()];
    Ok(TlsConnector::from(Arc::new(config)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_come_back_as_they_were_written() {
        for good in
            ["http://b1:7070", "http://b1:7070,https://[::1]:1,https://b:2?ca=/x.pem,unix:/run/control"]
        {
            assert_eq!(Endpoints::parse(good).unwrap().to_string(), good);
        }
        assert_eq!(Endpoints::parse("http://a:1/ , http://b:2").unwrap().as_slice().len(), 2);
    }

    #[test]
    fn what_is_no_address_is_refused_with_a_remedy() {
        for bad in [
            "",
            ",",
            "b1:7070",
            "http://",
            "http://b1",
            "http://b1:0",
            "http://b1:99999",
            "unix:x",
            "http://a b:1",
            "http://a:1?ca=/x",
            "https://a:1?ca=",
        ] {
            let error = Endpoints::parse(bad).unwrap_err().to_string();
            assert!(error.contains("http://host:port"), "{bad}: {error}");
        }
        assert!(Endpoints::parse(&["http://b:1"; 17].join(",")).is_err());
    }
}
