//! Target 2: every node is sent two limits' worth of one key within 100 ms, and nobody knew the key before.

use crate::Setting;
use crate::figures::{Bounds, Figures, count, note, ratio};
use crate::fleet::Fleet;
use crate::generator::{Generator, Width};
use crate::plan::{Limit, Nodes, Plan, Stream};
use crate::time::{Stopwatch, with_room_in_cell};
use std::time::Duration;
use tidegate_testkit::Redis;

const BAR: u8 = 2;
const SIZES: [usize; 3] = [3, 5, 9];
const LIMITS: [u32; 2] = [100, 1000];
const RUNS: usize = 5;
const LENGTH: Duration = Duration::from_millis(100);
/// Nobody meets the end of a cell during a burst.
const PERIOD: Duration = Duration::from_secs(3600);
/// More than a burst takes to be answered.
const ROOM: Duration = Duration::from_secs(10);
const TICK: Duration = Duration::from_millis(2);

pub(crate) fn measure(setting: &Setting) -> Result<(), String> {
    note(
        BAR,
        "requests are written within 100 ms; `answered after` says how long two cores then took to decide them",
    );
    for nodes in SIZES {
        let redis = setting.wait_for(Redis::start());
        let fleet = Fleet::start(&redis.url(), nodes)?;
        let mut generator = Generator::connect(&fleet.addresses(), Width::PIPELINED)
            .map_err(|error| format!("can't connect: {error}"))?;
        for limit in LIMITS {
            for run in 0..RUNS {
                burst(&mut generator, nodes, limit, run)?;
            }
        }
    }
    Ok(())
}

fn burst(generator: &mut Generator, nodes: usize, limit: u32, run: usize) -> Result<(), String> {
    let key = Limit::new(format!("burst-{limit}-{run}"), u64::from(limit), PERIOD);
    let every: Vec<usize> = (0..nodes).collect();
    let requests = 2.0 * f64::from(limit) * count(nodes);
    let mut plan = Plan::default();
    plan.add(&Stream {
        kind: 0,
        from: Duration::ZERO,
        count: usize::try_from(2 * limit).unwrap_or(0) * nodes,
        per_second: requests / LENGTH.as_secs_f64(),
        nodes: Nodes::InTurn(&every),
        limits: &[key],
    });
    with_room_in_cell(PERIOD, ROOM);
    let samples = generator.run(&plan.ticked(TICK), Stopwatch::start()).map_err(|error| error.to_string())?;
    let figures = Figures::of(BAR, format!("{nodes} nodes, limit {limit}"));
    let admitted = ratio(samples.admitted(), f64::from(limit));
    figures.worst("admitted ÷ limit", admitted, Bounds::AtMost(1.10));
    figures.told("answered after, ms", samples.ended_at().as_secs_f64() * 1000.0);
    figures.told("decided unverified", count(samples.unverified()));
    figures.worst("errors", count(samples.errors()), Bounds::AtMost(0.0));
    Ok(())
}
