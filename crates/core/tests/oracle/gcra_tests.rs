//! Hand-computed examples for GCRA of the oracle, and its log compared with the page's recursion.
//!
//! It must never look at or call the implementation.

// All numbers here are known to fit.
#![allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, clippy::cast_possible_wrap)]

use super::*;
use Charge::{Always, IfAllowed};

const SECOND: u64 = 1_000_000_000;
const NOW: u64 = 1_700_000_000 * SECOND;
const LARGEST: u64 = (1 << 53) - 1;
const YEAR: u64 = 366 * 86_400 * SECOND;

fn verdict(allowed: bool, limit: u64, remaining: u64, reset: u64, retry: u64) -> Verdict {
    Verdict { allowed, limit, remaining, reset_ns: reset, retry_after_ns: Some(retry) }
}

#[test]
fn a_burst_of_ten_admits_ten_at_once_after_any_idle_time() {
    let mut oracle = GcraOracle::new();
    let mut now = NOW;
    for idle in [10, 11, 3_600, 100 * 86_400, 10] {
        for remaining in (0..10).rev() {
            let reset = now + (10 - remaining) * SECOND;
            let answer = oracle.check(1, SECOND, 10, 1, IfAllowed, now);
            assert_eq!(answer, verdict(true, 10, remaining, reset, 0));
        }
        let denied = oracle.check(1, SECOND, 10, 1, IfAllowed, now);
        assert_eq!(denied, verdict(false, 10, 0, now + 10 * SECOND, SECOND));
        let denied = oracle.check(1, SECOND, 10, 10, IfAllowed, now + 1);
        assert_eq!(denied, verdict(false, 10, 0, now + 10 * SECOND, 10 * SECOND - 1));
        now += idle * SECOND;
    }
}

#[test]
fn exact_thirds() {
    let mut oracle = GcraOracle::new();
    let mut check = |cost, offset| oracle.check(3, SECOND, 1, cost, IfAllowed, NOW + offset);
    assert_eq!(check(1, 0), verdict(true, 1, 0, NOW + 333_333_334, 0));
    assert_eq!(check(1, 0), verdict(false, 1, 0, NOW + 333_333_334, 333_333_334));
    assert_eq!(check(1, 333_333_333), verdict(false, 1, 0, NOW + 333_333_334, 1));
    assert_eq!(check(1, 333_333_334), verdict(true, 1, 0, NOW + 666_666_668, 0));
    let mut oracle = GcraOracle::new();
    let mut check = |cost, offset| oracle.check(3, SECOND, 3, cost, IfAllowed, NOW + offset);
    assert_eq!(check(1, 0), verdict(true, 3, 2, NOW + 333_333_334, 0));
    assert_eq!(check(1, 0), verdict(true, 3, 1, NOW + 666_666_667, 0));
    assert_eq!(check(1, 0), verdict(true, 3, 0, NOW + SECOND, 0));
    assert_eq!(check(3, SECOND - 1), verdict(false, 3, 2, NOW + SECOND, 1));
    assert_eq!(check(3, SECOND), verdict(true, 3, 0, NOW + 2 * SECOND, 0));
}

#[test]
fn seven_hundred_thousand_per_second() {
    // One interval is 10000 / 7 nanoseconds.
    let mut oracle = GcraOracle::new();
    let mut check = |cost, offset| oracle.check(700_000, SECOND, 7, cost, IfAllowed, NOW + offset);
    assert_eq!(check(1, 0), verdict(true, 7, 6, NOW + 1_429, 0));
    assert_eq!(check(6, 0), verdict(true, 7, 0, NOW + 10_000, 0));
    assert_eq!(check(1, 1_428), verdict(false, 7, 0, NOW + 10_000, 1));
    assert_eq!(check(1, 1_429), verdict(true, 7, 0, NOW + 11_429, 0));
    let mut oracle = GcraOracle::new();
    let answer = oracle.check(700_000, SECOND, 700_000, 700_000, IfAllowed, NOW);
    assert_eq!(answer, verdict(true, 700_000, 0, NOW + SECOND, 0));
}

#[test]
fn more_than_the_burst_never_passes() {
    let mut oracle = GcraOracle::new();
    let answer = oracle.check(1, SECOND, 10, 11, IfAllowed, NOW);
    let expected = Verdict { retry_after_ns: None, ..verdict(false, 10, 10, NOW, 0) };
    assert_eq!(answer, expected);
}

#[test]
fn charge_always_goes_below_empty() {
    let mut oracle = GcraOracle::new();
    let answer = oracle.check(1, SECOND, 10, 25, Always, NOW);
    assert_eq!((answer.allowed, answer.reset_ns), (false, NOW + 25 * SECOND));
    // A peek charged always changes nothing, and is denied.
    let answer = oracle.check(1, SECOND, 10, 0, Always, NOW);
    assert_eq!(answer, verdict(false, 10, 0, NOW + 25 * SECOND, 15 * SECOND));
    // What was overdrawn is not forgiven: 25 spent, 2 asked, 10 at once.
    let answer = oracle.check(1, SECOND, 10, 2, IfAllowed, NOW);
    assert_eq!(answer, verdict(false, 10, 0, NOW + 25 * SECOND, 17 * SECOND));
    // Once it is paid back, a lowered burst makes the bucket just empty.
    oracle.check(1, SECOND, 10, 0, IfAllowed, NOW + 15 * SECOND);
    let answer = oracle.check(1, SECOND, 5, 2, IfAllowed, NOW + 15 * SECOND);
    assert_eq!(answer, verdict(false, 5, 0, NOW + 20 * SECOND, 2 * SECOND));
}

#[test]
fn more_than_empty_by_a_second_is_left_alone() {
    for (extra, allowed, reset) in [(0, false, NOW + 11 * SECOND), (1, true, NOW + 10 * SECOND - 1)] {
        let mut oracle = GcraOracle::new();
        oracle.check(1, SECOND, 11, 11, IfAllowed, NOW);
        // The burst was lowered by one, and the clock has gone back by `extra` nanoseconds.
        let answer = oracle.check(1, SECOND, 10, 0, IfAllowed, NOW - extra);
        assert_eq!((answer.allowed, answer.reset_ns), (allowed, reset));
        assert_eq!(answer.retry_after_ns, Some(if extra == 0 { SECOND } else { 0 }));
    }
}

#[test]
fn a_changed_rate_keeps_what_was_spent() {
    let mut oracle = GcraOracle::new();
    oracle.check(1, SECOND, 10, 4, IfAllowed, NOW);
    // 4 spent at one per second are 4 spent at three per second: 4 / 3 seconds.
    let answer = oracle.check(3, SECOND, 10, 0, IfAllowed, NOW);
    assert_eq!(answer, verdict(true, 10, 6, NOW + 1_333_333_334, 0));
    // The same rate in other words is no change.
    let answer = oracle.check(180, 60 * SECOND, 10, 0, IfAllowed, NOW);
    assert_eq!(answer, verdict(true, 10, 6, NOW + 1_333_333_334, 0));
    // Half a second later 2.5 are left; at one per two nanoseconds that is 5 ns.
    let answer = oracle.check(1, 2, 10, 0, IfAllowed, NOW + SECOND / 2);
    assert_eq!(answer, verdict(true, 10, 7, NOW + SECOND / 2 + 5, 0));
    // 5 ns of 2 ns each at one per nanosecond are 2.5 ns, rounded up to 3 ns.
    let answer = oracle.check(1, 1, 10, 0, IfAllowed, NOW + SECOND / 2);
    assert_eq!(answer, verdict(true, 10, 7, NOW + SECOND / 2 + 3, 0));
}

#[test]
fn a_rate_changed_when_nothing_is_owed_rounds_tat_up_to_a_nanosecond() {
    let mut oracle = GcraOracle::new();
    oracle.check(3, SECOND, 10, 1, IfAllowed, NOW);
    oracle.check(7, SECOND, 10, 0, IfAllowed, NOW + SECOND);
    // The clock has gone back; tat is NOW + 1 / 3 s, rounded up to a nanosecond.
    let answer = oracle.check(7, SECOND, 10, 7, IfAllowed, NOW);
    // 7 intervals of 1 / 7 s after it.
    assert_eq!(answer, verdict(true, 10, 0, NOW + 1_333_333_334, 0));
    // 1.333333334 s + 1 / 7 s − 10 / 7 s, rounded up.
    assert_eq!(oracle.check(7, SECOND, 10, 1, IfAllowed, NOW).retry_after_ns, Some(47_619_049));
}

#[test]
fn steps_move_tat() {
    let mut oracle = GcraOracle::new();
    oracle.check(3, SECOND, 10, 10, IfAllowed, NOW);
    oracle.check(3, SECOND, 5, 0, Always, NOW);
    oracle.step(-(NOW as i64), 0);
    oracle.step(77, 77);
    let answer = oracle.check(3, SECOND, 10, 1, IfAllowed, 77);
    assert_eq!(answer, verdict(false, 10, 0, 77 + 3_333_333_334, 333_333_334));
}

#[test]
fn the_largest_numbers_are_exact_or_clamped() {
    let mut oracle = GcraOracle::new();
    let answer = oracle.check(LARGEST, YEAR, LARGEST, LARGEST, IfAllowed, NOW);
    assert_eq!(answer, verdict(true, LARGEST, 0, NOW + YEAR, 0));
    let answer = oracle.check(1, YEAR, LARGEST, 1, IfAllowed, NOW);
    assert_eq!(answer, verdict(false, LARGEST, 0, u64::MAX, YEAR));
    let answer = oracle.check(LARGEST, 1, LARGEST, 1, IfAllowed, NOW);
    assert_eq!(answer, verdict(false, LARGEST, 0, NOW + 1, 1));
    let answer = oracle.check(LARGEST - 1, 1, LARGEST - 1, 0, Always, 0);
    // tat is NOW + (LARGEST / (LARGEST − 1)) ns at a clock gone back to 0, then rescaled.
    assert!(!answer.allowed);
    oracle.check(3, YEAR, LARGEST, 0, Always, 0);
    assert_eq!(oracle.check(3, YEAR, 9, 1, IfAllowed, 0).reset_ns, 3 * YEAR);
}

/// The page's recursion, for one rate and without empty buckets: a count of 1 / count ns.
#[test]
fn the_log_agrees_with_the_recursion() {
    let mut seed = 7_u64;
    let mut random = move |bound: u64| {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (seed >> 33) % bound
    };
    for (count, period, burst) in [(3, 1_000, 10), (7, 1, 5), (1, 999, 3), (10, 4, 100)] {
        let mut oracle = GcraOracle::new();
        let interval = Interval::new(period, count);
        let mut tat = i128::MIN;
        let mut now = 10_000_i128;
        for _ in 0..20_000 {
            now += i128::from(random(period * 4 / count + 3)) - i128::from(random(9) / 8);
            let cost = random(burst / 3 + 2);
            let charge = if random(50) == 0 { Always } else { IfAllowed };
            let answer = oracle.check(count, period, burst, cost, charge, now as u64);
            let scaled_now = now * i128::from(interval.count);
            let one = i128::from(interval.period);
            let after = tat.max(scaled_now) + i128::from(cost) * one;
            assert_eq!(answer.allowed, after - scaled_now <= i128::from(burst) * one);
            if charge.applies(answer.allowed) && cost > 0 {
                tat = after;
            }
            let lead = tat.max(scaled_now) - scaled_now;
            let remaining = (i128::from(burst) * one - lead).div_euclid(one).max(0);
            assert_eq!(i128::from(answer.remaining), remaining);
            let reset = -(-tat.max(scaled_now)).div_euclid(i128::from(interval.count));
            assert_eq!(i128::from(answer.reset_ns), reset);
        }
    }
}
