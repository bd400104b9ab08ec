//! Hand-computed examples for the sliding window of the oracle, and its search compared with
//! trying every nanosecond.
//!
//! It must never look at or call the implementation.

use super::*;
use Charge::{Always, IfAllowed};

const PERIOD: u64 = 60_000_000_000;
const START: u64 = 1_000 * PERIOD;

/// An oracle with `current` and `previous` charged around `START`.
fn prepared(current: u64, previous: u64) -> SlidingOracle {
    let mut oracle = SlidingOracle::new(PERIOD);
    oracle.check(1, previous, Always, START - 1);
    oracle.check(1, current, Always, START);
    oracle
}

fn decide(current: u64, previous: u64, percent: u64, cost: u64, limit: u64) -> Verdict {
    prepared(current, previous).check(limit, cost, IfAllowed, START + PERIOD / 100 * percent)
}

#[test]
fn decision_table() {
    let verdict = decide(9, 0, 0, 1, 10);
    assert_eq!((verdict.allowed, verdict.remaining), (true, 0));
    let verdict = decide(10, 0, 0, 0, 10);
    assert_eq!((verdict.allowed, verdict.remaining), (true, 0));
    assert!(!decide(10, 0, 0, 1, 10).allowed);
    assert!(!decide(5, 10, 50, 1, 10).allowed);
    let verdict = decide(5, 10, 99, 1, 10);
    assert_eq!((verdict.allowed, verdict.remaining), (true, 4));
    let verdict = decide(0, 0, 0, 100, 10);
    assert_eq!((verdict.allowed, verdict.remaining, verdict.retry_after_ns), (false, 10, None));
    assert_eq!(verdict.reset_ns, START);
}

#[test]
fn waits_within_the_cell() {
    // Used is 5 + floor(10 × left / 60 s): it falls to 9 one nanosecond after half the cell.
    let verdict = decide(5, 10, 50, 1, 10);
    assert_eq!(verdict.retry_after_ns, Some(1));
    // The 5 of this cell are gone when 5 × left < 60 s: one nanosecond after 48 s of the next.
    assert_eq!(verdict.reset_ns, START + PERIOD + 48_000_000_000 + 1);
}

#[test]
fn waits_into_the_next_cell() {
    // 10 are used up to and at the next start; 9 are used one nanosecond later.
    assert_eq!(decide(10, 0, 0, 1, 10).retry_after_ns, Some(PERIOD + 1));
    // A cost equal to the limit waits until nothing is used: 10 × left < 60 s.
    assert_eq!(decide(10, 0, 0, 10, 10).retry_after_ns, Some(PERIOD + 54_000_000_000 + 1));
    // A single unit weighs nothing from the first nanosecond after its cell.
    assert_eq!(decide(1, 0, 0, 1, 1).retry_after_ns, Some(PERIOD + 1));
}

#[test]
fn charge_always_counts_denied_checks() {
    let mut oracle = prepared(10, 0);
    let verdict = oracle.check(10, 5, Always, START);
    assert_eq!((verdict.allowed, verdict.remaining), (false, 0));
    // 15 × left < 6 × 60 s: one nanosecond after 36 s of the next cell.
    assert_eq!(verdict.retry_after_ns, Some(PERIOD + 36_000_000_000 + 1));
    let peek = oracle.check(15, 0, IfAllowed, START);
    assert_eq!((peek.allowed, peek.remaining), (true, 0));
}

#[test]
fn clock_gone_back_is_held_at_the_latest_cell() {
    let mut oracle = prepared(5, 4);
    let verdict = oracle.check(10, 2, IfAllowed, START - 2 * PERIOD);
    assert_eq!((verdict.allowed, verdict.remaining), (false, 1));
    // At the start 9 are used, one nanosecond later 8.
    assert_eq!(verdict.retry_after_ns, Some(2 * PERIOD + 1));
    let verdict = oracle.check(10, 1, IfAllowed, START - 2 * PERIOD);
    assert_eq!((verdict.allowed, verdict.remaining), (true, 0));
    // 6 are now charged in the cell of START.
    assert_eq!(verdict.reset_ns, START + PERIOD + 50_000_000_000 + 1);
    let peek = oracle.check(10, 0, IfAllowed, START + PERIOD);
    assert_eq!(peek.remaining, 4);
}

#[test]
fn peeks_do_not_move_the_latest_cell() {
    let mut oracle = prepared(5, 0);
    oracle.check(10, 0, IfAllowed, START + 5 * PERIOD);
    assert_eq!(oracle.check(10, 0, IfAllowed, START).remaining, 5);
}

#[test]
fn steps_carry_what_was_used() {
    let mut oracle = prepared(5, 10);
    // At half the cell in the old time, 10 were used.
    let now = START + PERIOD / 2 - 6_000_000_000_000;
    oracle.step(-6_000_000_000_000, now);
    let verdict = oracle.check(12, 3, IfAllowed, now);
    assert_eq!((verdict.allowed, verdict.remaining), (false, 2));
    assert_eq!(verdict.reset_ns, START - 6_000_000_000_000 + PERIOD + 54_000_000_000 + 1);
    // Carried once only: the cell after the next has forgotten it.
    assert_eq!(oracle.check(12, 12, IfAllowed, now + 2 * PERIOD).remaining, 0);
}

#[test]
fn large_numbers_are_exact() {
    let largest = (1 << 53) - 1;
    let period = 366 * 86_400_000_000_000;
    let mut oracle = SlidingOracle::new(period);
    assert!(oracle.check(largest, largest, IfAllowed, 50 * period).allowed);
    let peek = oracle.check(largest, 0, IfAllowed, 51 * period + 4);
    // floor(largest × (period − 4) / period): 4 × largest / period is 1.14.
    assert_eq!(peek.remaining, 2);
}

#[test]
fn the_search_agrees_with_trying_every_nanosecond() {
    for period in 1..9 {
        for (current, previous, cost) in (0..6).flat_map(|current| {
            (0..6).flat_map(move |previous| (0..5).map(move |cost| (current, previous, cost)))
        }) {
            let start = 10 * period;
            let mut oracle = SlidingOracle::new(period);
            oracle.check(1, previous, Always, start - 1);
            oracle.check(1, current, Always, start);
            for now in start - period..start + 3 * period {
                let used = |wait: u64| oracle.used_at(i128::from(now + wait));
                let until_fit = (0..).find(|wait| used(*wait) + cost <= 4);
                let until_empty = (0..).find(|wait| used(*wait) == 0);
                let found = oracle.earliest(i128::from(now), |used| fits(used, cost, 4));
                assert_eq!(Some(clamp_to_u64(found) - now), until_fit);
                let found = oracle.earliest(i128::from(now), |used| used == 0);
                assert_eq!(Some(clamp_to_u64(found) - now), until_empty);
            }
        }
    }
}
