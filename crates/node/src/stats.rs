//! What the engine counts about itself. Nothing is dropped silently: each drop has a counter here.

use crate::histogram::{DURATIONS, Histogram, HistogramSnapshot};
use crate::request::{DecisionPath, LimitAnswer};
use crate::rule_counts::{RuleCounts, RuleOutcome, RuleSeries};
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use tidegate_core::Nanos;

/// How often refusals in a table below its cap are warned of.
const WARN_EVERY: Nanos = Nanos::from_secs(60);

#[derive(Debug)]
pub struct Stats {
    decisions: RuleCounts,
    /// How long requests took that asked nobody, of a sample, and those that asked, all of them.
    local: Histogram,
    asked: Histogram,
    /// Keys that got no entry because the table was full, by what became of their requests.
    refused_admitted: Counter,
    refused_shared: Counter,
    refused_denied: Counter,
    /// Of those, the ones for which the table had no room though it held fewer keys than its cap.
    refused_below_cap: Counter,
    /// When the next warning of that may be written, in nanoseconds.
    next_warning_ns: AtomicU64,
    swept: Counter,
    clock_steps: Counter,
    malformed: Counter,
    reloads: Counter,
    reload_failures: Counter,
    /// Why the rules that were read last are refused; `None` when they are in force.
    rules_problem: Mutex<Option<Arc<str>>>,
}

impl Default for Stats {
    fn default() -> Self {
        let [local, asked] = [const { Histogram::new(&DURATIONS) }; 2];
        let [
            refused_admitted,
            refused_shared,
            refused_denied,
            refused_below_cap,
            swept,
            clock_steps,
            malformed,
            reloads,
            reload_failures,
        ] = [const { Counter(AtomicU64::new(0)) }; 9];
        Stats {
            decisions: RuleCounts::default(),
            local,
            asked,
            refused_admitted,
            refused_shared,
            refused_denied,
            refused_below_cap,
            next_warning_ns: AtomicU64::new(0),
            swept,
            clock_steps,
            malformed,
            reloads,
            reload_failures,
            rules_problem: Mutex::new(None),
        }
    }
}

/// A count that nobody waits for.
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    pub(crate) fn add(&self, more: u64) {
        self.0.fetch_add(more, Ordering::Relaxed);
    }

    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// All counters at one time, by name.
impl Stats {
    pub fn counts_by_name(&self) -> [(&'static str, u64); 12] {
        let [admitted, denied, reported] = self.decisions.requests();
        [
            ("requests_admitted", admitted),
            ("requests_denied", denied),
            ("requests_reported", reported),
            ("keys_refused_admitted", self.refused_admitted.get()),
            ("keys_refused_shared", self.refused_shared.get()),
            ("keys_refused_denied", self.refused_denied.get()),
            ("keys_refused_below_cap", self.refused_below_cap.get()),
            ("keys_swept", self.swept.get()),
            ("clock_steps", self.clock_steps.get()),
            ("malformed_values", self.malformed.get()),
            ("rule_reloads", self.reloads.get()),
            ("rule_reload_failures", self.reload_failures.get()),
        ]
    }

    /// What each rule has said so far.
    pub fn rules(&self) -> Vec<RuleSeries> {
        self.decisions.series()
    }

    /// How long requests took: those that asked nobody, and those that asked.
    pub fn durations(&self) -> [HistogramSnapshot; 2] {
        [self.local.measured(), self.asked.measured()]
    }

    #[inline]
    pub(crate) fn decided(&self, came_out: RuleOutcome, path: DecisionPath, answers: &[LimitAnswer<'_>]) {
        self.decisions.count(came_out, path, answers);
    }

    pub(crate) fn decided_many(&self, admitted: u64, near_limit: u64, denied: u64) {
        self.decisions.count_given(admitted, near_limit, denied);
    }

    /// A request was decided in this time without asking anybody. Front ends measure some of them.
    #[cold]
    pub fn decided_within(&self, length: Nanos) {
        self.local.add(length.get());
    }

    /// The same of one that had to ask.
    pub fn asked_within(&self, length: Nanos) {
        self.asked.add(length.get());
    }

    /// Counts a refusal, and says how many there have been in all.
    pub(crate) fn refused(&self, what: Refusal) -> u64 {
        match what {
            Refusal::Admitted => self.refused_admitted.add(1),
            Refusal::Shared => self.refused_shared.add(1),
            Refusal::Denied => self.refused_denied.add(1),
        }
        self.refused_admitted.get() + self.refused_shared.get() + self.refused_denied.get()
    }

    /// Counts a refusal in a table below its cap. Returns how many there have been, at most once a minute.
    pub(crate) fn refused_below_cap(&self, now: Nanos) -> Option<u64> {
        self.refused_below_cap.add(1);
        let next = self.next_warning_ns.load(Ordering::Relaxed);
        let after = now.plus(WARN_EVERY).get();
        // Further ahead than a pause means that the clock was set back.
        let is_due = now.get() >= next || next > after;
        let is_first = || {
            let (success, failure) = (Ordering::Relaxed, Ordering::Relaxed);
            self.next_warning_ns.compare_exchange(next, after, success, failure).is_ok()
        };
        (is_due && is_first()).then(|| self.refused_below_cap.get())
    }

    pub(crate) fn swept(&self, count: u64) {
        self.swept.add(count);
    }

    pub(crate) fn clock_stepped(&self) {
        self.clock_steps.add(1);
    }

    /// So many rules met a value that should be an address and isn't.
    #[cold]
    pub(crate) fn malformed(&self, rules: u32) {
        self.malformed.add(u64::from(rules));
    }

    pub fn malformed_values(&self) -> u64 {
        self.malformed.get()
    }

    pub fn reloaded(&self) {
        self.reloads.add(1);
        *self.rules_problem.lock() = None;
    }

    pub fn reload_failed(&self, problem: &str) {
        self.reload_failures.add(1);
        *self.rules_problem.lock() = Some(problem.into());
    }

    /// Returns why the rules that were read last are refused, until good ones are read.
    pub fn rules_problem(&self) -> Option<Arc<str>> {
        self.rules_problem.lock().clone()
    }
}

/// What became of a key that got no entry.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Refusal {
    Admitted,
    Shared,
    Denied,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusals_below_the_cap_are_warned_of_once_a_minute() {
        let stats = Stats::default();
        let at = |seconds: u64| stats.refused_below_cap(Nanos::from_secs(1_000_000 + seconds));
        assert_eq!([at(0), at(0), at(59), at(60), at(61)], [Some(1), None, None, Some(4), None]);
        let set_back = Nanos::from_secs(1000);
        assert_eq!(stats.refused_below_cap(set_back), Some(6), "the clock was set back");
        assert!(stats.counts_by_name().contains(&("keys_refused_below_cap", 6)));
    }
}
