//! Target 5: a key of an `exact` rule that comes often is spread over lease holders, and is exact while they come and go.
//!
//! Such a key isn't split into virtual ones; each node holds a lease of it instead (docs/decisions), so
//! holders change in number as nodes start and die.

use crate::Setting;
use crate::figures::{Bounds, Figures, count, note};
use crate::fleet::{Fleet, Node};
use crate::generator::{Generator, Width};
use crate::plan::{Limit, Plan};
use crate::samples::Samples;
use crate::scene::{HOUR, NODES, Scene, add, add_from, ticked};
use crate::time::{Stopwatch, with_room_in_cell};
use std::time::Duration;
use tidegate_testkit::RedisCluster;

const BAR: u8 = 5;
const PER_SECOND: u32 = 20_000;
/// Evenly over all other keys.
const OTHERS_PER_SECOND: u32 = 9_000;
const OTHERS: usize = 3_000;
/// By then the key is leased, and every other one is known.
const WARM_UP: Duration = Duration::from_secs(3);
const MEASURED: Duration = Duration::from_secs(5);
const LENGTH: Duration = Duration::from_secs(12);
/// Spent after what is measured.
const LIMIT: u64 = 190_000;

pub(crate) fn measure(setting: &Setting) -> Result<(), String> {
    note(
        BAR,
        "an `exact` rule of class `abuse`, leased in the place of being split: nodes that start and end in the place of N \
         that changes",
    );
    spread(setting)?;
    come_and_go(setting)
}

/// One key's part of what its shard does can't be seen beside the others'.
fn spread(setting: &Setting) -> Result<(), String> {
    let mut scene = Scene::start(setting)?;
    with_room_in_cell(HOUR, Duration::from_secs(60));
    let others: Vec<Limit> =
        (0..OTHERS).map(|key| Limit::new(format!("other-{key}"), 1_000_000_000, HOUR)).collect();
    let exact = [Limit::new("exact", LIMIT, HOUR).exact().class("abuse")];
    let mut plan = Plan::default();
    add(&mut plan, 0, &NODES, OTHERS_PER_SECOND, LENGTH, &others);
    add(&mut plan, 1, &NODES, PER_SECOND, LENGTH, &exact);
    let plan = ticked(plan);
    let stopwatch = Stopwatch::start();
    let (samples, calls) = scene.run_and_count(&plan, stopwatch, [WARM_UP, WARM_UP + MEASURED])?;
    let mean = calls.iter().sum::<f64>() / count(calls.len());
    let furthest = calls.iter().map(|calls| (calls / mean - 1.0).abs()).fold(0.0, f64::max);
    let (hot, limit) = (samples.of_kind(1), count(usize::try_from(LIMIT).unwrap_or(1)));
    let figures = Figures::of(BAR, format!("an exact rule at {PER_SECOND} a second"));
    figures.told("calls of a shard a second, on average", mean / MEASURED.as_secs_f64());
    figures.worst("furthest shard from the mean", furthest, Bounds::AtMost(0.2));
    figures.worst("admitted ÷ limit", count(hot.admitted()) / limit, Bounds::Within(0.97, 1.0));
    figures.told("unverified, and so denied", count(hot.unverified()));
    figures.told("answered a second", count(samples.len() - samples.errors()) / LENGTH.as_secs_f64());
    figures.worst("errors", count(samples.errors()), Bounds::AtMost(0.0));
    Ok(())
}

/// When three nodes join the first, and when two leave again.
const JOIN_AT: Duration = Duration::from_secs(3);
const JOINED: Duration = Duration::from_secs(2);
const LEAVE_AT: Duration = Duration::from_secs(8);

/// 1 → 4 → 2 holders under load. Of those who leave one is told to, the other is killed.
fn come_and_go(setting: &Setting) -> Result<(), String> {
    let cluster = setting.wait_for(RedisCluster::start());
    let fleet = Fleet::start(&cluster.urls(), 1)?;
    with_room_in_cell(HOUR, Duration::from_secs(60));
    let limit = [Limit::new("comes-and-goes", LIMIT, HOUR).exact().class("abuse")];
    let mut first = connected(&fleet.addresses())?;
    let (mut plan, mut later) = (Plan::default(), Plan::default());
    add(&mut plan, 0, &[0], PER_SECOND / 2, LENGTH, &limit);
    add_from(&mut later, JOIN_AT + JOINED, 0, &[0, 1, 2], PER_SECOND, LENGTH - JOIN_AT - JOINED, &limit);
    let (plan, later) = (ticked(plan), ticked(later));
    let stopwatch = Stopwatch::start();
    let (mut samples, joined) = std::thread::scope(|scope| {
        let sending = scope.spawn(|| first.run(&plan, stopwatch));
        stopwatch.wait_until(JOIN_AT);
        let joined = join(&cluster.urls(), &later, stopwatch);
        (sending.join(), joined)
    });
    let (more, holders) = joined?;
    let samples = samples.as_mut().map_err(|_| "the generator panicked")?;
    let samples = samples.as_mut().map_err(|error| error.to_string())?;
    samples.0.extend(more.0);
    let whole = count(usize::try_from(LIMIT).unwrap_or(1));
    let figures = Figures::of(BAR, "nodes that hold its leases: 1, then 4, then 2");
    figures.told("nodes that held a lease before two left", count(holders + 1));
    figures.told("requests", count(samples.len()));
    figures.worst("admitted − limit", count(samples.admitted()) - whole, Bounds::AtMost(0.0));
    figures.told("admitted ÷ limit", count(samples.admitted()) / whole);
    figures.told("unverified, and so denied", count(samples.unverified()));
    let left = count(usize::try_from(fleet.0[0].ask(&limit[0])?.remaining).unwrap_or(0));
    figures.worst("left of it, as the first node knows in the end", left, Bounds::AtMost(0.0));
    Ok(())
}

/// Three nodes that serve `plan` from when they know each other, and of which two leave. Says how many held a lease.
fn join(origin_url: &str, plan: &Plan, stopwatch: Stopwatch) -> Result<(Samples, usize), String> {
    let joining = Fleet::spawn(origin_url, 3, &[])?;
    for node in &joining.0 {
        node.wait_first_answer(&Limit::new("beside", 1_000_000_000, HOUR), stopwatch)?;
    }
    let mut generator = connected(&joining.addresses())?;
    let (samples, holders) = std::thread::scope(|scope| {
        let sending = scope.spawn(|| generator.run(plan, stopwatch));
        stopwatch.wait_until(LEAVE_AT);
        let holders = joining.0.iter().filter(|node: &&Node| node.is_leased("comes-and-goes")).count();
        joining.0[0].process.terminate();
        joining.0[1].process.kill();
        (sending.join(), holders)
    });
    let samples = samples.map_err(|_| "the generator panicked")?.map_err(|error| error.to_string())?;
    Ok((samples, holders))
}

fn connected(addresses: &[std::net::SocketAddr]) -> Result<Generator, String> {
    Generator::connect(addresses, Width::PIPELINED).map_err(|error| format!("can't connect: {error}"))
}
