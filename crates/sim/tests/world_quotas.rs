//! Quotas over many regions: the parts of a limit that are in force never sum to more than it, whatever fails; and
//! mistakes made on purpose are found.

use std::panic::{AssertUnwindSafe, catch_unwind};
use tidegate_control::Flaw;
use tidegate_sim::WorldSimulation;
use tidegate_sim::seeds::{TestName, for_each};
use tidegate_sim::world::quota_chaos::scenario;

#[test]
fn parts_in_force_fit_the_limit_at_every_instant() {
    let test = "parts_in_force_fit_the_limit_at_every_instant";
    for_each(TestName { file: "world_quotas", test }, 0..150, |seed| {
        WorldSimulation::new(scenario(seed)).run();
    });
}

/// The first of 100 seeds that finds a mistake of the reconciler.
fn is_found(flaw: Flaw) {
    let found = (0..100).find(|seed| {
        let mut scenario = scenario(*seed);
        scenario.regions.iter_mut().for_each(|region| region.flaw = flaw);
        let panicked = catch_unwind(AssertUnwindSafe(|| WorldSimulation::new(scenario).run())).err();
        let message = panicked.and_then(|panicked| panicked.downcast_ref::<String>().cloned());
        message.is_some_and(|message| message.contains("INV-6"))
    });
    println!("{flaw:?} is found by seed {found:?}");
    assert!(found.is_some(), "{flaw:?} is found by none of 100 seeds");
}

#[test]
fn raising_before_lowering() {
    is_found(Flaw::RaisesFirst);
}

#[test]
fn ignoring_silence() {
    is_found(Flaw::IgnoresSilence);
}

#[test]
fn new_regions_that_hold_something_at_once() {
    is_found(Flaw::ActivatesAtOnce);
}
