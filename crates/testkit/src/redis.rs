//! A Redis server of a test's own, which can be killed, stopped and started again.
//!
//! It keeps nothing: after a restart it is empty, as one whose memory was lost.

mod options;

pub use options::RedisServerOptions;
pub(crate) use options::base_configuration;

use crate::certificates::AUTHORITY;
use crate::client::RespClient;
use crate::reply::RespValue;
use crate::server::{SOCKET, Server};
use options::Security;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;

/// The file that a server reads when it starts.
const SNAPSHOT: &str = "dump.rdb";

/// A standalone server, or a node of a group. Dropping it kills it.
#[derive(Debug)]
pub struct Redis {
    server: Server,
    address: SocketAddr,
    security: Security,
}

impl Redis {
    /// The system's Redis on a free port, plain.
    pub async fn start() -> Self {
        Redis::options().start().await
    }

    pub fn options() -> RedisServerOptions {
        RedisServerOptions::default()
    }

    /// `redis://127.0.0.1:port`, or `rediss://` with TLS; without credentials.
    pub fn url(&self) -> String {
        let scheme = match self.security {
            Security::Plain => "redis",
            Security::Tls => "rediss",
        };
        format!("{scheme}://{}", self.address)
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Every server listens on a Unix socket too, without TLS.
    pub fn unix_path(&self) -> PathBuf {
        self.server.directory().path(SOCKET)
    }

    /// The certificate, as PEM, of the authority that signed a TLS server's.
    pub fn authority_path(&self) -> PathBuf {
        self.server.directory().path(AUTHORITY)
    }

    pub fn process_id(&self) -> u32 {
        self.server.process().id()
    }

    /// SIGKILL: connections are reset, and new ones refused.
    pub fn kill(&self) {
        self.server.process().kill();
    }

    /// SIGSTOP: connections stay open, new ones are accepted by the kernel, and nobody answers.
    pub fn stop(&self) {
        self.server.process().stop();
    }

    /// SIGCONT: what came in meanwhile is answered.
    pub fn resume(&self) {
        self.server.process().resume();
    }

    /// The same port, and no data. A cluster node keeps its identity.
    pub async fn restart(&self) {
        self.server.process().kill();
        // What a replica got from its primary; it would be read again.
        let _ = std::fs::remove_file(self.server.directory().path(SNAPSHOT));
        self.server.restart().await.unwrap_or_else(|problem| panic!("{problem}"));
    }

    /// Everything that the server holds now, as a snapshot file.
    pub async fn snapshot(&self) -> io::Result<Vec<u8>> {
        self.demand(&["SAVE"]).await;
        std::fs::read(self.server.directory().path(SNAPSHOT))
    }

    /// The same port, with the data of a snapshot.
    pub async fn restart_from(&self, snapshot: &[u8]) -> io::Result<()> {
        self.server.process().kill();
        std::fs::write(self.server.directory().path(SNAPSHOT), snapshot)?;
        self.server.restart().await.map_err(io::Error::other)
    }

    /// Marks the server as empty on purpose, as `tidegate origin init` does: it has lost nothing, and nodes that start on it
    /// needn't recover. The tag is that of the lowest slot that it owns.
    pub(crate) async fn mark_as_new(&self, tag: &str) {
        let run = self.info("run_id").await.ok().flatten().unwrap_or_default();
        let record = format!("1:00000000000000aa:0:{}", run.trim());
        self.demand(&["SET", &format!("tidegate:{{{tag}}}:record"), &record]).await;
    }

    /// A connection past TLS and authentication.
    pub async fn client(&self) -> io::Result<RespClient> {
        self.server.client().await
    }

    /// One command on a connection of its own. A refusal is [`RespValue::Error`]; `Err` when nobody answers.
    pub async fn command<A: AsRef<[u8]>>(&self, arguments: &[A]) -> io::Result<RespValue> {
        self.server.command(arguments).await
    }

    /// Like [`command`](Self::command), where everything but success is a mistake of the test's.
    pub async fn demand<A: AsRef<[u8]>>(&self, arguments: &[A]) -> RespValue {
        let outcome = self.command(arguments).await;
        let command = || {
            let words = arguments.iter().map(|word| String::from_utf8_lossy(word.as_ref()));
            words.take(4).collect::<Vec<_>>().join(" ")
        };
        match outcome {
            Ok(RespValue::Error(problem)) => panic!("{}: {}: {problem}", self.address, command()),
            Ok(reply) => reply,
            Err(error) => panic!("{}: {}: {error}", self.address, command()),
        }
    }

    /// How often a command was called, e.g. `evalsha`. Commands that scripts call are counted under their own
    /// names.
    pub async fn calls_of(&self, command: &str) -> u64 {
        let statistics = self.demand(&["INFO", "commandstats"]).await.text().unwrap_or_default();
        let start = format!("cmdstat_{command}:calls=");
        let rest = statistics.lines().find_map(|line| line.strip_prefix(&start));
        rest.and_then(|rest| rest.split(',').next()).and_then(|calls| calls.parse().ok()).unwrap_or(0)
    }

    /// A field of `INFO`, e.g. `role`.
    pub async fn info(&self, field: &str) -> io::Result<Option<String>> {
        let text = self.command(&["INFO"]).await?.text().unwrap_or_default();
        let value = text.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':'));
        Ok(value.map(str::to_owned))
    }
}
