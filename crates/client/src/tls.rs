//! TLS to a node: which authorities are believed, and which certificate is shown.

use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use std::sync::Arc;
use tokio_rustls::rustls::crypto::aws_lc_rs::default_provider;
use tokio_rustls::{TlsConnector, rustls};

#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    #[error("no {what} in PEM form: {source}; it begins with `-----BEGIN`")]
    Pem { what: &'static str, source: pem::Error },
    #[error("there is no authority in it; give the certificate that signed the node's")]
    NoAuthority,
    #[error("the certificates can't be used: {0}")]
    Refused(#[from] rustls::Error),
    #[error("`{0}` isn't host:port; a certificate is checked against the host")]
    Address(String),
}

/// How nodes are known, and how they know this client. Certificates are PEM.
#[derive(Clone, Debug)]
pub struct Tls {
    roots: RootCertStore,
    config: Arc<ClientConfig>,
}

impl Tls {
    /// Believes these authorities, and no others.
    pub fn trusting(authorities: &[u8]) -> Result<Self, TlsError> {
        let mut roots = RootCertStore::empty();
        for certificate in certificates(authorities)? {
            roots.add(certificate)?;
        }
        if roots.is_empty() {
            return Err(TlsError::NoAuthority);
        }
        let config = builder(&roots)?.with_no_client_auth();
        Ok(Tls { roots, config: Arc::new(config) })
    }

    /// Shows a certificate to nodes that ask for one (`tls.client_ca`).
    pub fn presenting(self, certificate: &[u8], key: &[u8]) -> Result<Self, TlsError> {
        let key = PrivateKeyDer::from_pem_slice(key)
            .map_err(|source| TlsError::Pem { what: "private key", source })?;
        let config = builder(&self.roots)?.with_client_auth_cert(certificates(certificate)?, key)?;
        Ok(Tls { config: Arc::new(config), ..self })
    }

    pub(crate) fn connector(&self) -> TlsConnector {
        TlsConnector::from(Arc::clone(&self.config))
    }
}

/// The name that the certificate of a node at `host:port` must have.
pub(crate) fn server_name(address: &str) -> Result<ServerName<'static>, TlsError> {
    let host = address.rsplit_once(':').map(|(host, _)| host.trim_matches(['[', ']']));
    let name = host.and_then(|host| ServerName::try_from(host.to_owned()).ok());
    name.ok_or_else(|| TlsError::Address(address.to_owned()))
}

type Builder = rustls::ConfigBuilder<ClientConfig, rustls::client::WantsClientCert>;

fn builder(roots: &RootCertStore) -> Result<Builder, rustls::Error> {
    let builder = ClientConfig::builder_with_provider(Arc::new(default_provider()));
    Ok(builder.with_safe_default_protocol_versions()?.with_root_certificates(roots.clone()))
}

fn certificates(bytes: &[u8]) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let read: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(bytes).collect();
    read.map_err(|source| TlsError::Pem { what: "certificate", source })
}
