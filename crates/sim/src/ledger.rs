//! What was really admitted: the omniscient list that no node has.
//!
//! Beside the list it keeps meters: what a window or a bucket that saw every admission at its true time would
//! hold. Limits are compared with those.

use crate::scenario::KeyPlan;
use crate::trace::AnswerPath;
use std::collections::BTreeMap;
use tidegate_core::origin_cell::NodeId;
use tidegate_core::{Nanos, Period, Rate, Sequence};
use tidegate_node::GivenPolicy;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Admission {
    /// True time.
    pub at: Nanos,
    pub node: usize,
    pub cost: u64,
    pub path: AnswerPath,
}

/// Everything that was admitted of one key.
#[derive(Clone, Debug)]
pub struct KeyLedger {
    pub admissions: Vec<Admission>,
    /// Requests that name the key and were denied.
    pub denied: u64,
    /// A window or a bucket that saw everything.
    pub(crate) fleet: Meter,
    /// One that saw only what an incarnation admitted, by that node's clock.
    pub(crate) alone: BTreeMap<NodeId, Meter>,
    empty: Meter,
}

impl KeyLedger {
    pub(crate) fn new(plan: &KeyPlan) -> Self {
        let empty = Meter::new(plan.policy);
        KeyLedger { admissions: Vec::new(), denied: 0, fleet: empty, alone: BTreeMap::new(), empty }
    }

    /// Counts an admission; says what the fleet's meter and the node's own show now.
    pub(crate) fn admit(&mut self, admission: Admission, node: NodeId, node_now: Nanos) -> (u64, u64) {
        self.admissions.push(admission);
        let fleet = self.fleet.add(admission.cost, admission.at);
        let alone = self.alone.entry(node).or_insert(self.empty).add(admission.cost, node_now);
        (fleet, alone)
    }

    /// The cost of everything admitted.
    pub fn admitted(&self) -> u64 {
        self.admissions.iter().map(|admission| admission.cost).sum()
    }

    /// The cost of what was admitted from `from` on and before `until`.
    pub fn admitted_between(&self, from: Nanos, until: Nanos) -> u64 {
        let within = self.admissions.iter().filter(|admission| from <= admission.at && admission.at < until);
        within.map(|admission| admission.cost).sum()
    }
}

/// What is in use of a limit, by one observer's count.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Meter {
    Window {
        period: Period,
        slides: bool,
        sequence: Sequence,
        current: u64,
        previous: u64,
    },
    /// `level` in ticks: a unit of cost is the interval's numerator, a nanosecond its denominator.
    Bucket {
        rate: Rate,
        at: Nanos,
        level: u128,
    },
}

impl Meter {
    fn new(policy: GivenPolicy) -> Self {
        let window =
            |period, slides| Meter::Window { period, slides, sequence: Sequence(0), current: 0, previous: 0 };
        match policy {
            GivenPolicy::Sliding { period, .. } => window(period, true),
            GivenPolicy::Fixed { period, .. } => window(period, false),
            GivenPolicy::Gcra { rate, .. } => Meter::Bucket { rate, at: Nanos::ZERO, level: 0 },
        }
    }

    /// Adds a cost; says what is in use then, rounded up.
    fn add(&mut self, cost: u64, now: Nanos) -> u64 {
        match self {
            Meter::Window { period, slides, sequence, current, previous } => {
                let cell = period.cell_at(now);
                if cell.sequence > *sequence {
                    *previous = if cell.sequence.0 - sequence.0 == 1 { *current } else { 0 };
                    (*current, *sequence) = (0, cell.sequence);
                }
                *current += cost;
                let rest = u128::from(cell.end.minus(now).get());
                let faded = u128::from(*previous) * rest / u128::from(period.get());
                *current + if *slides { u64::try_from(faded).unwrap_or(u64::MAX) } else { 0 }
            }
            Meter::Bucket { rate, at, level } => {
                let drained = u128::from(now.minus(*at).get()) * u128::from(rate.interval_denominator());
                let unit = u128::from(rate.interval_numerator_ns());
                *level = level.saturating_sub(drained) + u128::from(cost) * unit;
                *at = now.max(*at);
                u64::try_from(level.div_ceil(unit)).unwrap_or(u64::MAX)
            }
        }
    }
}
