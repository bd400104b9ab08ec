//! Leases: what the node of a hot key draws ahead, so that its decisions neither wait nor overshoot.
//!
//! Drawn units count at the origin at once and are prepaid here. A key that holds a lease spends only what was
//! granted; it asks for more before that runs out. Where there was less than it wished for and nothing but the
//! refill is to come, it denies by itself until the next draw: so a key costs its origin as much at any rate of
//! requests.

use super::{Deadline, SharedState};
use crate::ask::{Accuracy, Class, View, sharers};
use crate::counts::CellReply;
use crate::decision::{ChargeMode, Decision, Verdict};
use crate::exchange::{
    CountReply, CountSync, DRAW_AHEAD, KEY_LEASE_TTL, KeyReply, KeySync, LeaseRequest, WindowSync,
};
use crate::gcra::{self, Tat};
use crate::gcra_sync::{BusyPeriod, GcraSync, interval_times};
use crate::item::{Charge, Item};
use crate::limit::{Burst, Cost, Rate, Spec};
use crate::packed::is_gcra;
use crate::state::decide_window;
use crate::time::{Nanos, Sequence};
use crate::window::{WindowCounts, add_count, sliding_used};
use std::num::NonZeroU32;

/// It is renewed when an eighth of it is left, or less.
const LOW_DIVISOR: u64 = 8;
/// A bucket's lease lapses as the bucket refills: it is renewed so long before.
const RENEWED_BEFORE: Nanos = Nanos::from_millis(16);
/// One that ends sooner than this isn't worth being renewed by the clock.
const TIMED_FROM: Nanos = Nanos::from_millis(64);
/// Beyond what it needs, a node draws no more than a quarter of what is left, over all nodes together.
const SPARE_DIVISOR: u64 = 4;
/// What is left of a limit is nearly nothing at a hundredth.
const NEARLY_NOTHING: u64 = 100;
/// A window as long as a hundred leases: what one node holds of it and doesn't spend is missed for long.
const LONG_WINDOW: Nanos = Nanos::from_secs(10);
/// Of such a window all nodes together draw no more than a quarter of what is left.
const LONG_DIVISOR: u32 = 4;
/// All nodes together may draw an eighth of such a limit in any case.
const LITTLE_DIVISOR: u64 = 8;
/// A limit is leased from so many units for each node on.
const LEASED_FROM: u64 = 8;

/// Whether a key holds a lease, and when it is to be renewed: in one byte. 0: it holds none. Else the lower bits
/// are one more than the binary logarithm of what is low, and the highest says that it is renewed by the clock.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Lease(u8);

impl Lease {
    const TIMED: u8 = 0x80;

    fn new(low: u64, is_timed: bool) -> Self {
        let low = u8::try_from(low.max(1).ilog2()).unwrap_or(0) + 1;
        Lease(low | if is_timed { Self::TIMED } else { 0 })
    }

    #[cfg(test)]
    pub(super) fn of_tests() -> Self {
        Lease::new(1, false)
    }

    #[inline]
    pub(super) fn is_held(self) -> bool {
        self.0 != 0
    }

    /// Of a lease that is held.
    #[inline]
    pub(super) fn runs_low(self, prepaid: u64) -> bool {
        prepaid >> ((self.0 & !Self::TIMED).wrapping_sub(1) & 63) == 0
    }

    #[inline]
    pub(super) fn ends_soon(self, left: Nanos) -> bool {
        self.0 & Self::TIMED != 0 && left < RENEWED_BEFORE
    }
}

/// Whether a limit can be leased by so many nodes. A bucket that is full again sooner than a lease is spent has nothing to
/// lease; of a limit that is smaller than what its nodes may hold at least, some nodes would hold all and others nothing.
pub fn is_leasable(spec: &Spec, live_nodes: u32) -> bool {
    let is_large = spec.shown_limit() >= LEASED_FROM * u64::from(live_nodes.max(1));
    match *spec {
        Spec::Gcra { rate, burst } => is_large && interval_times(rate, burst.get()) >= KEY_LEASE_TTL,
        _ => is_large,
    }
}

/// Whether what a node holds of a limit is missed by the others for much longer than a lease lasts.
fn is_long(spec: &Spec) -> bool {
    let memory = match *spec {
        Spec::Gcra { rate, burst } => interval_times(rate, burst.get()),
        Spec::Sliding { period, .. } | Spec::Fixed { period, .. } => period.length(),
        Spec::Calendar { .. } => return true,
    };
    memory >= LONG_WINDOW
}

impl SharedState {
    /// Whether the key holds a lease, and spends nothing else.
    pub fn is_leased(&self) -> bool {
        self.lease.is_held()
    }

    /// The key is hot, and there is nothing to draw: it spends only what was granted all the same.
    pub fn hold_lease(&mut self) {
        if !self.lease.is_held() {
            (self.lease, self.strict_until) = (Lease::new(1, false), Deadline::default());
        }
    }

    /// The key is no longer hot: what is left of its lease is spent like anything that was granted.
    pub fn end_lease(&mut self) {
        if self.lease.is_held() {
            (self.lease, self.strict_until) = (Lease::default(), Deadline::default());
        }
    }

    /// Until when the last lease was all that there was.
    pub fn is_dry(&self, now: Nanos) -> bool {
        self.lease.is_held() && self.strict_until.is_ahead_of(Deadline::at(now))
    }

    /// The state's cell and what was admitted in it; of a bucket, ever. What lapsed wasn't.
    pub fn admitted(&self) -> (Sequence, u64) {
        if is_gcra(self.tag) {
            return (Sequence(0), self.current.own.saturating_sub(self.current.world));
        }
        (self.sequence, self.current.own)
    }

    /// Returns what to draw for a key of which `demand` units are admitted while a lease lasts.
    pub fn lease_request(&self, item: &Item, demand: u64, live_nodes: u32, now: Nanos) -> LeaseRequest {
        let view = View { regions: item.regions, ..self.view(0, live_nodes, now) };
        if is_long(&item.spec) {
            return self.long_lease_request(item, demand, sharers(&view, Class::Abuse), now);
        }
        let parts = NonZeroU32::new(sharers(&view, item.class)).unwrap_or(NonZeroU32::MIN);
        let spare = match item.spec {
            // A bucket far from empty refills faster than it is spent, and what is drawn of it lapses as fast.
            Spec::Gcra { rate, burst } => {
                let left = left_of_bucket(rate, burst.get(), self.busy(), now);
                rate.burst_over(KEY_LEASE_TTL).get().min(left / (SPARE_DIVISOR * u64::from(parts.get())))
            }
            _ => 0,
        };
        LeaseRequest { most: demand.max(spare).max(1), parts }
    }

    /// The same for a long window. A burst must not leave more on one node than the others can do without: all nodes
    /// together, also those that have yet to come to this key, draw a quarter of what is left, unless it is little anyway.
    fn long_lease_request(&self, item: &Item, demand: u64, nodes: u32, now: Nanos) -> LeaseRequest {
        let nodes = nodes.max(1);
        let little = item.spec.shown_limit() / (LITTLE_DIVISOR * u64::from(nodes));
        let quarter = self.left(item, now) / u64::from(nodes.saturating_mul(LONG_DIVISOR));
        let (most, parts) = match demand > little && quarter > little {
            true => (demand, nodes.saturating_mul(LONG_DIVISOR)),
            false => (demand.min(little), nodes),
        };
        LeaseRequest { most: most.max(1), parts: NonZeroU32::new(parts).unwrap_or(NonZeroU32::MIN) }
    }

    /// What is left of the limit, as far as this node knows.
    fn left(&self, item: &Item, now: Nanos) -> u64 {
        if let Spec::Gcra { rate, burst } = item.spec {
            return left_of_bucket(rate, burst.get(), self.busy(), now);
        }
        let (current, previous) = (self.current.effective(), self.previous.effective());
        let counted = WindowCounts { current, previous, sequence: self.sequence };
        decide_window(counted, self.tag, &item.spec, Cost::PEEK, ChargeMode::Never, now).0.remaining
    }

    /// Whether there is anything to draw, as far as this node knows: room for a check of `item` beyond what was
    /// granted already. Where there is none here, there is none at the origin (INV-3).
    pub fn has_room(&self, item: &Item, now: Nanos) -> bool {
        let beyond_prepaid = item.cost.get().saturating_sub(self.prepaid(&item.spec, now)).max(1);
        let Ok(cost) = Cost::new(beyond_prepaid) else { return false };
        let decision = if let Spec::Gcra { rate, burst } = item.spec {
            gcra::decide(self.tat_at(rate, now), rate, burst, cost, ChargeMode::Never, now).0
        } else {
            let (current, previous) = (self.current.effective(), self.previous.effective());
            let counted = WindowCounts { current, previous, sequence: self.sequence };
            decide_window(counted, self.tag, &item.spec, cost, ChargeMode::Never, now).0
        };
        decision.is_admitted()
    }

    /// A lease was asked for: from here on the key spends only what was granted.
    pub(super) fn take_lease(
        &mut self,
        sent: &KeySync,
        request: LeaseRequest,
        reply: &KeyReply,
        sent_at: Nanos,
    ) {
        let pause = match (&sent.counts, reply.counts) {
            (CountSync::Window(sync), CountReply::Window { current, previous, .. }) => {
                sync.is_nearly_spent(current, previous, sent_at).then_some(KEY_LEASE_TTL)
            }
            (CountSync::Gcra { sync, burst }, CountReply::Gcra { busy, .. }) => {
                sync.pause(*burst, busy, sent_at)
            }
            _ => None,
        };
        let pause = pause.filter(|_| reply.drawn < request.most);
        self.strict_until = pause.map_or(Deadline::default(), |pause| Deadline::at(sent_at.plus(pause)));
        let is_timed = matches!(reply.counts, CountReply::Gcra { busy, .. }
            if busy.tat.minus(sent_at) >= TIMED_FROM);
        // Who waits for the next draw anyway needn't be told that there is little left.
        let low = if pause.is_some() { 1 } else { self.current.prepaid() / LOW_DIVISOR };
        self.lease = Lease::new(low, is_timed);
    }

    /// A check that would pass, of a leased key that has nothing granted for it: denied until the next draw where
    /// there is nothing to be had before. Says whether it was.
    #[cold]
    pub(super) fn waits_for_lease(&self, item: &Item, now: Nanos, decision: &mut Decision) -> bool {
        let now = Deadline::at(now);
        let is_waiting = self.strict_until.is_ahead_of(now) && item.accuracy != Accuracy::Async;
        // What is only looked at is told the same: the request that it belongs to was denied by this, perhaps.
        let would_pass = decision.is_admitted() && item.cost > Cost::PEEK && item.charge != Charge::Always;
        if !is_waiting || !would_pass {
            return false;
        }
        let left_ms = u64::from(self.strict_until.0.wrapping_sub(now.0));
        decision.verdict = Verdict::Deny { retry_after: Some(Nanos::from_millis(left_ms)) };
        true
    }

    /// Whether a check that the limit denies may spend what was granted: a saturated window gives out [`DRAW_AHEAD`] of
    /// its refill in advance. Where it may not, the limit was lowered, or others went beyond it, and the lease ends.
    #[cold]
    pub(super) fn spends_drawn_ahead(&mut self, counted: WindowCounts, item: &Item, now: Nanos) -> bool {
        let is_drawn_ahead = match item.spec {
            Spec::Sliding { limit, period } => {
                let cell = period.cell(counted.sequence);
                let used = sliding_used(counted, cell, period, now.plus(DRAW_AHEAD));
                used.saturating_add(item.cost.get()) <= limit.get()
            }
            _ => false,
        };
        if !is_drawn_ahead {
            self.end_lease();
        }
        is_drawn_ahead
    }

    /// The same of a bucket that owes more than its burst: whether it does without the units that were granted and stay
    /// `unspent`.
    #[cold]
    pub(super) fn spends_granted(
        &mut self,
        tat: Tat,
        rate: Rate,
        burst: Burst,
        unspent: u64,
        now: Nanos,
    ) -> Verdict {
        let unit = u128::from(rate.interval_numerator_ns());
        let ahead = u128::from(DRAW_AHEAD.get()) * u128::from(rate.interval_denominator());
        // One unit more: a draw is rounded up to whole units and nanoseconds.
        let most = (u128::from(burst.get()) + u128::from(unspent) + 1) * unit + ahead;
        let beyond = tat.backlog(rate, now).saturating_sub(most);
        if beyond == 0 {
            return Verdict::Admit;
        }
        self.end_lease();
        let wait = beyond.div_ceil(u128::from(rate.interval_denominator()));
        Verdict::Deny { retry_after: Some(Nanos::new(u64::try_from(wait).unwrap_or(u64::MAX))) }
    }

    /// A bucket's lease ends, and what is left of it lapses.
    #[cold]
    pub(super) fn end_grants(&mut self) {
        self.lapse_to(0);
        self.end_lease();
    }

    /// A bucket's prepaid lapses down to so much.
    pub(super) fn lapse_to(&mut self, left: u64) {
        let lapsed = self.current.prepaid().saturating_sub(left);
        self.current.own = add_count(self.current.own, lapsed);
        self.current.world = add_count(self.current.world, lapsed);
    }

    /// Spends what was granted to a request and lapsed before the request could: the bucket is full again by this
    /// node's clock, because the answer took longer than the refill, or because the clock is ahead of the origin's; or
    /// the key is leased, and of a bucket that is nearly full all who hold a part may keep none. Asked for once more it
    /// would lapse once more, and each grant is one that others don't get. False where nothing lapsed, or somebody else
    /// has spent it.
    pub fn spend_lapsed(&mut self, item: &Item, live_nodes: u32, now: Nanos) -> bool {
        let cost = item.cost.get();
        let Spec::Gcra { rate, .. } = item.spec else { return false };
        if !is_gcra(self.tag) || cost > self.current.prepaid() {
            return false;
        }
        let is_full = self.previous.own < now.get();
        let lapses = || {
            let mut later = *self;
            let holders = sharers(&self.view(0, live_nodes, now), item.class);
            later.lapse_with_time(rate, self.tat_at(rate, now).whole.minus(now), holders);
            later.current.prepaid() < cost
        };
        let has_lapsed = is_full || self.lease.is_held() && lapses();
        if has_lapsed {
            self.current.admit(cost);
        }
        has_lapsed
    }

    /// What was drawn of a bucket is owed for as long as the bucket needs to refill it, and may be spent until
    /// then: later it would come on top of a full one (INV-7). All who hold some share what is owed.
    #[inline]
    pub(super) fn lapse_with_time(&mut self, rate: Rate, owed: Nanos, holders: u32) {
        let prepaid = u128::from(self.current.prepaid());
        let ticks = u128::from(owed.get()) * u128::from(rate.interval_denominator());
        let of_each = u128::from(rate.interval_numerator_ns()) * u128::from(holders);
        if prepaid * of_each > ticks {
            let left = ticks / of_each;
            self.lapse_to(u64::try_from(left).unwrap_or(u64::MAX));
        }
    }
}

impl WindowSync {
    /// Whether what is left of the limit is no more than what refills until the next draw, or nearly nothing.
    fn is_nearly_spent(&self, current: CellReply, previous: Option<CellReply>, now: Nanos) -> bool {
        let left = self.limit.saturating_sub(self.used(current, previous, now));
        left <= self.faded_in(previous, KEY_LEASE_TTL).max(self.limit / NEARLY_NOTHING)
    }
}

impl GcraSync {
    /// The same for a bucket: how long to wait for its refill. A small one is looked at more often, or it would
    /// be full before.
    fn pause(&self, burst: u64, busy: BusyPeriod, now: Nanos) -> Option<Nanos> {
        let pause = Nanos::new(interval_times(self.rate, burst).get() / 4).min(KEY_LEASE_TTL);
        let left = left_of_bucket(self.rate, burst, busy, now);
        (left <= self.rate.burst_over(pause).get().max(burst / NEARLY_NOTHING)).then_some(pause)
    }
}

fn left_of_bucket(rate: Rate, burst: u64, busy: BusyPeriod, now: Nanos) -> u64 {
    let owed = busy.tat.minus(now);
    let owed = if owed == Nanos::ZERO { 0 } else { rate.burst_over(owed).get() };
    burst.saturating_sub(owed)
}

#[cfg(test)]
mod tests;
