//! What every node does for the world tier: knows which of its keys are the world's, and says which cells the
//! others should hear of.

use super::WorldCounters;
use super::key_index::{CellUpdate, Judge, WorldKeyIndex};
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use tidegate_core::exchange::{CountReply, CountSync, Fading, KeyReply, KeySync};
use tidegate_core::world::CREDIT_WAIT;
use tidegate_core::{CellId, Item, KeyId, Nanos, Sequence, Spec, WorldPolicy, WorldView};
use tidegate_origin::PublishRequest;

/// Cells that wait to be named; the tick names again what found no room.
const DUE_MAX: usize = 20_000;
/// Names are kept for so many keys: they are for people.
const NAMES_MAX: usize = 200_000;

#[derive(Debug)]
pub struct WorldNode {
    view: Mutex<Option<WorldView>>,
    /// By which `abuse` divides its credit: 1 while nothing is known, or under the floor policy.
    credit_regions: AtomicU32,
    version: AtomicU64,
    index: WorldKeyIndex,
    due: Mutex<BTreeMap<CellId, PublishRequest>>,
    has_due: AtomicBool,
    counters: WorldCounters,
}

/// How far limits reach: what a plan must know of the world.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Reach {
    pub has_world: bool,
    /// By how many regions `abuse` divides its credit.
    pub credit_regions: u32,
}

impl Reach {
    /// No further than the region.
    pub const REGION: Reach = Reach { has_world: false, credit_regions: 1 };
}

impl WorldNode {
    pub fn new(keys_max: usize) -> Self {
        WorldNode {
            view: Mutex::new(None),
            credit_regions: AtomicU32::new(1),
            version: AtomicU64::new(0),
            index: WorldKeyIndex::new(keys_max, NAMES_MAX),
            due: Mutex::default(),
            has_due: AtomicBool::new(false),
            counters: WorldCounters::default(),
        }
    }

    #[inline]
    pub(crate) fn reach(&self) -> Reach {
        Reach { has_world: true, credit_regions: self.credit_regions.load(Ordering::Relaxed) }
    }

    pub fn counters(&self) -> &WorldCounters {
        &self.counters
    }

    /// How the world stands, as far as this node knows.
    pub fn view(&self) -> Option<WorldView> {
        *self.view.lock()
    }

    /// The version of the world's regions that this node goes by; 0 when it knows of none.
    pub fn version(&self) -> u64 {
        self.version.load(Ordering::Relaxed)
    }

    /// The heartbeat's answer said how the world stands.
    pub fn receive_view(&self, view: WorldView) {
        let credit_regions = match view.policy {
            WorldPolicy::Headroom => view.regions.max(1),
            WorldPolicy::Floor { .. } => 1,
        };
        self.credit_regions.store(credit_regions, Ordering::Relaxed);
        *self.view.lock() = Some(view);
        // After it is gone by: what is said to be applied must be.
        self.version.store(view.version, Ordering::Release);
    }

    pub fn index_len(&self) -> usize {
        self.index.len()
    }

    /// A key counts over the world; its limit is this by now.
    pub(crate) fn record(&self, item: &Item, now: Nanos, name: impl FnOnce() -> Arc<str>) {
        if !self.index.record(item, now, name) {
            self.counters.keys_refused.add(1);
        }
    }

    /// A publish doesn't know the limit, which tells whether the region may go on before the others have heard: it
    /// is added where that is asked.
    pub(crate) fn complete(&self, sync: &mut KeySync) {
        let credit_regions = self.credit_regions.load(Ordering::Relaxed);
        let CountSync::Window(window) = &mut sync.counts else { return };
        if credit_regions <= 1 {
            return;
        }
        let Some(spec) = self.index.abuse_limit(sync.key) else { return };
        (window.limit, window.regions) = (spec.shown_limit(), credit_regions);
        if let Spec::Sliding { period, .. } = spec {
            window.fading = Some(Fading { end: period.cell(window.sequence).end, period: period.length() });
        }
    }

    /// The region answered about a key.
    pub(crate) fn replied(&self, sync: &KeySync, reply: &KeyReply, now: Nanos) {
        let (CountSync::Window(window), CountReply::Window { current, previous, .. }) =
            (&sync.counts, &reply.counts)
        else {
            return;
        };
        if reply.epoch != sync.epoch {
            return;
        }
        if window.regions > 1 && reply.retry_after == Some(CREDIT_WAIT) {
            self.counters.credit_waits.add(1);
        }
        let told = CellUpdate {
            epoch: reply.epoch,
            sequence: window.sequence,
            current: *current,
            previous: *previous,
            expires: window.current.expires,
        };
        self.index.receive(sync.key, &told, self.judge(now), |request| self.push(request));
    }

    /// Looks at all keys: those that should be synced, so that their replies say whether the others must hear.
    /// Names some idle cells too, which a new worker may not know of.
    pub fn scan(&self, now: Nanos) -> Vec<KeyId> {
        self.index.idle_requests(now).into_iter().for_each(|request| self.push(request));
        self.index.scan(self.judge(now))
    }

    /// A key of the world was started afresh here: the others hear of its new epoch before anything is counted in
    /// it, by a cell in which nothing ever is.
    pub fn reset(&self, key: KeyId, epoch: u16, expires: Nanos) {
        let cell = CellId { key, epoch, sequence: Sequence(0) };
        self.push(PublishRequest { cell, limit: 0, expires, name: Arc::from("") });
    }

    fn judge(&self, now: Nanos) -> Judge {
        let view = self.view();
        let (policy, regions) = view.map_or((WorldPolicy::default(), 1), |view| (view.policy, view.regions));
        Judge { policy, regions, now }
    }

    fn push(&self, request: PublishRequest) {
        let mut due = self.due.lock();
        if due.len() < DUE_MAX || due.contains_key(&request.cell) {
            due.insert(request.cell, request);
            self.has_due.store(true, Ordering::Release);
        } else {
            self.counters.publish_requests_refused.add(1);
        }
    }

    /// Whether some cell waits to be named.
    pub fn has_due(&self) -> bool {
        self.has_due.load(Ordering::Acquire)
    }

    /// Cells to be named, `most` at most.
    pub fn take_due(&self, most: usize) -> Vec<PublishRequest> {
        let mut due = self.due.lock();
        let requests: Vec<PublishRequest> =
            std::iter::from_fn(|| due.pop_first()).take(most).map(|(_, request)| request).collect();
        self.has_due.store(!due.is_empty(), Ordering::Release);
        requests
    }

    /// They couldn't be delivered: the next try has them first.
    pub fn put_back(&self, requests: Vec<PublishRequest>) {
        requests.into_iter().for_each(|request| self.push(request));
    }

    /// Everything that the others haven't heard of, however little: for a node that stops.
    pub fn unpublished_requests(&self, now: Nanos) -> Vec<PublishRequest> {
        self.index.unpublished_requests(now)
    }
}
