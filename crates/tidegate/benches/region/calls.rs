//! Target 3: what a key costs its store. Calls grow with keys and nodes, not with requests.

use crate::Setting;
use crate::figures::{Bounds, Figures, count, note};
use crate::fleet::Fleet;
use crate::generator::{Generator, Width};
use crate::plan::{Limit, Nodes, Plan, Stream};
use crate::samples::Samples;
use crate::time::{Stopwatch, at_next_cell, with_room_in_cell};
use std::time::Duration;
use tidegate_testkit::Redis;

const BAR: u8 = 3;
const NODES: [usize; 3] = [0, 1, 2];
const PERIOD: Duration = Duration::from_secs(10);
const LIMIT: u64 = 10_000;
const PER_SECOND: u32 = 20_000;
const TICK: Duration = Duration::from_millis(2);
const HOUR: Duration = Duration::from_secs(3600);
const DENIED: usize = 1_000_000;
/// As one run sends at once; the answers to all of them fit in memory well.
const DENIED_AT_ONCE: usize = 100_000;

pub(crate) fn measure(setting: &Setting) -> Result<(), String> {
    note(BAR, "three nodes; the generator pipelines its requests, every 2 ms those that are due");
    let redis = setting.wait_for(Redis::start());
    let fleet = Fleet::start(&redis.url(), NODES.len())?;
    let mut generator = Generator::connect(&fleet.addresses(), Width::PIPELINED)
        .map_err(|error| format!("can't connect: {error}"))?;
    two_cells(setting, &redis, &fleet, &mut generator)?;
    denied(setting, &redis, &fleet, &mut generator)
}

/// Script calls that the store has seen, heartbeats among them.
fn calls(setting: &Setting, redis: &Redis) -> f64 {
    let calls = setting.wait_for(async { redis.calls_of("evalsha").await + redis.calls_of("eval").await });
    count(usize::try_from(calls).unwrap_or(0))
}

/// What the nodes have sent about keys.
fn exchanges(fleet: &Fleet) -> f64 {
    count(usize::try_from(fleet.sum("origin_exchanges")).unwrap_or(0))
}

fn two_cells(
    setting: &Setting,
    redis: &Redis,
    fleet: &Fleet,
    generator: &mut Generator,
) -> Result<(), String> {
    let mut plan = Plan::default();
    plan.add(&Stream {
        kind: 0,
        from: Duration::ZERO,
        count: usize::try_from(2 * 10 * PER_SECOND).unwrap_or(0),
        per_second: f64::from(PER_SECOND),
        nodes: Nodes::InTurn(&NODES),
        limits: &[Limit::new("busy", LIMIT, PERIOD)],
    });
    let plan = plan.ticked(TICK);
    let stopwatch = at_next_cell(PERIOD);
    let (samples, seen) = std::thread::scope(|scope| {
        let sending = scope.spawn(|| generator.run(&plan, stopwatch));
        let seen = [0, 1, 2].map(|cell| {
            stopwatch.wait_until(PERIOD * cell);
            (calls(setting, redis), exchanges(fleet))
        });
        (sending.join(), seen)
    });
    let samples = samples.map_err(|_| "the generator panicked")?.map_err(|error| error.to_string())?;
    for (cell, bound) in [(0_u32, 1000.0), (1, 3000.0)] {
        let [before, after] = [0, 1].map(|more| seen[usize::try_from(cell + more).unwrap_or(0)]);
        let (calls, exchanges) = (after.0 - before.0, after.1 - before.1);
        let figures = Figures::of(BAR, format!("10,000 per 10 s at 20,000 a second, cell {}", cell + 1));
        figures.worst("script calls, heartbeats included", calls, Bounds::AtMost(bound));
        figures.told("of these about the key", exchanges);
        tell_load(&figures, &samples.between(PERIOD * cell, PERIOD * (cell + 1)));
    }
    Ok(())
}

/// Whether the machine managed the load.
fn tell_load(figures: &Figures, samples: &Samples) {
    let admitted = count(samples.admitted()) / f64::from(u32::try_from(LIMIT).unwrap_or(1));
    figures.told("admitted ÷ limit", admitted);
    figures.told("answered a second", count(samples.len() - samples.errors()) / PERIOD.as_secs_f64());
    figures.told("p99 of all answers, ms", samples.latency_ms(990));
    figures.worst("errors", count(samples.errors()), Bounds::AtMost(0.0));
}

fn denied(setting: &Setting, redis: &Redis, fleet: &Fleet, generator: &mut Generator) -> Result<(), String> {
    let limit = [Limit::new("spent", 100, HOUR)];
    with_room_in_cell(HOUR, Duration::from_secs(60));
    // The first second: everything is spent, and every node knows it.
    let first = stream(1000, 1000.0, &limit);
    generator.run(&first, Stopwatch::start()).map_err(|error| error.to_string())?;
    let (sent_before, seen) = (exchanges(fleet), calls(setting, redis));
    let stopwatch = Stopwatch::start();
    let (mut sent, mut denied) = (0, 0);
    while sent < DENIED {
        let flood = stream(DENIED_AT_ONCE, f64::INFINITY, &limit);
        let samples = generator.run(&flood, Stopwatch::start()).map_err(|error| error.to_string())?;
        sent += samples.len();
        denied += samples.len() - samples.admitted() - samples.errors();
    }
    let length = stopwatch.elapsed().as_secs_f64();
    let figures = Figures::of(BAR, "1,000,000 requests on a key that is spent");
    let exchanged = exchanges(fleet) - sent_before;
    figures.worst("calls about the key after the first second", exchanged, Bounds::AtMost(0.0));
    figures.told("script calls meanwhile, all of them heartbeats", calls(setting, redis) - seen);
    figures.worst("denied", count(denied), Bounds::AtLeast(count(DENIED)));
    figures.told("denied a second", count(denied) / length);
    Ok(())
}

fn stream(count: usize, per_second: f64, limits: &[Limit]) -> Plan {
    let mut plan = Plan::default();
    let nodes = Nodes::InTurn(&NODES);
    plan.add(&Stream { kind: 0, from: Duration::ZERO, count, per_second, nodes, limits });
    plan
}
