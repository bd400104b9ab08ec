//! Requests in the order of time, made as they are needed: tens of millions don't fit a list.

use super::plan::{LoadPlan, Plan, instant};
use crate::START;
use crate::random::Random;
use crate::scenario::{Arrival, LimitUse, Template};
use tidegate_core::Nanos;

/// Each request names at most so many regions' nodes by their number.
#[derive(Debug)]
pub(crate) struct Traffic {
    streams: Vec<Stream>,
    random: Random,
    nodes: Vec<usize>,
    joined_at: Vec<Nanos>,
}

/// One `[[load]]`.
#[derive(Debug)]
struct Stream {
    next: Nanos,
    until: Nanos,
    /// Twice the mean time between two requests.
    gap_ns: u64,
    regions: Vec<usize>,
    first_template: usize,
    keys: usize,
    /// Of uneven keys: what share has been reached with each.
    reached: Vec<f64>,
    travelling: f64,
}

/// The keys of each group, one after the other.
pub(crate) fn first_keys(plan: &Plan) -> Vec<(String, usize, usize)> {
    let mut next = 0;
    let mut groups = Vec::new();
    for keys in &plan.keys {
        let keys = keys.get_ref();
        let count = usize::try_from(keys.count).unwrap_or(0);
        groups.push((keys.name.clone(), next, count));
        next += count;
    }
    groups
}

/// One template for each key of a load's first group, load by load.
pub(crate) fn templates(plan: &Plan) -> Vec<Template> {
    let groups = first_keys(plan);
    let mut templates = Vec::new();
    for load in &plan.load {
        let named = load.get_ref().keys.iter();
        let named: Vec<&(String, usize, usize)> =
            named.filter_map(|name| groups.iter().find(|group| group.0 == *name)).collect();
        for index in 0..named.first().map_or(0, |group| group.2) {
            let limit = |(_, first, count): &&(String, usize, usize)| LimitUse {
                key: first + index % count,
                cost: 1,
            };
            templates.push(Template { limits: named.iter().map(limit).collect(), is_report: false });
        }
    }
    templates
}

impl Traffic {
    pub(crate) fn new(plan: &Plan, seed: u64) -> Self {
        let groups = first_keys(plan);
        let mut first_template = 0;
        let mut streams = Vec::new();
        for load in &plan.load {
            let load = load.get_ref();
            let group = groups.iter().find(|group| Some(&group.0) == load.keys.first());
            let keys = group.map_or(1, |group| group.2);
            streams.push(Stream::new(plan, load, first_template, keys));
            first_template += keys;
        }
        let regions = 0..plan.region_count();
        Traffic {
            streams,
            random: Random::new(seed ^ 0x7472_6166),
            nodes: regions.clone().map(|region| plan.nodes_of(region)).collect(),
            joined_at: regions.map(|region| plan.joins_at(region).unwrap_or(START)).collect(),
        }
    }
}

impl Iterator for Traffic {
    type Item = (usize, Arrival);

    fn next(&mut self) -> Option<(usize, Arrival)> {
        let stream =
            self.streams.iter_mut().filter(|stream| stream.next < stream.until).min_by_key(|s| s.next)?;
        let at = stream.next;
        stream.next = at.plus(Nanos::new(self.random.below(stream.gap_ns).max(1)));
        let key = stream.key(&mut self.random);
        let regions: &[usize] = &stream.regions;
        let home = hash(key) % regions.len().max(1);
        let is_at_home = (hash(key ^ 0x5bd1) % 10_000) as f64 >= stream.travelling * 10_000.0;
        let mut region = if is_at_home { regions[home] } else { *self.random.pick(regions) };
        if self.joined_at[region] > at {
            // It isn't there yet: its callers go elsewhere.
            region = regions.iter().copied().find(|region| self.joined_at[*region] <= at)?;
        }
        let template = stream.first_template + key;
        Some((region, Arrival { at, node: self.random.index(self.nodes[region]), template }))
    }
}

impl Stream {
    fn new(plan: &Plan, load: &LoadPlan, first_template: usize, keys: usize) -> Self {
        let all = 0..plan.region_count();
        let named = load
            .regions
            .as_ref()
            .map(|named| named.iter().filter_map(|region| usize::try_from(*region).ok()));
        let mut reached = Vec::new();
        if load.zipf > 0.0 {
            let mut sum = 0.0;
            for rank in 1..=keys {
                sum += (rank as f64).powf(-load.zipf);
                reached.push(sum);
            }
        }
        Stream {
            next: instant(load.from_s.unwrap_or(0.0)),
            until: instant(load.until_s.unwrap_or(plan.seconds as f64)),
            gap_ns: (2 * Nanos::PER_SECOND / load.per_second).max(1),
            regions: named.map_or_else(|| all.collect(), Iterator::collect),
            first_template,
            keys,
            reached,
            travelling: load.travelling,
        }
    }

    fn key(&self, random: &mut Random) -> usize {
        let Some(sum) = self.reached.last() else { return random.index(self.keys) };
        let drawn = (random.next_u64() >> 11) as f64 / (1_u64 << 53) as f64 * sum;
        self.reached.partition_point(|reached| *reached < drawn).min(self.keys - 1)
    }
}

/// Spreads neighbours apart.
fn hash(key: usize) -> usize {
    let mixed = (key as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    usize::try_from((mixed ^ (mixed >> 29)) >> 16).unwrap_or(0)
}
