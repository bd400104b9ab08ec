//! What was admitted in every cell of every limit, held against the limit with the overshoot that is stated for it.
//!
//! A cell counts what was certainly decided in it. What was admitted beyond the limit must be in an account: *credit*
//! (the overshoot that is stated for the class), *unverified* (as the nodes reported it), *lost with a node* (what a
//! killed node hadn't published) and *recovering* (what was admitted while Redis was short of what it had lost).

use crate::books::Attempt;
use crate::scene::REGIONS;
use crate::stores::Run;
use crate::subject::{Allows, Family, Subject};
use std::time::Duration;

/// `δ·(½ + ⅓)` of the limit, for two nodes, and a quarter of it for `abuse` (docs/accuracy.md).
const UNSEEN: f64 = 0.25 * (1.0 / 2.0 + 1.0 / 3.0);
const UNSEEN_ABUSE: f64 = 0.25;
/// Between regions, an even load: simulated 1.03 (docs/world.md), and the regions' own overshoot beside it.
const UNSEEN_WORLD: f64 = 0.10;
/// While regions can't hear each other, each admits by what it knows, and no more than the whole.
const ALONE: f64 = 3.0 * (1.0 + UNSEEN);
/// What a killed node may not have published (100 ms), and some for a machine that is busy.
pub(crate) const LOST_WITH_NODE: Duration = Duration::from_millis(150);

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
            let judged = Judged { index, subject, attempts: &attempts, sequence, cell };
            if subject.family.is_world() {
                check_world(run, &judged);
            } else {
                (0..REGIONS).for_each(|region| check_region(run, &judged, region));
            }
        }
    }
}

/// One cell of one key.
#[derive(Clone, Copy, Debug)]
struct Judged<'a> {
    index: usize,
    subject: &'a Subject,
    attempts: &'a [Attempt],
    sequence: u64,
    cell: (Duration, Duration),
}

fn check_region(run: &Run<'_>, judged: &Judged<'_>, region: usize) {
    let Judged { subject, attempts, cell, .. } = *judged;
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
    let accounts = Accounts {
        unverified: unverified.count(),
        lost_with_node: lost_with_nodes(run, attempts, cell, region),
        recovering: run.shortfalls.admitted_in((judged.index, region), attempts, judged.sequence, cell),
    };
    let credit = whole(number(limit) * (1.0 + stated));
    run.findings.admitted(subject.family, admitted, limit, accounts.sum() > 0);
    if admitted > credit + accounts.sum() {
        run.findings.broken(
            "overshoot: more admitted in a cell than its accounts hold",
            format!(
                "{} in region {region}, {:?} to {:?}: {admitted} of {limit}, {credit} with credit, {accounts:?}",
                subject.name, cell.0, cell.1
            ),
        );
    }
}

/// What a cell may hold beyond its limit and credit, in units.
#[derive(Clone, Copy, Debug)]
struct Accounts {
    unverified: usize,
    lost_with_node: usize,
    recovering: usize,
}

impl Accounts {
    fn sum(&self) -> usize {
        self.unverified + self.lost_with_node + self.recovering
    }
}

/// What killed nodes of a region had admitted and may not have published.
fn lost_with_nodes(run: &Run<'_>, attempts: &[Attempt], cell: (Duration, Duration), region: usize) -> usize {
    let killed = run.history.killed(Some(region)).into_iter();
    let unpublished = killed.map(|(node, at)| {
        let is_it = |attempt: &&Attempt| {
            usize::from(attempt.node) == node
                && !attempt.is_denied()
                && attempt.at <= at
                && attempt.may_be_within(at.saturating_sub(LOST_WITH_NODE), at)
                && attempt.may_be_within(cell.0, cell.1)
        };
        attempts.iter().filter(is_it).count()
    });
    unpublished.sum()
}

fn check_world(run: &Run<'_>, judged: &Judged<'_>) {
    let Judged { subject, attempts, cell, .. } = *judged;
    let Allows::Window { limit, .. } = subject.family.allows() else { return };
    let admitted: Vec<&Attempt> = attempts
        .iter()
        .filter(|attempt| attempt.is_admitted() && attempt.is_within(cell.0, cell.1))
        .collect();
    // While counts can't cross between regions, each admits by what it knows; `abuse` stops at its credit.
    let is_in_account = |attempt: &&&Attempt| {
        attempt.unverified || (subject.family != Family::WorldAbuse && run.history.was_parted(attempt.at))
    };
    let in_accounts = admitted.iter().filter(is_in_account).count();
    let lost: usize = (0..REGIONS).map(|region| lost_with_nodes(run, attempts, cell, region)).sum();
    let accounts = in_accounts + lost;
    let bound = whole(number(limit) * (1.0 + UNSEEN_WORLD)) + accounts;
    let bound = bound.min(whole(number(limit) * ALONE));
    run.findings.admitted(subject.family, admitted.len(), limit, accounts > 0);
    if admitted.len() > bound {
        run.findings.broken(
            "overshoot: more admitted in a cell than its accounts hold",
            format!(
                "{}, {:?} to {:?}: {} of {limit}, {bound} at most with {in_accounts} unverified or parted, {lost} lost",
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
