//! GCRA of the oracle: the log of all charges, and `tat` as the largest over k of
//! `tₖ + i × (cₖ + … + cₙ)`, in exact fractions of any size.
//!
//! Why: an implementation keeps one rounded or packed instant and divides; here nothing is divided
//! or rounded except where the page says "rounded up", and every wait is found by search.
//!
//! It must never look at or call the implementation.

use super::integer::Integer;
use super::{Charge, Verdict, clamp_to_u64, smallest_passing};

const ONE_SECOND: i128 = 1_000_000_000;

/// `period / count` nanoseconds, in lowest terms.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Interval {
    period: u64,
    count: u64,
}

impl Interval {
    fn new(period: u64, count: u64) -> Self {
        assert!(period > 0 && count > 0, "a rate is a positive fraction");
        let divisor = greatest_common_divisor(period, count);
        Self { period: period / divisor, count: count / divisor }
    }
}

fn greatest_common_divisor(left: u64, right: u64) -> u64 {
    if right == 0 { left } else { greatest_common_divisor(right, left % right) }
}

/// An exact instant, `numerator / denominator` nanoseconds.
#[derive(Debug, Clone)]
struct ExactInstant {
    numerator: Integer,
    denominator: Integer,
}

struct LogEntry {
    time: i128,
    cost: u64,
}

/// The oracle of one key of a GCRA limit.
pub struct GcraOracle {
    /// That of the latest check.
    interval: Option<Interval>,
    /// What `tat` was before the log began; none when that was the distant past.
    tat_before_log: Option<ExactInstant>,
    log: Vec<LogEntry>,
    /// "Overdrawn", as the page defines it.
    overdrawn: bool,
}

/// The state at one moment of a check. All its instants are in units of 1 / `unit` nanoseconds.
struct Snapshot {
    unit: Integer,
    interval: Integer,
    tat: Option<Integer>,
}

impl GcraOracle {
    #[allow(clippy::new_without_default)]
    pub fn new() -> Self {
        Self { interval: None, tat_before_log: None, log: Vec::new(), overdrawn: false }
    }

    pub fn check(
        &mut self,
        count: u64,
        period_ns: u64,
        burst: u64,
        cost: u64,
        charge: Charge,
        now_ns: u64,
    ) -> Verdict {
        let now = i128::from(now_ns);
        let interval = Interval::new(period_ns, count);
        self.change_interval(interval, now);
        if self.snapshot(interval).passes(now, 0, burst) {
            self.overdrawn = false;
        }
        let is_forgiven = charge == Charge::IfAllowed && !self.overdrawn;
        if is_forgiven && self.snapshot(interval).is_more_than_empty(now, burst) {
            self.set_tat_to_empty(interval, now, burst);
        }
        let before = self.snapshot(interval);
        let allowed = before.passes(now, cost, burst);
        let after = if charge.applies(allowed) && cost > 0 {
            self.record(&before, now, cost);
            let after = self.snapshot(interval);
            self.overdrawn |= charge == Charge::Always && !after.passes(now, 0, burst);
            after
        } else {
            before
        };
        let retry_after_ns = match allowed {
            true => Some(0),
            false => after.retry_after(now, cost, burst),
        };
        Verdict {
            allowed,
            limit: burst,
            remaining: after.remaining(now, burst),
            reset_ns: after.reset(now),
            retry_after_ns,
        }
    }

    /// `tat` moves with the clock, whenever that was.
    pub fn step(&mut self, delta_ns: i64, _first_ns: u64) {
        let delta = i128::from(delta_ns);
        for entry in &mut self.log {
            entry.time += delta;
        }
        if let Some(tat) = &mut self.tat_before_log {
            tat.numerator = &tat.numerator + &(&Integer::from(delta) * &tat.denominator);
        }
    }

    fn record(&mut self, before: &Snapshot, now: i128, cost: u64) {
        if before.lead(now) == Integer::from(0_u64) {
            // This charge starts at `now`, and nothing charged before reaches further.
            self.tat_before_log = None;
            self.log.clear();
        }
        self.log.push(LogEntry { time: now, cost });
    }

    fn snapshot(&self, interval: Interval) -> Snapshot {
        let count = Integer::from(interval.count);
        let period = Integer::from(interval.period);
        let (unit, interval, tat_before_log) = match &self.tat_before_log {
            None => (count, period, None),
            Some(tat) if tat.denominator == count => (count, period, Some(tat.numerator.clone())),
            Some(tat) => {
                (&tat.denominator * &count, &period * &tat.denominator, Some(&tat.numerator * &count))
            }
        };
        let tat = self.tat(&unit, &interval, tat_before_log);
        Snapshot { unit, interval, tat }
    }

    /// The largest over k of `tₖ + i × (cₖ + … + cₙ)`; what was before the log counts as a charge
    /// of 0 at that instant, before all others.
    fn tat(&self, unit: &Integer, interval: &Integer, before: Option<Integer>) -> Option<Integer> {
        let mut largest: Option<Integer> = None;
        let mut cost_from_here = 0_i128;
        for entry in self.log.iter().rev() {
            cost_from_here += i128::from(entry.cost);
            let start = &Integer::from(entry.time) * unit;
            let candidate = &start + &(interval * &Integer::from(cost_from_here));
            largest = largest.max(Some(candidate));
        }
        let before = before.map(|start| &start + &(interval * &Integer::from(cost_from_here)));
        largest.max(before)
    }

    /// "A changed rate keeps what was spent."
    fn change_interval(&mut self, new: Interval, now: i128) {
        let Some(old) = self.interval.replace(new).filter(|old| *old != new) else {
            return;
        };
        let snapshot = self.snapshot(old);
        self.log.clear();
        let zero = Integer::from(0_u64);
        let lead = snapshot.lead(now);
        self.tat_before_log = match snapshot.tat {
            Some(_) if lead > zero => {
                // The smallest n with n / count_new ≥ lead × i_new / i_old, where lead is in
                // units of 1 / unit, and so is interval, which is i_old:
                // n × interval ≥ lead × count_new × (period_new / count_new).
                let target = &lead * &Integer::from(new.period);
                let ahead = smallest_multiple_reaching(&snapshot.interval, &target);
                let count = Integer::from(new.count);
                let numerator = &(&Integer::from(now) * &count) + &ahead;
                Some(ExactInstant { numerator, denominator: count })
            }
            // "Else `tat` is rounded up to a whole nanosecond."
            tat => tat.map(|numerator| ExactInstant {
                numerator: smallest_multiple_reaching(&snapshot.unit, &numerator),
                denominator: Integer::from(1_u64),
            }),
        };
    }

    /// "A bucket is never more than empty for long."
    fn set_tat_to_empty(&mut self, interval: Interval, now: i128, burst: u64) {
        let denominator = Integer::from(interval.count);
        let ahead = &Integer::from(burst) * &Integer::from(interval.period);
        let numerator = &(&Integer::from(now) * &denominator) + &ahead;
        self.log.clear();
        self.tat_before_log = Some(ExactInstant { numerator, denominator });
    }
}

impl Snapshot {
    /// `max(tat, instant) − instant`
    fn lead(&self, instant: i128) -> Integer {
        let instant = &Integer::from(instant) * &self.unit;
        match &self.tat {
            Some(tat) if *tat > instant => tat - &instant,
            _ => Integer::from(0_u64),
        }
    }

    /// `max(tat, instant) + cost × i − instant ≤ burst × i`
    fn passes(&self, instant: i128, cost: u64, burst: u64) -> bool {
        let wanted = &self.lead(instant) + &(&Integer::from(cost) * &self.interval);
        wanted <= &Integer::from(burst) * &self.interval
    }

    /// `tat > now + burst × i + 1 s`
    fn is_more_than_empty(&self, now: i128, burst: u64) -> bool {
        let slack = &Integer::from(ONE_SECOND) * &self.unit;
        self.lead(now) > &(&Integer::from(burst) * &self.interval) + &slack
    }

    /// The largest cost that would pass at `now`.
    fn remaining(&self, now: i128, burst: u64) -> u64 {
        let lead = self.lead(now);
        let all = &Integer::from(burst) * &self.interval;
        let fails = |cost: u64| &lead + &(&Integer::from(cost) * &self.interval) > all;
        match smallest_passing(burst, fails) {
            None => burst,
            Some(smallest_failing) => smallest_failing.saturating_sub(1),
        }
    }

    fn reset(&self, now: i128) -> u64 {
        let zero = Integer::from(0_u64);
        let reached = |wait: u64| self.lead(now + i128::from(wait)) == zero;
        let wait = smallest_passing(u64::MAX, reached).unwrap_or(u64::MAX);
        clamp_to_u64(now + i128::from(wait))
    }

    fn retry_after(&self, now: i128, cost: u64, burst: u64) -> Option<u64> {
        if cost > burst {
            return None;
        }
        let passes = |wait: u64| self.passes(now + i128::from(wait), cost, burst);
        Some(smallest_passing(u64::MAX, passes).unwrap_or(u64::MAX))
    }
}

/// The smallest n, 0 or more, with `n × step ≥ target`: the largest that is still below, put
/// together from powers of two, and one more.
fn smallest_multiple_reaching(step: &Integer, target: &Integer) -> Integer {
    let zero = Integer::from(0_u64);
    if zero >= *target {
        return zero;
    }
    // Pairs of a power of two and its multiple of the step.
    let mut powers = vec![(Integer::from(1_u64), step.clone())];
    while powers[powers.len() - 1].1 < *target {
        let (power, multiple) = &powers[powers.len() - 1];
        powers.push((power + power, multiple + multiple));
    }
    let (mut below, mut below_multiple) = (zero.clone(), zero);
    for (power, multiple) in powers.iter().rev() {
        let candidate = &below_multiple + multiple;
        if candidate < *target {
            below = &below + power;
            below_multiple = candidate;
        }
    }
    let answer = &below + &Integer::from(1_u64);
    assert!(&below * step < *target && &answer * step >= *target, "not the smallest");
    answer
}

#[cfg(test)]
#[path = "gcra_tests.rs"]
mod tests;
