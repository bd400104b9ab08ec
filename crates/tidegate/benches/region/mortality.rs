//! Target 7: what is lost with a node that is killed, and what a node decides first after it was stopped.

use crate::Setting;
use crate::figures::{Bounds, Figures, count};
use crate::fleet::{Fleet, read_decision};
use crate::generator::{Generator, Width};
use crate::plan::{Limit, Nodes, Plan, Stream};
use crate::time::{Stopwatch, pause, with_room_in_cell};
use std::time::Duration;
use tidegate_testkit::Redis;

const BAR: u8 = 7;
const KILLS: usize = 5;
const STOPS: usize = 2;
const PER_SECOND: u32 = 2000;
const HOUR: Duration = Duration::from_secs(3600);
const LIMIT: u64 = 1_000_000;
const KILLED_AT: Duration = Duration::from_millis(1500);
/// What a node may lose.
const UNPUBLISHED: Duration = Duration::from_millis(100);
/// A sent call arrives within this, or never.
const SETTLED: Duration = Duration::from_millis(200);

pub(crate) fn measure(setting: &Setting) -> Result<(), String> {
    (0..KILLS).try_for_each(|run| killed(setting, run))?;
    for run in 0..STOPS {
        stopped(setting, &format!("spent-{run}"), Meanwhile::Spent)?;
        stopped(setting, &format!("over-{run}"), Meanwhile::RolledOver)?;
    }
    Ok(())
}

/// One of two nodes admits at a pace and dies; the other one is asked how much is known.
fn killed(setting: &Setting, run: usize) -> Result<(), String> {
    let redis = setting.wait_for(Redis::start());
    let fleet = Fleet::start(&redis.url(), 2)?;
    let limit = Limit::new(format!("left-behind-{run}"), LIMIT, HOUR);
    let mut plan = Plan::default();
    plan.add(&Stream {
        kind: 0,
        from: Duration::ZERO,
        count: usize::try_from(2 * PER_SECOND).unwrap_or(0),
        per_second: f64::from(PER_SECOND),
        nodes: Nodes::InTurn(&[0]),
        limits: std::slice::from_ref(&limit),
    });
    let mut generator = Generator::connect(&fleet.addresses(), Width::APART)
        .map_err(|error| format!("can't connect: {error}"))?;
    with_room_in_cell(HOUR, Duration::from_secs(10));
    let stopwatch = Stopwatch::start();
    let (samples, killed_at) = std::thread::scope(|scope| {
        let sending = scope.spawn(|| generator.run(&plan, stopwatch));
        stopwatch.wait_until(KILLED_AT);
        let killed_at = stopwatch.elapsed();
        fleet.0[0].process.kill();
        (sending.join(), killed_at)
    });
    let samples = samples.map_err(|_| "the generator panicked")?.map_err(|error| error.to_string())?;
    pause(SETTLED);
    let known = LIMIT - fleet.0[1].ask(&limit.exact())?.remaining - 1;
    let lost = count(samples.admitted()) - count(usize::try_from(known).unwrap_or(0));
    let last = samples.only(|sample| sample.is_admitted() && sample.answered_at() + UNPUBLISHED >= killed_at);
    let figures = Figures::of(BAR, "a node killed");
    figures.told("admissions of its last 100 ms", count(last.len()));
    figures.told("admissions lost", lost);
    figures.worst("lost ÷ admitted in the last 100 ms", lost / count(last.len().max(1)), Bounds::AtMost(1.0));
    Ok(())
}

/// What happens while a node is stopped.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Meanwhile {
    /// The other node admits everything that is left.
    Spent,
    /// A spent window passes.
    RolledOver,
}

/// The request lies in the stopped node's socket already: it is the first thing that the node sees.
fn stopped(setting: &Setting, identifier: &str, meanwhile: Meanwhile) -> Result<(), String> {
    let redis = setting.wait_for(Redis::start());
    let fleet = Fleet::start(&redis.url(), 2)?;
    let (node, other) = (&fleet.0[0], &fleet.0[1]);
    let length = setting.seconds(6, 30);
    let (period, number) = match meanwhile {
        Meanwhile::Spent => (HOUR, 200),
        Meanwhile::RolledOver => (Duration::from_secs(2), 20),
    };
    let limit = Limit::new(identifier, number, period);
    with_room_in_cell(HOUR, length * 2);
    // Both own a part of the cell; of the short window, nothing is left.
    for _ in 0..20 {
        node.ask(&limit)?;
        other.ask(&limit)?;
    }
    pause(SETTLED);
    node.process.stop();
    let stopwatch = Stopwatch::start();
    if meanwhile == Meanwhile::Spent {
        while other.ask(&limit)?.allowed {}
    }
    stopwatch.wait_until(length);
    let waiting = node.send(&limit).map_err(|error| error.to_string())?;
    pause(SETTLED);
    node.process.resume();
    let resumed = Stopwatch::start();
    let decision = read_decision(waiting)?;
    let case = match meanwhile {
        Meanwhile::Spent => "a node stopped while another one spends the limit",
        Meanwhile::RolledOver => "a node stopped while a spent window passes",
    };
    let figures = Figures::of(BAR, format!("{case}, {} s", length.as_secs()));
    let is_right = decision.allowed == (meanwhile == Meanwhile::RolledOver);
    figures.worst("first decision is right", f64::from(u8::from(is_right)), Bounds::AtLeast(1.0));
    figures.told("first decision unverified", f64::from(u8::from(decision.unverified)));
    figures.told("first decision after, ms", resumed.elapsed().as_secs_f64() * 1000.0);
    Ok(())
}
