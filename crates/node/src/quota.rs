//! Quotas on a node: which part of a limit is enforced here now, and how much is asked for.
//!
//! Rates, and windows under 60 s, that hold over the world aren't counted together by the regions: each region
//! enforces a part of the limit. Every limit stands at an even part; where a region asks for more, the reconciler
//! gives out slices ([`QuotaWorker`] brings them from the world store). The parts in force never sum to more than the
//! limit (INV-6), so what is in doubt here is decided for the smaller part. Sans-IO; on the path of a request there
//! is a look into a map that is swapped as a whole, and a count under the lock of one of 64 shards.

mod demand;
mod worker;

pub use worker::{DemandReport, QuotaWorker};

use crate::stats::Counter;
use arc_swap::ArcSwap;
use demand::DemandTable;
use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use tidegate_core::origin_cell::NodeId;
use tidegate_core::slice::Lease;
use tidegate_core::{Class, Decision, KeyId, Nanos, SliceSize, Spec, Verdict};
use tidegate_origin::{QuotaNews, QuotaReply, QuotaReport, Share, quota_keys_max};
use tidegate_world::SLICE_LEASE;

/// A region that isn't active yet holds nothing; who is denied for that comes back after this. So does who asks for
/// more at once than the region's part of a limit: the part follows what is asked for.
const RETRY_LATER: Nanos = Nanos::from_secs(1);

/// Keys are hashes already.
#[derive(Debug, Default)]
pub(crate) struct KeyHasher(u64);

impl Hasher for KeyHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.0 = self.0.rotate_left(8) ^ u64::from(*byte));
    }

    fn write_u128(&mut self, key: u128) {
        let [a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p] = key.to_le_bytes();
        self.0 = u64::from_le_bytes([a, b, c, d, e, f, g, h]) ^ u64::from_le_bytes([i, j, k, l, m, n, o, p]);
    }
}

pub(crate) type KeyMap<V> = HashMap<KeyId, V, BuildHasherDefault<KeyHasher>>;
pub(crate) type KeySet = HashSet<KeyId, BuildHasherDefault<KeyHasher>>;

/// The slices of some news by their keys, and by the origin's clock. Made once for all who hear the same news.
#[derive(Debug, Default)]
pub struct HeldSlices(KeyMap<Lease>);

impl HeldSlices {
    pub fn of(news: &QuotaNews) -> Self {
        HeldSlices(news.slices.iter().map(|slice| (slice.key, slice.lease)).collect())
    }
}

/// What the nodes of a region were sent last, as one of them received it.
#[derive(Clone, Debug, Default)]
pub struct SlicesInForce {
    /// `None` until anything was received.
    pub share: Option<Share>,
    /// By the origin's clock.
    pub held: Arc<HeldSlices>,
}

/// The slices that this node enforces, as it last received them.
#[derive(Clone, Debug, Default)]
struct ReceivedSlices {
    stamp: u64,
    /// `None` until anything was heard.
    share: Option<Share>,
    held: Arc<HeldSlices>,
    /// What the origin's clock showed at some instant after this node's showed `sent`: leases end early by what lies
    /// between, never late.
    theirs: Nanos,
    sent: Nanos,
}

impl ReceivedSlices {
    /// By this node's clock.
    #[inline]
    fn lease(&self, key: KeyId) -> Option<Lease> {
        self.held.0.get(&key).map(|lease| lease.by_clock(self.theirs, self.sent))
    }
}

#[derive(Debug)]
pub struct Quotas {
    node: NodeId,
    slices: ArcSwap<ReceivedSlices>,
    /// When the origin was last heard, by this node's clock: in nanoseconds.
    received_at: AtomicU64,
    demand: DemandTable,
    counters: QuotaCounters,
}

/// What quotas did here, for operators.
#[derive(Debug, Default)]
pub struct QuotaCounters {
    /// Requests that the part of this region denied.
    pub denied: Counter,
    /// Keys whose demand wasn't tracked because the demand table was full.
    pub untracked: Counter,
    pub news: Counter,
    pub failed_reports: Counter,
}

impl QuotaCounters {
    pub fn counts_by_name(&self) -> [(&'static str, u64); 4] {
        [
            ("quota_denied_limits", self.denied.get()),
            ("quota_keys_untracked", self.untracked.get()),
            ("quota_news", self.news.get()),
            ("quota_reports_failed", self.failed_reports.get()),
        ]
    }
}

/// A slice, to be shown.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ShownSlice {
    pub key: KeyId,
    pub amount: u64,
    pub limit: u64,
    pub rate_parts: u32,
    /// The lease is running.
    pub is_leased: bool,
}

impl Quotas {
    pub fn new(node: NodeId) -> Self {
        Quotas {
            node,
            slices: ArcSwap::default(),
            received_at: AtomicU64::new(0),
            demand: DemandTable::default(),
            counters: QuotaCounters::default(),
        }
    }

    pub fn counters(&self) -> &QuotaCounters {
        &self.counters
    }

    /// The version of the membership that limits are divided by here; 0 when none was heard of.
    pub fn version(&self) -> u64 {
        self.slices.load().share.map_or(0, |share| share.version)
    }

    /// Returns what this node was sent last.
    pub fn in_force(&self) -> SlicesInForce {
        let tidings = self.slices.load();
        SlicesInForce { share: tidings.share, held: Arc::clone(&tidings.held) }
    }

    pub fn slice_count(&self) -> usize {
        self.slices.load().held.0.len()
    }

    pub fn tracked_keys(&self) -> usize {
        self.demand.len()
    }

    /// Some of the slices that are held here, those that leave first left out.
    pub fn shown(&self, most: usize, now: Nanos) -> (Option<Share>, Vec<ShownSlice>) {
        let tidings = self.slices.load();
        let keys = tidings.held.0.keys();
        let mut slices: Vec<ShownSlice> =
            keys.filter_map(|key| Some(self.show(*key, &tidings.lease(*key)?, now))).collect();
        slices.sort_by_key(|slice| slice.key);
        slices.truncate(most);
        (tidings.share, slices)
    }

    fn show(&self, key: KeyId, lease: &Lease, now: Nanos) -> ShownSlice {
        let even = self.slices.load().share.map_or(SliceSize::NOTHING, |share| even_part(share, lease.whole));
        let size = self.size(Some(lease), lease.whole, even, now);
        let is_leased = now <= lease.until;
        ShownSlice { key, amount: size.amount, limit: lease.whole, rate_parts: size.rate_parts, is_leased }
    }

    /// Returns the part of a world limit that is enforced here now.
    #[inline]
    pub fn apply_slice(&self, key: KeyId, whole: &Spec, class: Class, now: Nanos) -> Spec {
        whole.apply(self.part(key, whole.shown_limit(), class, now))
    }

    fn part(&self, key: KeyId, number: u64, class: Class, now: Nanos) -> SliceSize {
        let tidings = self.slices.load();
        match tidings.share {
            // No membership was ever received: decided by class, as when the store can't be asked.
            None if class == Class::Abuse => SliceSize::NOTHING,
            None => SliceSize::whole(number),
            Some(Share { is_active: false, .. }) => SliceSize::NOTHING,
            // The region doesn't wait for who was silent for a lease, and may hold less by now.
            Some(_) if class == Class::Abuse && self.is_isolated(now) => SliceSize::NOTHING,
            Some(share) => self.size(tidings.lease(key).as_ref(), number, even_part(share, number), now),
        }
    }

    /// Returns whether nothing was received from the origin for the length of a lease.
    fn is_isolated(&self, now: Nanos) -> bool {
        now > Nanos::new(self.received_at.load(Ordering::Relaxed)).plus(SLICE_LEASE)
    }

    fn size(&self, lease: Option<&Lease>, number: u64, even: SliceSize, now: Nanos) -> SliceSize {
        let Some(lease) = lease else { return even };
        if now > lease.rises && self.is_isolated(now) {
            // The region may hold something else by now, and this node can't know.
            return Lease { rises: Nanos::MAX, ..*lease }.in_force(number, even, now);
        }
        lease.in_force(number, even, now)
    }

    /// A limit of the world was decided by its part: counts what was asked for, and makes the answer the whole
    /// limit's. Says whether the part denied.
    #[inline]
    pub fn decided(&self, asked: &DemandSample<'_>, decision: &mut Decision, now: Nanos) -> bool {
        let &DemandSample { key, whole, cost, is_abuse } = asked;
        let part = std::mem::replace(&mut decision.limit, whole.shown_limit());
        let admitted = decision.is_admitted();
        let is_used = !admitted || decision.remaining.saturating_add(cost) < part;
        if cost > 0 && (is_used || self.slices.load().held.0.contains_key(&key)) {
            let tracked = self.demand.add(key, whole, is_abuse, cost, now);
            if !tracked {
                self.counters.untracked.add(1);
            }
        }
        if !admitted {
            self.denied(cost, part, decision);
        }
        !admitted
    }

    #[cold]
    fn denied(&self, cost: u64, part: u64, decision: &mut Decision) {
        self.counters.denied.add(1);
        if cost > part && cost <= decision.limit {
            decision.verdict = Verdict::Deny { retry_after: Some(RETRY_LATER) };
        }
    }

    /// Returns the report for the worker, at a node's regular time.
    pub fn report(&self, live_nodes: u32, now: Nanos) -> QuotaReport {
        let tidings = self.slices.load();
        let members = tidings.share.map_or(1, |share| share.members.max(1));
        let divisor = u64::from(members).saturating_mul(u64::from(live_nodes.max(1)));
        let most = quota_keys_max(live_nodes);
        let offered = self.demand.offered(&tidings.held.0, divisor, most, self.node.0, now);
        let version = tidings.share.map_or(0, |share| share.version);
        QuotaReport { node: self.node, applied: tidings.stamp, version, offered, leaves: false }
    }

    /// The last one, of a node that stops.
    pub fn farewell(&self) -> QuotaReport {
        QuotaReport { node: self.node, applied: 0, version: 0, offered: Vec::new(), leaves: true }
    }

    /// Applies the origin's reply to a report that was sent at `sent`.
    pub fn receive(&self, reply: &QuotaReply, sent: Nanos) {
        self.receive_with(reply, sent, |news| Arc::new(HeldSlices::of(news)));
    }

    /// Applies a reply for one of many nodes in a process, which share the same news.
    pub fn receive_with(
        &self,
        heard: &QuotaReply,
        sent: Nanos,
        held: impl FnOnce(&Arc<QuotaNews>) -> Arc<HeldSlices>,
    ) {
        let before = self.slices.load();
        if let Some(news) = heard.news.as_ref().filter(|news| news.stamp > before.stamp) {
            self.counters.news.add(1);
            // Of two workers, the one that read the slices later may have read the membership before. Of equal
            // versions the last counts: a worker divides by more members while the world store's data is old.
            let share =
                [before.share, Some(news.share)].into_iter().flatten().max_by_key(|share| share.version);
            let tidings =
                ReceivedSlices { stamp: news.stamp, share, held: held(news), theirs: heard.now, sent };
            self.slices.store(tidings.into());
        }
        // An origin that has forgotten the region's news says nothing of what the region acknowledged without
        // this node, which stays cut off then.
        if !heard.is_behind || !self.is_isolated(sent) {
            self.received_at.store(sent.get(), Ordering::Release);
        }
    }

    /// The clock was set: instants move with it.
    pub fn clock_stepped(&self, delta_ns: i64) {
        let heard_at = Nanos::new(self.received_at.load(Ordering::Relaxed)).shifted(delta_ns);
        self.received_at.store(heard_at.get(), Ordering::Relaxed);
        self.demand.clock_stepped(delta_ns);
        self.slices.rcu(|tidings| ReceivedSlices {
            sent: tidings.sent.shifted(delta_ns),
            ..ReceivedSlices::clone(tidings)
        });
    }
}

/// A decision about a limit that regions share, counted as demand.
#[derive(Debug)]
pub struct DemandSample<'a> {
    pub key: KeyId,
    pub whole: &'a Spec,
    pub cost: u64,
    pub is_abuse: bool,
}

fn even_part(share: Share, number: u64) -> SliceSize {
    let index = usize::try_from(share.index).unwrap_or(usize::MAX);
    SliceSize::whole(number).even(index, usize::try_from(share.members).unwrap_or(usize::MAX))
}

#[cfg(test)]
mod tests;
