//! How states are packed into words: the tag that says which algorithm wrote a state, and GCRA's fractions.
//!
//! Both states, alone and shared, use the same packing, so that one can't read what the other wouldn't write.
//!
//! A tag holds the clock step under which the state was written (8 bits), a payload (55 bits) and the kind
//! (1 bit): 0 for a window, whose payload is its expiry in milliseconds, 1 for GCRA, whose payload is the
//! numerator of its interval in nanoseconds.

use crate::gcra::Tat;
use crate::limit::Rate;
use crate::time::{Nanos, StepId};

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

/// The same for a tat that was adopted from the region: the debt is the region's, and isn't forgiven here.
pub(crate) fn adopted_denominator(rate: Rate) -> u64 {
    rate.interval_denominator() | OVERDRAWN
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

/// When a window with this tag expires.
#[inline]
pub(crate) fn window_expires(tag: u64) -> Nanos {
    Nanos::from_millis(payload_of(tag))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_give_back_what_was_packed_into_them() {
        let rate = Rate::new(7, Nanos::from_secs(3)).unwrap();
        for overdrawn in [false, true] {
            let tat = Tat { whole: Nanos::from_secs(5), ticks: 3, overdrawn };
            let word = denominator_word(tat, rate);
            assert_eq!(tat_of(tat.whole.get(), tat.ticks, word), tat);
            assert_eq!(rate_of(word, gcra_tag(rate)), Some(rate));
            assert_eq!(rate_of(word & OVERDRAWN, gcra_tag(rate)), None, "never written");
        }
        assert!(tat_of(5, 3, adopted_denominator(rate)).overdrawn);
        assert_eq!(rate_of(adopted_denominator(rate), gcra_tag(rate)), Some(rate));
        let expires = Nanos::from_millis(1_800_000_000_123);
        assert_eq!(window_expires(window_tag(expires)), expires);
        assert!(is_gcra(gcra_tag(rate)) && !is_gcra(window_tag(expires)));
    }

    #[test]
    fn a_debt_is_read_at_the_rate_of_the_check() {
        let (now, fast) = (Nanos::from_secs(50), Rate::new(7, Nanos::from_secs(3)).unwrap());
        let slow = Rate::new(1, Nanos::from_secs(3)).unwrap();
        let debt = Tat { whole: Nanos::from_secs(53), ticks: 0, overdrawn: false };
        assert_eq!(tat_at_rate(debt, Some(fast), fast, now), debt);
        assert_eq!(tat_at_rate(debt, Some(fast), slow, now).whole, Nanos::from_secs(50 + 21), "seven units");
        assert_eq!(tat_at_rate(debt, None, fast, now), Tat::default(), "of another algorithm");
    }

    #[test]
    fn a_step_replaces_the_one_before_and_nothing_else() {
        let tag = gcra_tag(Rate::new(7, Nanos::from_secs(3)).unwrap());
        for step in [0, 1, 6, 0xff, 3].map(StepId) {
            let stepped = tag_with_step(tag_with_step(tag, StepId(0xa5)), step);
            assert_eq!((step_of(stepped), payload_of(stepped)), (step, payload_of(tag)));
            assert!(is_gcra(stepped));
        }
    }
}
