//! TLS towards Redis: rustls with aws-lc-rs, whatever other libraries of the process use.
//!
//! A server is always verified, by the system's authorities or by the one that the url names. The files are
//! read in the background, when a connection is made, and never on a call's path.

use super::url::Tls;
use std::path::Path;
use std::sync::Arc;
use tokio::sync::OnceCell;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::crypto::aws_lc_rs;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, RootCertStore};

/// How to begin TLS. Made when it is first needed, and again after it couldn't be made.
#[derive(Debug)]
pub(super) struct TlsSetup {
    url: Tls,
    config: OnceCell<Arc<ClientConfig>>,
}

impl TlsSetup {
    pub(super) fn new(url: Tls) -> Self {
        TlsSetup { url, config: OnceCell::new() }
    }

    /// What begins TLS with the server, or why nothing can.
    pub(super) async fn connector(&self) -> Result<TlsConnector, String> {
        let config = self.config.get_or_try_init(|| async {
            let url = self.url.clone();
            let built = tokio::task::spawn_blocking(move || config(&url)).await;
            built.unwrap_or_else(|_| Err("the certificate authorities couldn't be read".to_owned()))
        });
        Ok(TlsConnector::from(config.await?.clone()))
    }
}

pub(super) fn server_name(host: &str) -> Result<ServerName<'static>, String> {
    ServerName::try_from(host.to_owned())
        .map_err(|_| format!("{host:?} is no name that a certificate can have"))
}

fn config(url: &Tls) -> Result<Arc<ClientConfig>, String> {
    client_config(url.authorities.as_deref())
}

/// What a client verifies servers by: the authorities in a file, which the url names by `ca=`, or the system's.
/// Blocks for as long as the disk does.
pub fn client_config(authorities: Option<&Path>) -> Result<Arc<ClientConfig>, String> {
    let roots = match authorities {
        Some(path) => named_authorities(path)
            .map_err(|problem| format!("can't use ca={}: {problem}", path.display()))?,
        None => system_authorities()?,
    };
    let builder = ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()));
    let builder = builder.with_safe_default_protocol_versions().map_err(|error| error.to_string())?;
    Ok(Arc::new(builder.with_root_certificates(roots).with_no_client_auth()))
}

fn named_authorities(path: &Path) -> Result<RootCertStore, String> {
    let mut roots = RootCertStore::empty();
    let certificates = CertificateDer::pem_file_iter(path).map_err(|error| error.to_string())?;
    for certificate in certificates {
        let certificate = certificate.map_err(|error| error.to_string())?;
        roots.add(certificate).map_err(|error| error.to_string())?;
    }
    if roots.is_empty() { Err("there is no certificate in it".to_owned()) } else { Ok(roots) }
}

fn system_authorities() -> Result<RootCertStore, String> {
    let mut roots = RootCertStore::empty();
    // Single authorities that can't be read don't matter: the others can.
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    if roots.is_empty() {
        return Err(
            "the system has no certificate authorities; name one in the url: ?ca=/path.pem".to_owned()
        );
    }
    Ok(roots)
}
