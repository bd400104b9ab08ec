//! The state of a key on a node that shares its counts: 96 bytes.
//!
//! Both cells with their four counts each, and what the node needs to know about its own view to tell whether
//! an admission must ask. The counts decide exactly as a lone node's do, but that what was granted ahead is
//! spent first. `shared/exchange.rs` is what it says to the origin and hears from it.

mod deadline;
mod exchange;
mod lease;
#[cfg(test)]
mod tests;

use crate::ask::{Accuracy, AskReason, View, must_ask, must_publish, sharers, strict_for};
use crate::counts::Counts;
use crate::decision::{ChargeMode, Decision, Verdict};
use crate::gcra::{self, Tat};
use crate::gcra_sync::{BurstMemory, BusyPeriod, OriginGcra};
use crate::item::Item;
use crate::limit::{Burst, Cost, Rate, Spec};
use crate::packed::{
    denominator_word, gcra_tag, is_gcra, payload_of, rate_of, step_of, tag_with_step, tat_at_rate, tat_of,
    window_expires, window_tag,
};
use crate::state::{
    PublishUrgency, State, decide_window, landing_cell, sequence_of, used_before_step, window_expiry,
    window_tag_after,
};
use crate::time::{ClockStep, Nanos, Sequence, StepId};
use crate::window::{COUNT_MAX, WindowCounts, add_count};
use deadline::Deadline;
use lease::Lease;
pub use lease::is_leasable;

/// GCRA reuses the sequence for the burst that it was last decided by, and the fields of the previous cell: `own` is the tat's whole nanoseconds, `stored` its ticks,
/// `others` the interval's denominator and whether it is overdrawn, `world` where the busy period began. In
/// the current cell, `own` and `stored` are the cumulative costs, `others` the oldest admission that isn't
/// confirmed, `world` how much of `own` was granted and lapsed unspent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SharedState {
    current: Counts,
    previous: Counts,
    sequence: Sequence,
    tag: u64,
    fresh_until: Deadline,
    /// `fast` after a denial: it asks until then. Of a leased key: until when its lease, if it is spent, was all
    /// that there was.
    strict_until: Deadline,
    /// Owners of the cell, as the origin last counted them: at least this node, once it answered.
    owners: u16,
    /// How often the key was reset.
    epoch: u16,
    /// For which cells the origin has answered, [`OWNS_CURRENT`] and [`OWNS_PREVIOUS`]; [`WORLD_SPENT`] and [`WHOLE`].
    marks: u8,
    lease: Lease,
    /// A sliding window: its previous cell still counts.
    fades: bool,
    /// What was queued for this key since its last reply.
    queued: PublishUrgency,
}

const OWNS_CURRENT: u8 = 1;
const OWNS_PREVIOUS: u8 = 2;
/// The region had no world credit left when it last answered an ask.
const WORLD_SPENT: u8 = 4;
/// Of a window: the node dropped nothing of this key, ever.
const WHOLE: u8 = 8;
/// The key may have been reset, or its store have lost data, without this node hearing of it: the next decision asks,
/// also one that denies.
const UNCONFIRMED: u8 = 16;

impl SharedState {
    /// A bucket's instants, moved by a clock step.
    fn with_instants_shifted(mut self, delta_ns: i64) -> Self {
        for instant in [&mut self.previous.own, &mut self.previous.world, &mut self.current.others] {
            *instant = instant.saturating_add_signed(delta_ns);
        }
        self
    }

    /// What the node knows about its view of this key. `headroom` is what is left of the limit for everybody.
    #[inline]
    pub fn view(&self, headroom: u64, live_nodes: u32, now: Nanos) -> View {
        let now = Deadline::at(now);
        View {
            is_owner: self.marks & (OWNS_CURRENT | OWNS_PREVIOUS) != 0,
            is_fresh: self.fresh_until.is_ahead_of(now),
            is_strict: self.strict_until.is_ahead_of(now),
            owners: u32::from(self.owners),
            live_nodes,
            regions: 1,
            is_world_spent: self.marks & WORLD_SPENT != 0,
            is_leased: self.lease.is_held(),
            prepaid: self.current.prepaid(),
            spent: self.current.unsynced(),
            headroom,
        }
    }

    /// A window's cell, its counts and those of the cell before; `None` for GCRA. To look at, not to decide by.
    pub fn cells(&self) -> Option<(Sequence, Counts, Counts)> {
        (!is_gcra(self.tag)).then_some((self.sequence, self.current, self.previous))
    }

    pub fn epoch(&self) -> u16 {
        self.epoch
    }

    /// The same key from its `epoch`-th reset on: nothing was admitted yet.
    #[must_use]
    pub fn at_epoch(self, epoch: u16) -> Self {
        SharedState { epoch, marks: self.marks & WHOLE, ..SharedState::default() }.with_step(self.step())
    }

    /// The next decision about the key asks, whichever way it goes: this node may have missed a reset, or a loss of data.
    pub fn unconfirm(&mut self) {
        self.marks = self.marks & !(OWNS_CURRENT | OWNS_PREVIOUS) | UNCONFIRMED;
    }

    /// Whether the key may have been reset, or its store may have lost data, without this node knowing.
    pub fn is_unconfirmed(&self) -> bool {
        self.marks & UNCONFIRMED != 0
    }

    /// There is nothing to say of it for now.
    pub fn unqueue(&mut self) {
        self.queued = PublishUrgency::Nothing;
    }

    /// Admitted here and not yet known to the origin.
    pub fn unsynced(&self) -> u64 {
        let previous = if is_gcra(self.tag) { 0 } else { self.previous.unsynced() };
        add_count(self.current.unsynced(), previous)
    }

    /// Granted by the origin and not yet spent, as far as a check of `spec` could spend it.
    pub fn prepaid(&self, spec: &Spec, now: Nanos) -> u64 {
        let has_lapsed = match spec {
            Spec::Gcra { .. } => self.previous.own < now.get(),
            _ => sequence_of(spec, now, self.sequence) > self.sequence,
        };
        if has_lapsed { 0 } else { self.current.prepaid() }
    }

    /// Nobody told this state yet what the origin has of this node. It may have admitted something in an earlier
    /// life, before its entry was dropped, and takes what it hears of for that. So only one call may be out to
    /// learn it: what another one was granted would be taken for it too.
    pub fn has_forgotten(&self) -> bool {
        self.owners == 0
    }

    /// The same of a window. Where nothing was ever dropped, there was no earlier life: what the origin has and this
    /// state doesn't know of was granted to it, and the answer was lost.
    fn has_forgotten_cells(&self) -> bool {
        self.has_forgotten() && self.marks & WHOLE == 0
    }

    /// GCRA's pair, to publish or to adopt.
    fn busy(&self) -> BusyPeriod {
        let tat = tat_of(self.previous.own, self.previous.stored, self.previous.others);
        BusyPeriod { tat: tat.whole_ceil(), since: Nanos::new(self.previous.world) }
    }

    /// GCRA: the burst is another one than before. Of a debt that was made by a larger one an empty bucket stays, also
    /// where it is the region's debt: the origin does the same. A burst of 0 blocks, and forgives nothing.
    #[cold]
    fn change_burst(&mut self, rate: Rate, burst: u64, settle: ChargeMode, now: Nanos) {
        let mut memory = BurstMemory { burst: self.sequence.0, ..BurstMemory::default() };
        let mut debt = OriginGcra { busy: self.busy(), ..OriginGcra::default() };
        let tat = self.tat_at(rate, now);
        // Until the first reply the debt is this node's own, and what was post-paid of it is owed whatever the burst was.
        let is_owed = self.owners == 0 && (tat.overdrawn || settle == ChargeMode::Always);
        if payload_of(self.tag) != 0 && !is_owed {
            debt.busy.tat = tat.whole_ceil();
            if memory.apply(&mut debt, rate, burst, now) {
                // The origin rounds up to whole nanoseconds; a denial here promises an exact wait.
                let tat = Tat::owing(now, burst, rate);
                (self.previous.own, self.previous.stored) = (tat.whole.get(), tat.ticks);
                (self.previous.others, self.previous.world) =
                    (denominator_word(tat, rate), debt.busy.since.get());
                self.tag = tag_with_step(gcra_tag(rate), step_of(self.tag));
                self.end_grants();
            }
        }
        if burst > 0 {
            self.sequence = Sequence(burst);
        }
    }

    /// GCRA's arrival time by a rate that may be new.
    #[inline]
    fn tat_at(&self, rate: Rate, now: Nanos) -> Tat {
        let tat = tat_of(self.previous.own, self.previous.stored, self.previous.others);
        tat_at_rate(tat, rate_of(self.previous.others, self.tag), rate, now)
    }

    #[cold]
    fn rolled_to(mut self, sequence: Sequence) -> Self {
        let distance = sequence.0.saturating_sub(self.sequence.0);
        if distance > 0 {
            self.previous = if distance == 1 { self.current } else { Counts::default() };
            self.current = Counts::default();
            self.sequence = sequence;
            // Whoever owned the cell before this one is not cold in the next; whoever didn't, is.
            let owned = self.marks & OWNS_CURRENT != 0 && distance == 1;
            self.marks = self.marks & WHOLE | if owned { OWNS_PREVIOUS } else { 0 };
        }
        self
    }

    /// Decides a window's check in the state's own cell.
    #[inline(always)]
    fn decide_in_cell(&mut self, item: &Item, live_nodes: u32, now: Nanos) -> (Decision, Option<AskReason>) {
        let counted = WindowCounts {
            current: self.current.spent(),
            previous: self.previous.effective(),
            sequence: self.sequence,
        };
        let prepaid = self.current.prepaid();
        let (mut decision, _) =
            decide_window(counted, self.tag, &item.spec, item.cost, item.charge_mode(), now);
        if item.cost.get() <= prepaid && item.cost > Cost::PEEK {
            // What was granted is spent up to the limit in force: one that was lowered since holds at once.
            if !decision.is_admitted() && self.spends_drawn_ahead(counted, item, now) {
                decision.verdict = Verdict::Admit;
            }
        } else if self.lease.is_held() {
            let charged = if item.charges(&decision) { item.cost.get() } else { 0 };
            if self.waits_for_lease(item, now, &mut decision) {
                decision.remaining = add_count(decision.remaining, charged);
            }
        }
        if !item.charges(&decision) {
            return (decision, self.reason_to_peek(item, now));
        }
        let headroom = (decision.remaining + item.cost.get()).saturating_sub(prepaid);
        let view = View { regions: item.regions, ..self.view(headroom, live_nodes, now) };
        self.current.admit(item.cost.get());
        self.fades = matches!(item.spec, Spec::Sliding { .. });
        self.queue(item, view);
        (decision, self.reason(item, &view, &decision))
    }

    /// Decides a window's check in a later cell.
    #[cold]
    #[inline(never)]
    fn decide_in_next_cell(
        &mut self,
        sequence: Sequence,
        item: &Item,
        live_nodes: u32,
        now: Nanos,
    ) -> (Decision, Option<AskReason>) {
        let mut rolled = self.rolled_to(sequence);
        rolled.tag = window_tag_after(self.tag, &item.spec, self.sequence, rolled.sequence);
        let decided = rolled.decide_in_cell(item, live_nodes, now);
        // Only a charge moves a key on to its next cell.
        if item.charges(&decided.0) {
            *self = rolled;
        }
        decided
    }

    /// Why the admission that was just made must ask first.
    #[inline]
    fn reason(&self, item: &Item, view: &View, decision: &Decision) -> Option<AskReason> {
        if !decision.is_admitted() {
            return None;
        }
        must_ask(item.accuracy, item.class, view, item.cost.get())
    }

    /// Why a check that charges nothing must ask first: a peek of a key of which the node knows nothing, or only something
    /// old, or a denial of one that isn't confirmed.
    #[inline]
    fn reason_to_peek(&self, item: &Item, now: Nanos) -> Option<AskReason> {
        if item.cost > Cost::PEEK && self.marks & UNCONFIRMED == 0 {
            return None;
        }
        self.uncertain(item, now)
    }

    #[cold]
    fn uncertain(&self, item: &Item, now: Nanos) -> Option<AskReason> {
        if item.charge_mode() != ChargeMode::IfAdmitted || item.accuracy == Accuracy::Async {
            return None;
        }
        if item.cost > Cost::PEEK {
            return Some(AskReason::Cold);
        }
        must_ask(item.accuracy, item.class, &self.view(0, 1, now), 0)
    }

    /// An admission was counted: it is to be published.
    #[inline]
    fn queue(&mut self, item: &Item, view: View) {
        if self.queued == PublishUrgency::Now {
            return;
        }
        if self.lease.is_held() && self.lease.runs_low(self.current.prepaid()) {
            self.queued = PublishUrgency::Now;
            return;
        }
        let spent = self.current.unsynced();
        if spent > 0 {
            let is_urgent = must_publish(&View { spent, ..view }, item.class);
            self.queued = if is_urgent { PublishUrgency::Now } else { PublishUrgency::Soon };
        }
    }

    fn decide_gcra(
        &mut self,
        item: &Item,
        rate: Rate,
        burst: Burst,
        live_nodes: u32,
        now: Nanos,
    ) -> (Decision, Option<AskReason>) {
        if self.sequence.0 != burst.get() {
            self.change_burst(rate, burst.get(), item.charge_mode(), now);
        }
        let tat = self.tat_at(rate, now);
        let was_idle = tat.whole < now;
        if was_idle && self.current.prepaid() > 0 {
            // The bucket is full again: what was granted of an earlier one lapsed with it.
            self.lapse_to(0);
        } else if self.lease.is_held() {
            let holders = sharers(&self.view(0, live_nodes, now), item.class);
            self.lapse_with_time(rate, tat.whole.minus(now), holders);
        }
        let prepaid = self.current.prepaid();
        let extra = Cost::new(item.cost.get().saturating_sub(prepaid)).unwrap_or(Cost::MAX);
        let before = tat;
        let (mut decision, mut tat) = gcra::decide(tat, rate, burst, extra, item.charge_mode(), now);
        if tat.whole < before.whole && prepaid > 0 {
            // The burst was lowered and the debt forgiven: what was granted of the larger one is part of it.
            self.end_grants();
            return self.decide_gcra(item, rate, burst, live_nodes, now);
        }
        if extra == Cost::PEEK && item.cost > Cost::PEEK {
            if !decision.is_admitted() {
                let unspent = prepaid - item.cost.get();
                decision.verdict = self.spends_granted(tat, rate, burst, unspent, now);
            }
        } else if self.lease.is_held() {
            let charged = if item.charges(&decision) { extra.get() } else { 0 };
            if self.waits_for_lease(item, now, &mut decision) {
                (tat, decision.remaining) = (before, add_count(decision.remaining, charged));
            }
        }
        (self.previous.own, self.previous.stored) = (tat.whole.get(), tat.ticks);
        self.previous.others = denominator_word(tat, rate);
        self.tag = tag_with_step(gcra_tag(rate), step_of(self.tag));
        let headroom = decision.remaining;
        decision.remaining = add_count(headroom, prepaid.saturating_sub(item.cost.get()));
        if !item.charges(&decision) {
            decision.remaining = add_count(headroom, prepaid);
            return (decision, self.reason_to_peek(item, now));
        }
        let view = self.view(add_count(headroom, extra.get()), live_nodes, now);
        if self.current.unsynced() == 0 {
            self.current.others = now.get();
        }
        if was_idle {
            self.previous.world = now.get();
        }
        self.current.admit(item.cost.get());
        self.queue(item, view);
        if self.lease.ends_soon(tat.whole.minus(now)) {
            self.queued = PublishUrgency::Now;
        }
        (decision, self.reason(item, &view, &decision))
    }

    /// After a denial `fast` asks for a while, so that it stops admitting what others spent.
    #[cold]
    fn denied(&mut self, item: &Item, now: Nanos) {
        if item.accuracy != Accuracy::Fast
            || self.lease.is_held()
            || item.charge_mode() == ChargeMode::Never
            || item.cost.get() > item.spec.shown_limit()
        {
            return;
        }
        let period = match item.spec {
            Spec::Sliding { period, .. } => period.length(),
            _ => item.spec.longest_memory(),
        };
        self.strict_until = Deadline::at(now.plus(strict_for(period)));
    }
}

impl State for SharedState {
    const SHARED: bool = true;

    #[inline(always)]
    fn decide(&mut self, item: &Item, live_nodes: u32, now: Nanos) -> (Decision, Option<AskReason>) {
        let decided = if let Spec::Gcra { rate, burst } = item.spec {
            self.decide_gcra(item, rate, burst, live_nodes, now)
        } else {
            let sequence = sequence_of(&item.spec, now, self.sequence);
            if sequence > self.sequence || payload_of(self.tag) == 0 {
                self.decide_in_next_cell(sequence, item, live_nodes, now)
            } else {
                self.decide_in_cell(item, live_nodes, now)
            }
        };
        if !decided.0.is_admitted() {
            self.denied(item, now);
        }
        decided
    }

    /// Of a bucket, an entry that is full says nothing and is dropped, while the origin still knows it.
    fn begun(step: StepId, remembers_all: bool) -> Self {
        let marks = if remembers_all { WHOLE } else { 0 };
        SharedState { marks, ..SharedState::default() }.with_step(step)
    }

    #[inline]
    fn step(&self) -> StepId {
        step_of(self.tag)
    }

    #[inline]
    fn with_step(mut self, step: StepId) -> Self {
        self.tag = tag_with_step(self.tag, step);
        self
    }

    fn carried_instants(mut self, step: ClockStep) -> Option<Self> {
        (self.fresh_until, self.strict_until) = (Deadline::default(), Deadline::default());
        is_gcra(self.tag).then(|| self.with_instants_shifted(step.delta_ns))
    }

    /// What a step carries isn't an admission of the cell where it lands: it is held beside the region's
    /// counts, as the other regions' are, so that it is neither published nor claimed (INV-2). The own component
    /// stays where the cell does. The view is stale.
    fn carried(mut self, spec: &Spec, step: ClockStep) -> Self {
        (self.fresh_until, self.strict_until) = (Deadline::default(), Deadline::default());
        if matches!(spec, Spec::Gcra { .. }) {
            return self.with_instants_shifted(step.delta_ns);
        }
        let counted = WindowCounts {
            current: self.current.effective(),
            previous: self.previous.effective(),
            sequence: self.sequence,
        };
        let used = used_before_step(counted, self.expires(), spec, step.left_at()).min(COUNT_MAX);
        let known = self.current.effective();
        let forgotten = SharedState { epoch: self.epoch, fades: self.fades, ..SharedState::default() };
        match landing_cell(spec, step) {
            Some(sequence) if used > 0 && used >= known && sequence == self.sequence => {
                self.current.world = add_count(self.current.world, used - known);
                self.previous = Counts::default();
                self
            }
            Some(sequence) if used > 0 => {
                let tag = window_tag(window_expiry(spec, sequence, Nanos::ZERO));
                let current = Counts { world: used, ..Counts::default() };
                SharedState { current, sequence, tag, ..forgotten }
            }
            _ => forgotten,
        }
    }

    #[inline]
    fn expires(&self) -> Nanos {
        if is_gcra(self.tag) { self.busy().tat } else { window_expires(self.tag) }
    }

    fn is_evictable(&self) -> bool {
        self.unsynced() == 0
    }

    #[inline]
    fn publish(&self) -> PublishUrgency {
        self.queued
    }
}
