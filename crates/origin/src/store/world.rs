//! What nodes and their world worker share by way of the store: the leader, the origin's id, the publish queue, and
//! the world's view. The scripts in `redis/world` do the same.

use super::OriginStore;
use super::resolution::micros_floor;
use crate::{
    CellTotal, Expiry, LeaderCandidate, LeaderRequest, LeaderStatus, OriginId, PublishRequest, WorldCell,
};
use std::collections::BTreeMap;
use tidegate_core::origin_cell::NodeId;
use tidegate_core::{CellId, Nanos, WorldView};

/// What finds no room is enqueued again by the nodes' next scan.
const PUBLISH_QUEUE_MAX: usize = 20_000;
/// While no worker reaches the world store, the last view is the best guess.
const WORLD_VIEW_TTL: Nanos = Nanos::from_secs(7 * 86_400);

/// What a region's nodes share to coordinate: the leader, the origin's id, the publish queue and the world's view.
#[derive(Clone, Debug, Default)]
pub(super) struct CoordinationStore {
    worker: Option<(NodeId, Nanos)>,
    origin: Option<OriginId>,
    /// By the time of arrival, and then by cell.
    queue: BTreeMap<(u64, CellId), PublishRequest>,
    /// When each cell's publish request arrived.
    enqueued_at: BTreeMap<CellId, u64>,
    view: Option<(WorldView, Nanos)>,
}

impl CoordinationStore {
    pub(super) fn view(&self, present: Nanos) -> Option<WorldView> {
        self.view.filter(|(_, until)| *until > present).map(|(view, _)| view)
    }

    fn enqueue(&mut self, request: &PublishRequest, now_us: u64) -> bool {
        let is_known = self.enqueued_at.contains_key(&request.cell);
        if !is_known && self.queue.len() >= PUBLISH_QUEUE_MAX {
            return false;
        }
        let came = *self.enqueued_at.entry(request.cell).or_insert(now_us);
        self.queue.insert((came, request.cell), request.clone());
        true
    }

    fn dequeue(&mut self) -> Option<PublishRequest> {
        let (_, request) = self.queue.pop_first()?;
        self.enqueued_at.remove(&request.cell);
        Some(request)
    }
}

impl OriginStore {
    /// Who works for the region in the world tier, and which store this is.
    pub fn lead(&mut self, lead: &LeaderCandidate, now: Nanos) -> LeaderStatus {
        let present = self.wake(now);
        self.coordination.origin = self.coordination.origin.or(lead.proposed);
        let origin = self.coordination.origin;
        let holder = self.coordination.worker.filter(|(_, until)| *until > present).map(|(node, _)| node);
        let may_lead = origin.is_some() && holder.is_none_or(|holder| holder == lead.node);
        let is_leader = match lead.request {
            LeaderRequest::Lead { lease } if may_lead => {
                let lease = Nanos::from_millis(lease.as_millis_ceil());
                self.coordination.worker = Some((lead.node, present.plus(lease)));
                true
            }
            LeaderRequest::GiveUp if holder == Some(lead.node) => {
                self.coordination.worker = None;
                false
            }
            LeaderRequest::Lead { .. } | LeaderRequest::GiveUp => false,
        };
        let applied_by_all = if is_leader { self.nodes.applied_by_all(present) } else { 0 };
        LeaderStatus { is_leader, origin, applied_by_all, now: present }
    }

    /// Enqueues publish requests. Returns how many were rejected because the queue is full.
    pub fn enqueue_publish_requests(&mut self, requests: &[PublishRequest], now: Nanos) -> u64 {
        let now_us = micros_floor(self.wake(now));
        let refused = requests.iter().filter(|request| !self.coordination.enqueue(request, now_us)).count();
        u64::try_from(refused).unwrap_or(u64::MAX)
    }

    /// Dequeues the oldest publish requests.
    pub fn dequeue_publish_requests(&mut self, most: u16) -> Vec<PublishRequest> {
        (0..most).map_while(|_| self.coordination.dequeue()).collect()
    }

    /// The region's count of a cell, and how much of it the world tier has.
    pub fn cell_total(&mut self, cell: &CellId, now: Nanos) -> CellTotal {
        self.wake(now);
        self.windows.get(cell).map_or_else(CellTotal::default, |window| CellTotal {
            total: window.cell.total(),
            published: window.cell.published(),
        })
    }

    /// Tells a cell of the world, whether anybody counts in it or not. Says what is taken for published of it.
    pub fn import(&mut self, cell: &WorldCell, nodes_now: Nanos, now: Nanos) -> u64 {
        let present = self.wake(now);
        let expires = Expiry { at: cell.expires, now: nodes_now }.by_store(present);
        let CellId { key, epoch, .. } = cell.cell;
        if epoch > 0 && epoch >= self.epoch_of(key) {
            // It was reset elsewhere.
            self.store_epoch(key, epoch, expires);
        }
        if cell.own == 0 && cell.others == 0 && self.windows.get(&cell.cell).is_none() {
            return 0;
        }
        let window = &mut self.windows.entry(cell.cell).cell;
        window.import(cell.own, cell.others);
        window.set_published(cell.own);
        let published = window.published();
        self.windows.store_until(cell.cell, expires);
        published
    }

    /// Stores the world's view for all nodes. An older worker may write later than the next one.
    pub fn publish_world_view(&mut self, view: WorldView, now: Nanos) {
        let present = self.wake(now);
        if self.coordination.view(present).is_none_or(|before| view.version >= before.version) {
            self.coordination.view = Some((view, present.plus(WORLD_VIEW_TTL)));
        }
    }
}
