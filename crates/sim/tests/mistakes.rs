//! What was mended stays found: each mistake undoes one fix, and the swarm finds it within 300 seeds.

use tidegate_core::Nanos;
use tidegate_sim::swarm::{self, Mistake};

const SEEDS: u64 = 300;
const MINUTE: Nanos = Nanos::from_secs(60);

#[test]
fn every_mistake_in_recovering_is_found_within_300_seeds() {
    let mistakes = [
        (Mistake::KeepsLeasedLimit, &["overshoot"][..]),
        (Mistake::SendsPastExpiries, &["overshoot", "conservation"]),
        (Mistake::ForgetsLosses, &["conservation"]),
        (Mistake::HidesRestores, &["INV-6"]),
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
