//! A TCP proxy that misbehaves on request: the network between a node and its store.
//!
//! It runs on a thread of its own, so that a test's busy or blocked runtime doesn't distort it, and works for
//! tests without a runtime too. It never changes bytes or order but where a fault says so.

mod connection;
mod fault;
mod way;

pub use fault::ProxyFault;

use crate::port::free_port;
use connection::Connection;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::JoinSet;

const RETRY_AFTER: Duration = Duration::from_millis(10);
/// For the case that a stranger took the port while it was closed, and gives it back.
const OPEN_ATTEMPTS_MAX: u32 = 100;

/// Dropping it closes its connections.
#[derive(Debug)]
pub struct FaultProxy {
    address: SocketAddr,
    orders: mpsc::UnboundedSender<ProxyCommand>,
    thread: Option<JoinHandle<()>>,
}

/// Connections accepted, and bytes that were delivered, since the start.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct ProxyCounts {
    pub connections: u64,
    pub to_upstream_bytes: u64,
    pub to_client_bytes: u64,
    /// Vanished, of either direction: tells a test that the proxy has seen them.
    pub lost_bytes: u64,
}

#[derive(Default, Debug)]
struct Counters {
    connections: AtomicU64,
    to_upstream_bytes: AtomicU64,
    to_client_bytes: AtomicU64,
    lost_bytes: AtomicU64,
}

/// What the proxy's thread is to do; it answers with the counts when it has.
struct ProxyCommand {
    fault: Option<ProxyFault>,
    done: std::sync::mpsc::Sender<ProxyCounts>,
}

impl FaultProxy {
    /// Listens on a free port of 127.0.0.1 and connects each client to `upstream`, which may come later.
    pub async fn start(upstream: SocketAddr) -> Self {
        let (orders, taken) = mpsc::unbounded_channel();
        let (started, address) = oneshot::channel();
        let thread = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            runtime.expect("a runtime").block_on(async move {
                let listener = open_anywhere().await;
                let address = listener.local_addr().expect("an address");
                let _ = started.send(address);
                let faults = watch::Sender::new(ProxyFault::None);
                let acceptor = Acceptor { address, upstream, faults, counters: Arc::default() };
                acceptor.run(listener, taken).await;
            });
        });
        let address = address.await.expect("a proxy that listens");
        FaultProxy { address, orders, thread: Some(thread) }
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// In force for existing and new connections when this returns. Connections that lost bytes are closed as
    /// soon as bytes would pass again: what follows would make no sense to either side.
    pub fn set(&self, fault: ProxyFault) {
        self.order(Some(fault));
    }

    /// Includes every byte that either side has seen: counted on the thread that delivers.
    pub fn counts(&self) -> ProxyCounts {
        self.order(None)
    }

    fn order(&self, fault: Option<ProxyFault>) -> ProxyCounts {
        let (done, finished) = std::sync::mpsc::channel();
        let sent = self.orders.send(ProxyCommand { fault, done });
        sent.ok().and_then(|()| finished.recv().ok()).expect("the proxy's thread runs")
    }
}

impl Drop for FaultProxy {
    fn drop(&mut self) {
        // Without a sender of orders the thread ends, and with it every connection.
        self.orders = mpsc::unbounded_channel().0;
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

impl Counters {
    fn lost(&self, bytes: usize) {
        self.lost_bytes.fetch_add(u64::try_from(bytes).unwrap_or(u64::MAX), Ordering::Relaxed);
    }

    fn get(&self) -> ProxyCounts {
        ProxyCounts {
            connections: self.connections.load(Ordering::Relaxed),
            to_upstream_bytes: self.to_upstream_bytes.load(Ordering::Relaxed),
            to_client_bytes: self.to_client_bytes.load(Ordering::Relaxed),
            lost_bytes: self.lost_bytes.load(Ordering::Relaxed),
        }
    }
}

struct Acceptor {
    address: SocketAddr,
    upstream: SocketAddr,
    faults: watch::Sender<ProxyFault>,
    counters: Arc<Counters>,
}

impl Acceptor {
    async fn run(self, listener: TcpListener, mut orders: mpsc::UnboundedReceiver<ProxyCommand>) {
        let mut listener = Some(listener);
        let mut connections = JoinSet::new();
        loop {
            tokio::select! {
                // A fault that was set holds for whoever connects afterwards.
                biased;
                order = orders.recv() => {
                    let Some(ProxyCommand { fault, done }) = order else { return };
                    if let Some(fault) = fault {
                        listener = self.listen(listener, fault).await;
                        self.change(fault, &mut connections).await;
                    }
                    let _ = done.send(self.counters.get());
                }
                accepted = accept(listener.as_ref()) => self.admit(accepted, &mut connections),
                Some(_) = connections.join_next() => {}
            }
        }
    }

    async fn listen(&self, listener: Option<TcpListener>, fault: ProxyFault) -> Option<TcpListener> {
        if fault == ProxyFault::Refuse {
            return None;
        }
        if listener.is_some() {
            return listener;
        }
        for _ in 0..OPEN_ATTEMPTS_MAX {
            if let Ok(opened) = TcpListener::bind(self.address).await {
                return Some(opened);
            }
            tokio::time::sleep(RETRY_AFTER).await;
        }
        panic!("{} was taken while the proxy refused connections", self.address);
    }

    async fn change(&self, fault: ProxyFault, connections: &mut JoinSet<()>) {
        self.faults.send_replace(fault);
        if fault.ends_connections() {
            // Waited for: the next fault may be set at once, and connections see only the latest.
            while connections.join_next().await.is_some() {}
        }
    }

    fn admit(&self, client: TcpStream, connections: &mut JoinSet<()>) {
        let number = self.counters.connections.fetch_add(1, Ordering::Relaxed);
        let connection = Connection {
            number,
            upstream: self.upstream,
            faults: self.faults.subscribe(),
            counters: self.counters.clone(),
        };
        connections.spawn(connection.run(client));
    }
}

/// Never returns without a listener.
async fn accept(listener: Option<&TcpListener>) -> TcpStream {
    let Some(listener) = listener else { return std::future::pending().await };
    loop {
        match listener.accept().await {
            Ok((stream, _)) => return stream,
            // A client that was gone before we looked, or too many open files, which takes a moment to pass.
            Err(_) => tokio::time::sleep(RETRY_AFTER).await,
        }
    }
}

async fn open_anywhere() -> TcpListener {
    loop {
        match TcpListener::bind((Ipv4Addr::LOCALHOST, free_port())).await {
            Ok(listener) => return listener,
            // Another process was faster.
            Err(error) if error.kind() == io::ErrorKind::AddrInUse => {}
            Err(error) => panic!("the proxy can't listen: {error}"),
        }
    }
}
