//! Target 2: what a leased key costs its store, and that it never admits too much.

use crate::Setting;
use crate::figures::{Bounds, Figures, count, note};
use crate::plan::{Limit, Plan};
use crate::scene::{HOUR, NODES, Scene, add, ticked};
use crate::time::{Stopwatch, with_room_in_cell};
use std::time::Duration;

const BAR: u8 = 2;
/// Requests a second over all nodes: each node sees more than is hot.
const RATES: [u32; 2] = [30_000, 45_000];
const WARM_UP: Duration = Duration::from_secs(2);
const MEASURED: Duration = Duration::from_secs(8);
const CALLS_PER_NODE: f64 = 10.0;

pub(crate) fn measure(setting: &Setting) -> Result<(), String> {
    let mut scene = Scene::start(setting)?;
    for rate in RATES {
        with_room_in_cell(HOUR, Duration::from_secs(60));
        calls(&mut scene, rate)?;
    }
    with_room_in_cell(HOUR, setting.seconds(120, 600));
    overspent(setting, &mut scene)
}

/// Nobody is near the limit: leases are all that is asked for.
fn calls(scene: &mut Scene<'_>, rate: u32) -> Result<(), String> {
    let limit = [Limit::new(format!("busy-{rate}"), 1_000_000_000, HOUR)];
    let mut plan = Plan::default();
    add(&mut plan, 0, &NODES, rate, WARM_UP + MEASURED, &limit);
    let plan = ticked(plan);
    let stopwatch = Stopwatch::start();
    let Scene { generator, fleet, .. } = scene;
    let (samples, seen) = std::thread::scope(|scope| {
        let sending = scope.spawn(|| generator.run(&plan, stopwatch));
        let seen = [WARM_UP, WARM_UP + MEASURED].map(|at| {
            stopwatch.wait_until(at);
            count(usize::try_from(fleet.sum("origin_exchanges")).unwrap_or(0))
        });
        (sending.join(), seen)
    });
    let samples = samples.map_err(|_| "the generator panicked")?.map_err(|error| error.to_string())?;
    let per_node = (seen[1] - seen[0]) / MEASURED.as_secs_f64() / count(NODES.len());
    let figures = Figures::of(BAR, format!("leased, {rate} requests a second"));
    figures.worst("calls a second and node", per_node, Bounds::AtMost(CALLS_PER_NODE));
    figures.told("admitted ÷ offered", count(samples.admitted()) / count(samples.len()));
    figures.told("unverified", count(samples.unverified()));
    figures.told("p99, ms", samples.latency_ms(990));
    figures.worst("errors", count(samples.errors()), Bounds::AtMost(0.0));
    Ok(())
}

/// Far more requests than the limit has room for.
fn overspent(setting: &Setting, scene: &mut Scene<'_>) -> Result<(), String> {
    const LIMIT: u64 = 150_000;
    const AT_ONCE: usize = 300_000;
    let requests = if setting.is_long() { 10_000_000 } else { 1_200_000 };
    note(BAR, "10 million requests with --long, 1.2 million without");
    let limit = [Limit::new("overspent", LIMIT, HOUR)];
    let (mut sent, mut admitted, mut unverified, mut errors) = (0, 0, 0, 0);
    let before = scene.exchanges();
    let stopwatch = Stopwatch::start();
    while sent < requests {
        let mut plan = Plan::default();
        let length = Duration::from_secs_f64(count(AT_ONCE) / f64::from(RATES[0]));
        add(&mut plan, 0, &NODES, RATES[0], length, &limit);
        let samples = scene.run(&ticked(plan))?;
        sent += samples.len();
        admitted += samples.admitted();
        unverified += samples.unverified();
        errors += samples.errors();
    }
    let calls = (scene.exchanges() - before) / stopwatch.elapsed().as_secs_f64() / count(NODES.len());
    let figures = Figures::of(BAR, "leased, far more than the limit");
    let limit = count(usize::try_from(LIMIT).unwrap_or(1));
    figures.told("requests", count(sent));
    figures.worst("admitted − limit", count(admitted) - limit, Bounds::AtMost(0.0));
    figures.worst("admitted ÷ limit", count(admitted) / limit, Bounds::Within(0.98, 1.0));
    figures.worst("calls a second and node", calls, Bounds::AtMost(CALLS_PER_NODE));
    figures.told("unverified", count(unverified));
    figures.worst("errors", count(errors), Bounds::AtMost(0.0));
    Ok(())
}
