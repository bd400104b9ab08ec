//! A node behind TLS, and its certificates on disk.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tidegate_core::{FleetSecret, Nanos};
use tidegate_node::clock::Clock;
use tidegate_node::{Engine, EngineOptions};
use tidegate_rules::RuleSet;
use tidegate_server::{App, Certificates, ListeningSocket, ServerTls, Surface, TlsFiles, serve};
use tidegate_testkit::{Authority, Issued};
use tokio::net::TcpListener;
use tokio::sync::watch;

pub(crate) struct Files {
    directory: PathBuf,
    pub(crate) tls: TlsFiles,
}

impl Files {
    pub(crate) fn new(name: &str, authority: &Authority, clients: Option<&Authority>) -> Self {
        let directory =
            PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("tls-{}-{name}", std::process::id()));
        std::fs::create_dir_all(&directory).unwrap();
        let [certificate, key] = ["server.pem", "server.key"].map(|name| directory.join(name));
        let mut files = Files { directory, tls: TlsFiles { certificate, key, client_ca: None } };
        files.write_server(&authority.server());
        files.tls.client_ca = clients.map(|clients| files.write("clients.pem", clients.pem()));
        files
    }

    pub(crate) fn write_server(&self, issued: &Issued) {
        self.write("server.pem", &issued.certificate);
        self.write("server.key", &issued.key);
    }

    pub(crate) fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.directory.join(name);
        std::fs::write(&path, text).unwrap();
        path
    }
}

impl Drop for Files {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.directory);
    }
}

pub(crate) struct Node {
    pub(crate) address: SocketAddr,
    pub(crate) tls: Arc<ServerTls>,
    _stop: watch::Sender<bool>,
}

impl Node {
    pub(crate) async fn start(files: &Files, surface: Surface) -> Self {
        let secret = FleetSecret::BUILT_IN;
        let engine = Engine::new(EngineOptions { secret, keys_max: 100_000 }, RuleSet::empty());
        let (clock, _) = Clock::manual(Nanos::from_secs(1_800_000_000));
        let app = Arc::new(App::new(Arc::new(engine), Arc::new(clock)));
        let tls = Arc::new(ServerTls::new(Certificates::read(&files.tls).unwrap()));
        let (stop, stopped) = watch::channel(false);
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let listener = ListeningSocket::Tls(listener, Arc::clone(&tls)).into();
        tokio::spawn(serve(listener, surface, app, stopped, Duration::from_secs(30)));
        Node { address, tls, _stop: stop }
    }
}
