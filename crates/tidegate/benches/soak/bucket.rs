//! INV-7 as callers see it: in no interval more than burst and refill, with the overshoot that is stated.
//!
//! Intervals of one, three and ten seconds, beginning at every admission.

use crate::books::Attempt;
use crate::bounds::LOST_WITH_NODE;
use crate::scene::REGIONS;
use crate::stores::Run;
use crate::subject::{Allows, Family, Subject};
use std::time::Duration;

const INTERVALS: [Duration; 3] = [Duration::from_secs(1), Duration::from_secs(3), Duration::from_secs(10)];
/// A part of the burst: the bound of credit (docs/accuracy.md), for two nodes.
const UNSEEN: f64 = 0.25 * (1.0 / 2.0 + 1.0 / 3.0);
/// Of everything: where parts of a rate are shifted between regions (docs/world.md).
const SHIFTED: f64 = 0.10;

/// Looks at everything that was answered between.
pub(crate) fn check(run: &Run<'_>, from: Duration, to: Duration) {
    for (index, subject) in run.subjects.iter().enumerate() {
        let Allows::Rate { per_second, burst } = subject.family.allows() else { continue };
        let attempts = run.books.of(index).clone();
        let recent = attempts.iter().filter(|attempt| {
            attempt.is_admitted()
                && attempt.decided_by() >= from.saturating_sub(INTERVALS[2])
                && attempt.at <= to
        });
        let recent: Vec<Attempt> = recent.copied().collect();
        if subject.family == Family::WorldRate {
            check_one(run, (index, subject), &recent, (per_second, burst), None);
        } else {
            for region in 0..REGIONS {
                let own: Vec<Attempt> =
                    recent.iter().filter(|attempt| attempt.region() == region).copied().collect();
                check_one(run, (index, subject), &own, (per_second, burst), Some(region));
            }
        }
    }
}

fn check_one(
    run: &Run<'_>,
    (index, subject): (usize, &Subject),
    admitted: &[Attempt],
    (per_second, burst): (u32, u32),
    region: Option<usize>,
) {
    let of_all = if region.is_none() { 1.0 + SHIFTED } else { 1.0 };
    for length in INTERVALS {
        let bound =
            of_all * f64::from(per_second) * length.as_secs_f64() + f64::from(burst) * (of_all + UNSEEN);
        let mut worst: Option<(usize, usize, Duration)> = None;
        for (first, start) in admitted.iter().enumerate() {
            let end = start.at + length;
            // Sent in order: those that were sent and answered in it.
            let rest = &admitted[first..];
            let rest = &rest[..rest.partition_point(|attempt| attempt.at <= end)];
            let count = rest.iter().filter(|attempt| attempt.decided_by() <= end).count();
            if f64::from(u32::try_from(count).unwrap_or(u32::MAX)) <= bound + 1.0 {
                continue;
            }
            let in_accounts = rest.iter().filter(|attempt| is_in_account(run, index, attempt)).count();
            let excess = count.saturating_sub(in_accounts);
            if f64::from(u32::try_from(excess).unwrap_or(u32::MAX)) > bound + 1.0
                && worst.is_none_or(|(most, ..)| count > most)
            {
                worst = Some((count, in_accounts, start.at));
            }
        }
        run.findings.judged_intervals();
        if let Some((count, in_accounts, at)) = worst {
            run.findings.broken(
                "INV-7: more admitted in an interval than burst and refill",
                format!(
                    "{} in {}: {count} in {length:?} from {at:?} on, {bound:.1} at most, {in_accounts} of them in accounts",
                    subject.name,
                    region.map_or("all regions".to_owned(), |region| format!("region {region}")),
                ),
            );
        }
    }
}

/// Unverified, admitted while Redis was short of the state, or lost with a killed node.
fn is_in_account(run: &Run<'_>, subject: usize, attempt: &Attempt) -> bool {
    let is_lost = |(node, at): &(usize, Duration)| {
        usize::from(attempt.node) == *node
            && attempt.at <= *at
            && attempt.may_be_within(at.saturating_sub(LOST_WITH_NODE), *at)
    };
    attempt.unverified
        || run.shortfalls.holds(subject, attempt)
        || run.history.killed(Some(attempt.region())).iter().any(is_lost)
}
