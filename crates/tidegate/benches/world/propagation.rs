//! Target 2: half of a limit is spent in one region within an instant. How long until another region counts it?
//!
//! The others know the key, and ask about it every 50 ms: what they are told remains says when they know. Once as
//! callers usually ask, on a node's own view; once with `exact`, which shows what the region's store knows.

use crate::Setting;
use crate::figures::{Bounds, Figures, count, note};
use crate::generator::Width;
use crate::overshoot::PERIOD;
use crate::plan::{Limit, Nodes, Plan, Stream};
use crate::samples::{Kind, Samples};
use crate::scene::{Policy, REGIONS, Scene, nodes_of};
use crate::time::{Stopwatch, with_room_in_cell};
use std::time::Duration;

const BAR: u8 = 2;
const KEYS: Kind = 120;
const NUMBER: u64 = 100_000;
/// Far from what anybody asks for meanwhile.
const SEEN_BELOW: u64 = NUMBER * 6 / 10;
const APART: Duration = Duration::from_millis(125);
/// Keys are known everywhere before they are spent.
const KNOWN_FOR: Duration = Duration::from_secs(1);
const WATCHED_FOR: Duration = Duration::from_secs(4);
const LOOKS_PER_SECOND: u32 = 20;
/// For each key: the request that spends, and the looks of either other region.
const KINDS: Kind = 3;

pub(crate) fn measure(setting: &Setting) -> Result<(), String> {
    note(
        BAR,
        "120 keys of 100,000 per 5 min, one after the other in each region; the other two regions know the key and \
         look every 50 ms, which is in the figures. What isn't seen within 3 s counts as 3 s",
    );
    let scene = Scene::start(setting, Policy::Headroom)?;
    for (case, accuracy) in [("as callers usually ask", Accuracy::Bounded), ("exact", Accuracy::Exact)] {
        let plan = plan(accuracy);
        with_room_in_cell(PERIOD, APART * u32::from(KEYS) + WATCHED_FOR * 2);
        let mut generator = scene.generator(Width::APART)?;
        let samples = generator.run(&plan, Stopwatch::start()).map_err(|error| error.to_string())?;
        report(case, &samples);
    }
    Ok(())
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Accuracy {
    Bounded,
    Exact,
}

fn plan(accuracy: Accuracy) -> Plan {
    let mut plan = Plan::default();
    for key in 0..KEYS {
        let limit = Limit::new(format!("seen-{accuracy:?}-{key}"), NUMBER, PERIOD);
        let from = APART * u32::from(key);
        let spender = usize::from(key) % REGIONS;
        let mut add = |kind: Kind, region: usize, from, count, limit: Limit| {
            let nodes = [nodes_of(region)[usize::from(key / 3) % 2]];
            let (nodes, per_second) = (Nodes::InTurn(&nodes), f64::from(LOOKS_PER_SECOND));
            plan.add(&Stream { kind: KINDS * key + kind, from, count, per_second, nodes, limits: &[limit] });
        };
        add(0, spender, from + KNOWN_FOR, 1, limit.clone().cost(NUMBER / 2));
        let looks = u64::from(LOOKS_PER_SECOND) * WATCHED_FOR.as_secs();
        for kind in 1..KINDS {
            let looking = if accuracy == Accuracy::Exact { limit.clone().exact() } else { limit.clone() };
            let region = (spender + usize::from(kind)) % REGIONS;
            add(kind, region, from, usize::try_from(looks).unwrap_or(0), looking);
        }
    }
    plan
}

fn report(case: &str, samples: &Samples) {
    let figures = Figures::of(BAR, format!("half of a limit, {case}"));
    let mut delays = Vec::new();
    for key in 0..KEYS {
        let spent = samples.of_kind(KINDS * key);
        let Some(spent) = spent.0.first().filter(|sample| sample.is_admitted()) else { continue };
        let longest = WATCHED_FOR - KNOWN_FOR;
        for kind in 1..KINDS {
            let looks = samples.of_kind(KINDS * key + kind);
            let seen = looks.0.iter().filter(|look| look.is_admitted() && look.remaining < SEEN_BELOW);
            let first = seen.map(|look| look.answered_at()).min();
            let delay = first.map_or(longest, |first| first.saturating_sub(spent.answered_at()));
            delays.push(delay.min(longest));
        }
    }
    delays.sort_unstable();
    let percentile = |part: usize| {
        let rank = (delays.len() * part).div_ceil(100).max(1) - 1;
        delays.get(rank).map_or(f64::NAN, Duration::as_secs_f64)
    };
    figures.told("looked for", count(delays.len()));
    figures.told("seen after, median, s", percentile(50));
    figures.worst("seen after, p99, s", percentile(99), Bounds::AtMost(1.0));
    figures.told("seen after, longest, s", percentile(100));
    figures.worst("errors", count(samples.errors()), Bounds::AtMost(0.0));
}
