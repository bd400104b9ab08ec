//! Target 1: how much three regions admit of one limit together, with either policy of publishing.
//!
//! Several keys at once, each a run of its own, within one cell of five minutes.

use crate::figures::{Bounds, Figures, note};
use crate::scene::{Policy, Scene};
use crate::{Setting, even, flash, innocent};
use std::time::Duration;

pub(crate) const BAR: u8 = 1;
pub(crate) const LIMIT: u32 = 1000;
pub(crate) const PERIOD: Duration = Duration::from_secs(300);

pub(crate) fn measure(setting: &Setting) -> Result<(), String> {
    note(
        BAR,
        "1,000 per 5 min, three regions. Admitted until everybody is denied, and in the 10 s after; every run has a \
         key of its own, runs go on at the same time. `headroom` is held against the targets, `floor` is told",
    );
    for policy in [Policy::Headroom, Policy::Floor] {
        let scene = Scene::start(setting, policy)?;
        std::thread::scope(|scope| {
            let innocence = (policy == Policy::Headroom).then(|| scope.spawn(|| innocent::measure(&scene)));
            even::measure(&scene, policy)?;
            flash::measure(setting, &scene, policy)?;
            innocence.map_or(Ok(()), |thread| thread.join().map_err(|_| "a thread panicked")?)
        })?;
    }
    Ok(())
}

/// Tells a figure, and holds it against a bar where the policy has one.
pub(crate) fn tell(policy: Policy, case: &str, name: &str, value: f64, bounds: Bounds) {
    let figures = Figures::of(BAR, format!("{case}, {}", policy.name()));
    match policy {
        Policy::Headroom => figures.worst(name, value, bounds),
        Policy::Floor => figures.told(name, value),
    }
}
