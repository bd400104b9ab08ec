//! Looks at the database ten times a second while something else happens, and says afterwards whether what was
//! seen may be.

use crate::ledger::{Component, Ledger, Owner, Slice};
use crate::samples::{Samples, Verdict};
use crate::scene::Scene;
use crate::time::{Stopwatch, pause};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

const LOOK_EVERY: Duration = Duration::from_millis(100);

/// What the database held at a time since the start of a run.
#[derive(Clone, Debug)]
pub(crate) struct Look {
    /// When the look began: everything in it was written by `until`.
    pub(crate) until: Duration,
    pub(crate) components: Vec<Component>,
    pub(crate) slices: Vec<Slice>,
    pub(crate) owners: Vec<Owner>,
    pub(crate) term: Option<(u64, String)>,
}

/// Whatever was seen.
#[derive(Clone, Default, Debug)]
pub(crate) struct WatchLog {
    pub(crate) looks: Vec<Look>,
}

/// Does something, and looks meanwhile.
pub(crate) fn watching<T: Send>(
    scene: &Scene,
    stopwatch: Stopwatch,
    work: impl FnOnce() -> Result<T, String> + Send,
) -> Result<(T, WatchLog), String> {
    let mut ledger = scene.ledger()?;
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let watch = scope.spawn(|| watch(&mut ledger, stopwatch, &is_over));
        let done = work();
        is_over.store(true, Ordering::Relaxed);
        let seen = watch.join().map_err(|_| "the watch on the database panicked")?;
        Ok((done?, seen))
    })
}

fn watch(ledger: &mut Ledger, stopwatch: Stopwatch, is_over: &AtomicBool) -> WatchLog {
    let mut seen = WatchLog::default();
    while !is_over.load(Ordering::Relaxed) {
        let began = stopwatch.elapsed();
        if let Some(look) = look(ledger, stopwatch) {
            seen.looks.push(look);
        }
        stopwatch.wait_until(began + LOOK_EVERY);
        // Also when looks take long: the machine is others' too.
        pause(LOOK_EVERY / 10);
    }
    seen
}

pub(crate) fn look(ledger: &mut Ledger, stopwatch: Stopwatch) -> Option<Look> {
    // Owners first: what was confirmed since makes a slice only more certain.
    let owners = ledger.owners()?;
    let (components, slices, term) = (ledger.components()?, ledger.slices()?, ledger.term());
    Some(Look { until: stopwatch.elapsed(), components, slices, owners, term })
}

impl WatchLog {
    /// Components that were seen smaller than before (INV-1).
    pub(crate) fn decreases(&self) -> usize {
        let mut highest = BTreeMap::new();
        let mut decreases = 0;
        for component in self.looks.iter().flat_map(|look| &look.components) {
            let Component { key, epoch, sequence, owner, count } = *component;
            let known = highest.entry((key, epoch, sequence, owner)).or_insert(count);
            decreases += usize::from(count < *known);
            *known = (*known).max(count);
        }
        decreases
    }

    /// How much more a region's row of a key ever had than the region's nodes admitted by then (INV-2). What
    /// was never answered may have been admitted.
    pub(crate) fn unearned(&self, key: u128, region: &str, samples: &Samples) -> u64 {
        let perhaps = samples.only(|sample| sample.verdict != Verdict::Denied);
        let excess = |look: &Look| {
            let owners: Vec<u32> =
                look.owners.iter().filter(|owner| owner.region == region).map(|owner| owner.id).collect();
            let rows = look.components.iter().filter(|row| row.key == key && owners.contains(&row.owner));
            let published: u64 = rows.map(|row| row.count).sum();
            // Samples are in the order in which they were sent.
            let earned = perhaps.0.partition_point(|sample| sample.at <= look.until);
            published.saturating_sub(u64::try_from(earned).unwrap_or(u64::MAX))
        };
        self.looks.iter().map(excess).max().unwrap_or(0)
    }

    /// When the reconciler's term was first seen above what it was at that time.
    pub(crate) fn next_term_after(&self, at: Duration) -> Option<Duration> {
        let term = |look: &Look| look.term.as_ref().map(|(term, _)| *term);
        let before = self.looks.iter().filter(|look| look.until <= at).filter_map(term).next_back()?;
        let later =
            self.looks.iter().find(|look| look.until > at && term(look).is_some_and(|term| term > before));
        later.map(|look| look.until)
    }
}
