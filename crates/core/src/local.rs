//! The state of a key on a node that is alone: 32 bytes.
//!
//! The algorithm is part of a key's identity, so a state is always read by the algorithm that wrote it:
//! four words serve windows and GCRA alike, and the last one says which it was.

use crate::ask::AskReason;
use crate::decision::Decision;
use crate::gcra::{self, Tat};
use crate::item::Item;
use crate::limit::{Cost, Rate, Spec};
use crate::packed::{
    denominator_word, gcra_tag, is_gcra, rate_of, step_of, tag_with_step, tat_at_rate, tat_of,
    window_expires, window_tag,
};
use crate::state::{
    PublishUrgency, State, decide_window, landing_cell, used_before_step, window_expiry, window_tag_after,
};
use crate::time::{ClockStep, Nanos, Period, Sequence, StepId};
use crate::window::{COUNT_MAX, WindowCounts};

/// | word | window | GCRA |
/// |---|---|---|
/// | 0 | current | tat, whole nanoseconds |
/// | 1 | previous | tat, ticks below a nanosecond |
/// | 2 | sequence | overdrawn (1 bit), the interval's denominator |
/// | 3 | tag: expiry | tag: the interval's numerator |
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LocalState([u64; 4]);

impl LocalState {
    /// What `from_words` reads, to be kept where this process ends.
    pub const fn to_words(self) -> [u64; 4] {
        self.0
    }

    /// `None` for words that no state has: whatever was kept may have been changed since.
    pub fn from_words(words: [u64; 4]) -> Option<Self> {
        let state = LocalState(words);
        let [first, second, third, tag] = words;
        let is_sound = if is_gcra(tag) {
            let rate = rate_of(third, tag)?;
            let numerator = rate.interval_numerator_ns();
            numerator <= Period::MAX.get()
                && rate.interval_denominator() <= numerator
                && second < rate.interval_denominator()
        } else {
            first <= COUNT_MAX && second <= COUNT_MAX
        };
        is_sound.then_some(state)
    }

    #[inline]
    fn counted(self) -> WindowCounts {
        let [current, previous, sequence, _] = self.0;
        WindowCounts { current, previous, sequence: Sequence(sequence) }
    }

    /// A window's counts; `None` for GCRA. To look at, not to decide by.
    pub(crate) fn window(&self, spec: &Spec) -> Option<WindowCounts> {
        (!matches!(spec, Spec::Gcra { .. })).then(|| self.counted())
    }

    #[inline]
    fn of_window(counted: WindowCounts, expires: Nanos) -> Self {
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
    const SHARED: bool = false;

    #[inline(always)]
    fn decide(&mut self, item: &Item, _live_nodes: u32, now: Nanos) -> (Decision, Option<AskReason>) {
        let (spec, cost, settle) = (&item.spec, item.cost, item.charge_mode());
        let [_, _, denominator, tag] = self.0;
        if let Spec::Gcra { rate, burst } = *spec {
            let tat = tat_at_rate(self.tat(), rate_of(denominator, tag), rate, now);
            let (decision, tat) = gcra::decide(tat, rate, burst, cost, settle, now);
            *self = LocalState::of_gcra(tat, rate).with_step(self.step());
            return (decision, None);
        }
        let before = self.counted();
        let (decision, counted) = decide_window(before, tag, spec, cost, settle, now);
        // Only a charge moves a key on to its next cell.
        if settle.charges(decision.is_admitted()) && cost > Cost::PEEK {
            let tag = window_tag_after(tag, spec, before.sequence, counted.sequence);
            *self = LocalState([counted.current, counted.previous, counted.sequence.0, tag]);
        }
        (decision, None)
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

    fn carried(self, spec: &Spec, step: ClockStep) -> Self {
        if matches!(spec, Spec::Gcra { .. }) {
            let [whole, ticks, denominator, tag] = self.0;
            return LocalState([Nanos::new(whole).shifted(step.delta_ns).get(), ticks, denominator, tag]);
        }
        let current = used_before_step(self.counted(), self.expires(), spec, step.left_at());
        match landing_cell(spec, step) {
            Some(sequence) if current > 0 => {
                let expires = window_expiry(spec, sequence, Nanos::ZERO);
                LocalState::of_window(WindowCounts { current, previous: 0, sequence }, expires)
            }
            _ => LocalState::default(),
        }
    }

    #[inline]
    fn expires(&self) -> Nanos {
        let [_, _, _, tag] = self.0;
        if is_gcra(tag) { self.tat().whole_ceil() } else { window_expires(tag) }
    }

    fn is_evictable(&self) -> bool {
        // Nothing else knows what a lone node admitted: dropping a live state would refill its limit.
        false
    }

    #[inline]
    fn publish(&self) -> PublishUrgency {
        PublishUrgency::Nothing
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::identity::KeyId;
    use crate::limit::{Burst, Limit};

    const NOW: Nanos = Nanos::from_secs(1_000_000);

    fn charged(spec: Spec) -> LocalState {
        let mut state = LocalState::default();
        state.decide(&Item::new(KeyId::from_hash(1), spec, Cost::ONE), 1, NOW);
        state
    }

    fn specs() -> [Spec; 2] {
        let period = Period::new(Nanos::from_secs(60)).unwrap();
        let rate = Rate::new(7, Nanos::from_secs(3)).unwrap();
        [
            Spec::Sliding { limit: Limit::new(5).unwrap(), period },
            Spec::Gcra { rate, burst: Burst::new(4).unwrap() },
        ]
    }

    #[test]
    fn words_are_read_back_as_they_were_and_only_if_some_state_has_them() {
        for state in [LocalState::default(), charged(specs()[0]), charged(specs()[1])] {
            assert_eq!(LocalState::from_words(state.to_words()), Some(state));
        }
        let is_sound = |words| LocalState::from_words(words).is_some();
        assert!(is_sound([COUNT_MAX, COUNT_MAX, 7, 0]));
        assert!(!is_sound([COUNT_MAX + 1, 0, 7, 0]) && !is_sound([0, COUNT_MAX + 1, 7, 0]));
        let bucket = |ticks, denominator, numerator: u64| [5, ticks, denominator, numerator << 1 | 1];
        assert!(is_sound(bucket(6, 7, 8)) && !is_sound(bucket(7, 7, 8)) && !is_sound(bucket(8, 7, 8)));
        assert!(is_sound(bucket(0, 1, 1)) && !is_sound(bucket(0, 8, 7)) && !is_sound(bucket(0, 0, 7)));
        let longest = Period::MAX.get();
        assert!(is_sound(bucket(0, 1, longest)) && !is_sound(bucket(0, 1, longest + 1)));
    }

    #[test]
    fn a_step_that_lands_where_nothing_is_used_any_more_leaves_nothing() {
        let state = charged(specs()[0]);
        let late = NOW.plus(Nanos::from_secs(600));
        let step = ClockStep { delta_ns: 3_600_000_000_000, lands_at: late.shifted(3_600_000_000_000) };
        assert_eq!(state.carried(&specs()[0], step), LocalState::default());
    }

    #[test]
    fn a_lone_nodes_live_state_is_known_to_nobody_else() {
        assert!(specs().iter().all(|spec| !charged(*spec).is_evictable()));
        assert_eq!(LocalState::begun(StepId(3), true).step(), StepId(3));
    }
}
