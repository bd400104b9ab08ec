//! One Redis call per request, as a model to compare with: each region holds a slice of every limit, enforced exactly
//! by its store, and slices are made anew every five seconds from what came in the last minute; a process that can't
//! reach its shard admits half as much again as its even part.
//!
//! The model is idealised in its favour: calls take no time, slices hold everywhere at once, and a replica that takes
//! over has lost nothing. A key that became hot is known after three seconds, and costs ten calls
//! a second and process from then on.

use super::run::{Outages, Scheme};
use crate::START;
use crate::load::{RegionLoad, WorldLoad};
use crate::scenario::{Arrival, KeyPlan, LimitChange, Template};
use std::collections::BTreeMap;
use tidegate_core::{Class, Nanos};
use tidegate_node::GivenPolicy;

const REBALANCED_EVERY: Nanos = Nanos::from_secs(5);
/// Of limits against abuse.
const REBALANCED_QUICKLY: Nanos = Nanos::from_secs(1);
/// What came lately is a minute of these.
const BUCKETS: usize = 12;
const FLOOR: f64 = 0.1;
const SLOP: f64 = 1.5;
const HOT_KNOWN_AFTER: Nanos = Nanos::from_secs(3);
const LEASED_EVERY: Nanos = Nanos::from_millis(100);

/// A region's part of a key.
#[derive(Clone, Copy, Debug)]
struct Part {
    slice: f64,
    /// When the bucket is empty, in nanoseconds.
    tat: f64,
    came: [u32; BUCKETS],
}

pub(crate) struct Quotas<'p> {
    keys: &'p [KeyPlan],
    templates: &'p [Template],
    nodes: Vec<usize>,
    joined_at: Vec<Nanos>,
    hot_at: BTreeMap<usize, Nanos>,
    /// For each region.
    changes: Vec<Vec<LimitChange>>,
    parts: Vec<Part>,
    /// Buckets of processes that can't reach a shard.
    alone: BTreeMap<(usize, usize, usize), f64>,
    /// When each process next draws of a hot key.
    draws_at: BTreeMap<(usize, usize, usize), Nanos>,
    outages: Outages,
    loads: Vec<RegionLoad>,
    world_load: WorldLoad,
    rebalances: u64,
}

/// The fleet that a scheme is run with.
pub(crate) struct SchemeInputs<'p> {
    pub(crate) keys: &'p [KeyPlan],
    pub(crate) templates: &'p [Template],
    pub(crate) nodes: Vec<usize>,
    pub(crate) joined_at: Vec<Nanos>,
    pub(crate) hot_at: BTreeMap<usize, Nanos>,
    pub(crate) changes: Vec<Vec<LimitChange>>,
    pub(crate) outages: Outages,
}

impl<'p> Quotas<'p> {
    pub(crate) fn new(told: SchemeInputs<'p>) -> Self {
        let SchemeInputs { keys, templates, nodes, joined_at, hot_at, changes, outages } = told;
        let there = joined_at.iter().filter(|at| **at <= START).count().max(1);
        let part = |region: usize| Part {
            // One that comes later has the floor until slices are made anew.
            slice: if joined_at[region] <= START { 1.0 / there as f64 } else { FLOOR },
            tat: 0.0,
            came: [0; BUCKETS],
        };
        let regions: Vec<Part> = (0..nodes.len()).map(part).collect();
        Quotas {
            keys,
            templates,
            loads: nodes.iter().map(|_| RegionLoad::new(outages.shards)).collect(),
            parts: keys.iter().flat_map(|_| regions.iter().copied()).collect(),
            nodes,
            joined_at,
            hot_at,
            changes,
            alone: BTreeMap::new(),
            draws_at: BTreeMap::new(),
            outages,
            world_load: WorldLoad::default(),
            rebalances: 0,
        }
    }

    /// Units a nanosecond, and how many at once.
    fn rate(&self, region: usize, node: usize, key: usize, now: Nanos) -> (f64, f64) {
        let heard = |change: &&LimitChange| {
            change.keys.contains(&key) && change.heard_at.get(node).is_some_and(|at| *at <= now)
        };
        let change = self.changes.get(region).and_then(|changes| changes.iter().rev().find(heard));
        match change.map_or(self.keys[key].policy, |change| change.policy) {
            GivenPolicy::Gcra { rate, burst } => {
                let per_nano = rate.interval_denominator() as f64 / rate.interval_numerator_ns() as f64;
                (per_nano, burst.get() as f64)
            }
            GivenPolicy::Sliding { limit, period } | GivenPolicy::Fixed { limit, period } => {
                (limit.get() as f64 / period.get() as f64, limit.get() as f64)
            }
        }
    }

    fn part(&mut self, key: usize, region: usize) -> &mut Part {
        let regions = self.nodes.len();
        &mut self.parts[key * regions + region]
    }

    fn passes(&mut self, region: usize, node: usize, key: usize, now: Nanos) -> (bool, f64, bool) {
        let (per_nano, burst) = self.rate(region, node, key, now);
        let bucket = usize::try_from(now.minus(START).get() / REBALANCED_EVERY.get()).unwrap_or(0) % BUCKETS;
        let part = self.part(key, region);
        part.came[bucket] = part.came[bucket].saturating_add(1);
        let (slice, tat) = (part.slice, part.tat);
        let now_ns = now.minus(START).get() as f64;
        if self.outages.is_down(region, key, now) {
            let share = slice * SLOP / self.nodes[region] as f64;
            let tat = self.alone.get(&(region, node, key)).copied().unwrap_or(0.0);
            let next = after_one(tat, now_ns, per_nano * share, (burst * share).max(1.0));
            return (next.is_some(), next.unwrap_or(tat), true);
        }
        self.record_call(region, node, key, now);
        let next = after_one(tat, now_ns, per_nano * slice, (burst * slice).max(1.0));
        (next.is_some(), next.unwrap_or(tat), false)
    }

    fn record_call(&mut self, region: usize, node: usize, key: usize, now: Nanos) {
        let is_known = self.hot_at.get(&key).is_some_and(|hot| now >= hot.plus(HOT_KNOWN_AFTER));
        if is_known {
            let draws_at = self.draws_at.entry((region, node, key)).or_default();
            if now < *draws_at {
                return;
            }
            *draws_at = now.plus(LEASED_EVERY);
        }
        self.loads[region].called(now, self.outages.shard(key), 1);
    }

    fn rebalance(&mut self, now: Nanos, round: u64) {
        let is_quick_only = !(round * REBALANCED_QUICKLY.get()).is_multiple_of(REBALANCED_EVERY.get());
        let regions = self.nodes.len();
        let there: Vec<bool> = self.joined_at.iter().map(|at| *at <= now).collect();
        let mut sliced = 0;
        for (index, key) in self.keys.iter().enumerate() {
            if is_quick_only && key.class != Class::Abuse {
                continue;
            }
            let parts = &mut self.parts[index * regions..(index + 1) * regions];
            let came: Vec<f64> =
                parts.iter().map(|part| part.came.iter().map(|came| f64::from(*came)).sum()).collect();
            let all: f64 = came.iter().sum();
            if all == 0.0 {
                continue;
            }
            let mut shares: Vec<f64> = came
                .iter()
                .zip(&there)
                .map(|(came, there)| if *there { (came / all).max(FLOOR) } else { 0.0 })
                .collect();
            let sum: f64 = shares.iter().sum();
            shares.iter_mut().for_each(|share| *share /= sum);
            parts
                .iter_mut()
                .zip(shares)
                .filter(|(_, share)| *share > 0.0)
                .for_each(|(part, share)| part.slice = share);
            sliced += regions;
        }
        self.world_load.asked(now, sliced, sliced);
        if !is_quick_only {
            let next =
                usize::try_from(now.minus(START).get() / REBALANCED_EVERY.get()).unwrap_or(0) % BUCKETS;
            self.parts.iter_mut().for_each(|part| part.came[next] = 0);
        }
    }
}

impl Scheme for Quotas<'_> {
    fn admits(&mut self, region: usize, arrival: &Arrival) -> (bool, bool) {
        let now = arrival.at;
        let rounds = now.minus(START).get() / REBALANCED_QUICKLY.get();
        if rounds > self.rebalances {
            self.rebalances = rounds;
            if !self.outages.is_world_down(now) {
                self.rebalance(now, rounds);
            }
        }
        let templates = self.templates;
        let mut taken: smallvec::SmallVec<[(usize, f64, bool); 5]> = smallvec::SmallVec::new();
        for limit in &templates[arrival.template].limits {
            let (passes, tat, is_alone) = self.passes(region, arrival.node, limit.key, now);
            if !passes {
                return (false, true);
            }
            taken.push((limit.key, tat, is_alone));
        }
        for (key, tat, is_alone) in taken {
            if is_alone {
                self.alone.insert((region, arrival.node, key), tat);
            } else {
                self.part(key, region).tat = tat;
            }
        }
        (true, true)
    }

    fn loads(&self) -> &[RegionLoad] {
        &self.loads
    }

    fn world_load(&self) -> &WorldLoad {
        &self.world_load
    }
}

/// A bucket's arrival time after one more, if that passes.
fn after_one(tat: f64, now_ns: f64, per_nano: f64, burst: f64) -> Option<f64> {
    let interval = 1.0 / per_nano;
    let next = tat.max(now_ns) + interval;
    (next - now_ns <= burst * interval + 1e-6).then_some(next)
}
