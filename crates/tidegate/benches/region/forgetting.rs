//! Target 5: a store that forgets, one whose answers are lost, and one that is replaced by an older copy. What
//! is admitted in the end is the limit, within a twentieth.
//!
//! Three nodes and one key whose window lasts. While nobody can be asked, a `paid` key admits on the local view,
//! so what comes of lost replies depends on the load: it is measured with one that reaches the limit seconds
//! after the store is back, and with one that reaches it a second after. Both are held against the bar.

use crate::Setting;
use crate::figures::{Bounds, Figures, count, note, ratio};
use crate::fleet::Fleet;
use crate::generator::{Generator, Width};
use crate::plan::{Limit, Nodes, Plan, Stream};
use crate::samples::Samples;
use crate::time::{Stopwatch, with_room_in_cell};
use std::time::Duration;
use tidegate_testkit::{FaultProxy, ProxyFault, Redis, Sentinel};

const BAR: u8 = 5;
const NODES: [usize; 3] = [0, 1, 2];
const LIMIT: u32 = 6000;
const QUICK_PER_SECOND: u32 = 1000;
const SLOW_PER_SECOND: u32 = 250;
/// What is sent beyond the limit: it has to be denied.
const SURPLUS: Duration = Duration::from_secs(3);
const HOUR: Duration = Duration::from_secs(3600);
const LOST_FOR: Duration = Duration::from_secs(5);
const REPLACED: &str = "failover at 50 % to a replica of 40 %";

/// How quickly half of the limit is sent, and then the other half.
#[derive(Clone, Copy, Debug)]
struct Pace {
    first_per_second: u32,
    then_per_second: u32,
}

const QUICK: Pace = Pace { first_per_second: QUICK_PER_SECOND, then_per_second: QUICK_PER_SECOND };
/// Half of the limit in 6 s; the rest takes a second longer than replies are lost.
const STEADY: Pace = Pace { first_per_second: 500, then_per_second: 500 };
const CALM: Pace = Pace { first_per_second: QUICK_PER_SECOND, then_per_second: SLOW_PER_SECOND };

pub(crate) fn measure(setting: &Setting) -> Result<(), String> {
    note(
        BAR,
        "three nodes, one `paid` key of 6,000. FLUSHALL at 1,000 requests a second; the failover at 1,000, and 250 \
         from 50 % on; lost replies at that pace and at 500 throughout, since what can't ask admits by its class \
         and the overshoot grows with the load",
    );
    flushed(setting)?;
    unheard(setting, CALM, "replies lost for 5 s from 50 % on, then 250 a second")?;
    unheard(setting, STEADY, "replies lost for 5 s from 50 % on, 500 a second")?;
    outdated(setting)
}

impl Pace {
    /// When so much of the limit was sent.
    fn at_percent(self, percent: u32) -> Duration {
        let first = f64::from(LIMIT * percent.min(50)) / 100.0 / f64::from(self.first_per_second);
        let then = f64::from(LIMIT * percent.saturating_sub(50)) / 100.0 / f64::from(self.then_per_second);
        Duration::from_secs_f64(first + then)
    }

    fn plan(self) -> Plan {
        let limit = [Limit::new("forgotten", u64::from(LIMIT), HOUR)];
        let half = LIMIT / 2;
        let surplus = self.then_per_second * u32::try_from(SURPLUS.as_secs()).unwrap_or(0);
        let mut plan = Plan::default();
        let mut add = |from, count: u32, per_second: u32| {
            let (count, per_second) = (usize::try_from(count).unwrap_or(0), f64::from(per_second));
            plan.add(&Stream {
                kind: 0,
                from,
                count,
                per_second,
                nodes: Nodes::InTurn(&NODES),
                limits: &limit,
            });
        };
        add(Duration::ZERO, half, self.first_per_second);
        add(self.at_percent(50), half + surplus, self.then_per_second);
        plan
    }
}

fn flushed(setting: &Setting) -> Result<(), String> {
    let redis = setting.wait_for(Redis::start());
    let fleet = Fleet::start(&redis.url(), NODES.len())?;
    let samples = run(&fleet, QUICK, |stopwatch| {
        stopwatch.wait_until(QUICK.at_percent(60));
        setting.wait_for(redis.demand(&["FLUSHALL"]));
    })?;
    report(&Figures::of(BAR, "FLUSHALL at 60 %"), &samples);
    Ok(())
}

fn unheard(setting: &Setting, pace: Pace, case: &str) -> Result<(), String> {
    let redis = setting.wait_for(Redis::start());
    let proxy = setting.wait_for(FaultProxy::start(redis.address()));
    let fleet = Fleet::start(&format!("redis://{}", proxy.address()), NODES.len())?;
    let samples = run(&fleet, pace, |stopwatch| {
        stopwatch.wait_until(pace.at_percent(50));
        proxy.set(ProxyFault::DropToClient);
        stopwatch.wait_until(pace.at_percent(50) + LOST_FOR);
        proxy.set(ProxyFault::None);
    })?;
    report(&Figures::of(BAR, case), &samples);
    Ok(())
}

fn outdated(setting: &Setting) -> Result<(), String> {
    let group = setting.wait_for(Sentinel::start());
    let fleet = Fleet::start(&group.url(), NODES.len())?;
    let figures = Figures::of(BAR, REPLACED);
    let samples = run(&fleet, CALM, |stopwatch| {
        stopwatch.wait_until(CALM.at_percent(40));
        // It hears of nothing from here on; the sentinels would mend that only after some seconds.
        setting.wait_for(group.servers()[1].demand(&["REPLICAOF", "NO", "ONE"]));
        stopwatch.wait_until(CALM.at_percent(50));
        setting.wait_for(async {
            let before = group.kill_primary().await;
            group.wait_replaced(before).await
        });
        figures.told("without a primary, s", (stopwatch.elapsed() - CALM.at_percent(50)).as_secs_f64());
    })?;
    report(&figures, &samples);
    Ok(())
}

/// Sends the load, and does something to the store meanwhile.
fn run(fleet: &Fleet, pace: Pace, meanwhile: impl FnOnce(Stopwatch)) -> Result<Samples, String> {
    let mut generator = Generator::connect(&fleet.addresses(), Width::APART)
        .map_err(|error| format!("can't connect: {error}"))?;
    let plan = pace.plan();
    with_room_in_cell(HOUR, pace.at_percent(100) * 2);
    let stopwatch = Stopwatch::start();
    let samples = std::thread::scope(|scope| {
        let sending = scope.spawn(|| generator.run(&plan, stopwatch));
        meanwhile(stopwatch);
        sending.join()
    });
    samples.map_err(|_| "the generator panicked")?.map_err(|error| error.to_string())
}

fn report(figures: &Figures, samples: &Samples) {
    let admitted = ratio(samples.admitted(), f64::from(LIMIT));
    figures.worst("admitted ÷ limit", admitted, Bounds::Within(0.95, 1.05));
    figures.told("decided unverified", count(samples.unverified()));
    figures.worst("errors", count(samples.errors()), Bounds::AtMost(0.0));
}
