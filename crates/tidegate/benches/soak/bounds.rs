//! What was admitted in every cell of every limit, held against the limit with the overshoot that is stated for it.
//!
//! A cell counts what was certainly decided in it. What nodes said they couldn't verify, the class admits on purpose: it
//! is added to the bound, and so is what a killed node or a store that forgot may have lost.

use crate::books::Attempt;
use crate::scene::REGIONS;
use crate::stores::Run;
use crate::subject::{Allows, Family, Subject};
use std::time::Duration;

/// `δ·(½ + ⅓)` of the limit, for two nodes, and a quarter of it for `abuse` (section 3 of the design).
const UNSEEN: f64 = 0.25 * (1.0 / 2.0 + 1.0 / 3.0);
const UNSEEN_ABUSE: f64 = 0.25;
/// Between regions, an even load: simulated 1.03 (docs/world.md), and the regions' own overshoot beside it.
const UNSEEN_WORLD: f64 = 0.10;
/// While regions can't hear each other, each admits by what it knows, and no more than the whole.
const ALONE: f64 = 3.0 * (1.0 + UNSEEN);
/// What a killed node may not have published (100 ms), and some for a machine that is busy.
pub(crate) const LOST_WITH_NODE: Duration = Duration::from_millis(150);
/// Before and after a store forgot: what its nodes hadn't heard of each other, until they have told it again.
const FORGOTTEN: Duration = Duration::from_secs(1);

/// Looks at all cells that ended by `to` and hadn't by `from`.
pub(crate) fn check(run: &Run<'_>, from: Duration, to: Duration) {
    for (index, subject) in run.subjects.iter().enumerate() {
        let Allows::Window { period, .. } = subject.family.allows() else { continue };
        if subject.family == Family::Ledger {
            continue;
        }
        let attempts = run.books.of(index).clone();
        for sequence in run.sequence(from, period)..run.sequence(to, period) {
            let cell = run.cell(sequence, period);
            if cell.0.is_zero() {
                // It began before we did.
                continue;
            }
            if subject.family.is_world() {
                check_world(run, subject, &attempts, cell);
            } else {
                (0..REGIONS).for_each(|region| check_region(run, subject, &attempts, cell, region));
            }
        }
    }
}

fn check_region(
    run: &Run<'_>,
    subject: &Subject,
    attempts: &[Attempt],
    cell: (Duration, Duration),
    region: usize,
) {
    let Allows::Window { limit, .. } = subject.family.allows() else { return };
    let limit = if subject.family == Family::Window { run.history.limits(cell.0, cell.1).0 } else { limit };
    let stated = match subject.family {
        Family::Exact => 0.0,
        Family::Abuse => UNSEEN_ABUSE,
        _ => UNSEEN,
    };
    let of_region = |attempt: &&Attempt| attempt.region() == region;
    let admitted = attempts
        .iter()
        .filter(of_region)
        .filter(|attempt| attempt.is_admitted() && attempt.is_within(cell.0, cell.1));
    let admitted = admitted.count();
    let unverified = attempts.iter().filter(of_region).filter(|attempt| {
        attempt.is_admitted() && attempt.unverified && attempt.may_be_within(cell.0, cell.1)
    });
    let excused = unverified.count() + excused(run, attempts, cell, region);
    let bound = whole(number(limit) * (1.0 + stated)) + excused;
    run.findings.admitted(subject.family, admitted, limit, excused > 0);
    if admitted > bound {
        run.findings.broken(
            "more admitted in a cell than is stated",
            format!(
                "{} in region {region}, {:?} to {:?}: {admitted} of {limit}, {bound} at most with {excused} excused",
                subject.name, cell.0, cell.1
            ),
        );
    }
}

/// What a node that was killed may not have told, and what a store that forgot may not have been told again.
fn excused(run: &Run<'_>, attempts: &[Attempt], cell: (Duration, Duration), region: usize) -> usize {
    let admitted = |from: Duration, to: Duration, node: Option<usize>| {
        let is_it = |attempt: &&Attempt| {
            attempt.region() == region
                && node.is_none_or(|node| usize::from(attempt.node) == node)
                && !attempt.is_denied()
                && attempt.may_be_within(from, to)
        };
        attempts.iter().filter(is_it).count()
    };
    let is_in = |at: Duration| at + FORGOTTEN >= cell.0 && at <= cell.1 + FORGOTTEN;
    let killed = run.history.killed(Some(region)).into_iter().filter(|(_, at)| is_in(*at));
    let with_nodes: usize =
        killed.map(|(node, at)| admitted(at.saturating_sub(LOST_WITH_NODE), at, Some(node))).sum();
    let emptied = run.history.emptied(region).into_iter().filter(|(from, to)| is_in(*from) || is_in(*to));
    let with_stores: usize = emptied
        .map(|(from, to)| admitted(from.saturating_sub(FORGOTTEN), to.saturating_add(FORGOTTEN), None))
        .sum();
    with_nodes + with_stores
}

fn check_world(run: &Run<'_>, subject: &Subject, attempts: &[Attempt], cell: (Duration, Duration)) {
    let Allows::Window { limit, .. } = subject.family.allows() else { return };
    let admitted: Vec<&Attempt> = attempts
        .iter()
        .filter(|attempt| attempt.is_admitted() && attempt.is_within(cell.0, cell.1))
        .collect();
    let excuse = |attempt: &&&Attempt| attempt.unverified || run.history.was_parted(attempt.at);
    let excused = admitted.iter().filter(excuse).count();
    // `abuse` stops at its credit when nobody can be told: only a store that forgot excuses it.
    let excused = if subject.family == Family::WorldAbuse {
        (0..REGIONS).map(|region| self::excused(run, attempts, cell, region)).sum()
    } else {
        excused
    };
    let bound = whole(number(limit) * (1.0 + UNSEEN_WORLD)) + excused;
    let bound = bound.min(whole(number(limit) * ALONE));
    run.findings.admitted(subject.family, admitted.len(), limit, excused > 0);
    if admitted.len() > bound {
        run.findings.broken(
            "more admitted in a cell than is stated",
            format!(
                "{}, {:?} to {:?}: {} of {limit}, {bound} at most with {excused} excused",
                subject.name,
                cell.0,
                cell.1,
                admitted.len()
            ),
        );
    }
}

#[expect(clippy::cast_precision_loss, reason = "limits of a benchmark are far below 2^52")]
pub(crate) fn number(count: u64) -> f64 {
    count as f64
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "some thousands, and none below 0"
)]
fn whole(value: f64) -> usize {
    value.floor() as usize
}
