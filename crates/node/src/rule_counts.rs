//! How often each rule said what, and on which path: what is told of decisions, rule by rule.
//!
//! Bounded whatever callers send: a series belongs to a rule, by its name, and all limits that requests give
//! themselves are one. Beyond [`RULES_MAX`] rules, the rest are counted together.
//!
//! A decision pays a few instructions for each limit: every thread counts in a stripe of its own, and they are added up
//! when somebody looks. A rule's place in the stripes is found by name once, and remembered in the rule.

use crate::request::{DecisionPath, LimitAnswer, LimitOutcome, LimitSource};
use parking_lot::Mutex;
use std::cell::Cell;
use std::collections::BTreeMap;
use std::num::NonZeroU32;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use tidegate_core::ask::AskReason;
use tidegate_core::{Decision, Role};
use tidegate_rules::Rule;

/// Rules that have series of their own.
pub const RULES_MAX: usize = 10_000;
/// Threads beyond this many share stripes.
const STRIPES: usize = 16;
/// Rules whose counters are allocated together.
const CHUNK: usize = 64;
const CHUNKS: usize = (RULES_MAX + 2).div_ceil(CHUNK);

/// Places that no rule has: of limits that requests give, and of rules beyond the bound.
const GIVEN: usize = 0;
const OTHER: NonZeroU32 = NonZeroU32::MIN;

/// Columns of a rule: four for each path, and some that have none.
const PER_PATH: usize = 4;
const NEAR: usize = 1;
const DENIED: usize = 2;
const WOULD_DENY: usize = 3;
const PATHS: [&str; 8] = ["local", "cold", "stale", "strict", "credit", "exact", "quota", "unverified"];
const UNLIMITED: usize = PER_PATH * PATHS.len();
const MISSING_DENIED: usize = UNLIMITED + 1;
const MISSING_WOULD_DENY: usize = UNLIMITED + 2;
const REPORTED: usize = UNLIMITED + 3;
const COLUMNS: usize = UNLIMITED + 4;

/// Whose decisions a series counts. All empty but the last for those that belong to no rule.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct RuleLabels {
    pub tenant: Arc<str>,
    pub namespace: Arc<str>,
    /// `given`: a limit of a request; `other`: a rule beyond [`RULES_MAX`].
    pub rule: Arc<str>,
}

/// What one rule has said so far.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RuleSeries {
    pub labels: RuleLabels,
    /// By outcome and path; those that never came aren't there.
    pub decisions: Vec<(&'static str, &'static str, u64)>,
    /// Admissions that left less than a fifth of the limit.
    pub near_limit: u64,
}

/// The names of all rules that have been counted in this process. Of the process, since rule sets are shared by
/// engines, and with them the places that rules remember.
static NAMES: Mutex<Names> = Mutex::new(Names { places: BTreeMap::new(), labels: Vec::new() });

struct Names {
    places: BTreeMap<RuleLabels, NonZeroU32>,
    /// Of the places from 2 on.
    labels: Vec<RuleLabels>,
}

thread_local! {
    static STRIPE: Cell<usize> = const { Cell::new(usize::MAX) };
}

#[derive(Debug)]
pub(crate) struct RuleCounts {
    stripes: [OnceLock<Box<Stripe>>; STRIPES],
}

/// Of one thread, or a few.
#[derive(Debug)]
#[repr(align(128))]
struct Stripe {
    admitted: AtomicU64,
    denied: AtomicU64,
    reported: AtomicU64,
    chunks: [OnceLock<Box<Chunk>>; CHUNKS],
}

type Chunk = [[AtomicU64; COLUMNS]; CHUNK];

/// The outcome of a request, as a rule counts it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum RuleOutcome {
    Admitted,
    Denied,
    /// It had passed already.
    Reported,
}

impl Default for RuleCounts {
    fn default() -> Self {
        RuleCounts { stripes: [const { OnceLock::new() }; STRIPES] }
    }
}

impl Stripe {
    fn new() -> Box<Self> {
        let [admitted, denied, reported] = [const { AtomicU64::new(0) }; 3];
        Box::new(Stripe { admitted, denied, reported, chunks: [const { OnceLock::new() }; CHUNKS] })
    }

    #[inline]
    fn add(&self, place: usize, column: usize, more: u64) {
        let Some(chunk) = self.chunks.get(place / CHUNK) else { return };
        let chunk = chunk.get_or_init(|| Box::new([const { [const { AtomicU64::new(0) }; COLUMNS] }; CHUNK]));
        chunk[place % CHUNK][column].fetch_add(more, Ordering::Relaxed);
    }
}

impl RuleCounts {
    /// Counts a request and what its limits said.
    #[inline]
    pub(crate) fn count(&self, came_out: RuleOutcome, path: DecisionPath, answers: &[LimitAnswer<'_>]) {
        let stripe = self.stripe();
        let total = match came_out {
            RuleOutcome::Admitted => &stripe.admitted,
            RuleOutcome::Denied => &stripe.denied,
            RuleOutcome::Reported => &stripe.reported,
        };
        total.fetch_add(1, Ordering::Relaxed);
        let first_column = PER_PATH * path_index(path);
        for answer in answers {
            let place = match answer.source {
                LimitSource::Rule(rule) => place_of(rule),
                LimitSource::Given { .. } => GIVEN,
            };
            let column = match answer.outcome {
                _ if came_out == RuleOutcome::Reported => REPORTED,
                LimitOutcome::Decided(decision) => first_column + outcome_column(&decision, answer.role),
                LimitOutcome::Unlimited => UNLIMITED,
                LimitOutcome::Missing { .. } if answer.role == Role::Shadow => MISSING_WOULD_DENY,
                LimitOutcome::Missing { .. } => MISSING_DENIED,
            };
            stripe.add(place, column, 1);
        }
    }

    /// Counts requests of one given limit each, which asked nobody.
    pub(crate) fn count_given(&self, admitted: u64, near_limit: u64, denied: u64) {
        let stripe = self.stripe();
        stripe.admitted.fetch_add(admitted, Ordering::Relaxed);
        stripe.denied.fetch_add(denied, Ordering::Relaxed);
        let columns = [(0, admitted.saturating_sub(near_limit)), (NEAR, near_limit), (DENIED, denied)];
        for (column, more) in columns.into_iter().filter(|(_, more)| *more > 0) {
            stripe.add(GIVEN, column, more);
        }
    }

    #[inline]
    fn stripe(&self) -> &Stripe {
        let index = match STRIPE.get() {
            usize::MAX => next_stripe(),
            index => index,
        };
        self.stripes[index % STRIPES].get_or_init(Stripe::new)
    }

    /// Requests that were admitted, denied, and reported.
    pub(crate) fn requests(&self) -> [u64; 3] {
        let sum = |of: fn(&Stripe) -> &AtomicU64| {
            self.filled().map(|stripe| of(stripe).load(Ordering::Relaxed)).sum()
        };
        [sum(|stripe| &stripe.admitted), sum(|stripe| &stripe.denied), sum(|stripe| &stripe.reported)]
    }

    /// What every rule has said that has said anything.
    pub(crate) fn series(&self) -> Vec<RuleSeries> {
        let named = NAMES.lock().labels.clone();
        let of_no_rule = ["given", "other"].map(|rule| {
            let [tenant, namespace] = [""; 2].map(Into::into);
            RuleLabels { tenant, namespace, rule: rule.into() }
        });
        let labels = of_no_rule.into_iter().chain(named);
        labels.enumerate().filter_map(|(place, labels)| series_of(labels, &self.sums(place)?)).collect()
    }

    fn filled(&self) -> impl Iterator<Item = &Stripe> {
        self.stripes.iter().filter_map(|stripe| stripe.get().map(Box::as_ref))
    }

    /// `None` where nobody has counted.
    fn sums(&self, place: usize) -> Option<[u64; COLUMNS]> {
        let mut sums = None;
        for stripe in self.filled() {
            let Some(chunk) = stripe.chunks.get(place / CHUNK).and_then(OnceLock::get) else { continue };
            let sums = sums.get_or_insert([0_u64; COLUMNS]);
            for (sum, count) in sums.iter_mut().zip(&chunk[place % CHUNK]) {
                *sum += count.load(Ordering::Relaxed);
            }
        }
        sums.filter(|sums| sums.iter().any(|count| *count > 0))
    }
}

fn series_of(labels: RuleLabels, sums: &[u64; COLUMNS]) -> Option<RuleSeries> {
    let mut decisions = Vec::new();
    let mut near_limit = 0;
    for (path, counts) in PATHS.into_iter().zip(sums.chunks_exact(PER_PATH)) {
        near_limit += counts[NEAR];
        decisions.push(("allowed", path, counts[0] + counts[NEAR]));
        decisions.push(("denied", path, counts[DENIED]));
        decisions.push(("would_deny", path, counts[WOULD_DENY]));
    }
    decisions.push(("unlimited", "local", sums[UNLIMITED]));
    decisions.push(("denied", "missing", sums[MISSING_DENIED]));
    decisions.push(("would_deny", "missing", sums[MISSING_WOULD_DENY]));
    decisions.push(("reported", "local", sums[REPORTED]));
    decisions.retain(|(_, _, count)| *count > 0);
    Some(RuleSeries { labels, decisions, near_limit })
}

#[cold]
fn next_stripe() -> usize {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    let index = NEXT.fetch_add(1, Ordering::Relaxed) % STRIPES;
    STRIPE.set(index);
    index
}

#[inline]
fn place_of(rule: &Rule) -> usize {
    let place = rule.series.get().unwrap_or_else(|| find_place(rule));
    place.get() as usize
}

/// A rule of a new set is the one of that name before.
#[cold]
fn find_place(rule: &Rule) -> NonZeroU32 {
    let labels = RuleLabels {
        tenant: rule.tenant.clone(),
        namespace: rule.namespace.clone(),
        rule: rule.name.clone(),
    };
    let place = NAMES.lock().place(labels);
    rule.series.set(place);
    place
}

impl Names {
    fn place(&mut self, labels: RuleLabels) -> NonZeroU32 {
        if let Some(place) = self.places.get(&labels) {
            return *place;
        }
        if self.labels.len() >= RULES_MAX {
            return OTHER;
        }
        let place = u32::try_from(self.labels.len()).unwrap_or(u32::MAX);
        let place = OTHER.saturating_add(1).saturating_add(place);
        self.labels.push(labels.clone());
        self.places.insert(labels, place);
        place
    }
}

/// Less than a fifth of the limit is left.
#[inline]
pub fn is_near_limit(decision: &Decision) -> bool {
    decision.remaining.wrapping_mul(5) < decision.limit
}

#[inline]
fn outcome_column(decision: &Decision, role: Role) -> usize {
    match (decision.is_admitted(), role) {
        (true, _) => usize::from(is_near_limit(decision)) * NEAR,
        (false, Role::Shadow) => WOULD_DENY,
        (false, Role::Enforced | Role::Quota) => DENIED,
    }
}

/// In [`PATHS`].
#[inline]
const fn path_index(path: DecisionPath) -> usize {
    match path {
        DecisionPath::Local => 0,
        DecisionPath::Asked(AskReason::Cold) => 1,
        DecisionPath::Asked(AskReason::Stale) => 2,
        DecisionPath::Asked(AskReason::Strict) => 3,
        DecisionPath::Asked(AskReason::Credit) => 4,
        DecisionPath::Asked(AskReason::Exact) => 5,
        DecisionPath::Quota => 6,
        DecisionPath::Unverified => 7,
    }
}

#[cfg(test)]
mod tests;
