//! TLS for what comes over TCP: rustls with aws-lc-rs, versions 1.2 and 1.3, and clients' certificates where an
//! authority for them is set.
//!
//! Certificates are read as a whole and replaced as a whole: bad ones never take the place of good ones, and
//! connections that are open keep theirs. A handshake has a deadline; what isn't TLS ends there.

use crate::Surface;
use crate::counters::COUNTERS;
use parking_lot::RwLock;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpStream;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::crypto::aws_lc_rs;
use tokio_rustls::rustls::pki_types::pem::{self, PemObject};
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::server::{VerifierBuilderError, WebPkiClientVerifier};
use tokio_rustls::rustls::{self, ClientConfig, RootCertStore, ServerConfig};
use tokio_rustls::server::TlsStream;

/// From the first byte to the end of the handshake.
const HANDSHAKE_MAX: Duration = Duration::from_secs(10);
/// Of each file.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// Where the certificates are.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TlsFiles {
    /// The node's own, and those between it and its authority.
    pub certificate: PathBuf,
    pub key: PathBuf,
    /// Whoever has no certificate of this authority is refused.
    pub client_ca: Option<PathBuf>,
}

#[derive(Debug, thiserror::Error)]
pub enum ServerTlsError {
    #[error("can't read {}: {source}; check the path and its permissions", .path.display())]
    Unreadable { path: PathBuf, source: io::Error },
    #[error("{} is larger than 1 MiB; check that it is the file you mean", .path.display())]
    TooLarge { path: PathBuf },
    #[error("{} has no {what} in PEM form: {source}; it begins with `-----BEGIN`", .path.display())]
    NotPem { path: PathBuf, what: &'static str, source: pem::Error },
    #[error("{} has no certificate; it takes the node's own and those between it and its authority", .path.display())]
    NoCertificate { path: PathBuf },
    #[error("the certificate {} and the key {} can't be used: {source}; they must belong together", .certificate.display(), .key.display())]
    Refused { certificate: PathBuf, key: PathBuf, source: rustls::Error },
    #[error("{} can't be used as an authority: {message}; give the certificate that signed the others", .path.display())]
    Authority { path: PathBuf, message: String },
}

/// Certificates that were read and fit together.
#[derive(Debug)]
pub struct Certificates {
    http: Arc<ServerConfig>,
    grpc: Arc<ServerConfig>,
    /// For who speaks either: HTTP/2 is for gRPC there.
    http_and_grpc: Arc<ServerConfig>,
    resp: Arc<ServerConfig>,
}

impl Certificates {
    pub fn read(files: &TlsFiles) -> Result<Self, ServerTlsError> {
        let TlsFiles { certificate, key, client_ca } = files;
        let chain = certificates(certificate)?;
        let private = PrivateKeyDer::from_pem_slice(&bytes(key)?)
            .map_err(|source| ServerTlsError::NotPem { path: key.clone(), what: "private key", source })?;
        let refused =
            |source| ServerTlsError::Refused { certificate: certificate.clone(), key: key.clone(), source };
        let provider = Arc::new(aws_lc_rs::default_provider());
        let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()
            .map_err(refused)?;
        let builder = match client_ca {
            None => builder.with_no_client_auth(),
            Some(path) => {
                let roots = Arc::new(authorities(path)?);
                let verifier = WebPkiClientVerifier::builder_with_provider(roots, provider).build();
                let refused = |error: VerifierBuilderError| ServerTlsError::Authority {
                    path: path.clone(),
                    message: error.to_string(),
                };
                builder.with_client_cert_verifier(verifier.map_err(refused)?)
            }
        };
        let resp = builder.with_single_cert(chain, private).map_err(refused)?;
        let speaking = |protocols: &[&str]| {
            let mut config = resp.clone();
            config.alpn_protocols = protocols.iter().map(|protocol| protocol.as_bytes().to_vec()).collect();
            Arc::new(config)
        };
        Ok(Certificates {
            http: speaking(&["http/1.1"]),
            grpc: speaking(&["h2"]),
            http_and_grpc: speaking(&["http/1.1", "h2"]),
            resp: Arc::new(resp),
        })
    }
}

/// For whoever asks a node: believes the authorities in this file, and no others.
pub fn trusting(path: &Path) -> Result<Arc<ClientConfig>, ServerTlsError> {
    let builder = ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()));
    let refused = |error: rustls::Error| ServerTlsError::Authority {
        path: path.to_owned(),
        message: error.to_string(),
    };
    let builder = builder.with_safe_default_protocol_versions().map_err(refused)?;
    Ok(Arc::new(builder.with_root_certificates(authorities(path)?).with_no_client_auth()))
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, ServerTlsError> {
    let bytes = bytes(path)?;
    let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&bytes).collect();
    let chain = chain.map_err(|source| ServerTlsError::NotPem {
        path: path.to_owned(),
        what: "certificate",
        source,
    })?;
    if chain.is_empty() {
        return Err(ServerTlsError::NoCertificate { path: path.to_owned() });
    }
    Ok(chain)
}

fn authorities(path: &Path) -> Result<RootCertStore, ServerTlsError> {
    let mut roots = RootCertStore::empty();
    for certificate in certificates(path)? {
        roots.add(certificate).map_err(|error| ServerTlsError::Authority {
            path: path.to_owned(),
            message: error.to_string(),
        })?;
    }
    Ok(roots)
}

fn bytes(path: &Path) -> Result<Vec<u8>, ServerTlsError> {
    let unreadable = |source| ServerTlsError::Unreadable { path: path.to_owned(), source };
    let mut bytes = Vec::new();
    let file = File::open(path).map_err(unreadable)?;
    file.take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes).map_err(unreadable)?;
    if u64::try_from(bytes.len()).unwrap_or(u64::MAX) > FILE_BYTES_MAX {
        return Err(ServerTlsError::TooLarge { path: path.to_owned() });
    }
    Ok(bytes)
}

/// The certificates in force.
#[derive(Debug)]
pub struct ServerTls(RwLock<Certificates>);

impl ServerTls {
    pub fn new(certificates: Certificates) -> Self {
        ServerTls(RwLock::new(certificates))
    }

    /// For connections that come from now on.
    pub fn replace(&self, certificates: Certificates) {
        *self.0.write() = certificates;
    }

    fn config(&self, surface: Surface) -> Arc<ServerConfig> {
        let certificates = self.0.read();
        Arc::clone(match surface {
            Surface::Api | Surface::Admin => &certificates.http,
            Surface::ApiAndGrpc => &certificates.http_and_grpc,
            Surface::Grpc => &certificates.grpc,
            Surface::Resp => &certificates.resp,
        })
    }

    /// Shakes hands; `None` when the client can't, or is too slow.
    pub(crate) async fn accept(&self, stream: TcpStream, surface: Surface) -> Option<TlsStream<TcpStream>> {
        let accepting = TlsAcceptor::from(self.config(surface)).accept(stream);
        match tokio::time::timeout(HANDSHAKE_MAX, accepting).await {
            Ok(Ok(stream)) => Some(stream),
            Ok(Err(error)) => {
                COUNTERS.tls_handshakes_failed.add_one();
                tracing::debug!(%error, "a TLS handshake failed");
                None
            }
            Err(_) => {
                COUNTERS.connections_too_slow.add_one();
                None
            }
        }
    }
}
