//! What the engine counts about itself. Nothing is dropped silently: each drop has a counter here.

use std::sync::atomic::{AtomicU64, Ordering};

#[derive(Debug, Default)]
pub struct Stats {
    admitted: Counter,
    denied: Counter,
    /// Keys that got no entry because the table was full, by what became of their requests.
    refused_admitted: Counter,
    refused_shared: Counter,
    refused_denied: Counter,
    swept: Counter,
    clock_steps: Counter,
    reloads: Counter,
    reload_failures: Counter,
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
    pub fn named(&self) -> [(&'static str, u64); 9] {
        [
            ("requests_admitted", self.admitted.get()),
            ("requests_denied", self.denied.get()),
            ("keys_refused_admitted", self.refused_admitted.get()),
            ("keys_refused_shared", self.refused_shared.get()),
            ("keys_refused_denied", self.refused_denied.get()),
            ("keys_swept", self.swept.get()),
            ("clock_steps", self.clock_steps.get()),
            ("rule_reloads", self.reloads.get()),
            ("rule_reload_failures", self.reload_failures.get()),
        ]
    }

    pub(crate) fn decided(&self, allowed: bool) {
        if allowed { self.admitted.add(1) } else { self.denied.add(1) }
    }

    pub(crate) fn decided_many(&self, admitted: u64, denied: u64) {
        for (counter, more) in [(&self.admitted, admitted), (&self.denied, denied)] {
            if more > 0 {
                counter.add(more);
            }
        }
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

    pub(crate) fn swept(&self, count: u64) {
        self.swept.add(count);
    }

    pub(crate) fn clock_stepped(&self) {
        self.clock_steps.add(1);
    }

    pub fn reloaded(&self, successful: bool) {
        if successful { self.reloads.add(1) } else { self.reload_failures.add(1) }
    }
}

/// What became of a key that got no entry.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Refusal {
    Admitted,
    Shared,
    Denied,
}
