//! Mistakes made on purpose are found: a simulation that doesn't find them proves nothing.

use std::panic::{AssertUnwindSafe, catch_unwind};
use tidegate_sim::WorldSimulation;
use tidegate_sim::world::chaos::{WorldTrouble, scenario};
use tidegate_sim::world::scenario::WorldFlaw;

const SEEDS: u64 = 100;

/// The first seed of 100 that finds the mistake, and what it says.
fn found(flaw: WorldFlaw) -> Option<(u64, String)> {
    (0..SEEDS).find_map(|seed| {
        let mut scenario = scenario(seed, WorldTrouble::World);
        scenario.flaw = Some(flaw);
        let run = || {
            let mut world = WorldSimulation::new(scenario);
            world.run();
        };
        let panicked = catch_unwind(AssertUnwindSafe(run)).err()?;
        Some((seed, panicked.downcast_ref::<String>().cloned().unwrap_or_default()))
    })
}

fn is_found(flaw: WorldFlaw, invariant: &str) {
    let (seed, violation) =
        found(flaw).unwrap_or_else(|| panic!("{flaw:?} is found by none of {SEEDS} seeds"));
    println!("{flaw:?} is found by seed {seed}");
    assert!(violation.contains(invariant), "{flaw:?} is found by something else: {violation}");
}

#[test]
fn imports_that_are_published_again() {
    is_found(WorldFlaw::RepublishesImports, "INV-2");
}

#[test]
fn deltas_instead_of_counts() {
    is_found(WorldFlaw::AddsDeltas, "INV-2");
}
