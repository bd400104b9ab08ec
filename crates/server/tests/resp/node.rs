//! A node to test against, and a client of raw bytes.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tidegate_core::{FleetSecret, Nanos};
use tidegate_node::clock::{Clock, ManualTime};
use tidegate_node::{Engine, EngineOptions};
use tidegate_rules::RuleSet;
use tidegate_server::{App, Surface, serve};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinHandle;

/// Whatever a test waits for comes within this, or never.
const WITHIN: Duration = Duration::from_secs(10);

pub(crate) struct Node {
    pub address: SocketAddr,
    pub app: Arc<App>,
    pub time: ManualTime,
    pub stop: watch::Sender<bool>,
    pub listener: JoinHandle<()>,
}

impl Node {
    pub(crate) async fn start() -> Self {
        Node::with_keys(100_000).await
    }

    pub(crate) async fn with_keys(keys_max: usize) -> Self {
        let secret = FleetSecret::BUILT_IN;
        let rules = RuleSet::parse(&[], &secret).expect("no rules are valid");
        let engine = Engine::new(EngineOptions { secret, keys_max }, rules);
        let (clock, time) = Clock::manual(Nanos::from_secs(1_800_000_000));
        let app = Arc::new(App::new(Arc::new(engine), Arc::new(clock)));
        let (stop, stopped) = watch::channel(false);
        let socket = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = socket.local_addr().unwrap();
        let serving = serve(socket.into(), Surface::Resp, Arc::clone(&app), stopped, Duration::from_secs(30));
        Node { address, app, time, stop, listener: tokio::spawn(serving) }
    }

    pub(crate) async fn client(&self) -> Client {
        let stream = TcpStream::connect(self.address).await.unwrap();
        stream.set_nodelay(true).unwrap();
        Client(stream)
    }

    /// What a connection of its own answers until it is closed; the client closes its own side first.
    pub(crate) async fn answer_to(&self, bytes: &[u8]) -> String {
        let mut client = self.client().await;
        client.send(bytes).await;
        client.0.shutdown().await.unwrap();
        client.rest().await
    }

    pub(crate) fn stat(&self, name: &str) -> u64 {
        self.app.engine.stats().counts_by_name().into_iter().find(|(known, _)| *known == name).unwrap().1
    }
}

pub(crate) struct Client(pub TcpStream);

impl Client {
    pub(crate) async fn send(&mut self, bytes: impl AsRef<[u8]>) {
        self.0.write_all(bytes.as_ref()).await.unwrap();
    }

    /// Reads exactly what is expected.
    pub(crate) async fn expect(&mut self, expected: &str) {
        let mut answer = vec![0; expected.len()];
        let read = tokio::time::timeout(WITHIN, self.0.read_exact(&mut answer)).await;
        read.unwrap_or_else(|_| panic!("no answer; expected {expected:?}")).unwrap();
        assert_eq!(String::from_utf8_lossy(&answer), expected);
    }

    /// Reads until the server closes.
    pub(crate) async fn rest(&mut self) -> String {
        let mut answer = Vec::new();
        tokio::time::timeout(WITHIN, self.0.read_to_end(&mut answer)).await.expect("the end").unwrap();
        String::from_utf8_lossy(&answer).into_owned()
    }
}

/// A command as clients send it.
pub(crate) fn command(words: &[&str]) -> String {
    let bulks: String = words.iter().map(|word| format!("${}\r\n{word}\r\n", word.len())).collect();
    format!("*{}\r\n{bulks}", words.len())
}

/// The reply of a throttle command.
pub(crate) fn five(values: [i64; 5]) -> String {
    let values: String = values.iter().map(|value| format!(":{value}\r\n")).collect();
    format!("*5\r\n{values}")
}
