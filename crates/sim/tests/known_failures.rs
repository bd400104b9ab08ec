//! What the protocol is known to do wrong is found by the swarm when its switch is on, each within 300 seeds.
//!
//! The list is in `src/switches.rs`. When a failure is mended, its entry becomes a mistake that is made on purpose, so
//! that the simulator stays able to find it.

use tidegate_core::Nanos;
use tidegate_sim::swarm::{self, Mistake};
use tidegate_sim::switches::{KNOWN_FAILURES, KnownFailure};

const SEEDS: u64 = 300;
const MINUTE: Nanos = Nanos::from_secs(60);

/// The first seed that finds a failure as it is known, and the message.
fn found(known: &KnownFailure) -> Option<(u64, String)> {
    (0..SEEDS).find_map(|seed| {
        let failure = swarm::run_with(seed, MINUTE, None, known.switches).failure?;
        let (_, message) = failure.message.split_once(": ")?;
        let is_known = known.found_as.iter().any(|start| message.starts_with(start));
        is_known.then(|| (seed, message.lines().next().unwrap_or_default().to_owned()))
    })
}

#[test]
fn every_known_failure_is_found_within_300_seeds() {
    let missed: Vec<&str> = KNOWN_FAILURES
        .iter()
        .filter(|known| match found(known) {
            Some((seed, message)) => {
                println!("{}: seed {seed}: {message}", known.name);
                false
            }
            None => true,
        })
        .map(|known| known.name)
        .collect();
    assert!(missed.is_empty(), "not found within {SEEDS} seeds: {missed:?}");
}

/// What was mended stays found: each mistake undoes one fix.
#[test]
fn every_mistake_in_recovering_is_found_within_300_seeds() {
    let mistakes = [
        (Mistake::KeepsLeasedLimit, &["overshoot"][..]),
        (Mistake::SendsPastExpiries, &["overshoot", "conservation"]),
        (Mistake::ForgetsLosses, &["conservation"]),
        (Mistake::NeverNoticesLoss, &["overshoot", "conservation"]),
        (Mistake::MergesFloorByMax, &["overshoot", "conservation"]),
        (Mistake::AsksInOldEpoch, &["overshoot", "liveness"]),
        (Mistake::MissesResets, &["a denial that is wrong"]),
        (Mistake::ForgetsAcceptance, &["liveness"]),
        (Mistake::TrustsExpiredHolds, &["overshoot"]),
        (Mistake::RepeatsOrders, &["overshoot", "conservation"]),
        (Mistake::FollowsWallClock, &["overshoot", "conservation"]),
    ];
    let is_found = |(mistake, found_as): &(Mistake, &[&str])| {
        let found = (0..SEEDS).find_map(|seed| {
            let failure = swarm::run(seed, MINUTE, Some(*mistake)).failure?;
            let (_, message) = failure.message.split_once(": ")?;
            let is_meant = found_as.iter().any(|start| message.starts_with(start));
            is_meant.then(|| (seed, message.lines().next().unwrap_or_default().to_owned()))
        });
        println!("{mistake:?}: {found:?}");
        found.is_some()
    };
    let missed: Vec<_> =
        mistakes.iter().filter(|mistake| !is_found(mistake)).map(|(mistake, _)| mistake).collect();
    assert!(missed.is_empty(), "not found within {SEEDS} seeds: {missed:?}");
}
