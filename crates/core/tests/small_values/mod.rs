//! The arithmetic of windows and GCRA over all small values, and at the bounds of their types.
//!
//! Every combination within a scope, against the independent oracle: what random sequences meet by chance is met here
//! for certain. Where time or counts end, nothing may wrap or panic (overflow is checked in tests), and what is
//! answered must still be what a caller may rely on.

use crate::oracle::{FixedOracle, GcraOracle, SlidingOracle, Verdict as Expected};
use crate::{as_expected, oracle_charge};
use tidegate_core::limit::NUMBER_MAX;
use tidegate_core::state::State;
use tidegate_core::{
    Burst, Charge, Cost, Item, KeyId, Limit, LocalState, Nanos, Period, Rate, SharedState, Spec, Verdict,
};

const SECOND: u64 = Nanos::PER_SECOND;
/// The start of a cell of every period that is used here.
const START: u64 = 1_700_000_000 * SECOND;

fn item(spec: Spec, cost: u64, charge: Charge) -> Item {
    Item { charge, ..Item::new(KeyId::from_hash(1), spec, Cost::new(cost).unwrap()) }
}

/// Decides on both kinds of state, which must agree with the oracle and so with each other.
#[derive(Clone, Copy, Default)]
struct Both(LocalState, SharedState);

impl Both {
    fn check(&mut self, item: &Item, now: u64, expected: Expected, what: impl Fn() -> String) {
        let (alone, _) = self.0.decide(item, 1, Nanos::new(now));
        assert_eq!(comparable(as_expected(&alone)), comparable(expected), "alone: {}", what());
        let (shared, _) = self.1.decide(item, 1, Nanos::new(now));
        assert_eq!(comparable(as_expected(&shared)), comparable(expected), "shared: {}", what());
    }
}

/// A debt that outlasts time, five centuries from now, is kept up to its end: how much longer it is isn't known.
fn comparable(verdict: Expected) -> Expected {
    if verdict.reset_ns < u64::MAX {
        return verdict;
    }
    Expected { retry_after_ns: verdict.retry_after_ns.map(|wait| wait.min(1)), ..verdict }
}

/// A window that has admitted `previous` and `current`, and one check of it.
#[derive(Clone, Copy, Debug)]
struct Case {
    previous: u64,
    current: u64,
    limit: u64,
    cost: u64,
    charge: Charge,
    /// After the start of the current cell.
    elapsed: u64,
}

/// Everything up to six, at every eighth of the cell and a nanosecond to either side of it, in it and after it.
fn small_cases(period: u64, mut check: impl FnMut(Case)) -> u64 {
    let mut cases = 0;
    let eighths = (0..=24).map(|eighth| period / 8 * eighth);
    let instants: Vec<u64> = eighths.flat_map(|at| [at.saturating_sub(1), at, at + 1]).collect();
    for number in 0..6_u64.pow(4) {
        let digit = |place: u32| number / 6_u64.pow(place) % 6;
        let (previous, current, limit, cost) = (digit(0), digit(1), digit(2), digit(3));
        for charge in [Charge::IfAdmitted, Charge::Always] {
            for elapsed in instants.iter().copied() {
                cases += 1;
                check(Case { previous, current, limit, cost, charge, elapsed });
            }
        }
    }
    cases
}

#[test]
fn sliding_windows_of_all_small_numbers() {
    let mut cases = 0;
    for length in [SECOND, SECOND + 7] {
        let period = Period::new(Nanos::new(length)).unwrap();
        let start = START / length * length;
        cases += small_cases(length, |case| {
            let spec = |limit| Spec::Sliding { limit: Limit::new(limit).unwrap(), period };
            let mut oracle = SlidingOracle::new(length);
            let mut both = Both::default();
            let mut charged = |cost, charge, limit, now| {
                let expected = oracle.check(limit, cost, oracle_charge(charge), now);
                both.check(&item(spec(limit), cost, charge), now, expected, || format!("{case:?}"));
            };
            charged(case.previous, Charge::Always, 0, start - 1);
            charged(case.current, Charge::Always, 0, start);
            charged(case.cost, case.charge, case.limit, start + case.elapsed);
        });
    }
    println!("{cases} cases");
    assert!(cases > 300_000);
}

#[test]
fn fixed_windows_of_all_small_numbers() {
    let period = Period::new(Nanos::new(SECOND)).unwrap();
    let cases = small_cases(SECOND, |case| {
        let spec = |limit| Spec::Fixed { limit: Limit::new(limit).unwrap(), period };
        let mut oracle = FixedOracle::new(SECOND);
        let mut both = Both::default();
        let mut charged = |cost, charge, limit, now| {
            let expected = oracle.check(limit, cost, oracle_charge(charge), now);
            both.check(&item(spec(limit), cost, charge), now, expected, || format!("{case:?}"));
        };
        charged(case.previous, Charge::Always, 0, START - 1);
        charged(case.current, Charge::Always, 0, START);
        charged(case.cost, case.charge, case.limit, START + case.elapsed);
    });
    println!("{cases} cases");
    assert!(cases > 150_000);
}

/// Intervals that are whole, and that are fractions in lowest terms; two checks, a while apart.
#[test]
fn buckets_of_all_small_numbers() {
    let mut cases = 0_u64;
    for (count, period) in (1..=5).flat_map(|count| (0..3).map(move |odd| (count, 1_000_000 + odd))) {
        let rate = Rate::new(count, Nanos::new(period)).unwrap();
        let interval = period / count;
        let gaps = [0, 1, interval - 1, interval, interval + 1, 2 * interval, 3 * interval + 2, 9 * period];
        for number in 0..5_u64.pow(3) {
            let digit = |place: u32| number / 5_u64.pow(place) % 5;
            let (burst, first, second) = (digit(0), digit(1), digit(2));
            let spec = Spec::Gcra { rate, burst: Burst::new(burst).unwrap() };
            for (gap, charges) in gaps.iter().flat_map(|gap| CHARGES.map(|charges| (*gap, charges))) {
                let (mut oracle, mut both) = (GcraOracle::new(), Both::default());
                for (cost, charge, now) in [(first, charges[0], START), (second, charges[1], START + gap)] {
                    cases += 1;
                    let expected = oracle.check(count, period, burst, cost, oracle_charge(charge), now);
                    both.check(&item(spec, cost, charge), now, expected, || {
                        format!("{count} per {period} ns, burst {burst}, {first} and {second} {gap} ns apart")
                    });
                }
            }
        }
    }
    println!("{cases} cases");
    assert!(cases > 100_000);
}

const CHARGES: [[Charge; 2]; 4] = [
    [Charge::IfAdmitted, Charge::IfAdmitted],
    [Charge::Always, Charge::IfAdmitted],
    [Charge::IfAdmitted, Charge::Always],
    [Charge::Always, Charge::Always],
];

const NUMBERS: [u64; 7] = [0, 1, 2, 1 << 32, NUMBER_MAX / 2 + 1, NUMBER_MAX - 1, NUMBER_MAX];

/// Three checks of numbers from one end of the range to the other; every answer is the oracle's.
#[test]
fn windows_and_buckets_of_the_largest_numbers() {
    let lengths = [SECOND, SECOND + 1, 86_400 * SECOND, Period::MAX.get() - 1, Period::MAX.get()];
    let mut cases = 0_u64;
    for length in lengths {
        let period = Period::new(Nanos::new(length)).unwrap();
        let start = START / length * length;
        for number in 0..7_usize.pow(3) {
            let digit = |place: u32| NUMBERS[number / 7_usize.pow(place) % 7];
            let (before, cost, limit) = (digit(0), digit(1), digit(2));
            for elapsed in [0, 1, length / 2, length - 1, length, 2 * length - 1, 2 * length] {
                let checks = [
                    (before, Charge::Always, start - 1),
                    (before, Charge::Always, start),
                    (cost, Charge::IfAdmitted, start + elapsed),
                ];
                let (mut oracle, mut both) = (SlidingOracle::new(length), Both::default());
                for (cost, charge, now) in checks {
                    cases += 1;
                    let spec = Spec::Sliding { limit: Limit::new(limit).unwrap(), period };
                    let expected = oracle.check(limit, cost, oracle_charge(charge), now);
                    both.check(&item(spec, cost, charge), now, expected, || {
                        format!("{before} before, {cost} of {limit} per {length} ns, {elapsed} ns later")
                    });
                }
            }
            // A bucket of as many per period, as far as there is such a rate.
            let Ok(rate) = Rate::new(limit, Nanos::new(length)) else { continue };
            // One that takes longer to refill than there is time isn't enforced: debts end with time.
            let refills_in = u128::from(before) * u128::from(length) / u128::from(limit);
            if refills_in > u128::from(u64::MAX - START) / 2 {
                continue;
            }
            let spec = Spec::Gcra { rate, burst: Burst::new(before).unwrap() };
            let (mut oracle, mut both) = (GcraOracle::new(), Both::default());
            for (cost, charge, now) in [
                (cost, Charge::IfAdmitted, START),
                (cost, Charge::Always, START + 1),
                (1, Charge::IfAdmitted, START + length),
            ] {
                cases += 1;
                let expected = oracle.check(limit, length, before, cost, oracle_charge(charge), now);
                both.check(&item(spec, cost, charge), now, expected, || {
                    format!("{cost} of a burst of {before}, {limit} per {length} ns")
                });
            }
        }
    }
    println!("{cases} cases");
    assert!(cases > 30_000);
}

/// Where time ends, an answer is still one: what is admitted fitted, and who may come again is told when.
#[test]
fn nothing_wraps_at_the_end_of_time_or_at_its_beginning() {
    let instants = [0, 1, SECOND, u64::MAX / 2, u64::MAX - SECOND, u64::MAX - 1, u64::MAX];
    let mut cases = 0_u64;
    for length in [SECOND, Period::MAX.get()] {
        let period = Period::new(Nanos::new(length)).unwrap();
        for number in 0..7_usize.pow(4) {
            let digit = |place: u32| number / 7_usize.pow(place) % 7;
            let (limit, cost) = (NUMBERS[digit(0)], NUMBERS[digit(1)]);
            let (first, second) = (instants[digit(2)], instants[digit(3)]);
            let window = Limit::new(limit).unwrap();
            let mut specs =
                vec![Spec::Sliding { limit: window, period }, Spec::Fixed { limit: window, period }];
            let rates = [Rate::new(1, Nanos::new(length)), Rate::new(limit, Nanos::new(length))];
            let burst = Burst::new(limit).unwrap();
            specs.extend(rates.into_iter().flatten().map(|rate| Spec::Gcra { rate, burst }));
            for spec in specs {
                for charge in [Charge::IfAdmitted, Charge::Always, Charge::Never] {
                    answers_hold::<LocalState>(&item(spec, cost, charge), [first, second]);
                    answers_hold::<SharedState>(&item(spec, cost, charge), [first, second]);
                    cases += 2;
                }
            }
        }
    }
    println!("{cases} cases");
    assert!(cases > 80_000);
}

fn answers_hold<S: State>(item: &Item, instants: [u64; 2]) {
    let mut state = S::default();
    for now in instants {
        let (decision, _) = state.decide(item, 1, Nanos::new(now));
        let number = item.spec.shown_limit();
        assert!(decision.remaining <= number, "{item:?} at {now}: {decision:?}");
        match decision.verdict {
            Verdict::Admit => assert!(item.cost.get() <= number, "{item:?} at {now}"),
            Verdict::Deny { retry_after } => {
                assert_eq!(
                    retry_after.is_some(),
                    item.cost.get() <= number,
                    "{item:?} at {now}: {decision:?}"
                );
            }
        }
    }
}
