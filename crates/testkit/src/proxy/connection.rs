//! One client's connection through the proxy: two ways, and how it ends.

use super::Counters;
use super::fault::{ProxyFault, Way};
use super::way::{Broken, Carrier, carry};
use std::net::SocketAddr;
use std::sync::Arc;
use tokio::io::AsyncReadExt;
use tokio::net::TcpStream;
use tokio::sync::watch;

/// Discarded at once.
const READ_BYTES: usize = 16 * 1024;

pub(super) struct Connection {
    pub(super) number: u64,
    pub(super) upstream: SocketAddr,
    pub(super) faults: watch::Receiver<ProxyFault>,
    pub(super) counters: Arc<Counters>,
}

impl Connection {
    pub(super) async fn run(mut self, mut client: TcpStream) {
        let mut faults = self.faults.clone();
        tokio::select! {
            _ = self.relay(&mut client) => {}
            // Wherever it waits, e.g. for an upstream that doesn't take connections.
            _ = faults.wait_for(|fault| fault.ends_connections()) => {}
        }
        if *self.faults.borrow() == ProxyFault::Reset {
            // Closing then sends RST instead of FIN.
            let _ = client.set_zero_linger();
        }
    }

    async fn relay(&mut self, client: &mut TcpStream) -> Result<(), Broken> {
        self.swallow(client).await?;
        let Ok(mut upstream) = TcpStream::connect(self.upstream).await else {
            // Like a server that has ended.
            let _ = client.set_zero_linger();
            return Err(Broken);
        };
        client.set_nodelay(true).and_then(|()| upstream.set_nodelay(true)).map_err(|_| Broken)?;
        let (client_reads, client_writes) = client.split();
        let (upstream_reads, upstream_writes) = upstream.split();
        let there = carry(client_reads, self.carrier(Way::ToUpstream, upstream_writes));
        let back = carry(upstream_reads, self.carrier(Way::ToClient, client_writes));
        tokio::try_join!(there, back).map(|_| ())
    }

    /// In a black hole not even the upstream sees that somebody connected. Whoever said something there can't
    /// be connected later.
    async fn swallow(&mut self, client: &mut TcpStream) -> Result<(), Broken> {
        let mut buffer = vec![0; READ_BYTES];
        let (mut is_lost, mut is_open) = (false, true);
        while *self.faults.borrow_and_update() == ProxyFault::Blackhole {
            tokio::select! {
                changed = self.faults.changed() => changed.map_err(|_| Broken)?,
                read = client.read(&mut buffer), if is_open => {
                    is_open = matches!(read, Ok(1..));
                    self.counters.lost(read.unwrap_or(0));
                    is_lost = true;
                }
            }
        }
        if is_lost { Err(Broken) } else { Ok(()) }
    }

    fn carrier<W>(&self, way: Way, sink: W) -> Carrier<W> {
        Carrier::new(way, sink, self.faults.clone(), self.counters.clone(), self.number)
    }
}
