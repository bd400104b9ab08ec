//! The origin of a region that lives in one process: a [`OriginStore`] behind a lock.
//!
//! Answers at once, never fails and forgets everything with the process. Tells the time by what it was given,
//! so that tests and the simulator can set it.

use crate::record::{Pulse, PulseReply};
use crate::{
    CellTotal, DoneReset, Exchange, ExchangeReply, Expiry, Heartbeat, HeartbeatReply, KeyError,
    LeaderCandidate, LeaderStatus, Origin, OriginError, OriginFuture, OriginStore, PublishRequest, ResetLog,
    ResetNews, ShardId, WorldCell,
};
use crate::{FoldStep, FoldedOwners, RememberedNodes};
use crate::{HotKeysReply, HotNews, HotReport};
use crate::{QuotaNews, QuotaReply, QuotaReport, QuotaReports};
use parking_lot::{Mutex, MutexGuard};
use std::fmt;
use tidegate_core::{CellId, KeyId, Nanos, WorldView};

/// There is one shard, which keeps all keys.
const ONLY_SHARD: ShardId = ShardId(0);

/// Tells the present.
type Present = Box<dyn Fn() -> Nanos + Send + Sync>;

/// Of the world's cells, so many are read or raised before others have their turn: requests wait for the lock.
const CELLS_PER_TURN: usize = 64;

pub struct MemoryOrigin {
    store: Mutex<OriginStore>,
    present: Present,
}

impl MemoryOrigin {
    pub fn new(present: Box<dyn Fn() -> Nanos + Send + Sync>) -> Self {
        MemoryOrigin { store: Mutex::default(), present }
    }

    /// Looks into the store, or meddles with it: for tests and the simulator.
    pub fn with_store<T>(&self, act: impl FnOnce(&mut OriginStore) -> T) -> T {
        act(&mut self.store.lock())
    }

    fn answer<T: Send + 'static>(
        &self,
        act: impl FnOnce(&mut OriginStore, Nanos) -> Result<T, OriginError>,
    ) -> OriginFuture<'_, T> {
        let answer = self.with_store(|store| act(store, (self.present)()));
        Box::pin(std::future::ready(answer))
    }

    /// Of each cell what `act` says, some at a time.
    fn in_turns<C, T>(&self, cells: &[C], act: impl Fn(&mut OriginStore, Nanos, &C) -> T) -> Vec<T> {
        let mut answers = Vec::with_capacity(cells.len());
        for turn in cells.chunks(CELLS_PER_TURN) {
            let mut store = self.store.lock();
            let now = (self.present)();
            answers.extend(turn.iter().map(|cell| act(&mut store, now, cell)));
            // Whoever waits comes first, not this thread again.
            MutexGuard::unlock_fair(store);
        }
        answers
    }
}

impl fmt::Debug for MemoryOrigin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemoryOrigin").field("store", &self.store).finish_non_exhaustive()
    }
}

impl Origin for MemoryOrigin {
    fn shard_of(&self, _key: KeyId) -> ShardId {
        ONLY_SHARD
    }

    fn shard_name(&self, _shard: ShardId) -> String {
        "in-process".to_owned()
    }

    fn shards(&self) -> Vec<ShardId> {
        vec![ONLY_SHARD]
    }

    /// The time that it tells is that of the process.
    fn keeps_time(&self) -> bool {
        false
    }

    fn pulse(&self, _shard: ShardId, pulse: Pulse) -> OriginFuture<'_, PulseReply> {
        self.answer(|store, now| Ok(store.pulse(&pulse, now)))
    }

    fn remembered_nodes(&self, _shard: ShardId) -> OriginFuture<'_, RememberedNodes> {
        self.answer(|store, now| Ok(store.remembered_nodes(now)))
    }

    fn fold_owners<'a>(&'a self, _shard: ShardId, step: FoldStep<'a>) -> OriginFuture<'a, FoldedOwners> {
        self.answer(|store, now| Ok(store.fold_owners(&step, now)))
    }

    fn exchange<'a>(&'a self, _shard: ShardId, exchange: &'a Exchange) -> OriginFuture<'a, ExchangeReply> {
        self.answer(|store, now| Ok(store.exchange(exchange, now)))
    }

    fn beat(&self, heartbeat: Heartbeat) -> OriginFuture<'_, HeartbeatReply> {
        self.answer(|store, now| store.beat(&heartbeat, now))
    }

    fn reset_once(
        &self,
        _shard: ShardId,
        key: KeyId,
        known: u16,
        expiry: Expiry,
        reset_id: Option<u64>,
    ) -> OriginFuture<'_, u16> {
        self.answer(|store, now| {
            Ok(match reset_id {
                Some(order) => store.reset_once(key, known, expiry, order, now),
                None => store.reset(key, known, expiry, now),
            })
        })
    }

    fn restore_reset(&self, _shard: ShardId, done: DoneReset, nodes_now: Nanos) -> OriginFuture<'_, ()> {
        self.answer(|store, now| {
            store.restore_reset(&done, nodes_now, now);
            Ok(())
        })
    }

    fn share_resets(&self, news: ResetNews) -> OriginFuture<'_, ResetLog> {
        self.answer(|store, _| Ok(store.share_resets(&news)))
    }

    fn report_quotas<'a>(&'a self, report: &'a QuotaReport) -> OriginFuture<'a, QuotaReply> {
        self.answer(|store, now| Ok(store.report_quotas(report, now)))
    }

    fn gather_quotas(&self, silent_for: Nanos) -> OriginFuture<'_, QuotaReports> {
        self.answer(|store, now| Ok(store.gather_quotas(silent_for, now)))
    }

    fn publish_quotas<'a>(&'a self, news: &'a QuotaNews) -> OriginFuture<'a, ()> {
        self.answer(|store, _| {
            store.publish_quotas(news);
            Ok(())
        })
    }

    fn report_hot<'a>(&'a self, report: &'a HotReport) -> OriginFuture<'a, HotKeysReply> {
        self.answer(|store, now| Ok(store.report_hot(report, now)))
    }

    fn gather_hot(&self, silent_for: Nanos) -> OriginFuture<'_, Vec<HotReport>> {
        self.answer(|store, now| Ok(store.gather_hot(silent_for, now)))
    }

    fn publish_hot_keys<'a>(&'a self, news: &'a HotNews) -> OriginFuture<'a, ()> {
        self.answer(|store, _| {
            store.publish_hot_keys(news);
            Ok(())
        })
    }

    fn lead(&self, lead: LeaderCandidate) -> OriginFuture<'_, LeaderStatus> {
        self.answer(|store, now| Ok(store.lead(&lead, now)))
    }

    fn enqueue_publish_requests<'a>(&'a self, requests: &'a [PublishRequest]) -> OriginFuture<'a, u64> {
        self.answer(|store, now| Ok(store.enqueue_publish_requests(requests, now)))
    }

    fn dequeue_publish_requests(&self, most: u16) -> OriginFuture<'_, Vec<PublishRequest>> {
        self.answer(|store, _| Ok(store.dequeue_publish_requests(most)))
    }

    fn totals<'a>(&'a self, cells: &'a [CellId]) -> OriginFuture<'a, Vec<Result<CellTotal, KeyError>>> {
        let total = |store: &mut OriginStore, now, cell: &CellId| Ok(store.cell_total(cell, now));
        Box::pin(std::future::ready(Ok(self.in_turns(cells, total))))
    }

    fn import<'a>(
        &'a self,
        cells: &'a [WorldCell],
        nodes_now: Nanos,
    ) -> OriginFuture<'a, Vec<Result<u64, KeyError>>> {
        let import = |store: &mut OriginStore, now, cell: &WorldCell| Ok(store.import(cell, nodes_now, now));
        Box::pin(std::future::ready(Ok(self.in_turns(cells, import))))
    }

    fn publish_world_view(&self, view: WorldView) -> OriginFuture<'_, ()> {
        self.answer(|store, now| {
            store.publish_world_view(view, now);
            Ok(())
        })
    }
}
