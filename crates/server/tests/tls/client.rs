//! A client that trusts one authority, and may show a certificate of its own.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use tidegate_testkit::{Authority, Issued};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls::crypto::aws_lc_rs::default_provider;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use tokio_rustls::rustls::version::{TLS12, TLS13};
use tokio_rustls::rustls::{ClientConfig, ProtocolVersion, RootCertStore};

#[derive(Clone, Copy)]
pub(crate) enum Versions {
    Tls12,
    Tls13,
}

#[derive(Clone)]
pub(crate) struct TlsClient {
    roots: RootCertStore,
    shows: Option<Issued>,
    versions: Versions,
}

impl TlsClient {
    pub(crate) fn trusting(authority: &Authority) -> Self {
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_slice(authority.pem().as_bytes()).unwrap()).unwrap();
        TlsClient { roots, shows: None, versions: Versions::Tls13 }
    }

    pub(crate) fn of(&self, versions: Versions) -> Self {
        TlsClient { versions, ..self.clone() }
    }

    pub(crate) fn presenting(&self, issued: &Issued) -> Self {
        TlsClient { shows: Some(issued.clone()), ..self.clone() }
    }

    pub(crate) fn without_one(&self) -> Self {
        TlsClient { shows: None, ..self.clone() }
    }

    fn config(&self, protocols: &[&[u8]]) -> ClientConfig {
        let version = match self.versions {
            Versions::Tls12 => &TLS12,
            Versions::Tls13 => &TLS13,
        };
        let builder = ClientConfig::builder_with_provider(Arc::new(default_provider()));
        let builder =
            builder.with_protocol_versions(&[version]).unwrap().with_root_certificates(self.roots.clone());
        let mut config = match &self.shows {
            None => builder.with_no_client_auth(),
            Some(Issued { certificate, key }) => {
                let certificate = CertificateDer::from_pem_slice(certificate.as_bytes()).unwrap();
                let key = PrivateKeyDer::from_pem_slice(key.as_bytes()).unwrap();
                builder.with_client_auth_cert(vec![certificate], key).unwrap()
            }
        };
        config.alpn_protocols = protocols.iter().map(|protocol| protocol.to_vec()).collect();
        config
    }

    async fn connect_speaking(
        &self,
        address: SocketAddr,
        protocols: &[&[u8]],
    ) -> io::Result<TlsStream<TcpStream>> {
        let stream = TcpStream::connect(address).await?;
        let connector = TlsConnector::from(Arc::new(self.config(protocols)));
        let stream = connector.connect(ServerName::try_from("localhost").unwrap(), stream).await?;
        let spoken = stream.get_ref().1.protocol_version();
        let wanted = match self.versions {
            Versions::Tls12 => ProtocolVersion::TLSv1_2,
            Versions::Tls13 => ProtocolVersion::TLSv1_3,
        };
        assert_eq!(spoken, Some(wanted));
        Ok(stream)
    }

    pub(crate) async fn connect(&self, address: SocketAddr) -> io::Result<TlsStream<TcpStream>> {
        self.connect_speaking(address, &[]).await
    }

    /// Everything that the server says to these bytes until it closes.
    pub(crate) async fn exchange(&self, address: SocketAddr, bytes: &[u8]) -> io::Result<String> {
        let mut stream = self.connect(address).await?;
        stream.write_all(bytes).await?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await?;
        Ok(answer)
    }

    pub(crate) async fn posts_a_limit(&self, address: SocketAddr) -> io::Result<String> {
        let body = r#"{"namespace":"demo","identifier":"me","limit":1000000,"duration_ms":60000}"#;
        let request = format!(
            "POST /v1/limit HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        );
        self.exchange(address, request.as_bytes()).await
    }

    pub(crate) async fn gets(&self, address: SocketAddr, path: &str) -> io::Result<String> {
        let request = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
        self.exchange(address, request.as_bytes()).await
    }

    /// The status of gRPC's health check, over HTTP/2 as ALPN agreed on it.
    pub(crate) async fn health(&self, address: SocketAddr) -> String {
        let stream = self.connect_speaking(address, &[b"h2", b"http/1.1"]).await.unwrap();
        assert_eq!(stream.get_ref().1.alpn_protocol(), Some(&b"h2"[..]));
        let (sender, connection) = h2::client::handshake(stream).await.unwrap();
        let connection = tokio::spawn(connection);
        let request = hyper::Request::post("https://localhost/grpc.health.v1.Health/Check")
            .header("content-type", "application/grpc")
            .body(())
            .unwrap();
        let mut sender = sender.ready().await.unwrap();
        let (response, mut body) = sender.send_request(request, false).unwrap();
        body.send_data(hyper::body::Bytes::from_static(&[0; 5]), true).unwrap();
        let mut incoming = response.await.unwrap().into_body();
        while incoming.data().await.is_some() {}
        let trailers = incoming.trailers().await.unwrap().unwrap();
        connection.abort();
        trailers["grpc-status"].to_str().unwrap().to_owned()
    }

    /// The server's own.
    pub(crate) async fn certificate(&self, address: SocketAddr) -> Vec<u8> {
        let stream = self.connect(address).await.unwrap();
        stream.get_ref().1.peer_certificates().unwrap()[0].to_vec()
    }
}
