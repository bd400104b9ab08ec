//! One server that keeps keys: how it stands with it, and how many calls wait for it.
//!
//! Calls and the connection task meet here. Nothing of one shard is shared with another, and no lock is held while
//! anybody waits, so a dead server is nobody else's business.

use super::address::Address;
use super::deadline::Deadline;
use super::link::Link;
use super::thread_connections::ThreadConnections;
use crate::{OriginError, ShardId};
use arc_swap::ArcSwap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use tokio::sync::Notify;

#[derive(Debug)]
pub(super) struct Shard {
    pub(super) id: ShardId,
    pub(super) address: Address,
    status: ArcSwap<ConnectionStatus>,
    pub(super) thread_connections: ThreadConnections,
    changed: Notify,
    in_flight: AtomicUsize,
    connects: AtomicU64,
    /// Called since the map was last looked through.
    used: AtomicBool,
    retired: Notify,
}

/// The state of a shard's main connection.
#[derive(Debug)]
pub(super) enum ConnectionStatus {
    /// The first attempt to connect is under way.
    New,
    Up(Arc<Link>),
    Down {
        cause: String,
    },
}

impl Shard {
    pub(super) fn new(id: ShardId, address: Address) -> Self {
        Shard {
            id,
            address,
            status: ArcSwap::from_pointee(ConnectionStatus::New),
            thread_connections: ThreadConnections::default(),
            changed: Notify::new(),
            in_flight: AtomicUsize::new(0),
            connects: AtomicU64::new(0),
            used: AtomicBool::new(false),
            retired: Notify::new(),
        }
    }

    /// The connection. Only a first attempt to connect is waited for: afterwards there is one or there isn't.
    pub(super) async fn link(&self, deadline: Deadline) -> Result<Arc<Link>, OriginError> {
        loop {
            // Made before looking: a change in between wakes it.
            let changed = self.changed.notified();
            match &**self.status.load() {
                ConnectionStatus::Up(link) => return Ok(link.clone()),
                ConnectionStatus::Down { cause } => return Err(self.unreachable(cause)),
                ConnectionStatus::New => {}
            }
            if tokio::time::timeout_at(deadline.at(), changed).await.is_err() {
                return Err(self.unreachable("still connecting"));
            }
        }
    }

    /// The connection, if there is one now.
    pub(super) fn link_now(&self) -> Option<Arc<Link>> {
        match &**self.status.load() {
            ConnectionStatus::Up(link) => Some(link.clone()),
            ConnectionStatus::New | ConnectionStatus::Down { .. } => None,
        }
    }

    fn unreachable(&self, cause: &str) -> OriginError {
        OriginError::Unreachable { cause: format!("{}: {cause}", self.address) }
    }

    /// Lets calls pass while fewer than `max` wait for their answers.
    pub(super) fn enter(&self, calls: usize, max: usize) -> Result<InFlightPermit<'_>, OriginError> {
        let passage = InFlightPermit { shard: self, calls };
        let before = self.in_flight.fetch_add(calls, Ordering::Relaxed);
        if before >= max {
            return Err(self.unreachable(&format!("the queue is full ({before} calls wait)")));
        }
        self.used.store(true, Ordering::Relaxed);
        Ok(passage)
    }

    /// Whether it was called since this was last asked.
    pub(super) fn take_used(&self) -> bool {
        self.used.swap(false, Ordering::Relaxed)
    }

    pub(super) fn up(&self, link: Arc<Link>) {
        self.connects.fetch_add(1, Ordering::Relaxed);
        self.thread_connections.main_is_here();
        self.set_status(ConnectionStatus::Up(link));
    }

    pub(super) fn down(&self, cause: String) {
        self.set_status(ConnectionStatus::Down { cause });
    }

    fn set_status(&self, standing: ConnectionStatus) {
        self.status.store(Arc::new(standing));
        self.changed.notify_waiters();
    }

    pub(super) fn status(&self) -> Arc<ConnectionStatus> {
        self.status.load_full()
    }

    /// Returns when the main connection is another one, or none.
    pub(super) async fn is_no_longer(&self, link: &Arc<Link>) {
        loop {
            // Made before looking: a change in between wakes it.
            let changed = self.changed.notified();
            if self.link_now().is_none_or(|now| !Arc::ptr_eq(&now, link)) {
                return;
            }
            changed.await;
        }
    }

    pub(super) fn reconnects(&self) -> u64 {
        self.connects().saturating_sub(1)
    }

    pub(super) fn connects(&self) -> u64 {
        self.connects.load(Ordering::Relaxed)
    }

    /// It keeps no keys any more: its connection task ends when the calls in flight have had their time.
    pub(super) fn retire(&self) {
        self.retired.notify_one();
    }

    pub(super) async fn is_retired(&self) {
        self.retired.notified().await;
    }
}

/// A permit for calls in flight to a shard. Dropping it makes room for others.
#[derive(Debug)]
pub(super) struct InFlightPermit<'a> {
    shard: &'a Shard,
    calls: usize,
}

impl Drop for InFlightPermit<'_> {
    fn drop(&mut self) {
        self.shard.in_flight.fetch_sub(self.calls, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_beyond_the_bound_fail_at_once_until_others_are_done() {
        let shard = Shard::new(ShardId(1), Address::tcp("h", 1));
        let first = shard.enter(3, 4).unwrap();
        let second = shard.enter(3, 4).unwrap();
        let refused = shard.enter(1, 4).unwrap_err();
        assert!(refused.to_string().contains("queue is full"), "{refused}");
        drop(first);
        let third = shard.enter(1, 4).unwrap();
        drop((second, third));
        assert_eq!(shard.in_flight.load(Ordering::Relaxed), 0);
    }
}
