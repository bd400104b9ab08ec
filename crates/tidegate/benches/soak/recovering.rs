//! How long a Redis that lost data was short of what it had held, measured at that Redis.
//!
//! What a region admits of a key meanwhile can exceed its limit: that is the account *recovering*. It never holds more
//! units than Redis was short of, and it closes when Redis has them again.

use crate::books::Attempt;
use crate::scene::{NODES_PER_REGION, locked};
use crate::stores::{Cell, Reader, Run, total};
use crate::subject::callers;
use crate::time::pause;
use std::collections::BTreeMap;
use std::sync::Mutex;
use std::time::Duration;

const POLL_EVERY: Duration = Duration::from_millis(20);
/// Keys that are spent or idle aren't published again.
const MEASURED_FOR: Duration = Duration::from_millis(1500);

/// One cell that Redis lost.
#[derive(Clone, Debug)]
pub(crate) struct Shortfall {
    subject: usize,
    region: usize,
    /// A window's cell; `None` for the state of a rate.
    sequence: Option<u64>,
    units: u64,
    from: Duration,
    /// When Redis had it again; `None` when it hadn't within the time that was measured.
    until: Option<Duration>,
}

#[derive(Default, Debug)]
pub(crate) struct Shortfalls(Mutex<Vec<Shortfall>>);

/// What a region's Redis holds of the callers' keys, by subject and cell.
pub(crate) type Holding = BTreeMap<(usize, String), Cell>;

/// Reads what a region's Redis holds. Nothing when it doesn't answer.
pub(crate) fn read(run: &Run<'_>, region: usize, reader: &mut Reader) -> Holding {
    let mut holding = Holding::new();
    let callers = run.subjects.iter().enumerate().take(callers());
    // What regions hold of each other's limits heals by the database.
    for (index, subject) in callers.filter(|(_, subject)| !subject.family.is_world()) {
        let cells = reader.cells(&run.scene.regions[region].redis, subject.key, 0).unwrap_or_default();
        holding.extend(cells.into_iter().map(|(name, cell)| ((index, name), cell)));
    }
    holding
}

/// Whether Redis has a cell again that it had held.
fn has_again(name: &str, before: &Cell, now: Option<&Cell>) -> bool {
    let Some(now) = now else { return false };
    if name == "g" {
        // A rate has no total: both nodes have published since.
        return now.keys().filter(|field| field.starts_with("c:")).count() >= NODES_PER_REGION;
    }
    total(now) >= total(before)
}

impl Shortfalls {
    /// Watches a region's Redis until it has again what it held before a loss that began at `from`.
    pub(crate) fn measure(
        &self,
        run: &Run<'_>,
        region: usize,
        before: Holding,
        from: Duration,
    ) -> Result<(), String> {
        let mut reader = Reader::new()?;
        let mut missing = before;
        let mut found = Vec::new();
        let give_up_at = run.stopwatch.elapsed() + MEASURED_FOR;
        while !missing.is_empty() {
            let now = run.stopwatch.elapsed();
            let holding = read(run, region, &mut reader);
            let is_over = now >= give_up_at;
            missing.retain(|place, cell| {
                let is_back = has_again(&place.1, cell, holding.get(place));
                if is_back || is_over {
                    let units = if place.1 == "g" { u64::MAX } else { total(cell) };
                    let until = is_back.then_some(now);
                    let sequence = place.1.parse().ok();
                    found.push(Shortfall { subject: place.0, region, sequence, units, from, until });
                }
                !is_back && !is_over
            });
            pause(POLL_EVERY);
        }
        locked(&self.0).extend(found);
        Ok(())
    }

    fn of(&self, subject: usize, region: usize) -> Vec<Shortfall> {
        let all = locked(&self.0);
        all.iter().filter(|short| short.subject == subject && short.region == region).cloned().collect()
    }

    /// The account of a window's cell: what was admitted while Redis was short of it, or of the cell before.
    pub(crate) fn admitted_in(
        &self,
        (subject, region): (usize, usize),
        attempts: &[Attempt],
        sequence: u64,
        cell: (Duration, Duration),
    ) -> usize {
        let is_of_cell =
            |short: &&Shortfall| short.sequence.is_some_and(|of| of == sequence || of + 1 == sequence);
        let shortfalls = self.of(subject, region);
        let accounts = shortfalls.iter().filter(is_of_cell).map(|short| {
            let from = short.from.max(cell.0);
            let until = short.until.unwrap_or(cell.1).min(cell.1);
            let admitted = attempts.iter().filter(|attempt| {
                attempt.region() == region && !attempt.is_denied() && attempt.may_be_within(from, until)
            });
            let is_open = from <= until;
            if is_open { admitted.count().min(usize::try_from(short.units).unwrap_or(usize::MAX)) } else { 0 }
        });
        accounts.sum()
    }

    /// Whether a rate's admission was made while Redis was short of its state.
    pub(crate) fn holds(&self, subject: usize, attempt: &Attempt) -> bool {
        self.of(subject, attempt.region()).iter().any(|short| {
            short.sequence.is_none()
                && attempt.may_be_within(short.from, short.until.unwrap_or(short.from + MEASURED_FOR))
        })
    }
}
