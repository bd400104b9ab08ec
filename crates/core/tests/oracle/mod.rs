//! An independent oracle for Tidegate's algorithms: it answers a check from a plain log of charges.
//!
//! Why: the implementation keeps little state and uses closed formulas; the oracle keeps everything
//! and follows the text of `docs/algorithms.md` literally, with waits found by search. Where the two
//! disagree on a random sequence, one of them has misread that page.
//!
//! It must never look at, import or call the implementation, and must never be "fixed" to agree
//! with it: only the page decides.
//!
//! Readings chosen where the page leaves a choice:
//! - `remaining`, `reset` and `retry_after` are all those of the state after the check, so a denied
//!   check that was charged always waits for its own charge too.
//! - A cost of 0 charges nothing: it does not make its cell "one in which something was charged".
//! - After a step the carried amount replaces everything charged before, also when it is 0.
//! - Instants and waits beyond `u64::MAX` nanoseconds are reported as `u64::MAX`.

// A harness need not use everything; what is `pub` is so for the harness that includes this folder.
#![allow(dead_code, unreachable_pub)]

mod calendar;
mod gcra;
mod integer;
mod sliding;
mod window;

#[allow(unused_imports)]
pub use calendar::{CalendarOracle, CalendarUnit};
#[allow(unused_imports)]
pub use gcra::GcraOracle;
#[allow(unused_imports)]
pub use sliding::SlidingOracle;
#[allow(unused_imports)]
pub use window::FixedOracle;

/// The answer to one check.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Verdict {
    pub allowed: bool,
    pub limit: u64,
    pub remaining: u64,
    pub reset_ns: u64,
    /// `None` means never.
    pub retry_after_ns: Option<u64>,
}

/// Whether a denied check is counted nevertheless.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Charge {
    IfAllowed,
    Always,
}

impl Charge {
    /// Whether a check with this verdict is counted.
    fn applies(self, allowed: bool) -> bool {
        allowed || self == Charge::Always
    }
}

/// "Counts saturate at 2^63 − 1."
const LARGEST_COUNT: u128 = (1 << 63) - 1;

/// Adds up costs the way the page counts them.
fn saturating_sum(costs: impl Iterator<Item = u64>) -> u64 {
    let sum: u128 = costs.map(u128::from).sum();
    sum.min(LARGEST_COUNT) as u64
}

/// `used + cost ≤ limit`, without overflow.
fn fits(used: u64, cost: u64, limit: u64) -> bool {
    u128::from(used) + u128::from(cost) <= u128::from(limit)
}

/// An instant or a wait as it is reported.
fn clamp_to_u64(nanoseconds: i128) -> u64 {
    u64::try_from(nanoseconds.max(0)).unwrap_or(u64::MAX)
}

/// The smallest number from 0 to `ceiling` that passes, if `ceiling` does.
///
/// `passes` must be false up to some number and true from there on; what was found is checked to
/// pass, and its predecessor not to.
fn smallest_passing(ceiling: u64, passes: impl Fn(u64) -> bool) -> Option<u64> {
    if passes(0) {
        return Some(0);
    }
    let mut failing = 0;
    let mut passing = ceiling.min(16);
    while !passes(passing) {
        if passing == ceiling {
            return None;
        }
        failing = passing;
        passing = passing.saturating_mul(16).min(ceiling);
    }
    while passing - failing > 1 {
        let middle = failing + (passing - failing) / 2;
        if passes(middle) {
            passing = middle;
        } else {
            failing = middle;
        }
    }
    assert!(passes(passing) && !passes(passing - 1), "the predicate is not monotone");
    Some(passing)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn search_finds_the_smallest() {
        for answer in [0, 1, 2, 15, 16, 17, 255, 256, 1_000_000_007, u64::MAX - 1, u64::MAX] {
            assert_eq!(smallest_passing(u64::MAX, |number| number >= answer), Some(answer));
            assert_eq!(smallest_passing(answer, |number| number >= answer), Some(answer));
        }
        assert_eq!(smallest_passing(41, |number| number >= 42), None);
        assert_eq!(smallest_passing(0, |_| false), None);
    }

    #[test]
    fn sums_saturate() {
        assert_eq!(saturating_sum([u64::MAX, 1].into_iter()), (1 << 63) - 1);
        assert_eq!(saturating_sum([3, 4].into_iter()), 7);
        assert!(!fits(u64::MAX, 1, u64::MAX));
        assert!(fits(u64::MAX - 1, 1, u64::MAX));
    }
}
