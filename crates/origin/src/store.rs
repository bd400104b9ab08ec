//! A region's counts in process: what the Redis script computes, as a plain value.
//!
//! The in-process origin and the simulator drive it. No IO, no clock and no randomness: the same calls give
//! the same answers, and a clone is a replica that has stopped following. Memory is bounded by what hasn't
//! expired. Must never differ from `redis/sync.lua`: a property test compares the two.

mod expiring;
mod fold;
mod gcra;
mod grant_request;
mod holds;
mod hot;
mod inspect;
mod loss;
mod nodes;
mod quotas;
mod record;
pub(crate) mod resolution;
mod window;
mod world;

use crate::record::RecordReading;
use crate::{
    DoneReset, Exchange, ExchangeReply, Expiry, Grant, Heartbeat, HeartbeatReply, OriginError, Reset,
    ResetLog, ResetNews,
};
use crate::{QuotaNews, QuotaReply, QuotaReport, QuotaReports};
use expiring::Expiring;
use gcra::GcraState;
use grant_request::Allotment;
use hot::HotKeyTable;
pub use inspect::CellCondition;
use nodes::Nodes;
pub(crate) use nodes::REFUSED_BEFORE;
use quotas::Quotas;
use record::Record;
use resolution::{from_micros, micros_floor};
use std::borrow::Cow;
use tidegate_core::exchange::{CountSync, KeyReply, KeySync};
use tidegate_core::gcra_sync::BusyPeriod;
use tidegate_core::origin_cell::NodeId;
use tidegate_core::{CellId, KeyId, Nanos, Sequence};
use window::WindowCell;
use world::CoordinationStore;

/// A node that was away for longer carries an order out once more.
const RESET_ID_TTL: Nanos = Nanos::from_secs(30 * 86_400);

#[derive(Clone, Debug, Default)]
pub struct OriginStore {
    windows: Expiring<CellId, WindowCell>,
    gcras: Expiring<(KeyId, u16), GcraState>,
    /// Of the keys that were reset.
    epochs: Expiring<KeyId, u16>,
    /// The last order that a key was reset by.
    reset_ids: Expiring<KeyId, u64>,
    nodes: Nodes,
    record: Record,
    quotas: Quotas,
    hot: HotKeyTable,
    coordination: CoordinationStore,
}

/// Whose exchange it is, and when.
#[derive(Clone, Copy, Debug)]
struct Occasion {
    node: NodeId,
    /// The node's present: the region's time.
    now: Nanos,
    /// The store's own present.
    present: Nanos,
}

impl Occasion {
    /// Returns when, by the store's clock, something expires that expires then by the node's clock.
    fn stored_until(&self, expires: Nanos) -> Nanos {
        Expiry { at: expires, now: self.now }.by_store(self.present)
    }
}

impl OriginStore {
    /// Publishes, reads and grants for some keys of one node. A key is named at most once.
    pub fn exchange(&mut self, exchange: &Exchange, now: Nanos) -> ExchangeReply {
        let present = self.wake(now);
        let occasion = Occasion { node: exchange.node, now: exchange.now, present };
        let syncs: Vec<Cow<'_, KeySync>> =
            exchange.syncs.iter().map(|sync| self.in_newest_epoch(sync)).collect();
        let before: Vec<Option<u64>> =
            syncs.iter().map(|sync| self.component_before(sync, exchange.node)).collect();
        let mut drafts: Vec<Allotment> =
            syncs.iter().map(|sync| self.publish_and_evaluate(sync, occasion)).collect();
        let is_blocked = |(sync, draft): (&Cow<'_, KeySync>, &Allotment)| {
            !sync.request.asks.is_empty() && draft.refused.is_some()
        };
        if exchange.grant == Grant::Together && syncs.iter().zip(&drafts).any(is_blocked) {
            for (sync, draft) in syncs.iter().zip(&mut drafts) {
                draft.cancel(&sync.request);
            }
        }
        let replies = syncs.iter().zip(drafts).zip(before).map(|((sync, draft), component_before)| {
            Ok(KeyReply { component_before, ..self.complete(sync, draft, occasion) })
        });
        let replies = replies.collect();
        let record = if exchange.reads_record { self.record() } else { RecordReading::NotRead };
        ExchangeReply { now: present, replies, record }
    }

    /// Counts a node as alive, and says how many are.
    pub fn beat(&mut self, heartbeat: &Heartbeat, now: Nanos) -> Result<HeartbeatReply, OriginError> {
        let present = self.wake(now);
        let alive = self.nodes.beat(heartbeat, present)?;
        Ok(HeartbeatReply { world: self.coordination.view(present), ..alive })
    }

    /// Moves a key on to its next epoch, in whose cells nothing was counted yet.
    pub fn reset(&mut self, key: KeyId, known: u16, expiry: Expiry, now: Nanos) -> u16 {
        let present = self.wake(now);
        let epoch = self.epoch_of(key).max(known).saturating_add(1);
        self.store_epoch(key, epoch, expiry.by_store(present));
        epoch
    }

    /// Resets a key, unless the reset with this id was carried out already.
    pub fn reset_once(&mut self, key: KeyId, known: u16, expiry: Expiry, reset_id: u64, now: Nanos) -> u16 {
        let present = self.wake(now);
        if self.reset_ids.get(&key).is_some_and(|last| reset_id <= *last) {
            return self.epoch_of(key);
        }
        *self.reset_ids.entry(key) = reset_id;
        self.reset_ids.set_expiry(key, present.plus(RESET_ID_TTL));
        self.reset(key, known, expiry, now)
    }

    /// Raises a key's epoch and its last order to what a node remembers of them.
    pub fn restore_reset(&mut self, done: &DoneReset, nodes_now: Nanos, now: Nanos) {
        let present = self.wake(now);
        let Reset { key, epoch } = done.reset;
        if epoch >= self.epoch_of(key) {
            let expiry = Expiry { at: done.expires, now: nodes_now };
            self.store_epoch(key, epoch, expiry.by_store(present));
        }
        if let Some(order) =
            done.reset_id.filter(|order| self.reset_ids.get(&key).is_none_or(|last| last < order))
        {
            *self.reset_ids.entry(key) = order;
            self.reset_ids.set_expiry(key, present.plus(RESET_ID_TTL));
        }
    }

    /// Adds resets to the log, and returns those that the node doesn't know of.
    pub fn share_resets(&mut self, news: &ResetNews) -> ResetLog {
        self.nodes.share_resets(news)
    }

    /// Keeps what a node said of quotas, and says what it has to hear.
    pub fn report_quotas(&mut self, report: &QuotaReport, now: Nanos) -> QuotaReply {
        let present = self.wake(now);
        self.quotas.report(report, present)
    }

    /// What every node said of quotas lately.
    pub fn gather_quotas(&mut self, silent_for: Nanos, now: Nanos) -> QuotaReports {
        let present = self.wake(now);
        self.quotas.gather(silent_for, present)
    }

    /// Stores the slices for all nodes.
    pub fn publish_quotas(&mut self, news: &QuotaNews) {
        self.quotas.publish(news);
    }

    /// Forgets everything, as a server does that lost its memory.
    pub fn clear(&mut self) {
        *self = OriginStore { record: self.record.lost(), ..OriginStore::default() };
    }

    /// The true count of the region in a cell, if there is one.
    pub fn total(&self, key: KeyId, epoch: u16, sequence: Sequence) -> Option<u64> {
        self.windows.get(&CellId { key, epoch, sequence }).map(|window| window.cell.total())
    }

    /// A GCRA key's arrival time and the start of its busy period, if there is one.
    pub fn busy(&self, key: KeyId, epoch: u16) -> Option<BusyPeriod> {
        self.gcras.get(&(key, epoch)).map(|state| state.busy)
    }

    /// How many cells and states are kept.
    pub fn len(&self) -> usize {
        self.windows.len() + self.gcras.len()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The store's present, after what has expired by then is gone.
    fn wake(&mut self, now: Nanos) -> Nanos {
        let present = from_micros(micros_floor(now));
        self.windows.expire(present);
        self.gcras.expire(present);
        self.epochs.expire(present);
        self.reset_ids.expire(present);
        present
    }

    fn epoch_of(&self, key: KeyId) -> u16 {
        self.epochs.get(&key).copied().unwrap_or(0)
    }

    fn store_epoch(&mut self, key: KeyId, epoch: u16, expires: Nanos) {
        *self.epochs.entry(key) = epoch;
        self.epochs.store_until(key, expires);
    }

    /// A node that missed a reset asks in the new epoch, where it has counted nothing that it knows of.
    fn in_newest_epoch<'s>(&self, sync: &'s KeySync) -> Cow<'s, KeySync> {
        let epoch = self.epoch_of(sync.key);
        if epoch > sync.epoch { Cow::Owned(sync.in_epoch(epoch)) } else { Cow::Borrowed(sync) }
    }

    /// The node's component of the key's current cell or bucket; `None` where it is no owner.
    fn registered(&self, sync: &KeySync, node: NodeId) -> Option<u64> {
        match &sync.counts {
            CountSync::Window(window) => {
                let cell = CellId { key: sync.key, epoch: sync.epoch, sequence: window.sequence };
                self.windows.get(&cell)?.cell.registered(node)
            }
            CountSync::Gcra { .. } => self.gcras.get(&(sync.key, sync.epoch))?.registered(node),
        }
    }

    /// The same, where an owner that was folded and is back counts with what is taken out for it again.
    fn component_before(&self, sync: &KeySync, node: NodeId) -> Option<u64> {
        match &sync.counts {
            CountSync::Window(window) => {
                let cell = CellId { key: sync.key, epoch: sync.epoch, sequence: window.sequence };
                self.windows.get(&cell)?.cell.component_before(node, &window.current.published())
            }
            CountSync::Gcra { sync: gcra, .. } => {
                self.gcras.get(&(sync.key, sync.epoch))?.component_before(node, gcra)
            }
        }
    }

    /// A peek of a node that is no owner leaves nothing behind.
    fn only_reads(&self, sync: &KeySync, node: NodeId) -> bool {
        sync.request.peek && self.registered(sync, node).is_none()
    }

    fn publish_and_evaluate(&mut self, sync: &KeySync, occasion: Occasion) -> Allotment {
        match &sync.counts {
            CountSync::Window(window) => {
                self.publish_window(sync, window, occasion);
                self.evaluate_window(sync, window, occasion)
            }
            CountSync::Gcra { sync: gcra, burst } => {
                if !self.only_reads(sync, occasion.node) {
                    self.publish_gcra(sync, gcra, *burst, occasion);
                } else if self.gcras.get(&(sync.key, sync.epoch)).is_some() {
                    let state = self.gcras.entry((sync.key, sync.epoch));
                    state.holds.end_holds(sync, occasion.present);
                }
                self.evaluate_gcra(sync, gcra.rate, *burst, occasion)
            }
        }
    }

    /// Counts what was granted, and returns the key's counts.
    fn complete(&mut self, sync: &KeySync, allotted: Allotment, occasion: Occasion) -> KeyReply {
        let (counts, retry_after) = match &sync.counts {
            CountSync::Window(window) => {
                if !self.only_reads(sync, occasion.node) {
                    self.grant_window(sync, window, &allotted, occasion);
                }
                let wait = allotted.refused.and_then(|ask| self.window_wait(sync, window, ask, occasion));
                (self.read_window(sync.key, sync.epoch, window, occasion.node), wait)
            }
            CountSync::Gcra { sync: gcra, burst } => {
                if !self.only_reads(sync, occasion.node) {
                    self.grant_gcra(sync, gcra.rate, &allotted, occasion);
                }
                let wait =
                    allotted.refused.and_then(|ask| self.gcra_wait(sync, gcra.rate, *burst, ask, occasion));
                (self.read_gcra(sync.key, sync.epoch, occasion.node), wait)
            }
        };
        KeyReply {
            epoch: sync.epoch,
            counts,
            granted: allotted.granted,
            drawn: allotted.drawn,
            retry_after,
            component_before: None,
        }
    }
}

#[cfg(test)]
mod tests;
