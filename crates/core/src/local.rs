//! The state of a key on a node that is alone: 32 bytes.
//!
//! The algorithm is part of a key's identity, so a state is always read by the algorithm that wrote it:
//! four words serve windows and GCRA alike, and the last one says which it was.

use crate::decision::{Decision, Settle};
use crate::gcra::{self, Tat};
use crate::limit::{Cost, Rate, Spec};
use crate::state::{State, used_before_step};
use crate::time::{Nanos, Sequence, StepId};
use crate::window::{self, Counted};

/// | word | window | GCRA |
/// |---|---|---|
/// | 0 | current | tat, whole nanoseconds |
/// | 1 | previous | tat, ticks below a nanosecond |
/// | 2 | sequence | overdrawn (1 bit), the interval's denominator |
/// | 3 | step (8 bits), expiry in ms (55), 0 | step (8 bits), the interval's numerator in ns (55), 1 |
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LocalState([u64; 4]);

const STEP_SHIFT: u32 = 56;
const PAYLOAD_MAX: u64 = (1 << 55) - 1;
const IS_GCRA: u64 = 1;
/// Above any denominator, which is at most 2^53.
const OVERDRAWN: u64 = 1 << 63;

/// The last word of a state, without its step.
#[inline]
pub(crate) fn window_tag(expires: Nanos) -> u64 {
    // An instant in milliseconds needs 45 bits.
    expires.as_millis_ceil() << 1
}

/// The last word of a state, without its step.
#[inline]
pub(crate) fn gcra_tag(rate: Rate) -> u64 {
    // At most 366 days in nanoseconds: below 2^55.
    rate.interval_numerator_ns() << 1 | IS_GCRA
}

#[inline]
pub(crate) fn step_of(tag: u64) -> StepId {
    let [.., step] = tag.to_le_bytes();
    StepId(step)
}

#[inline]
pub(crate) fn tag_with_step(tag: u64, step: StepId) -> u64 {
    tag & !(0xff << STEP_SHIFT) | u64::from(step.0) << STEP_SHIFT
}

#[inline]
pub(crate) fn payload_of(tag: u64) -> u64 {
    tag >> 1 & PAYLOAD_MAX
}

#[inline]
pub(crate) fn is_gcra(tag: u64) -> bool {
    tag & IS_GCRA == IS_GCRA
}

/// The interval's denominator and the overdrawn bit, in one word.
#[inline]
pub(crate) fn denominator_word(tat: Tat, rate: Rate) -> u64 {
    rate.interval_denominator() | if tat.overdrawn { OVERDRAWN } else { 0 }
}

/// The tat that three words of a GCRA state hold.
#[inline]
pub(crate) fn tat_of(whole: u64, ticks: u64, denominator_word: u64) -> Tat {
    Tat { whole: Nanos::new(whole), ticks, overdrawn: denominator_word & OVERDRAWN != 0 }
}

/// The rate that a GCRA state was written with; `None` when it was never written.
#[inline]
pub(crate) fn rate_of(denominator_word: u64, tag: u64) -> Option<Rate> {
    let denominator = denominator_word & !OVERDRAWN;
    // Already in lowest terms, and in range: it was a `Rate` when it was stored.
    (denominator > 0).then(|| Rate::from_lowest_terms(payload_of(tag), denominator)).flatten()
}

/// A GCRA state's tat in ticks of `rate`, whatever rate it was written with.
#[inline]
pub(crate) fn tat_at_rate(tat: Tat, written_with: Option<Rate>, rate: Rate, now: Nanos) -> Tat {
    match written_with {
        Some(before) if before != rate => tat.rescaled(before, rate, now),
        Some(_) => tat,
        None => Tat::default(),
    }
}

/// Where a window's counts stop mattering: a sliding window's cell is weighed for one more period.
#[inline]
pub(crate) fn window_expiry(spec: &Spec, sequence: Sequence, before: Nanos) -> Nanos {
    match *spec {
        Spec::Sliding { period, .. } => period.cell(sequence).end.plus(period.length()),
        Spec::Fixed { period, .. } => period.cell(sequence).end,
        // After a clock that went back, the state's own cell is the later one, and it knows its end.
        Spec::Calendar { cell, .. } if cell.sequence < sequence => before,
        Spec::Calendar { cell, .. } => cell.end,
        Spec::Gcra { .. } => Nanos::ZERO,
    }
}

/// Decides a check of a window: the part that both states share.
#[inline]
pub(crate) fn decide_window(
    counted: Counted,
    tag: u64,
    spec: &Spec,
    cost: Cost,
    settle: Settle,
    now: Nanos,
) -> (Decision, Counted) {
    match *spec {
        Spec::Sliding { limit, period } => {
            let counted = counted.rolled_to(period.cell_at_after(now, counted.sequence).sequence);
            window::decide_sliding(counted, limit, period, cost, settle, now)
        }
        Spec::Fixed { limit, period } => {
            let counted = counted.rolled_to(period.cell_at_after(now, counted.sequence).sequence);
            let cell_end = period.cell(counted.sequence).end;
            window::decide_fixed(counted, limit, cell_end, cost, settle, now)
        }
        Spec::Calendar { limit, cell, .. } => {
            let counted = counted.rolled_to(cell.sequence);
            let cell_end = window_expiry(spec, counted.sequence, window_expires(tag));
            window::decide_fixed(counted, limit, cell_end, cost, settle, now)
        }
        Spec::Gcra { .. } => unreachable!("a window's spec was asked for"),
    }
}

/// The tag of a window's state after a charge: the same while it stays in its cell.
#[inline]
pub(crate) fn window_tag_after(tag: u64, spec: &Spec, before: Sequence, after: Sequence) -> u64 {
    if before == after && payload_of(tag) != 0 {
        return tag;
    }
    tag_with_step(window_tag(window_expiry(spec, after, window_expires(tag))), step_of(tag))
}

#[inline]
pub(crate) fn window_expires(tag: u64) -> Nanos {
    Nanos::from_millis(payload_of(tag))
}

impl LocalState {
    #[inline]
    fn counted(self) -> Counted {
        let [current, previous, sequence, _] = self.0;
        Counted { current, previous, sequence: Sequence(sequence) }
    }

    #[inline]
    fn of_window(counted: Counted, expires: Nanos) -> Self {
        LocalState([counted.current, counted.previous, counted.sequence.0, window_tag(expires)])
    }

    #[inline]
    fn tat(self) -> Tat {
        let [whole, ticks, denominator_word, _] = self.0;
        tat_of(whole, ticks, denominator_word)
    }

    #[inline]
    fn of_gcra(tat: Tat, rate: Rate) -> Self {
        LocalState([tat.whole.get(), tat.ticks, denominator_word(tat, rate), gcra_tag(rate)])
    }
}

impl State for LocalState {
    /// Nothing else knows what a lone node admitted: dropping a live state would refill its limit.
    const MAY_BE_EVICTED: bool = false;

    #[inline(always)]
    fn decide(self, spec: &Spec, cost: Cost, settle: Settle, now: Nanos) -> (Decision, Self) {
        let [_, _, denominator, tag] = self.0;
        if let Spec::Gcra { rate, burst } = *spec {
            let tat = tat_at_rate(self.tat(), rate_of(denominator, tag), rate, now);
            let (decision, tat) = gcra::decide(tat, rate, burst, cost, settle, now);
            return (decision, LocalState::of_gcra(tat, rate).with_step(self.step()));
        }
        let before = self.counted();
        let (decision, counted) = decide_window(before, tag, spec, cost, settle, now);
        // Only a charge moves a key on to its next cell.
        let after = if settle.charges(decision.is_admitted()) && cost > Cost::PEEK {
            let tag = window_tag_after(tag, spec, before.sequence, counted.sequence);
            LocalState([counted.current, counted.previous, counted.sequence.0, tag])
        } else {
            self
        };
        (decision, after)
    }

    #[inline]
    fn step(&self) -> StepId {
        step_of(self.0[3])
    }

    #[inline]
    fn with_step(self, step: StepId) -> Self {
        let [a, b, c, tag] = self.0;
        LocalState([a, b, c, tag_with_step(tag, step)])
    }

    fn carried(self, spec: &Spec, delta_ns: i64, now: Nanos) -> Self {
        if matches!(spec, Spec::Gcra { .. }) {
            let [whole, ticks, denominator, tag] = self.0;
            return LocalState([Nanos::new(whole).shifted(delta_ns).get(), ticks, denominator, tag]);
        }
        let old_now = now.shifted(delta_ns.saturating_neg());
        let current = used_before_step(self.counted(), self.expires(), spec, old_now);
        if current == 0 {
            return LocalState::default();
        }
        let sequence = match *spec {
            Spec::Sliding { period, .. } | Spec::Fixed { period, .. } => period.cell_at(now).sequence,
            Spec::Calendar { cell, .. } => cell.sequence,
            Spec::Gcra { .. } => Sequence(0),
        };
        let expires = window_expiry(spec, sequence, Nanos::ZERO);
        LocalState::of_window(Counted { current, previous: 0, sequence }, expires)
    }

    #[inline]
    fn expires(&self) -> Nanos {
        let [_, _, _, tag] = self.0;
        if is_gcra(tag) { self.tat().whole_ceil() } else { window_expires(tag) }
    }

    fn is_evictable(&self) -> bool {
        Self::MAY_BE_EVICTED
    }
}
