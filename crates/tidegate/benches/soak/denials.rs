//! INV-3 as callers see it: whoever was denied had no room left, whatever the stores were like then.
//!
//! For windows of one region, whose answers depend on nothing but its counts. Everything that may have been admitted
//! counts as admitted here.

use crate::books::Attempt;
use crate::scene::REGIONS;
use crate::stores::Run;
use crate::subject::{Allows, Family};
use std::time::Duration;

/// Looks at everything that was sent between.
pub(crate) fn check(run: &Run<'_>, from: Duration, to: Duration) {
    for (index, subject) in run.subjects.iter().enumerate() {
        let Allows::Window { limit, period } = subject.family.allows() else { continue };
        if !matches!(subject.family, Family::Window | Family::Exact) {
            continue;
        }
        let attempts = run.books.of(index).clone();
        for region in 0..REGIONS {
            let own: Vec<Attempt> =
                attempts.iter().filter(|attempt| attempt.region() == region).copied().collect();
            let denied = own.iter().filter(|attempt| {
                attempt.is_denied() && !attempt.unverified && (from..to).contains(&attempt.at)
            });
            for attempt in denied {
                let sequence = run.sequence(attempt.at, period);
                let (start, end) = run.cell(sequence, period);
                // At an edge nobody knows which cell it was decided in.
                if sequence == 0 || start.is_zero() || !attempt.is_within(start, end) {
                    continue;
                }
                let limit =
                    if subject.family == Family::Window { run.history.limits(start, end).1 } else { limit };
                let before = run.cell(sequence - 1, period);
                let used = used(&own, attempt, before, (start, end), period);
                run.findings.judged_denial();
                if used < limit {
                    run.findings.broken(
                        "INV-3: a denial while there was room",
                        format!(
                            "{} in region {region}, at {:?}: {used} of {limit}",
                            subject.name, attempt.at
                        ),
                    );
                }
            }
        }
    }
}

/// The most that can have been used of a sliding window when an attempt was decided.
fn used(
    own: &[Attempt],
    attempt: &Attempt,
    before: (Duration, Duration),
    cell: (Duration, Duration),
    period: Duration,
) -> u64 {
    let count = |from: Duration, to: Duration| {
        let first = own.partition_point(|other| other.at + Duration::from_secs(60) < from);
        // Nearly in order: what is sent again has another instant than what is due.
        let last = own.partition_point(|other| other.at <= to + Duration::from_secs(5));
        let counted = own[first..last]
            .iter()
            .filter(|other| (!other.is_denied() || other.unverified) && other.may_be_within(from, to));
        u64::try_from(counted.count()).unwrap_or(u64::MAX)
    };
    let current = count(cell.0, attempt.decided_by());
    let previous = count(before.0, before.1);
    let left = (cell.1 + crate::books::SKEW).saturating_sub(attempt.at).as_nanos().min(period.as_nanos());
    let faded = u128::from(previous) * left / period.as_nanos();
    current + u64::try_from(faded).unwrap_or(u64::MAX)
}
