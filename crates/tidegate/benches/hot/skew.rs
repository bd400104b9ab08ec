//! Target 1: one key has 40 % of the traffic. Its shard does no more than its part, and the other keys' callers notice
//! nothing.

use crate::Setting;
use crate::figures::{Bounds, Figures, count, note};
use crate::plan::{Limit, Plan};
use crate::samples::Samples;
use crate::scene::{HOUR, NODES, Scene, add, ticked};
use crate::time::with_room_in_cell;
use std::time::Duration;

const BAR: u8 = 1;
const PER_SECOND: u32 = 30_000;
const HOT_PER_SECOND: u32 = PER_SECOND / 10 * 4;
const OTHERS: usize = 3_000;
const WARM_UP: Duration = Duration::from_secs(3);
/// Spent after two thirds of it.
const LENGTH: Duration = Duration::from_secs(12);
const LIMIT: u64 = 96_000;

pub(crate) fn measure(setting: &Setting) -> Result<(), String> {
    note(
        BAR,
        "the target is for 200,000 requests a second over three nodes; offered are 30,000, since nodes, cluster and generator \
         share two cores",
    );
    let mut scene = Scene::start(setting)?;
    let others: Vec<Limit> =
        (0..OTHERS).map(|key| Limit::new(format!("other-{key}"), 1_000_000_000, HOUR)).collect();
    with_room_in_cell(HOUR, Duration::from_secs(90));
    // Evenly over all keys: what the others' latency is without a hot one.
    let even = |length| {
        let mut plan = Plan::default();
        add(&mut plan, 0, &NODES, PER_SECOND, length, &others);
        ticked(plan)
    };
    scene.run(&even(WARM_UP))?;
    let before = scene.run(&even(LENGTH))?;
    let hot = [Limit::new("hot", LIMIT, HOUR)];
    let mut plan = Plan::default();
    add(&mut plan, 0, &NODES, PER_SECOND - HOT_PER_SECOND, LENGTH, &others);
    add(&mut plan, 1, &NODES, HOT_PER_SECOND, LENGTH, &hot);
    let calls = scene.calls();
    let during = scene.run(&ticked(plan))?;
    let calls: Vec<f64> = scene.calls().iter().zip(&calls).map(|(after, before)| after - before).collect();
    report(&before, &during, &calls);
    Ok(())
}

fn report(before: &Samples, during: &Samples, calls: &[f64]) {
    let figures = Figures::of(BAR, "one key at 40 % of 30,000 a second");
    let mean = calls.iter().sum::<f64>() / count(calls.len());
    let most = calls.iter().copied().fold(0.0, f64::max);
    figures.worst("calls of the busiest shard ÷ mean", most / mean, Bounds::AtMost(2.0));
    let hot = during.of_kind(1);
    let limit = count(usize::try_from(LIMIT).unwrap_or(1));
    figures.worst("admitted ÷ limit", count(hot.admitted()) / limit, Bounds::Within(0.98, 1.02));
    figures.told("hot key unverified", count(hot.unverified()));
    let (alone, beside) = (before.latency_ms(990), during.of_kind(0).latency_ms(990));
    figures.told("other keys' p99 without it, ms", alone);
    figures.told("other keys' p99 beside it, ms", beside);
    let excess = beside - (1.2 * alone).max(alone + 1.0);
    figures.median("other keys' p99 − max(1.2 × without, + 1), ms", excess, Bounds::AtMost(0.0));
    figures.told("answered a second", count(during.len() - during.errors()) / LENGTH.as_secs_f64());
    figures.worst("errors", count(during.errors()), Bounds::AtMost(0.0));
}
