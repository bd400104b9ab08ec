//! The same scenarios with real processes: nodes, Redis, and regions around a database.

use crate::figures::count;
use crate::fleet::Fleet;
use crate::generator::{Generator, Width};
use crate::plan::{Limit, Nodes, Plan, Stream};
use crate::scene::{REGIONS, Scene, nodes_of};
use crate::simulated::SHIFT;
use crate::time::{Stopwatch, at_next_cell, with_room_in_cell};
use crate::{Case, Setting};
use std::time::Duration;
use tidegate_testkit::Redis;

const RUNS: usize = 3;
const NODES: [usize; 3] = [0, 1, 2];
const HOUR: Duration = Duration::from_secs(3600);
const WINDOW: Duration = Duration::from_secs(10);
const MINUTES: Duration = Duration::from_secs(300);
/// More than a run takes.
const ROOM: Duration = Duration::from_secs(90);
const FORGETS_AT: Duration = Duration::from_secs(6);

/// One number for each run.
pub(crate) fn of_region(setting: &Setting, case: Case) -> Result<Vec<f64>, String> {
    let redis = setting.wait_for(Redis::start());
    let fleet = Fleet::start(&redis.url(), NODES.len())?;
    let width = if case == Case::Burst { Width::PIPELINED } else { Width::APART };
    let mut generator =
        Generator::connect(&fleet.addresses(), width).map_err(|error| format!("can't connect: {error}"))?;
    (0..RUNS).map(|run| once(setting, &redis, &mut generator, case, run)).collect()
}

fn once(
    setting: &Setting,
    redis: &Redis,
    generator: &mut Generator,
    case: Case,
    run: usize,
) -> Result<f64, String> {
    let name = format!("{case:?}-{run}");
    let (limit, requests, per_second) = match case {
        Case::Burst => (Limit::new(name, 1000, HOUR), 6000, 60_000.0),
        Case::Accuracy => (Limit::new(name, 100, WINDOW), 600, 20.0),
        _ => (Limit::new(name, 1000, HOUR), 1400, 100.0),
    };
    let seed = u64::try_from(run).unwrap_or(0);
    let nodes = if case == Case::Burst { Nodes::InTurn(&NODES) } else { Nodes::AtRandom(&NODES, seed) };
    let mut plan = Plan::default();
    plan.add(&Stream { kind: 0, from: Duration::ZERO, count: requests, per_second, nodes, limits: &[limit] });
    with_room_in_cell(HOUR, ROOM);
    let stopwatch = if case == Case::Accuracy { at_next_cell(WINDOW) } else { Stopwatch::start() };
    let samples = std::thread::scope(|scope| {
        let sending = scope.spawn(|| generator.run(&plan, stopwatch));
        if case == Case::Forgetting {
            stopwatch.wait_until(FORGETS_AT);
            setting.wait_for(redis.demand(&["FLUSHALL"]));
        }
        sending.join().map_err(|_| "the generator panicked".to_owned())?.map_err(|error| error.to_string())
    })?;
    Ok(count(samples.admitted()))
}

/// All runs at once, each with a key of its own.
pub(crate) fn of_world(scene: &Scene, case: Case) -> Result<Vec<f64>, String> {
    let mut plan = Plan::default();
    for (run, kind) in (0..RUNS).zip(0..) {
        let limit = match case {
            Case::Shift => Limit::rate(format!("{case:?}-{run}"), 100, 100),
            _ => Limit::new(format!("{case:?}-{run}"), 1000, MINUTES),
        };
        let limits = std::slice::from_ref(&limit);
        for (region, (before, later)) in SHIFT.iter().enumerate().take(REGIONS) {
            let nodes = nodes_of(region);
            let mut add = |from: u64, seconds: usize, per_second: u64| {
                let count = seconds * usize::try_from(per_second).unwrap_or(0);
                let per_second = crate::figures::count(usize::try_from(per_second).unwrap_or(0));
                let (from, nodes) = (Duration::from_secs(from), Nodes::InTurn(&nodes));
                plan.add(&Stream { kind, from, count, per_second, nodes, limits });
            };
            if case == Case::Shift {
                add(0, 20, *before);
                add(20, 20, *later);
            } else {
                add(0, 45, 10);
            }
        }
    }
    with_room_in_cell(MINUTES, ROOM);
    let mut generator = scene.generator(Width::APART)?;
    let samples = generator.run(&plan, Stopwatch::start()).map_err(|error| error.to_string())?;
    Ok((0..RUNS).zip(0..).map(|(_, kind)| count(samples.of_kind(kind).admitted())).collect())
}
