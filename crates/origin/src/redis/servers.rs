//! The servers of one origin: the map of them, and the tasks that keep it true.
//!
//! What calls and background tasks share. The map changes under a lock that is never held while anybody waits,
//! and is read without it. Ids of shards are never given twice.

use super::address::Address;
use super::connection_task;
use super::dial::{Dialer, Purpose};
use super::map::{Layout, SlotMap};
use super::shard::Shard;
use crate::ShardId;
use arc_swap::{ArcSwap, Guard};
use parking_lot::Mutex;
use std::collections::HashSet;
use std::sync::Arc;
use tokio::runtime::Handle;
use tokio::sync::{Notify, watch};

/// A cluster has at most 1,000 servers; whoever sends us to more means no good.
const SHARDS_MAX: usize = 1024;

#[derive(Debug)]
pub(super) struct Servers {
    pub(super) dialer: Dialer,
    /// What shards are connected for.
    pub(super) purpose: Purpose,
    map: ArcSwap<SlotMap>,
    /// The id of the next shard. Held while the map changes.
    next_id: Mutex<u32>,
    /// Why no server is known, where there is none.
    ignorance: ArcSwap<String>,
    refresh: Notify,
    runtime: Handle,
    /// Closed when the origin is dropped.
    stop: watch::Receiver<()>,
}

impl Servers {
    pub(super) fn new(
        dialer: Dialer,
        purpose: Purpose,
        map: SlotMap,
        runtime: Handle,
        stop: watch::Receiver<()>,
    ) -> Self {
        Servers {
            dialer,
            purpose,
            map: ArcSwap::from_pointee(map),
            next_id: Mutex::new(1),
            ignorance: ArcSwap::from_pointee("nobody was asked yet which servers there are".to_owned()),
            refresh: Notify::new(),
            runtime,
            stop,
        }
    }

    pub(super) fn map(&self) -> Guard<Arc<SlotMap>> {
        self.map.load()
    }

    /// One server has everything from now on.
    pub(super) fn adopt_one(self: &Arc<Self>, address: &Address) {
        let mut next_id = self.next_id.lock();
        let before = self.map.load_full();
        if before.owner(0).is_some_and(|shard| shard.address == *address) {
            return;
        }
        let shard = self.start_shard(&mut next_id, address.clone());
        self.replace(&before, SlotMap::one(shard));
    }

    /// The cluster is laid out like this from now on.
    pub(super) fn adopt_layout(self: &Arc<Self>, layout: &Layout) {
        let mut next_id = self.next_id.lock();
        let before = self.map.load_full();
        let owners: HashSet<&Address> = layout.ranges.iter().map(|(_, address)| address).collect();
        let mut shards = Vec::with_capacity(owners.len());
        for shard in before.shards() {
            // An importing server owns nothing yet, but is asked on its neighbour's word.
            if shard.take_used() || owners.contains(&shard.address) {
                shards.push(shard.clone());
            }
        }
        let mut known: HashSet<Address> = shards.iter().map(|shard| shard.address.clone()).collect();
        for (_, address) in &layout.ranges {
            if shards.len() < SHARDS_MAX && known.insert(address.clone()) {
                shards.push(self.start_shard(&mut next_id, address.clone()));
            }
        }
        let after = SlotMap::of_layout(layout, shards);
        if !after.agrees_with(&before) {
            self.replace(&before, after);
        }
    }

    /// The shard at an address that another server sent us to, for one call or (`moved`) with a whole slot.
    pub(super) fn redirected(self: &Arc<Self>, address: &Address, moved: Option<u16>) -> Option<Arc<Shard>> {
        let mut next_id = self.next_id.lock();
        let before = self.map.load_full();
        let shard = match before.by_address(address) {
            Some(shard) => shard.clone(),
            None if before.shards().len() >= SHARDS_MAX => return None,
            None => self.start_shard(&mut next_id, address.clone()),
        };
        let is_new = before.by_id(shard.id).is_none();
        let owns = moved.is_none_or(|slot| before.owner(slot).is_some_and(|owner| owner.id == shard.id));
        if is_new || !owns {
            self.map.store(Arc::new(before.with_moved(moved, &shard)));
        }
        Some(shard)
    }

    fn start_shard(self: &Arc<Self>, next_id: &mut u32, address: Address) -> Arc<Shard> {
        let shard = Arc::new(Shard::new(ShardId(*next_id), address));
        *next_id = next_id.wrapping_add(1).max(1);
        self.runtime.spawn(connection_task::maintain(self.clone(), shard.clone()));
        shard
    }

    fn replace(&self, before: &SlotMap, after: SlotMap) {
        for shard in before.shards().iter().filter(|shard| after.by_id(shard.id).is_none()) {
            tracing::info!(server = %shard.address, "keeps no keys any more");
            shard.retire();
        }
        self.map.store(Arc::new(after));
    }

    pub(super) fn are_connected(&self) -> bool {
        self.map().shards().iter().all(|shard| shard.link_now().is_some())
    }

    /// Something changed, or seems to have: look at the topology soon.
    pub(super) fn refresh_soon(&self) {
        self.refresh.notify_one();
    }

    pub(super) async fn refresh_wanted(&self) {
        self.refresh.notified().await;
    }

    pub(super) fn set_ignorance(&self, problem: String) {
        self.ignorance.store(Arc::new(problem));
    }

    /// Why there is no server for a slot.
    pub(super) fn ignorance(&self) -> String {
        if self.map().shards().is_empty() {
            return self.ignorance.load().to_string();
        }
        "no server of the cluster has this slot".to_owned()
    }

    /// Returns when the origin was dropped.
    pub(super) async fn stopped(&self) {
        let mut stop = self.stop.clone();
        while stop.changed().await.is_ok() {}
    }
}
