//! Every algorithm against the independent oracle, over millions of random operations: costs, idle gaps,
//! clocks that go back, clock steps, changed limits, post-paid charges, and waits of exactly `retry_after`
//! and one nanosecond less.
//!
//! The oracle must stay independent: nothing here may be "fixed" by copying code between the two.
//! A failure prints the seed; `TIDEGATE_ORACLE_SEED=… cargo test -p tidegate-core --test
//! algorithms_match_the_oracle` replays it. `TIDEGATE_ORACLE_OPERATIONS` makes a run shorter or longer.

mod oracle;
mod random;
mod small_values;

use oracle::{CalendarOracle, FixedOracle, GcraOracle, SlidingOracle, Verdict as Expected};
use random::Random;
use std::cell::RefCell;
use tidegate_core::state::State;
use tidegate_core::{
    Burst, Calendar, CalendarUnit, Charge, Cost, Decision, Item, KeyId, Limit, LocalState, Moment, Nanos,
    Period, Rate, SharedState, Spec, StepId, Table, Verdict,
};

const OPERATIONS: u64 = 10_000_000;
const PER_SEQUENCE: u64 = 120;
const START: u64 = 1_763_000_000 * Nanos::PER_SECOND;

/// One key's life: our table on one side, an oracle on the other, under the same random clock.
struct KeyUnderTest<S> {
    table: Table<S>,
    moment: Moment,
    last: Option<(Expected, u64)>,
    is_calendar: bool,
}

thread_local! {
    /// What happened in the sequence under test, printed when it fails.
    static TRACE: RefCell<Vec<String>> = const { RefCell::new(Vec::new()) };
}

fn trace(line: impl FnOnce() -> String) {
    TRACE.with_borrow_mut(|lines| lines.push(line()));
}

impl<S: State> KeyUnderTest<S> {
    fn new(random: &mut Random) -> Self {
        TRACE.with_borrow_mut(Vec::clear);
        let now = Nanos::new(START + random.below(400 * 86_400 * Nanos::PER_SECOND));
        KeyUnderTest {
            table: Table::with_shard_bits(1000, 1),
            moment: Moment::at(now),
            last: None,
            is_calendar: false,
        }
    }

    /// Moves the clock: by nothing, by a hair, by exactly what the last denial said, by long.
    fn tick(&mut self, random: &mut Random, scale: u64, mut step: impl FnMut(i64, u64)) {
        let now = self.moment.now.get();
        let retry_after = self.last.and_then(|(expected, _)| expected.retry_after_ns).unwrap_or(0);
        let gap = match random.below(16) {
            0..=3 => 0,
            4 => 1,
            5..=7 => random.below(scale / 50 + 2),
            8..=9 => random.below(scale + 2),
            10 => random.below(3 * scale + 2),
            11 => retry_after,
            12 => retry_after.saturating_sub(1),
            13 => self.last.map_or(0, |(expected, _)| expected.reset_ns.saturating_sub(now)),
            14 if random.one_in(8) => 100 * scale,
            _ => 0,
        };
        // Stay far from the end of time: what saturates there has tests of its own.
        let gap = if gap > 800 * 86_400 * Nanos::PER_SECOND { 0 } else { gap };
        self.moment.now = Nanos::new(now + gap);
        if random.one_in(40) {
            let back = random.below(2 * scale + 2).min(self.moment.now.get() / 2);
            self.moment.now = self.moment.now.minus(Nanos::new(back));
        }
        if random.one_in(60) {
            let size = i64::try_from(random.below(4 * scale + 2).min(1 << 55)).unwrap();
            let delta = if random.one_in(2) { size } else { -size };
            let delta = if random.one_in(2) { delta / 1000 } else { delta };
            let first = self.moment.now.shifted(delta);
            self.moment = Moment { now: first, step: self.table.clock_stepped(delta, first) };
            trace(|| format!("step {delta} to {first:?}"));
            step(delta, first.get());
            // Some keys are asked about only later. A calendar's state can't tell in which cell it landed.
            if !self.is_calendar && random.one_in(2) {
                self.moment.now = first.plus(Nanos::new(random.below(scale + 2)));
            }
        }
    }

    fn check(&mut self, spec: Spec, cost: u64, charge: Charge, expected: Expected) {
        let item = Item { charge, ..Item::new(KeyId::from_hash(42), spec, Cost::new(cost).unwrap()) };
        let got = self.table.decide(&item, self.moment).unwrap();
        trace(|| format!("{:?} {cost} {charge:?} {spec:?} -> {got:?}", self.moment.now));
        assert_eq!(as_expected(&got), expected, "our answer, and the oracle's\n{}", trace_text());
        self.last = Some((expected, cost));
        if let Verdict::Deny { retry_after: Some(wait) } = got.verdict {
            self.assert_wait_is_exact(&item, wait);
        }
    }

    /// Whoever waits `retry_after` passes; one nanosecond less is denied.
    fn assert_wait_is_exact(&self, item: &Item, wait: Nanos) {
        let Some(state) = self.table.state(item.key) else { return };
        let passes_after = |wait: Nanos| {
            let now = self.moment.now.plus(wait);
            let look = Item { spec: at_its_cell(item.spec, now), charge: Charge::Never, ..*item };
            let mut state = state;
            state.decide(&look, 1, now).0.is_admitted()
        };
        assert!(passes_after(wait), "waited {wait:?}\n{}", trace_text());
        assert!(!passes_after(wait.minus(Nanos::new(1))), "one less than {wait:?}\n{}", trace_text());
    }
}

thread_local! {
    static CALENDAR: RefCell<Option<Calendar>> = const { RefCell::new(None) };
}

/// A calendar's spec names the cell of its moment.
fn at_its_cell(spec: Spec, now: Nanos) -> Spec {
    match spec {
        Spec::Calendar { limit, unit, .. } => CALENDAR.with_borrow(|calendar| {
            let cell = calendar.as_ref().expect("set by the calendar's test").cell_at(now);
            Spec::Calendar { limit, unit, cell }
        }),
        other => other,
    }
}

fn as_expected(decision: &Decision) -> Expected {
    Expected {
        allowed: decision.is_admitted(),
        limit: decision.limit,
        remaining: decision.remaining,
        reset_ns: decision.reset.get(),
        retry_after_ns: match decision.verdict {
            Verdict::Admit => Some(0),
            Verdict::Deny { retry_after } => retry_after.map(Nanos::get),
        },
    }
}

fn trace_text() -> String {
    TRACE.with_borrow(|lines| lines.join("\n"))
}

fn oracle_charge(charge: Charge) -> oracle::Charge {
    match charge {
        Charge::IfAdmitted => oracle::Charge::IfAllowed,
        Charge::Always => oracle::Charge::Always,
        Charge::Never => panic!("not among the operations"),
    }
}

fn some_charge(random: &mut Random) -> Charge {
    if random.one_in(20) { Charge::Always } else { Charge::IfAdmitted }
}

/// Mostly small, sometimes up to 2^53.
fn some_number(random: &mut Random) -> u64 {
    match random.below(12) {
        0 => 0,
        1..=5 => 1 + random.below(12),
        6..=8 => 1 + random.below(1000),
        9 => 1 + random.below(1_000_000),
        10 => random.below(1 << 53) + 1,
        _ => (1 << 53) - random.below(3),
    }
}

/// Around what a limit of this size lets pass.
fn some_cost(random: &mut Random, limit: u64) -> u64 {
    match random.below(10) {
        0 => 0,
        1..=5 => 1,
        6..=7 => random.below(limit / 3 + 2),
        8 => random.below(limit + 2).min(1 << 53),
        _ => limit,
    }
}

fn some_period(random: &mut Random) -> Period {
    let length = match random.below(6) {
        0 => Nanos::from_secs(1),
        1 => Nanos::from_secs(60),
        2 => Nanos::from_millis(1000 + random.below(100_000)),
        3 => Nanos::new(Nanos::PER_SECOND + random.below(1 << 40)),
        4 => Nanos::from_secs(86_400 * (1 + random.below(366))),
        _ => Period::MAX,
    };
    Period::new(length).unwrap()
}

/// Runs sequences of random operations until so many were compared, on two threads.
fn run(name: &str, sequence: fn(&mut Random) -> u64) {
    let operations = read_env("TIDEGATE_ORACLE_OPERATIONS").unwrap_or(OPERATIONS);
    if let Some(seed) = read_env("TIDEGATE_ORACLE_SEED") {
        sequence(&mut Random::new(seed));
        return;
    }
    std::thread::scope(|scope| {
        for half in 0..2 {
            scope.spawn(move || {
                let (mut done, mut seed) = (0, half);
                while done < operations.div_ceil(2) {
                    let outcome = std::panic::catch_unwind(|| sequence(&mut Random::new(seed)));
                    done += outcome.unwrap_or_else(|_| {
                        panic!("{name} disagrees; replay with TIDEGATE_ORACLE_SEED={seed}");
                    });
                    seed += 2;
                }
            });
        }
    });
}

fn read_env(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| text.parse().expect("a whole number"))
}

#[test]
fn sliding_windows_agree_with_their_definition() {
    run("the sliding window", |random| {
        if random.one_in(2) { sliding::<LocalState>(random) } else { sliding::<SharedState>(random) }
    });
}

fn sliding<S: State>(random: &mut Random) -> u64 {
    let period = some_period(random);
    let mut limit = some_number(random);
    let mut oracle = SlidingOracle::new(period.get());
    let mut life = KeyUnderTest::<S>::new(random);
    for _ in 0..PER_SEQUENCE {
        life.tick(random, period.get(), |delta, first| oracle.step(delta, first));
        if random.one_in(30) {
            limit = some_number(random);
        }
        let (cost, charge) = (some_cost(random, limit), some_charge(random));
        let expected = oracle.check(limit, cost, oracle_charge(charge), life.moment.now.get());
        life.check(Spec::Sliding { limit: Limit::new(limit).unwrap(), period }, cost, charge, expected);
    }
    PER_SEQUENCE
}

#[test]
fn fixed_windows_agree_with_their_definition() {
    run("the fixed window", |random| {
        if random.one_in(2) { fixed::<LocalState>(random) } else { fixed::<SharedState>(random) }
    });
}

fn fixed<S: State>(random: &mut Random) -> u64 {
    let period = some_period(random);
    let mut limit = some_number(random);
    let mut oracle = FixedOracle::new(period.get());
    let mut life = KeyUnderTest::<S>::new(random);
    for _ in 0..PER_SEQUENCE {
        life.tick(random, period.get(), |delta, first| oracle.step(delta, first));
        if random.one_in(30) {
            limit = some_number(random);
        }
        let (cost, charge) = (some_cost(random, limit), some_charge(random));
        let expected = oracle.check(limit, cost, oracle_charge(charge), life.moment.now.get());
        life.check(Spec::Fixed { limit: Limit::new(limit).unwrap(), period }, cost, charge, expected);
    }
    PER_SEQUENCE
}

#[test]
fn calendar_windows_agree_with_their_definition() {
    run("the calendar window", |random| {
        if random.one_in(2) { calendar::<LocalState>(random) } else { calendar::<SharedState>(random) }
    });
}

fn calendar<S: State>(random: &mut Random) -> u64 {
    const ZONES: [&str; 6] = [
        "UTC",
        "Europe/Paris",
        "America/New_York",
        "Asia/Kathmandu",
        "America/Sao_Paulo",
        "Pacific/Auckland",
    ];
    let (unit, oracle_unit, hours) = match random.below(4) {
        0 => (CalendarUnit::Hour, oracle::CalendarUnit::Hour, 1),
        1 => (CalendarUnit::Day, oracle::CalendarUnit::Day, 24),
        2 => (CalendarUnit::Week, oracle::CalendarUnit::Week, 168),
        _ => (CalendarUnit::Month, oracle::CalendarUnit::Month, 720),
    };
    let zone = ZONES[usize::try_from(random.below(6)).unwrap()];
    CALENDAR.set(Some(Calendar::new(unit, zone).unwrap()));
    let mut limit = some_number(random);
    let mut oracle = CalendarOracle::new(oracle_unit, zone);
    let mut life = KeyUnderTest::<S> { is_calendar: true, ..KeyUnderTest::new(random) };
    for _ in 0..PER_SEQUENCE {
        life.tick(random, hours * 3600 * Nanos::PER_SECOND, |delta, first| oracle.step(delta, first));
        if random.one_in(30) {
            limit = some_number(random);
        }
        let (cost, charge) = (some_cost(random, limit), some_charge(random));
        let expected = oracle.check(limit, cost, oracle_charge(charge), life.moment.now.get());
        let cell = CALENDAR.with_borrow(|calendar| calendar.as_ref().unwrap().cell_at(life.moment.now));
        let spec = Spec::Calendar { limit: Limit::new(limit).unwrap(), unit, cell };
        life.check(spec, cost, charge, expected);
    }
    PER_SEQUENCE
}

#[test]
fn gcra_agrees_with_its_definition() {
    run(
        "GCRA",
        |random| {
            if random.one_in(2) { gcra::<LocalState>(random) } else { gcra::<SharedState>(random) }
        },
    );
}

/// From 1 per year to 10^9 per second.
fn some_rate(random: &mut Random) -> (u64, u64) {
    loop {
        let (count, period_ns) = match random.below(7) {
            0 => (1, Period::MAX.get()),
            1 => (10_000_000, Nanos::PER_SECOND),
            2 => (700_000, Nanos::PER_SECOND),
            3 => (1 + random.below(1000), Nanos::PER_SECOND * (1 + random.below(60))),
            4 => (1 + random.below(1 << 30), Nanos::PER_SECOND + random.below(1 << 40)),
            5 => (1 + random.below(1 << 50), 86_400 * Nanos::PER_SECOND * (1 + random.below(366))),
            _ => (1 + random.below(100), Nanos::from_millis(1 + random.below(5000)).get()),
        };
        if count <= period_ns {
            return (count, period_ns);
        }
    }
}

/// A burst whose whole length stays within some years, so that the end of time is far.
fn some_burst(random: &mut Random, count: u64, period_ns: u64) -> u64 {
    let longest = u128::from(count) * u128::from(Period::MAX.get()) * 4 / u128::from(period_ns);
    some_number(random).min(u64::try_from(longest).unwrap_or(1 << 53).max(1))
}

fn gcra<S: State>(random: &mut Random) -> u64 {
    let (mut count, mut period_ns) = some_rate(random);
    let mut burst = some_burst(random, count, period_ns);
    let mut oracle = GcraOracle::new();
    let mut life = KeyUnderTest::<S>::new(random);
    for done in 0..PER_SEQUENCE {
        let scale = (u128::from(period_ns) * u128::from(burst) / u128::from(count)).min(1 << 57);
        life.tick(random, u64::try_from(scale).unwrap() + 1, |delta, first| oracle.step(delta, first));
        if random.one_in(40) {
            (count, period_ns) = some_rate(random);
            burst = some_burst(random, count, period_ns);
        }
        if random.one_in(40) {
            burst = some_burst(random, count, period_ns);
        }
        let charge = if burst < 1 << 20 { some_charge(random) } else { Charge::IfAdmitted };
        let cost = some_cost(random, burst);
        let expected =
            oracle.check(count, period_ns, burst, cost, oracle_charge(charge), life.moment.now.get());
        if expected.reset_ns == u64::MAX {
            return done; // A debt beyond the end of time, where instants saturate: it has a test of its own.
        }
        let rate = Rate::new(count, Nanos::new(period_ns)).unwrap();
        life.check(Spec::Gcra { rate, burst: Burst::new(burst).unwrap() }, cost, charge, expected);
    }
    PER_SEQUENCE
}

/// INV-7, for every interval: with `S` the cost admitted so far, `S·i − t` never rises by more than the burst
/// above its lowest point, which is the same as looking at all pairs of admissions.
#[test]
fn inv_7_every_interval_admits_at_most_burst_plus_rate() {
    run("INV-7", |random| {
        let (count, period_ns) = some_rate(random);
        let burst = some_burst(random, count, period_ns).max(1);
        let rate = Rate::new(count, Nanos::new(period_ns)).unwrap();
        let (unit, per_ns) =
            (i128::from(rate.interval_numerator_ns()), i128::from(rate.interval_denominator()));
        let spec = Spec::Gcra { rate, burst: Burst::new(burst).unwrap() };
        let table = Table::<LocalState>::with_shard_bits(10, 1);
        let mut now = START;
        let mut admitted: i128 = 0;
        let mut lowest = i128::MAX;
        for _ in 0..PER_SEQUENCE {
            now += random.below(2 * (period_ns / count) + 2) * random.below(4);
            let cost = some_cost(random, burst);
            let item = Item::new(KeyId::from_hash(1), spec, Cost::new(cost).unwrap());
            let moment = Moment { now: Nanos::new(now), step: StepId(0) };
            if table.decide(&item, moment).unwrap().is_admitted() && cost > 0 {
                let elapsed = i128::from(now - START) * per_ns;
                lowest = lowest.min(admitted * unit - elapsed);
                admitted += i128::from(cost);
                assert!(admitted * unit - elapsed - lowest <= i128::from(burst) * unit, "INV-7 at {now}");
            }
        }
        PER_SEQUENCE
    });
}
