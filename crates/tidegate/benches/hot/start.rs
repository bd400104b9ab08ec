//! Target 3: how long it takes until a key that nobody knew is leased, and what is admitted too much meanwhile.

use crate::Setting;
use crate::figures::{Bounds, Figures, count};
use crate::plan::{Limit, Plan};
use crate::scene::{HOUR, NODES, Scene, add, ticked};
use crate::time::{Stopwatch, pause, with_room_in_cell};
use std::time::Duration;

const BAR: u8 = 3;
const RUNS: usize = 5;
/// To one node.
const PER_SECOND: u32 = 12_000;
const LENGTH: Duration = Duration::from_secs(2);
const LOOK_EVERY: Duration = Duration::from_millis(10);
/// Spent before anybody has found out that the key is hot.
const SMALL: u64 = 3_000;

pub(crate) fn measure(setting: &Setting) -> Result<(), String> {
    let mut scene = Scene::start(setting)?;
    for run in 0..RUNS {
        with_room_in_cell(HOUR, Duration::from_secs(20));
        until_leased(&mut scene, run)?;
        overshoot(&mut scene, run)?;
    }
    Ok(())
}

fn until_leased(scene: &mut Scene<'_>, run: usize) -> Result<(), String> {
    let name = format!("new-{run}");
    let limit = [Limit::new(&*name, 1_000_000_000, HOUR)];
    let mut plan = Plan::default();
    add(&mut plan, 0, &NODES[..1], PER_SECOND, LENGTH, &limit);
    let plan = ticked(plan);
    let stopwatch = Stopwatch::start();
    let Scene { generator, fleet, .. } = scene;
    let (samples, leased) = std::thread::scope(|scope| {
        let sending = scope.spawn(|| generator.run(&plan, stopwatch));
        let leased = loop {
            if fleet.0[0].is_leased(&name) {
                break Some(stopwatch.elapsed());
            }
            if stopwatch.elapsed() > LENGTH {
                break None;
            }
            pause(LOOK_EVERY);
        };
        (sending.join(), leased)
    });
    let samples = samples.map_err(|_| "the generator panicked")?.map_err(|error| error.to_string())?;
    let figures = Figures::of(BAR, "12,000 a second to one node, never seen before");
    let leased = leased.map_or(f64::INFINITY, |after| after.as_secs_f64() * 1000.0);
    figures.worst("leased after, ms", leased, Bounds::AtMost(500.0));
    figures.worst("errors", count(samples.errors()), Bounds::AtMost(0.0));
    Ok(())
}

/// Three nodes spend a small limit before it is leased: the bound of credit (docs/accuracy.md) holds.
fn overshoot(scene: &mut Scene<'_>, run: usize) -> Result<(), String> {
    let limit = [Limit::new(format!("spent-{run}"), SMALL, HOUR)];
    let mut plan = Plan::default();
    add(&mut plan, 0, &NODES, 3 * PER_SECOND, LENGTH / 2, &limit);
    let samples = scene.run(&ticked(plan))?;
    let figures = Figures::of(BAR, "36,000 a second to three nodes, spent before it is leased");
    let ratio = count(samples.admitted()) / count(usize::try_from(SMALL).unwrap_or(1));
    // A quarter of the limit, times 1/2 + 1/3 + 1/4.
    figures.worst("admitted ÷ limit", ratio, Bounds::Within(0.98, 1.0 + 0.25 * 13.0 / 12.0));
    figures.told("unverified", count(samples.unverified()));
    Ok(())
}
