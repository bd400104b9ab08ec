//! Connections beside a server's main one, for threads other than that one's: a thread that drives its own
//! connection wakes no other to send a call or to take its answer, which would cost more than the call.
//!
//! Only a convenience: a connection is opened by the first call of its thread, which takes the main connection as
//! every call does while there is no connection. It goes when the main connection it was opened beside goes.

use super::link::Link;
use super::servers::Servers;
use super::shard::Shard;
use arc_swap::ArcSwapOption;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

/// Threads beyond this many share lanes: a node has at most so many connections more to a server.
const THREAD_CONNECTIONS_MAX: usize = 8;
/// After a failed attempt; the main connection serves meanwhile.
const PAUSE: Duration = Duration::from_secs(1);

/// Connections to one server, for threads other than the one of its main connection.
#[derive(Debug, Default)]
pub(super) struct ThreadConnections {
    connections: [ThreadConnection; THREAD_CONNECTIONS_MAX],
    /// The thread of the main connection needs none.
    main: AtomicUsize,
}

/// One thread's connection to a server.
#[derive(Debug, Default)]
struct ThreadConnection {
    open: ArcSwapOption<OpenConnection>,
    /// A task opens it or holds it open.
    has_task: AtomicBool,
}

#[derive(Debug)]
struct OpenConnection {
    link: Arc<Link>,
    /// The main connection that it was opened beside.
    beside: Arc<Link>,
}

/// Which connection is this thread's.
fn here() -> usize {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    thread_local! {
        static HERE: usize = NEXT.fetch_add(1, Ordering::Relaxed) % THREAD_CONNECTIONS_MAX;
    }
    HERE.with(|connection| *connection)
}

impl ThreadConnections {
    /// This thread drives the main connection.
    pub(super) fn main_is_here(&self) {
        self.main.store(here(), Ordering::Relaxed);
    }
}

/// This thread's connection to a server whose main one is `main`; that one itself, as long as there is no other.
pub(super) fn link_here(servers: &Arc<Servers>, shard: &Arc<Shard>, main: Arc<Link>) -> Arc<Link> {
    let here = here();
    if here == shard.thread_connections.main.load(Ordering::Relaxed) {
        return main;
    }
    let connection = &shard.thread_connections.connections[here];
    if let Some(open) = &*connection.open.load()
        && Arc::ptr_eq(&open.beside, &main)
    {
        return open.link.clone();
    }
    if !connection.has_task.swap(true, Ordering::Relaxed) {
        tokio::spawn(maintain(servers.clone(), shard.clone(), here, main.clone()));
    }
    main
}

/// Opens a connection and holds it open, on the runtime of the thread whose connection it is.
async fn maintain(servers: Arc<Servers>, shard: Arc<Shard>, here: usize, beside: Arc<Link>) {
    let connection = &shard.thread_connections.connections[here];
    let _closes = Closes(connection);
    tokio::select! {
        () = connect_and_hold(&servers, &shard, connection, &beside) => {}
        () = shard.is_no_longer(&beside) => {}
        () = servers.stopped() => {}
    }
}

async fn connect_and_hold(
    servers: &Servers,
    shard: &Shard,
    connection: &ThreadConnection,
    beside: &Arc<Link>,
) {
    let Ok(connected) = servers.dialer.connect(&shard.address, servers.purpose).await else {
        return tokio::time::sleep(PAUSE).await;
    };
    let link = Arc::new(Link::new(&connected));
    connection.open.store(Some(Arc::new(OpenConnection { link: link.clone(), beside: beside.clone() })));
    tokio::select! {
        () = connected.driver => {}
        () = link.is_condemned() => {}
    }
}

/// Also when the thread ends, and its tasks with it.
struct Closes<'a>(&'a ThreadConnection);

impl Drop for Closes<'_> {
    fn drop(&mut self) {
        self.0.open.store(None);
        self.0.has_task.store(false, Ordering::Relaxed);
    }
}
