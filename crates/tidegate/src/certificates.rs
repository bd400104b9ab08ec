//! The certificates that a node starts with, and the watch that keeps them up to date.
//!
//! At the start bad ones are an error: later ones are refused, and the old ones stay.

use crate::supervisor::Supervisor;
use crate::watched_files::{self, WatchedFiles};
use std::sync::Arc;
use tidegate_server::{Certificates, ServerTls, ServerTlsError, TlsFiles};

/// `None` inside without TLS.
#[derive(Debug)]
pub(crate) struct CertificatesAtStart(Option<Served>);

#[derive(Debug)]
struct Served {
    tls: Arc<ServerTls>,
    files: TlsFiles,
    watched: WatchedFiles,
}

impl CertificatesAtStart {
    pub(crate) fn read(files: Option<TlsFiles>) -> Result<Self, ServerTlsError> {
        let Some(files) = files else { return Ok(CertificatesAtStart(None)) };
        let paths = [Some(&files.certificate), Some(&files.key), files.client_ca.as_ref()];
        let watched = WatchedFiles::new(paths.into_iter().flatten().cloned().collect());
        let tls = Arc::new(ServerTls::new(Certificates::read(&files)?));
        Ok(CertificatesAtStart(Some(Served { tls, files, watched })))
    }

    pub(crate) fn tls(&self) -> Option<Arc<ServerTls>> {
        self.0.as_ref().map(|served| Arc::clone(&served.tls))
    }

    /// Within a runtime.
    pub(crate) fn spawn_watch(self, supervisor: &Supervisor) {
        let Some(Served { tls, files, watched }) = self.0 else { return };
        let read = move || Certificates::read(&files).map_err(|error| error.to_string());
        let apply = move |certificates| {
            tls.replace(certificates);
            tracing::info!("certificates reloaded; new connections get them");
        };
        supervisor.spawn("the certificate watch", watched_files::watch("tls", watched, read, apply));
    }
}
