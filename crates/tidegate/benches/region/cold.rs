//! Target 9: checks of keys that nobody has seen before, each of which asks the store. The node is a sidecar here:
//! it is asked over its Unix socket.

use crate::Setting;
use crate::figures::{Bounds, Figures, count, note};
use crate::fleet::Fleet;
use crate::generator::{Generator, Width};
use crate::machine::Ticks;
use crate::plan::{Limit, Nodes, Plan, Stream};
use crate::relay::Relay;
use crate::samples::Samples;
use crate::time::Stopwatch;
use std::path::PathBuf;
use std::time::Duration;
use tidegate_testkit::Redis;

const BAR: u8 = 9;
const PER_SECOND: u32 = 5000;
const RUNS: usize = 3;
const PERIOD: Duration = Duration::from_secs(60);
const BOUND: Duration = Duration::from_millis(2);
/// Of each run, not measured: connections and pages are warm afterwards.
const WARM_UP: Duration = Duration::from_secs(1);

pub(crate) fn measure(setting: &Setting) -> Result<(), String> {
    let redis = setting.wait_for(Redis::start());
    let fleet = Fleet::start(&redis.url(), 1)?;
    let relay = Relay::start(redis.address())?;
    let connect = |socket: PathBuf| {
        Generator::connect(&[socket], Width::APART).map_err(|error| format!("can't connect: {error}"))
    };
    let mut node = connect(fleet.sockets().remove(0))?;
    let mut floor = connect(relay.socket.clone())?;
    let length = WARM_UP + setting.seconds(5, 20);
    note(
        BAR,
        "in turns, the floor: a thread that has the same redis-server keep a plain key for each request, those that \
         wait in one write, and answers a constant; what it misses nothing on this machine can hold",
    );
    for run in 0..RUNS {
        report(&send(&mut node, run, length)?);
        let (samples, _) = send(&mut floor, run, length)?;
        let figures = Figures::of(BAR, "5,000 requests a second, the floor");
        figures.told("p50, ms", samples.latency_ms(500));
        figures.told("p99, ms", samples.latency_ms(990));
        figures.told("answered within 2 ms, %", 100.0 * samples.share_within(BOUND));
    }
    Ok(())
}

/// Requests about keys that nobody has seen; and how busy the machine was.
fn send(generator: &mut Generator, run: usize, length: Duration) -> Result<(Samples, f64), String> {
    let requests = usize::try_from(u64::from(PER_SECOND) * length.as_secs()).unwrap_or(0);
    let key = |number: usize| Limit::new(format!("cold-{run}-{number}"), 100, PERIOD);
    let limits: Vec<Limit> = (0..requests).map(key).collect();
    let mut plan = Plan::default();
    plan.add(&Stream {
        kind: 0,
        from: Duration::ZERO,
        count: requests,
        per_second: f64::from(PER_SECOND),
        nodes: Nodes::InTurn(&[0]),
        limits: &limits,
    });
    let busy = Ticks::now();
    let samples = generator.run(&plan, Stopwatch::start()).map_err(|error| error.to_string())?;
    Ok((samples.between(WARM_UP, length), busy.busy_since()))
}

fn report((samples, busy): &(Samples, f64)) {
    let figures = Figures::of(BAR, "5,000 new keys a second, one node");
    figures.told("p50, ms", samples.latency_ms(500));
    figures.median("p99, ms", samples.latency_ms(990), Bounds::AtMost(2.0));
    figures.told("answered within 2 ms, %", 100.0 * samples.share_within(BOUND));
    // Those weren't answered by the store.
    let unverified = 100.0 * count(samples.unverified()) / count(samples.len());
    figures.median("decided unverified, %", unverified, Bounds::AtMost(1.0));
    figures.worst("errors", count(samples.errors()), Bounds::AtMost(0.0));
    figures.told("machine busy, %", *busy);
}
