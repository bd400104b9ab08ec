//! A few connections to a database, made when they are needed and never waited for past a deadline.
//!
//! A connection whose call failed, ran out of time or was given up is closed, never used again: nobody knows
//! what its server is still doing on it. That is why this isn't sqlx's pool, which would also ask each
//! connection whether it lives before every use: a round trip that a region far away pays twice.

use super::link::{Address, Failure, Link};
use super::schema;
use crate::WorldError;
use parking_lot::Mutex;
use std::sync::Arc;
use std::time::Duration;
use tokio::runtime::Handle;
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore, oneshot};

/// How long a connection may take to be made, its schema included. Longer than any call waits: where one takes
/// longer than a call, the next call finds it made.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(15);

#[derive(Debug)]
pub(super) struct Pool {
    shared: Arc<Shared>,
    runtime: Handle,
    /// One for each connection in use.
    in_use: Arc<Semaphore>,
    /// One for each connection being made, also for callers who are gone.
    being_made: Arc<Semaphore>,
}

#[derive(Debug)]
struct Shared {
    address: Address,
    idle: Mutex<Vec<Link>>,
    /// A connection became idle.
    returned: Notify,
    connections_max: usize,
}

/// A connection in use. Closed when dropped, unless it is given back.
#[derive(Debug)]
pub(super) struct PooledConnection {
    link: Link,
    shared: Arc<Shared>,
    _in_use: OwnedSemaphorePermit,
}

impl Pool {
    pub(super) fn new(address: Address, connections_max: usize, runtime: Handle) -> Self {
        let semaphore = || Arc::new(Semaphore::new(connections_max));
        let shared =
            Arc::new(Shared { address, idle: Mutex::default(), returned: Notify::new(), connections_max });
        Pool { shared, runtime, in_use: semaphore(), being_made: semaphore() }
    }

    /// Returns an idle connection, or the first that becomes idle or is made. Callers put a deadline around it.
    pub(super) async fn lend(&self) -> Result<PooledConnection, Failure> {
        let closed = |_| Failure::Lost("the store is closed".to_owned());
        let in_use = self.in_use.clone().acquire_owned().await.map_err(closed)?;
        let link = match self.shared.take_idle() {
            Some(link) => link,
            None => self.wait().await?,
        };
        self.make_spare();
        Ok(PooledConnection { link, shared: self.shared.clone(), _in_use: in_use })
    }

    /// Waits for a connection: one that is being made now, or one that another caller gives back before.
    async fn wait(&self) -> Result<Link, Failure> {
        let closed = |_| Failure::Lost("the store is closed".to_owned());
        let being_made = self.being_made.clone().acquire_owned().await.map_err(closed)?;
        // A connection that took too long for its own caller may have come meanwhile.
        if let Some(link) = self.shared.take_idle() {
            return Ok(link);
        }
        let mut made = self.make(being_made);
        loop {
            tokio::select! {
                made = &mut made => {
                    return made.unwrap_or_else(|_| Err(Failure::Lost("the runtime has ended".to_owned())));
                }
                () = self.shared.returned.notified() => {}
            }
            if let Some(link) = self.shared.take_idle() {
                return Ok(link);
            }
        }
    }

    /// The last idle connection was taken: makes one for the next caller. Far from its database, a connection takes a dozen
    /// round trips to be made, and what waits for it meanwhile is news that other regions don't hear of.
    fn make_spare(&self) {
        let is_needed = self.in_use.available_permits() > 0 && self.shared.idle.lock().is_empty();
        let is_made = self.being_made.available_permits() < self.shared.connections_max;
        if is_needed
            && !is_made
            && let Ok(being_made) = self.being_made.clone().try_acquire_owned()
        {
            drop(self.make(being_made));
        }
    }

    /// Makes a connection in a task of its own, which goes on when the caller has given up: then it is idle.
    fn make(&self, being_made: OwnedSemaphorePermit) -> oneshot::Receiver<Result<Link, Failure>> {
        let (made, result) = oneshot::channel();
        let shared = self.shared.clone();
        self.runtime.spawn(async move {
            let link = tokio::time::timeout(CONNECT_TIMEOUT, connect(&shared.address)).await;
            let slow = || Failure::Lost(format!("no connection within {} s", CONNECT_TIMEOUT.as_secs()));
            let link = link.unwrap_or_else(|_| Err(slow()));
            if let Err(Ok(link)) = made.send(link) {
                shared.put_back(link);
            }
            drop(being_made);
        });
        result
    }
}

async fn connect(address: &Address) -> Result<Link, Failure> {
    let mut link = address.connect().await?;
    schema::apply(&mut link, address.dialect()).await?;
    link.run(address.dialect().fill(address.dialect().texts.session, &[])).await?;
    Ok(link)
}

impl Shared {
    fn take_idle(&self) -> Option<Link> {
        self.idle.lock().pop()
    }

    fn put_back(&self, link: Link) {
        let mut idle = self.idle.lock();
        if idle.len() < self.connections_max {
            idle.push(link);
            drop(idle);
            self.returned.notify_one();
        }
    }
}

impl PooledConnection {
    pub(super) fn link(&mut self) -> &mut Link {
        &mut self.link
    }

    /// The call ended well: others may have the connection.
    pub(super) fn give_back(self) {
        self.shared.put_back(self.link);
    }

    /// The call failed. When the server was lost, so were the idle connections, most likely.
    pub(super) fn close(self, failure: &Failure) {
        if matches!(failure, Failure::Lost(_) | Failure::World(WorldError::Timeout { .. })) {
            self.shared.idle.lock().clear();
        }
    }
}
