//! A primary and its replica, watched by three sentinels of which two must agree.
//!
//! The sentinels' patience is short, so that a test sees a failover within seconds.

use crate::binary::RedisBinary;
use crate::directory::Directory;
use crate::redis::{Redis, base_configuration};
use crate::reply::RespValue;
use crate::server::{Plan, Server, on_free_port};
use crate::wait::{READY_TIMEOUT, attempt, until, until_ok};
use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

/// The name under which the sentinels know the group.
const GROUP: &str = "tidegate";
const SENTINELS: usize = 3;
/// A second to notice, up to two to elect, and as much to promote; an election that fails is repeated.
const FAILOVER_TIMEOUT: Duration = Duration::from_secs(20);

/// Dropping it kills everything.
#[derive(Debug)]
pub struct Sentinel {
    servers: [Redis; 2],
    sentinels: Vec<Watcher>,
}

#[derive(Debug)]
struct Watcher {
    server: Server,
    address: SocketAddr,
}

impl Sentinel {
    /// The sentinels know each other and the replica: a failover may begin at once.
    pub async fn start() -> Self {
        let primary = Redis::start().await;
        let replica = Redis::start().await;
        let (host, port) = (primary.address().ip().to_string(), primary.address().port().to_string());
        replica.demand(&["REPLICAOF", &host, &port]).await;
        // Before any sentinel looks: it asks for replicas only every ten seconds.
        wait_in_sync(&replica).await;
        let mut sentinels = Vec::new();
        for _ in 0..SENTINELS {
            sentinels.push(on_free_port(|port| Watcher::start(primary.address(), port)).await);
        }
        let group = Sentinel { servers: [primary, replica], sentinels };
        group.wait_acquainted().await;
        group
    }

    /// `redis+sentinel://h:p,h:p,h:p/tidegate`, where the addresses are the sentinels'.
    pub fn url(&self) -> String {
        let addresses: Vec<String> =
            self.sentinels.iter().map(|watcher| watcher.address.to_string()).collect();
        format!("redis+sentinel://{}/{GROUP}", addresses.join(","))
    }

    /// The server that was the primary at first, and the one that was its replica.
    pub fn servers(&self) -> &[Redis; 2] {
        &self.servers
    }

    /// Where the primary is by the word of the first sentinel that answers.
    pub async fn primary_address(&self) -> SocketAddr {
        until("a sentinel that knows the primary", READY_TIMEOUT, || async move {
            for watcher in &self.sentinels {
                if let Some(address) = watcher.primary_address().await {
                    return Some(address);
                }
            }
            None
        })
        .await
    }

    pub async fn primary(&self) -> &Redis {
        let address = self.primary_address().await;
        let primary = self.servers.iter().find(|server| server.address() == address);
        primary.unwrap_or_else(|| panic!("the sentinels name a stranger: {address}"))
    }

    /// SIGKILL; returns where it was, for [`wait_replaced`](Self::wait_replaced).
    pub async fn kill_primary(&self) -> SocketAddr {
        let primary = self.primary().await;
        primary.kill();
        primary.address()
    }

    /// SIGKILL for one of the three.
    pub fn kill_sentinel(&self, index: usize) {
        self.sentinels[index].server.process().kill();
    }

    /// Returns the new primary's address when it is one, and every sentinel that runs names it.
    pub async fn wait_replaced(&self, before: SocketAddr) -> SocketAddr {
        until_ok("a new primary", FAILOVER_TIMEOUT, || async move {
            for watcher in self.running_sentinels() {
                let named = watcher.primary_address().await;
                if named.is_none_or(|named| named == before) {
                    return Err(format!("the sentinel at {} names {named:?}", watcher.address));
                }
            }
            let role = self.primary().await.info("role").await.map_err(|error| error.to_string())?;
            if role.as_deref() == Some("master") { Ok(()) } else { Err(format!("its role is {role:?}")) }
        })
        .await;
        self.primary_address().await
    }

    /// Makes the replica the primary while both are alive, as operators do; returns the new one's address.
    pub async fn failover(&self) -> SocketAddr {
        let before = self.primary_address().await;
        let forced = attempt(FAILOVER_TIMEOUT, || async move {
            let watcher = self.running_sentinels().next().ok_or("no sentinel is left")?;
            // Refused while it finds no good replica, e.g. just after an earlier failover.
            match watcher.server.command(&["SENTINEL", "FAILOVER", GROUP]).await {
                Ok(RespValue::Error(problem)) => Err(problem),
                Ok(_) => Ok(()),
                Err(error) => Err(error.to_string()),
            }
        });
        forced.await.unwrap_or_else(|problem| panic!("the sentinel refuses a failover: {problem}"));
        self.wait_replaced(before).await
    }

    fn running_sentinels(&self) -> impl Iterator<Item = &Watcher> {
        self.sentinels.iter().filter(|watcher| watcher.server.process().exit_status().is_none())
    }

    async fn wait_acquainted(&self) {
        until_ok("sentinels that know each other", FAILOVER_TIMEOUT, || async move {
            for watcher in &self.sentinels {
                let (replicas, others) = (watcher.field("num-slaves"), watcher.field("num-other-sentinels"));
                let counts = (replicas.await, others.await);
                if counts != (Some("1".to_owned()), Some((SENTINELS - 1).to_string())) {
                    return Err(format!("{} knows {counts:?}", watcher.address));
                }
            }
            Ok(())
        })
        .await;
    }
}

async fn wait_in_sync(replica: &Redis) {
    until_ok("a replica in sync", READY_TIMEOUT, || async move {
        match replica.info("master_link_status").await {
            Ok(Some(status)) if status == "up" => Ok(()),
            other => Err(format!("{other:?}")),
        }
    })
    .await;
}

impl Watcher {
    async fn start(primary: SocketAddr, port: u16) -> Result<Self, String> {
        let directory = Directory::new();
        let plan = Plan {
            binary: RedisBinary::System.path()?,
            configuration: base_configuration(&directory) + &watch(primary, port),
            arguments: vec!["--sentinel".to_owned()],
            credentials: None,
        };
        let server = Server::start(directory, plan).await?;
        Ok(Watcher { server, address: SocketAddr::from((Ipv4Addr::LOCALHOST, port)) })
    }

    async fn primary_address(&self) -> Option<SocketAddr> {
        let named = self.server.command(&["SENTINEL", "GET-MASTER-ADDR-BY-NAME", GROUP]).await.ok()?;
        let [host, port] = named.items() else { return None };
        format!("{}:{}", host.text()?, port.text()?).parse().ok()
    }

    /// A field of what this sentinel knows about the primary: names and values take turns.
    async fn field(&self, name: &str) -> Option<String> {
        let known = self.server.command(&["SENTINEL", "MASTER", GROUP]).await.ok()?;
        let (pairs, _) = known.items().as_chunks();
        let found = pairs.iter().find(|[field, _]| field.text().as_deref() == Some(name));
        found.and_then(|[_, value]| value.text())
    }
}

/// A sentinel's own settings; it rewrites the file when it learns something.
fn watch(primary: SocketAddr, port: u16) -> String {
    let (host, primary_port) = (primary.ip(), primary.port());
    format!(
        "port {port}\n\
         sentinel monitor {GROUP} {host} {primary_port} 2\n\
         sentinel down-after-milliseconds {GROUP} 1000\n\
         sentinel failover-timeout {GROUP} 3000\n\
         sentinel parallel-syncs {GROUP} 1\n"
    )
}
