//! Bar 5: a store that forgets, one whose answers are lost, and one that is replaced by an older copy. What
//! is admitted in the end is the limit, within a twentieth.
//!
//! Three nodes and one key whose window lasts. The load is steady and would reach the limit about when the
//! fault is over; it goes on until two sixths more than the limit were sent.

use crate::Setting;
use crate::figures::{Bounds, Figures, count, ratio};
use crate::fleet::Fleet;
use crate::generator::{Generator, Width};
use crate::plan::{Limit, Nodes, Plan, Stream};
use crate::time::{Stopwatch, with_room_in_cell};
use std::time::Duration;
use tidegate_testkit::{Fault, FaultProxy, Redis, Sentinel};

const BAR: u8 = 5;
const NODES: [usize; 3] = [0, 1, 2];
const LIMIT: u32 = 6000;
const PER_SECOND: u32 = 500;
const HOUR: Duration = Duration::from_secs(3600);
/// Of all the load: the limit takes 12 s.
const LENGTH: Duration = Duration::from_secs(16);
const LOST_FOR: Duration = Duration::from_secs(5);

pub(crate) fn measure(setting: &Setting) -> Result<(), String> {
    flushed(setting)?;
    unheard(setting)?;
    outdated(setting)
}

/// When so much of the limit was sent.
fn at_percent(percent: u32) -> Duration {
    Duration::from_secs_f64(f64::from(LIMIT) / f64::from(PER_SECOND) * f64::from(percent) / 100.0)
}

fn flushed(setting: &Setting) -> Result<(), String> {
    let redis = setting.wait_for(Redis::start());
    let fleet = Fleet::start(&redis.url(), NODES.len())?;
    run(&fleet, "FLUSHALL at 60 %", |stopwatch| {
        stopwatch.wait_until(at_percent(60));
        setting.wait_for(redis.demand(&["FLUSHALL"]));
    })
}

fn unheard(setting: &Setting) -> Result<(), String> {
    let redis = setting.wait_for(Redis::start());
    let proxy = setting.wait_for(FaultProxy::start(redis.address()));
    let fleet = Fleet::start(&format!("redis://{}", proxy.address()), NODES.len())?;
    run(&fleet, "replies lost for 5 s from 50 % on", |stopwatch| {
        stopwatch.wait_until(at_percent(50));
        proxy.set(Fault::DropToClient);
        stopwatch.wait_until(at_percent(50) + LOST_FOR);
        proxy.set(Fault::None);
    })
}

fn outdated(setting: &Setting) -> Result<(), String> {
    let group = setting.wait_for(Sentinel::start());
    let fleet = Fleet::start(&group.url(), NODES.len())?;
    run(&fleet, "failover at 50 % to a replica of 40 %", |stopwatch| {
        stopwatch.wait_until(at_percent(40));
        // It hears of nothing from here on; the sentinels would mend that only after some seconds.
        setting.wait_for(group.servers()[1].demand(&["REPLICAOF", "NO", "ONE"]));
        stopwatch.wait_until(at_percent(50));
        setting.wait_for(async {
            let before = group.kill_primary().await;
            group.wait_replaced(before).await
        });
        let figures = Figures::of(BAR, "failover at 50 % to a replica of 40 %");
        figures.told("without a primary, s", (stopwatch.elapsed() - at_percent(50)).as_secs_f64());
    })
}

/// Sends the load, and does something to the store meanwhile.
fn run(fleet: &Fleet, case: &str, meanwhile: impl FnOnce(Stopwatch)) -> Result<(), String> {
    let mut generator = Generator::connect(&fleet.addresses(), Width::APART)
        .map_err(|error| format!("can't connect: {error}"))?;
    let mut plan = Plan::default();
    plan.add(&Stream {
        kind: 0,
        from: Duration::ZERO,
        count: usize::try_from(u64::from(PER_SECOND) * LENGTH.as_secs()).unwrap_or(0),
        per_second: f64::from(PER_SECOND),
        nodes: Nodes::InTurn(&NODES),
        limits: &[Limit::new("forgotten", u64::from(LIMIT), HOUR)],
    });
    with_room_in_cell(HOUR, LENGTH * 2);
    let stopwatch = Stopwatch::start();
    let samples = std::thread::scope(|scope| {
        let sending = scope.spawn(|| generator.run(&plan, stopwatch));
        meanwhile(stopwatch);
        sending.join()
    });
    let samples = samples.map_err(|_| "the generator panicked")?.map_err(|error| error.to_string())?;
    let figures = Figures::of(BAR, case);
    let admitted = ratio(samples.admitted(), f64::from(LIMIT));
    figures.worst("admitted ÷ limit", admitted, Bounds::Within(0.95, 1.05));
    figures.told("decided unverified", count(samples.unverified()));
    figures.worst("errors", count(samples.errors()), Bounds::AtMost(0.0));
    Ok(())
}
