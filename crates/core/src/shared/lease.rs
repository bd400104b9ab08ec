//! Leases: what the node of a hot key draws ahead, so that its decisions neither wait nor overshoot.
//!
//! Drawn units count at the origin at once and are prepaid here. A key that holds a lease spends only what was
//! granted; it asks for more before that runs out. Where there was less than it wished for and nothing but the
//! refill is to come, it denies by itself until the next draw: so a key costs its origin as much at any rate of
//! requests.

use super::{Deadline, SharedState};
use crate::ask::{Accuracy, View, sharers};
use crate::counts::CellReply;
use crate::decision::{Decision, Settle, Verdict};
use crate::exchange::{CountReply, CountSync, KeyReply, KeySync, LEASED_FOR, LeaseWish, WindowSync};
use crate::gcra;
use crate::gcra_sync::{Busy, GcraSync, interval_times};
use crate::item::{Charge, Item};
use crate::limit::{Cost, Rate, Spec};
use crate::packed::is_gcra;
use crate::state::decide_window;
use crate::time::{Nanos, Sequence};
use crate::window::{Counted, add_count};
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

/// Whether a limit can be leased: a bucket that is full again sooner than a lease is spent has nothing to lease.
pub fn is_leasable(spec: &Spec) -> bool {
    match *spec {
        Spec::Gcra { rate, burst } => interval_times(rate, burst.get()) >= LEASED_FOR,
        _ => true,
    }
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
        let lapsed = if is_gcra(self.tag) { self.current.world } else { 0 };
        (self.sequence, self.current.own.saturating_sub(lapsed))
    }

    /// What to draw for a key of which so much is admitted while a lease lasts.
    pub fn lease_wish(&self, item: &Item, demand: u64, live_nodes: u32, now: Nanos) -> LeaseWish {
        let view = View { regions: item.regions, ..self.view(0, live_nodes, now) };
        let parts = NonZeroU32::new(sharers(&view, item.class)).unwrap_or(NonZeroU32::MIN);
        let spare = match item.spec {
            // A bucket far from empty refills faster than it is spent, and what is drawn of it lapses as fast.
            Spec::Gcra { rate, burst } => {
                let left = left_of_bucket(rate, burst.get(), self.busy(), now);
                rate.burst_over(LEASED_FOR).get().min(left / (SPARE_DIVISOR * u64::from(parts.get())))
            }
            _ => 0,
        };
        LeaseWish { most: demand.max(spare).max(1), parts }
    }

    /// Whether there is anything to draw, as far as this node knows: room for a check of `item` beyond what was
    /// granted already. Where there is none here, there is none at the origin (INV-3).
    pub fn has_room(&self, item: &Item, now: Nanos) -> bool {
        let beyond_prepaid = item.cost.get().saturating_sub(self.prepaid(&item.spec, now)).max(1);
        let Ok(cost) = Cost::new(beyond_prepaid) else { return false };
        let decision = if let Spec::Gcra { rate, burst } = item.spec {
            gcra::decide(self.tat_at(rate, now), rate, burst, cost, Settle::Never, now).0
        } else {
            let (current, previous) = (self.current.effective(), self.previous.effective());
            let counted = Counted { current, previous, sequence: self.sequence };
            decide_window(counted, self.tag, &item.spec, cost, Settle::Never, now).0
        };
        decision.is_admitted()
    }

    /// A lease was asked for: from here on the key spends only what was granted.
    pub(super) fn take_lease(&mut self, sent: &KeySync, wish: LeaseWish, reply: &KeyReply, sent_at: Nanos) {
        let pause = match (&sent.counts, reply.counts) {
            (CountSync::Window(sync), CountReply::Window { current, previous, .. }) => {
                sync.is_nearly_spent(current, previous, sent_at).then_some(LEASED_FOR)
            }
            (CountSync::Gcra { sync, burst }, CountReply::Gcra { busy, .. }) => {
                sync.pause(*burst, busy, sent_at)
            }
            _ => None,
        };
        let pause = pause.filter(|_| reply.drawn < wish.most);
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
        left <= self.faded_in(previous, LEASED_FOR).max(self.limit / NEARLY_NOTHING)
    }
}

impl GcraSync {
    /// The same for a bucket: how long to wait for its refill. A small one is looked at more often, or it would
    /// be full before.
    fn pause(&self, burst: u64, busy: Busy, now: Nanos) -> Option<Nanos> {
        let pause = Nanos::new(interval_times(self.rate, burst).get() / 4).min(LEASED_FOR);
        let left = left_of_bucket(self.rate, burst, busy, now);
        (left <= self.rate.burst_over(pause).get().max(burst / NEARLY_NOTHING)).then_some(pause)
    }
}

fn left_of_bucket(rate: Rate, burst: u64, busy: Busy, now: Nanos) -> u64 {
    let owed = busy.tat.minus(now);
    let owed = if owed == Nanos::ZERO { 0 } else { rate.burst_over(owed).get() };
    burst.saturating_sub(owed)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::identity::KeyId;
    use crate::limit::{Burst, Limit};
    use crate::state::{Publish, State as _};
    use crate::time::Period;
    use smallvec::SmallVec;

    const NOW: Nanos = Nanos::from_secs(1_000_000);

    fn fixed(limit: u64) -> Item {
        let period = Period::new(Nanos::from_secs(3600)).unwrap();
        let spec = Spec::Fixed { limit: Limit::new(limit).unwrap(), period };
        Item { accuracy: Accuracy::Bounded, ..Item::new(KeyId::from_hash(1), spec, Cost::ONE) }
    }

    fn bucket(per_second: u64, burst: u64) -> Item {
        let rate = Rate::new(per_second, Nanos::from_secs(1)).unwrap();
        Item { spec: Spec::Gcra { rate, burst: Burst::new(burst).unwrap() }, ..fixed(1) }
    }

    /// A state that was granted a lease of `drawn`, by an origin that has nothing else of the key.
    fn leased(item: &Item, most: u64, drawn: u64) -> SharedState {
        let mut state = SharedState::default();
        draw(&mut state, item, most, drawn);
        state
    }

    fn draw(state: &mut SharedState, item: &Item, most: u64, drawn: u64) {
        let lease = Some(LeaseWish { most, parts: NonZeroU32::MIN });
        let counts = state.asking(&item.spec, 1, NOW);
        let wants = crate::exchange::Wants { lease, ..Default::default() };
        let sent = KeySync { key: item.key, epoch: 0, counts, wants, settled: SmallVec::new() };
        let cell = CellReply { component: drawn, total: drawn, world: 0, published: 0 };
        let heard = match item.spec {
            Spec::Gcra { rate, .. } => {
                let busy = Busy { tat: NOW.plus(interval_times(rate, drawn)), since: NOW };
                CountReply::Gcra { busy, stored: drawn, owners: 1 }
            }
            _ => CountReply::Window { current: cell, previous: None, owners: 1 },
        };
        let granted = SmallVec::new();
        let reply = KeyReply { epoch: 0, counts: heard, granted, drawn, retry_after: None };
        state.merge(&sent, &reply, NOW, NOW.plus(Nanos::from_secs(5))).unwrap();
    }

    #[test]
    fn it_is_renewed_when_an_eighth_is_left_and_nothing_else_is_spent() {
        let item = fixed(1_000_000);
        let mut state = leased(&item, 64, 64);
        for spent in 1..=64_u64 {
            let (decision, reason) = state.decide(&item, 2, NOW);
            assert!(decision.is_admitted() && reason.is_none(), "{spent}");
            let is_low = 64 - spent < 8;
            assert_eq!(state.publish() == Publish::Now, is_low, "{spent}");
        }
        assert!(state.decide(&item, 2, NOW).1.is_some(), "however much credit there would be");
        state.end_lease();
        let mut state = SharedState { queued: Publish::Nothing, ..state };
        assert_eq!(state.decide(&item, 2, NOW).1, None, "it keeps to its credit again");
    }

    #[test]
    fn a_lease_of_all_that_was_left_is_waited_for() {
        let item = fixed(1_000);
        let mut state = leased(&item, 2_000, 1_000);
        assert!(state.is_dry(NOW) && !state.is_dry(NOW.plus(LEASED_FOR)));
        let mut state_with_room = leased(&item, 2_000, 500);
        assert!(!state_with_room.is_dry(NOW), "half of it is left: asking for more is worth it");
        state_with_room.end_lease();
        // 5 of 1,000 are left, and were not drawn.
        let mut nearly = leased(&item, 2_000, 995);
        for _ in 0..995 {
            assert!(nearly.decide(&item, 2, NOW).0.is_admitted());
        }
        let before = nearly;
        for charge in [Charge::IfAdmitted, Charge::Never] {
            let (denied, reason) = nearly.decide(&Item { charge, ..item }, 2, NOW);
            assert_eq!(denied.verdict, Verdict::Deny { retry_after: Some(LEASED_FOR) }, "{charge:?}");
            assert_eq!((denied.remaining, reason), (5, None));
            assert_eq!(nearly, before, "a denial consumes nothing (INV-4)");
        }
        assert!(nearly.decide(&item, 2, NOW.plus(LEASED_FOR)).1.is_some(), "then it asks");
        assert!(nearly.decide(&Item { accuracy: Accuracy::Async, ..item }, 2, NOW).0.is_admitted());
        assert!(!state.decide(&Item { cost: Cost::new(1_001).unwrap(), ..item }, 2, NOW).0.is_admitted());
    }

    #[test]
    fn what_was_granted_to_a_request_is_spent_by_it_though_all_who_hold_a_part_may_keep_none() {
        // The first unit of a full bucket, of eight nodes that lease the key.
        let item = bucket(1, 10);
        let granted = SharedState { owners: 8, ..leased(&item, 1, 1) };
        assert!(granted.clone().decide(&item, 8, NOW).1.is_some(), "drawn ahead it lapses, and is asked for");
        let mut state = granted;
        assert!(state.spend_lapsed(&item, 8, NOW));
        assert_eq!((state.admitted().1, state.prepaid(&item.spec, NOW)), (1, 0));
        assert!(!state.spend_lapsed(&item, 8, NOW), "once");
        let mut alone = leased(&item, 1, 1);
        assert!(!alone.spend_lapsed(&item, 1, NOW), "nothing lapses: it is decided as ever");
    }

    #[test]
    fn there_is_room_for_what_was_not_granted_yet_and_none_before_it_refills() {
        let after = |millis| NOW.plus(Nanos::from_millis(millis));
        let costing = |item: Item, cost| Item { cost: Cost::new(cost).unwrap(), ..item };
        let window = fixed(1_000);
        let held = leased(&window, 2_000, 995);
        assert!(held.has_room(&window, NOW) && held.has_room(&costing(window, 1_000), NOW));
        assert!(!held.has_room(&costing(window, 1_001), NOW), "995 are granted, and 5 are left");
        assert!(!leased(&window, 2_000, 1_000).has_room(&window, NOW), "what was granted is all");
        assert!(leased(&window, 2_000, 1_000).has_room(&window, NOW.plus(Nanos::from_secs(3600))));
        let bucket = bucket(1_000, 1_000);
        let empty = leased(&bucket, 2_000, 1_000);
        assert!(!empty.has_room(&bucket, NOW) && empty.has_room(&bucket, after(1)), "one unit refilled");
        assert!(empty.has_room(&bucket, after(5_000)));
    }

    /// What is drawn ahead puts a bucket into debt: a look at it denies, while what is prepaid passes.
    #[test]
    fn a_request_that_is_charged_to_nothing_is_denied() {
        let (other, paid) = (Item { key: KeyId::from_hash(2), ..fixed(1_000) }, bucket(1, 10));
        let items = [other, Item { cost: Cost::new(4).unwrap(), ..paid }, Item { cost: Cost::PEEK, ..paid }];
        for suspect in [None, Some(2)] {
            let table = crate::Table::new(1_000);
            let moment = crate::Moment::at(NOW);
            let items = items.map(|item| Item { accuracy: Accuracy::Async, ..item });
            table.upsert(paid.key, moment, |state: &mut SharedState| *state = leased(&paid, 11, 11));
            let mut decisions = crate::Decisions::new();
            let outcome = table.decide_all_suspecting(&items, suspect, moment, &mut decisions).unwrap();
            let is_charged = table.state(other.key).is_some_and(|state| state.unsynced() == 1);
            let is_admitted = decisions.iter().all(crate::Decision::is_admitted);
            assert_eq!(is_admitted, is_charged, "{outcome:?} by {suspect:?}: {decisions:?}");
        }
    }

    #[test]
    fn what_was_drawn_of_a_bucket_lapses_as_it_refills() {
        let item = bucket(1_000, 1_000);
        let after = |millis| NOW.plus(Nanos::from_millis(millis));
        let held = |nodes, millis| {
            let mut state = leased(&item, 200, 200);
            state.decide(&item, nodes, after(millis));
            state.current.prepaid()
        };
        assert_eq!((held(1, 0), held(1, 100), held(1, 150)), (199, 99, 49), "one unit a millisecond");
        assert_eq!((held(2, 0), held(2, 100)), (99, 49), "two may hold some: half of what is owed each");
        let mut state = leased(&item, 200, 200);
        state.decide(&item, 1, after(100));
        assert_eq!(state.admitted().1, 1, "what lapsed wasn't admitted");
    }

    #[test]
    fn a_hot_key_holds_a_lease_also_of_nothing_and_keeps_the_one_it_has() {
        let mut state = SharedState::default();
        assert!(!state.is_leased());
        state.hold_lease();
        assert!(state.is_leased());
        state.end_lease();
        assert!(!state.is_leased());
        let mut held = leased(&bucket(1_000, 1_000), 200, 200);
        let before = held;
        held.hold_lease();
        assert_eq!(held, before);
        assert_eq!(
            leased(&fixed(10), 3, 3).admitted(),
            (Period::new(Nanos::from_secs(3600)).unwrap().cell_at(NOW).sequence, 0)
        );
    }

    /// Whoever can't be asked is decided for as if everything were known.
    #[test]
    fn what_a_held_key_admits_unverified_is_counted_once_and_paid_by_the_next_draw() {
        for item in [fixed(1_000), bucket(1_000, 1_000)] {
            for begun in [SharedState::default(), SharedState::begun(crate::time::StepId(0), true)] {
                let (mut held, mut free) = (begun, begun);
                held.hold_lease();
                for state in [&mut held, &mut free] {
                    let unverified = Item { accuracy: Accuracy::Async, ..item };
                    (0..3).for_each(|_| assert!(state.decide(&unverified, 2, NOW).0.is_admitted()));
                }
                assert_eq!((held.current, held.previous), (free.current, free.previous));
                assert_eq!(held.publishing(), free.publishing(), "INV-2");
                draw(&mut held, &item, 10, 10);
                assert_eq!((held.admitted().1, held.current.prepaid(), held.unsynced()), (3, 7, 0));
                assert_eq!(held.current.component(), 10, "INV-3: what the origin has");
            }
        }
    }

    #[test]
    fn a_lease_that_is_renewed_by_the_clock_ends_soon_16_milliseconds_before() {
        let before = RENEWED_BEFORE.minus(Nanos::new(1));
        let (timed, other) = (Lease::new(8, true), Lease::new(8, false));
        assert!(timed.ends_soon(before) && timed.ends_soon(Nanos::ZERO) && !timed.ends_soon(RENEWED_BEFORE));
        assert!(!other.ends_soon(before) && !Lease::default().ends_soon(Nanos::ZERO));
    }

    #[test]
    fn a_lease_of_nearly_all_of_a_bucket_is_waited_for_as_long_as_it_takes_to_refill_some() {
        let after = |millis| NOW.plus(Nanos::from_millis(millis));
        let dry_for = |item: &Item, drawn| {
            let state = leased(item, 2_000, drawn);
            (0..200).find(|millis| !state.is_dry(after(*millis))).unwrap()
        };
        assert_eq!(dry_for(&bucket(1_000, 1_000), 1_000), 100);
        assert_eq!(dry_for(&bucket(1_000, 200), 200), 50, "a quarter of what a small one takes");
        assert_eq!((dry_for(&bucket(1_000, 1_000), 899), dry_for(&bucket(1_000, 1_000), 900)), (0, 100));
        assert_eq!(
            (dry_for(&bucket(1, 1_000), 989), dry_for(&bucket(1, 1_000), 990)),
            (0, 100),
            "a hundredth"
        );
    }

    #[test]
    fn who_got_all_that_it_wished_for_does_not_wait() {
        assert!(
            !leased(&fixed(1_000), 1_000, 1_000).is_dry(NOW)
                && leased(&fixed(1_000), 1_001, 1_000).is_dry(NOW)
        );
    }

    #[test]
    fn only_what_would_pass_waits_for_the_next_lease() {
        let item = fixed(1_000);
        let mut state = leased(&item, 2_000, 995);
        state.decide(&Item { cost: Cost::new(995).unwrap(), ..item }, 2, NOW);
        let verdict = |changed: Item| SharedState::clone(&state).decide(&changed, 2, NOW).0.verdict;
        let waits = Verdict::Deny { retry_after: Some(LEASED_FOR) };
        assert_eq!(verdict(item), waits);
        assert_eq!(verdict(Item { cost: Cost::PEEK, ..item }), Verdict::Admit);
        assert_eq!(verdict(Item { charge: Charge::Always, ..item }), Verdict::Admit);
        let too_much = verdict(Item { cost: Cost::new(6).unwrap(), ..item });
        assert!(too_much != Verdict::Admit && too_much != waits, "that long waits for the next cell");
    }

    #[test]
    fn what_lapsed_before_its_request_could_spend_it_is_spent_once() {
        let item = bucket(1_000, 1_000);
        let full = NOW.plus(Nanos::from_millis(3));
        let two = |item: Item| Item { cost: Cost::new(2).unwrap(), ..item };
        let mut state = leased(&item, 3, 3);
        state.end_lease();
        assert!(!state.spend_lapsed(&two(item), 1, full), "not full yet");
        let full = full.plus(Nanos::new(1));
        assert!(
            state.spend_lapsed(&two(item), 1, full) && !state.spend_lapsed(&two(item), 1, full),
            "one is left"
        );
        assert!(state.spend_lapsed(&item, 1, full) && !state.spend_lapsed(&item, 1, full));
        assert_eq!(state.admitted().1, 3);
        let window = two(fixed(10));
        assert!(!leased(&window, 3, 3).spend_lapsed(&window, 1, full), "a window's doesn't lapse so");
    }

    #[test]
    fn what_was_drawn_at_a_rate_of_thirds_lapses_as_exactly() {
        let item = bucket(3_000, 3_000);
        let mut state = leased(&item, 300, 300);
        state.decide(&item, 1, NOW.plus(Nanos::from_millis(50)));
        assert_eq!(state.current.prepaid(), 149);
    }

    #[test]
    fn a_bucket_far_from_empty_is_drawn_from_for_as_long_as_it_takes_to_refill() {
        let wish = |item: &Item, demand| SharedState::default().lease_wish(item, demand, 1, NOW).most;
        assert_eq!(wish(&bucket(1_000, 1_000), 3), 100, "100 ms of its rate");
        assert_eq!(wish(&bucket(1_000, 200), 3), 50, "a quarter of what is there");
        assert_eq!((wish(&fixed(1_000), 3), wish(&fixed(1_000), 0)), (3, 1));
        let abuse = |spec| Item { class: crate::Class::Abuse, regions: 3, ..spec };
        let wish = |item: Item| SharedState::default().lease_wish(&item, 3, 2, NOW);
        let (of_bucket, of_window) = (wish(abuse(bucket(1_000, 240))), wish(abuse(fixed(1_000))));
        assert_eq!((of_bucket.most, of_bucket.parts.get()), (10, 6), "two nodes in each of three regions");
        assert_eq!((of_window.most, of_window.parts.get()), (3, 6));
        assert!(is_leasable(&bucket(1_000, 100).spec) && !is_leasable(&bucket(1_000, 99).spec));
    }
}
