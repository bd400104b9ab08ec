//! Target 4: what is lost with a node that is killed while it holds a lease.

use crate::Setting;
use crate::figures::{Bounds, Figures, count};
use crate::plan::{Limit, Plan};
use crate::scene::{HOUR, NODES, Scene, add, ticked};
use crate::time::{Stopwatch, with_room_in_cell};
use std::time::Duration;

const BAR: u8 = 4;
const RUNS: u32 = 3;
const PER_NODE: u32 = 10_000;
const LIMIT: u64 = 100_000;
const LENGTH: Duration = Duration::from_secs(7);

pub(crate) fn measure(setting: &Setting) -> Result<(), String> {
    (0..RUNS).try_for_each(|run| killed(setting, run))
}

fn killed(setting: &Setting, run: u32) -> Result<(), String> {
    let mut scene = Scene::start(setting)?;
    with_room_in_cell(HOUR, Duration::from_secs(30));
    let limit = [Limit::new(format!("held-{run}"), LIMIT, HOUR)];
    let mut plan = Plan::default();
    add(&mut plan, 0, &NODES, 3 * PER_NODE, LENGTH, &limit);
    let plan = ticked(plan);
    let stopwatch = Stopwatch::start();
    let Scene { generator, fleet, .. } = &mut scene;
    let samples = std::thread::scope(|scope| {
        let sending = scope.spawn(|| generator.run(&plan, stopwatch));
        stopwatch.wait_until(Duration::from_millis(2_000) + Duration::from_millis(31) * run);
        fleet.0[0].process.kill();
        sending.join()
    });
    let samples = samples.map_err(|_| "the generator panicked")?.map_err(|error| error.to_string())?;
    // What it admitted and nobody read the answer of was admitted, too.
    let answered = count(samples.admitted());
    let figures = Figures::of(BAR, "one of three nodes killed");
    let unused = count(usize::try_from(LIMIT).unwrap_or(0)) - answered;
    let lease = f64::from(PER_NODE) / 10.0;
    figures.told("left unused, or admitted without anybody reading it", unused);
    figures.worst("that ÷ 100 ms of its share", unused / lease, Bounds::AtMost(1.25));
    figures.worst("admitted − limit", -unused, Bounds::AtMost(0.0));
    Ok(())
}
