//! Shares against a naive oracle, and that parts never sum to more than their whole.

use super::*;
use crate::limit::Rate;
use crate::time::{Nanos, Period};

/// SplitMix64: a failing seed can be run again.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }
}

/// One unit at a time to whoever has the least of those who want more; then to everybody in turn.
fn naive_fill(total: u64, wants: &[u64]) -> Vec<u64> {
    let mut shares = vec![0; wants.len()];
    for _ in 0..total {
        let hungry = (0..wants.len()).filter(|index| shares[*index] < wants[*index]);
        match hungry.min_by_key(|index| shares[*index]) {
            Some(index) => shares[index] += 1,
            None => break,
        }
    }
    let mut left = total - shares.iter().sum::<u64>();
    while left > 0 && !shares.is_empty() {
        for share in &mut shares {
            let more = left.min(1);
            *share += more;
            left -= more;
        }
    }
    shares
}

#[test]
fn shares_are_those_of_pouring_unit_by_unit() {
    for seed in 0..4_000 {
        let mut random = Random(seed);
        let members = 1 + random.below(7);
        let total = random.below(400);
        let wants: Vec<u64> = (0..members).map(|_| random.below(250)).collect();
        let (shares, naive) = (fill(total, &wants), naive_fill(total, &wants));
        assert_eq!(shares.iter().sum::<u64>(), total, "seed {seed}");
        let close = shares.iter().zip(&naive).all(|(share, naive)| share.abs_diff(*naive) <= 1);
        assert!(close, "seed {seed}: {wants:?} of {total}: {shares:?}, poured {naive:?}");
    }
}

#[test]
fn who_wants_little_gets_it_and_the_others_share_the_rest() {
    assert_eq!(fill(100, &[10, 10, 80]), [10, 10, 80]);
    assert_eq!(fill(100, &[10, 200, 300]), [10, 45, 45]);
    assert_eq!(fill(100, &[10, 0, 0]), [40, 30, 30], "what nobody wants is room to grow");
    assert_eq!(fill(100, &[u64::MAX, u64::MAX, u64::MAX]), [33, 33, 34]);
    assert_eq!(fill(5, &[]), [0; 0]);
}

#[test]
fn apportioned_parts_sum_to_the_whole_and_are_off_by_less_than_one() {
    for seed in 0..4_000 {
        let mut random = Random(seed);
        let total = if seed % 3 == 0 { random.next() >> 11 } else { random.below(50) };
        let weights: Vec<u64> = (0..1 + random.below(9)).map(|_| random.below(1_000_000_000)).collect();
        let parts = apportion(total, &weights);
        let sum: u64 = weights.iter().sum();
        if sum == 0 {
            continue;
        }
        assert_eq!(parts.iter().sum::<u64>(), total, "seed {seed}");
        for (part, weight) in parts.iter().zip(&weights) {
            let exact = u128::from(total) * u128::from(*weight);
            let lower = exact / u128::from(sum);
            assert!(
                (lower..=lower + 1).contains(&u128::from(*part)),
                "seed {seed}: {parts:?} of {weights:?}"
            );
        }
    }
    assert_eq!(apportion(10, &[1, 1, 1]), [4, 3, 3]);
    assert_eq!(apportion(10, &[0, 0]), [0, 0]);
}

#[test]
fn even_parts_sum_to_the_whole() {
    for members in 1..12 {
        for amount in [0, 1, 7, 100, 1 << 53] {
            let whole = SliceSize::whole(amount);
            let sum = (0..members)
                .map(|index| whole.even(index, members))
                .fold(SliceSize::NOTHING, SliceSize::plus);
            assert_eq!(sum, whole, "{members} members");
        }
    }
}

#[test]
fn one_who_is_alone_in_asking_gets_five_sixths_of_the_rest_of_the_world() {
    for members in 2..60 {
        let others = u64::from(floor_parts(members)) * (members as u64 - 1);
        assert!(others <= u64::from(PARTS) / 5, "{members} members");
        assert!(floor_parts(members) > 0);
    }
    assert_eq!(floor_parts(1), PARTS / 10);
}

#[test]
fn cut_limits_never_sum_to_more_than_the_limit_also_after_it_changed() {
    for seed in 0..3_000 {
        let mut random = Random(seed);
        let whole = 1 + random.below(1_000);
        let members = 1 + usize::try_from(random.below(6)).unwrap();
        let parts: Vec<u64> = fill(u64::from(PARTS), &vec![random.below(1_000_000_000); members]);
        let amounts = apportion(whole, &parts);
        let number = if seed % 2 == 0 { whole } else { random.below(3_000) };
        let period = Nanos::from_millis(1 + random.below(100_000_000));
        let rate = Rate::nearest(1 + random.below(1 << 40), period);
        let gcra = Spec::Gcra { rate, burst: Burst::new(number).unwrap() };
        let sliding = Spec::Sliding {
            limit: Limit::new(number).unwrap(),
            period: Period::nearest(Nanos::from_secs(9)),
        };
        for spec in [gcra, sliding] {
            let cuts: Vec<Spec> = parts
                .iter()
                .zip(&amounts)
                .map(|(part, amount)| SliceSize {
                    amount: *amount,
                    rate_parts: u32::try_from(*part).unwrap(),
                })
                .map(|size| {
                    spec.apply(lease(size, whole).in_force(number, SliceSize::whole(number), Nanos::ZERO))
                })
                .collect();
            let sum: u64 = cuts.iter().map(Spec::shown_limit).sum();
            assert!(sum <= number, "seed {seed}: {sum} of {number}");
            assert!(number != whole || matches!(spec, Spec::Gcra { .. }) || sum == number, "seed {seed}");
            let per_year = |rate: Rate| {
                let year = u128::from(Period::MAX.get()) * u128::from(rate.interval_denominator());
                year / u128::from(rate.interval_numerator_ns())
            };
            if let Spec::Gcra { .. } = spec {
                let rates = cuts.iter().filter_map(|cut| match cut {
                    Spec::Gcra { rate, burst } if burst.get() > 0 => Some(per_year(*rate)),
                    _ => None,
                });
                assert!(rates.sum::<u128>() <= per_year(rate) + 1, "seed {seed}");
            }
        }
    }
}

#[test]
fn a_part_of_another_whole_is_never_less_than_what_is_enforced() {
    for (amount, before, now) in [(3, 10, 20), (3, 10, 5), (1, 3, 100), (7, 7, 1), (5, 0, 9)] {
        let size = SliceSize { amount, rate_parts: 5 };
        let enforced = lease(size, before).in_force(now, SliceSize::whole(now), Nanos::ZERO);
        assert_eq!(enforced, size.scaled_down(before, now));
        assert!(size.of_other_whole(before, now).amount >= enforced.amount);
        let even = SliceSize::whole(now).even(0, 4);
        let capped = lease(size, before).in_force(now, even, Nanos::ZERO);
        assert_eq!(capped, if before == now { size } else { enforced.at_most(even) });
    }
}

fn lease(size: SliceSize, whole: u64) -> Lease {
    Lease { size, whole, until: Nanos::from_secs(10), rises: Nanos::from_secs(30) }
}

#[test]
fn a_lease_is_in_force_then_capped_by_the_even_part_then_gone() {
    let even = SliceSize::whole(90).even(1, 3);
    for (amount, parts) in [(80, 800_000_000), (10, 100_000_000)] {
        let size = SliceSize { amount, rate_parts: parts };
        let at = |secs| lease(size, 90).in_force(90, even, Nanos::from_secs(secs));
        assert_eq!((at(0), at(10)), (size, size));
        assert_eq!((at(11), at(30)), (size.at_most(even), size.at_most(even)));
        assert_eq!(at(31), even);
    }
}

#[test]
fn a_lease_by_another_clock_lasts_as_long_and_what_is_over_stays_over() {
    let (theirs, ours) = (Nanos::from_secs(8), Nanos::from_secs(1_000));
    let moved = lease(SliceSize::NOTHING, 1).by_clock(theirs, ours);
    assert_eq!((moved.until, moved.rises), (Nanos::from_secs(1_002), Nanos::from_secs(1_022)));
    let over = lease(SliceSize::NOTHING, 1).by_clock(Nanos::from_secs(10), ours);
    assert_eq!((over.until, over.rises), (Nanos::ZERO, Nanos::from_secs(1_020)));
}

#[test]
fn sizes_are_compared_in_both_of_their_parts() {
    let size = |amount, rate_parts| SliceSize { amount, rate_parts };
    let (one, other) = (size(5, 20), size(7, 10));
    assert_eq!((one.at_least(other), one.at_most(other)), (size(7, 20), size(5, 10)));
    assert_eq!((one.minus(other), other.minus(one)), (size(0, 10), size(2, 0)));
    assert!(one.fits(one) && one.fits(size(5, 21)) && one.fits(size(6, 20)));
    assert!(!one.fits(other) && !other.fits(one));
    let whole = SliceSize::whole(11);
    assert_eq!(whole.even_at_most(3), whole.even(0, 3));
    assert!((0..3).all(|index| whole.even(index, 3).fits(whole.even_at_most(3))));
}

#[test]
fn a_floor_is_as_high_as_all_three_bounds_allow() {
    for members in 1..=100_u32 {
        let bounds = [PARTS / 10, PARTS / members / 2, PARTS / 6 / (members - 1).max(1)];
        assert_eq!(Some(&floor_parts(members as usize)), bounds.iter().min(), "{members}");
    }
}

#[test]
fn what_is_left_goes_to_the_largest_remainders() {
    assert_eq!(apportion(7, &[6, 1, 3]), [4, 1, 2], "4.2, 0.7 and 2.1");
    assert_eq!(apportion(2, &[1, 1, 1]), [1, 1, 0], "the first of equal ones first");
}
