//! Target 1, the slow cases: even load in all regions, and one region that sends while the others rest just below
//! half of the limit.

use crate::figures::{Bounds, count, ratio};
use crate::generator::Width;
use crate::overshoot::{LIMIT, PERIOD, tell};
use crate::plan::{Limit, Nodes, Plan, Stream};
use crate::samples::{Kind, Samples};
use crate::scene::{Policy, REGIONS, Scene, nodes_of};
use crate::time::{Stopwatch, with_room_in_cell};
use std::time::Duration;

const RUNS: Kind = 3;
const CLASSES: [&str; 2] = ["paid", "abuse"];

const EVEN_PER_SECOND: u32 = 10;

/// So much is spent in each of two regions, within so long.
const RESTING: u32 = 490;
const RESTING_WITHIN: Duration = Duration::from_secs(10);
/// The third region begins then, with half a limit more than it may.
const SENT_FROM: Duration = Duration::from_secs(15);
const SENT: u32 = 1500;
const SENT_PER_SECOND: f64 = 100.0;

pub(crate) fn measure(scene: &Scene, policy: Policy) -> Result<(), String> {
    // 30 a second spend the limit in 34 s, and the floor's half of it in each region in 50 s; the rest is watched.
    let even_seconds = if policy == Policy::Headroom { 45 } else { 70 };
    let plan = plan(even_seconds);
    with_room_in_cell(PERIOD, Duration::from_secs(10 + u64::from(even_seconds)));
    let mut generator = scene.generator(Width::APART)?;
    let samples = generator.run(&plan, Stopwatch::start()).map_err(|error| error.to_string())?;
    for (kind, class, _) in runs() {
        let case = format!("even load, 10 a second in each region, {class}");
        report(policy, &case, 1.03, &samples.of_kind(even_kind(kind)));
        let case = format!("two regions rest at 49 %, the third sends one and a half limits, {class}");
        report(policy, &case, 1.05, &samples.of_kind(resting_kind(kind)));
    }
    Ok(())
}

/// Every run's number, class, and number within the class.
fn runs() -> impl Iterator<Item = (Kind, &'static str, Kind)> {
    CLASSES
        .into_iter()
        .flat_map(|class| (0..RUNS).map(move |run| (class, run)))
        .zip(0..)
        .map(|((class, run), kind)| (kind, class, run))
}

fn even_kind(run: Kind) -> Kind {
    2 * run
}

fn resting_kind(run: Kind) -> Kind {
    2 * run + 1
}

fn plan(even_seconds: u32) -> Plan {
    let mut plan = Plan::default();
    for (kind, class, run) in runs() {
        let limit =
            |case: &str| [Limit::new(format!("{case}-{class}-{run}"), u64::from(LIMIT), PERIOD).class(class)];
        let (even, resting) = (limit("even"), limit("resting"));
        for region in 0..REGIONS {
            let nodes = nodes_of(region);
            let mut add = |kind, limits: &[Limit], from, count: u32, per_second| {
                let count = usize::try_from(count).unwrap_or(0);
                plan.add(&Stream { kind, from, count, per_second, nodes: Nodes::InTurn(&nodes), limits });
            };
            // Neither regions nor runs send in step.
            let offset =
                Duration::from_millis(33 * u64::try_from(region).unwrap_or(0) + 350 * u64::from(run));
            let count = EVEN_PER_SECOND * even_seconds;
            add(even_kind(kind), &even, offset, count, f64::from(EVEN_PER_SECOND));
            if region + 1 < REGIONS {
                let per_second = f64::from(RESTING) / RESTING_WITHIN.as_secs_f64();
                add(resting_kind(kind), &resting, offset, RESTING, per_second);
            } else {
                add(resting_kind(kind), &resting, SENT_FROM + offset, SENT, SENT_PER_SECOND);
            }
        }
    }
    plan
}

fn report(policy: Policy, case: &str, high: f64, samples: &Samples) {
    let admitted = ratio(samples.admitted(), f64::from(LIMIT));
    tell(policy, case, "admitted ÷ limit", admitted, Bounds::AtMost(high));
    if samples.errors() > 0 {
        tell(policy, case, "errors", count(samples.errors()), Bounds::AtMost(0.0));
    }
}
