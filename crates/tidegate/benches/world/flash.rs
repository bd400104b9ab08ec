//! Target 1, the fast case: every region is sent a whole limit of one key within a second, and nobody knew the key
//! before. From ten seconds later on nothing more may be admitted.

use crate::Setting;
use crate::figures::{Bounds, Figures, count, ratio};
use crate::generator::Width;
use crate::overshoot::{BAR, LIMIT, PERIOD, tell};
use crate::plan::{Limit, Nodes, Plan, Stream};
use crate::samples::{Kind, Samples};
use crate::scene::{Policy, REGIONS, Scene, nodes_of};
use crate::time::{Stopwatch, left_of_cell, with_room_in_cell};
use std::time::Duration;

const RUNS: Kind = 3;
const CLASSES: [&str; 3] = ["abuse", "paid", "free"];
/// One flash after the other: two at once would be one that takes two seconds.
const APART: Duration = Duration::from_millis(2500);
const TICK: Duration = Duration::from_millis(2);
const SETTLED: Duration = Duration::from_secs(10);
const WATCHED: Duration = Duration::from_secs(10);
const WATCHED_PER_SECOND: f64 = 4.0;
/// Before the end of the cell, where a sliding window begins to give back.
const MARGIN: Duration = Duration::from_secs(2);

pub(crate) fn measure(setting: &Setting, scene: &Scene, policy: Policy) -> Result<(), String> {
    let flashes: Vec<(Kind, &str)> =
        (0..RUNS).flat_map(|_| CLASSES).zip(0..).map(|(class, kind)| (kind, class)).collect();
    let last = APART * u32::try_from(flashes.len()).unwrap_or(0);
    with_room_in_cell(PERIOD, last + SETTLED + WATCHED + MARGIN);
    // Many requests in one write: otherwise the generator takes the machine from the nodes.
    let mut generator = scene.generator(Width::PIPELINED)?;
    let to_the_end = setting.is_long() && policy == Policy::Headroom;
    let end = if to_the_end { left_of_cell(PERIOD) - MARGIN } else { last + SETTLED + WATCHED };
    let mut plan = Plan::default();
    for (kind, class) in &flashes {
        add(&mut plan, *kind, &format!("flash-{class}-{kind}"), class, end);
    }
    let samples = generator.run(&plan.ticked(TICK), Stopwatch::start()).map_err(|error| error.to_string())?;
    for (kind, class) in flashes {
        report(policy, class, &samples.of_kind(kind), APART * u32::from(kind));
    }
    Ok(())
}

fn add(plan: &mut Plan, kind: Kind, identifier: &str, class: &'static str, end: Duration) {
    let limits = [Limit::new(identifier, u64::from(LIMIT), PERIOD).class(class)];
    let from = APART * u32::from(kind);
    let watched_from = from + SETTLED;
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "some thousands")]
    let looks = ((end - watched_from).as_secs_f64() * WATCHED_PER_SECOND) as usize;
    for region in 0..REGIONS {
        let nodes = nodes_of(region);
        let mut add = |from, count, per_second| {
            let nodes = Nodes::InTurn(&nodes);
            plan.add(&Stream { kind, from, count, per_second, nodes, limits: &limits });
        };
        add(from, usize::try_from(LIMIT).unwrap_or(0), f64::from(LIMIT));
        add(watched_from, looks, WATCHED_PER_SECOND);
    }
}

fn report(policy: Policy, class: &str, samples: &Samples, from: Duration) {
    let case = format!("a flash of one limit in each region within 1 s, {class}");
    let admitted = ratio(samples.admitted(), f64::from(LIMIT));
    let bounds = match class {
        "abuse" => Bounds::AtMost(1.30),
        "paid" => Bounds::AtMost(1.50),
        _ => Bounds::Told,
    };
    tell(policy, &case, "admitted ÷ limit", admitted, bounds);
    let later = samples.only(|sample| sample.at >= from + SETTLED);
    tell(policy, &case, "admitted from 10 s on", count(later.admitted()), Bounds::AtMost(0.0));
    let figures = Figures::of(BAR, format!("{case}, {}", policy.name()));
    let flash = samples.only(|sample| sample.at < from + SETTLED);
    let admitted = flash.only(|sample| sample.is_admitted());
    let last = admitted.ended_at().saturating_sub(from);
    figures.told("last admission after, s", last.as_secs_f64());
    figures.told("last answer after, s", flash.ended_at().saturating_sub(from).as_secs_f64());
    figures.told("asked from 10 s on", count(later.len()));
    if samples.errors() > 0 {
        tell(policy, &case, "errors", count(samples.errors()), Bounds::AtMost(0.0));
    }
}
