//! Count sharing with a 50 % floor, as a model to compare with: a process counts on top of the larger of its own and
//! Redis's count, replays what it accepted behind the answer, and regions publish what has passed half of its limit
//! every five seconds.
//!
//! The model is idealised in its favour: reads of Redis take no time and fail only while the store is down, and a
//! replica that takes over has lost nothing.

use super::run::{Outages, Scheme};
use crate::load::{RegionLoad, WorldLoad};
use crate::random::Random;
use crate::scenario::{Arrival, KeyPlan, LimitChange, Template};
use std::collections::BTreeMap;
use tidegate_core::Nanos;
use tidegate_node::GivenPolicy;

const VIEW_TTL: Nanos = Nanos::from_secs(5);
const REPLAYED_EVERY: Nanos = Nanos::from_millis(50);
const PUBLISHED_EVERY: Nanos = Nanos::from_secs(5);
/// A tick comes up to a fifth sooner or later.
const JITTER: u64 = 5;
const STRICT_MAX: Nanos = Nanos::from_secs(60);

/// A process's entry of a key.
#[derive(Clone, Copy, Debug, Default)]
struct LayeredEntry {
    sequence: u64,
    count: u64,
    previous: u64,
    /// Of the other regions.
    world: u64,
    world_previous: u64,
    fresh_until: Nanos,
    strict_until: Nanos,
    published: u64,
    /// Accepted, and Redis hasn't heard of it.
    unplayed: u64,
    is_known: bool,
}

#[derive(Clone, Copy, Debug, Default)]
struct Stored {
    sequence: u64,
    count: u64,
    previous: u64,
}

#[derive(Debug, Default)]
struct Process {
    entries: BTreeMap<usize, LayeredEntry>,
    dirty: Vec<usize>,
    replays_at: Nanos,
    publishes_at: Nanos,
}

pub(crate) struct Layered<'p> {
    keys: &'p [KeyPlan],
    templates: &'p [Template],
    /// For each region.
    changes: Vec<Vec<LimitChange>>,
    processes: Vec<Vec<Process>>,
    stores: Vec<BTreeMap<usize, Stored>>,
    /// Of each cell, what each region published.
    rows: BTreeMap<(u64, usize), Vec<u64>>,
    outages: Outages,
    loads: Vec<RegionLoad>,
    world_load: WorldLoad,
    next_tick: Nanos,
    random: Random,
}

impl<'p> Layered<'p> {
    pub(crate) fn new(
        keys: &'p [KeyPlan],
        templates: &'p [Template],
        nodes: &[usize],
        changes: Vec<Vec<LimitChange>>,
        outages: Outages,
        seed: u64,
    ) -> Self {
        let mut random = Random::new(seed ^ 0x6c61_7965);
        let mut process = |_| Process {
            replays_at: crate::START.plus(Nanos::new(random.below(REPLAYED_EVERY.get()))),
            publishes_at: crate::START.plus(Nanos::new(random.below(PUBLISHED_EVERY.get()))),
            ..Process::default()
        };
        let processes = nodes.iter().map(|nodes| (0..*nodes).map(&mut process).collect()).collect();
        let loads = nodes.iter().map(|_| RegionLoad::new(outages.shards)).collect();
        Layered {
            keys,
            templates,
            changes,
            processes,
            stores: nodes.iter().map(|_| BTreeMap::new()).collect(),
            rows: BTreeMap::new(),
            outages,
            loads,
            world_load: WorldLoad::default(),
            next_tick: Nanos::ZERO,
            random,
        }
    }

    fn limit(&self, region: usize, node: usize, key: usize, now: Nanos) -> u64 {
        let changes = self.changes.get(region);
        let heard = |change: &&LimitChange| {
            change.keys.contains(&key) && change.heard_at.get(node).is_some_and(|at| *at <= now)
        };
        let policy = changes.and_then(|changes| changes.iter().rev().find(heard)).map(|change| change.policy);
        limit_of(policy.unwrap_or(self.keys[key].policy))
    }

    /// Whether a key's limit lets one more pass at a process, which may read Redis first.
    fn passes(&mut self, region: usize, node: usize, key: usize, now: Nanos) -> (bool, bool) {
        let limit = self.limit(region, node, key, now);
        let (sequence, elapsed) = cell(&self.keys[key], now);
        let is_reachable = !self.outages.is_down(region, key, now);
        let stored = rolled(self.stores[region].get(&key).copied().unwrap_or_default(), sequence);
        let entry = self.processes[region][node].entries.entry(key).or_default();
        *entry = entry.rolled(sequence);
        let asks = !entry.is_known || now > entry.fresh_until || now < entry.strict_until;
        if asks && is_reachable {
            entry.count = entry.count.max(stored.count);
            entry.previous = entry.previous.max(stored.previous);
            entry.fresh_until = now.plus(VIEW_TTL);
            entry.is_known = true;
            self.loads[region].called(now, self.outages.shard(key), 1);
        }
        let faded = (entry.previous + entry.world_previous) as f64 * (1.0 - elapsed);
        let used = (entry.count + entry.world) as f64 + faded.floor();
        let passes = used + 1.0 <= limit as f64;
        if !passes {
            let period = period_of(&self.keys[key]);
            entry.strict_until = now.plus(period.min(STRICT_MAX));
        }
        (passes, asks && is_reachable)
    }

    fn accept(&mut self, region: usize, node: usize, key: usize) {
        let process = &mut self.processes[region][node];
        let entry = process.entries.entry(key).or_default();
        entry.count += 1;
        if entry.unplayed == 0 {
            process.dirty.push(key);
        }
        entry.unplayed += 1;
    }

    fn tick(&mut self, now: Nanos) {
        let mut next = now.plus(REPLAYED_EVERY);
        for region in 0..self.processes.len() {
            for node in 0..self.processes[region].len() {
                if self.processes[region][node].replays_at <= now {
                    self.replay(region, node, now);
                    self.processes[region][node].replays_at = now.plus(REPLAYED_EVERY);
                }
                if self.processes[region][node].publishes_at <= now {
                    self.publish(region, node, now);
                    let most = PUBLISHED_EVERY.get() / JITTER;
                    let after = PUBLISHED_EVERY.get() - most + self.random.below(2 * most);
                    self.processes[region][node].publishes_at = now.plus(Nanos::new(after));
                }
                let process = &self.processes[region][node];
                next = next.min(process.replays_at).min(process.publishes_at);
            }
        }
        self.next_tick = next;
    }

    fn replay(&mut self, region: usize, node: usize, now: Nanos) {
        let dirty = std::mem::take(&mut self.processes[region][node].dirty);
        for key in dirty {
            if self.outages.is_down(region, key, now) {
                self.processes[region][node].dirty.push(key);
                continue;
            }
            let (sequence, _) = cell(&self.keys[key], now);
            let entry = self.processes[region][node].entries.entry(key).or_default();
            let was_in = entry.sequence;
            let unplayed = std::mem::take(&mut entry.unplayed);
            let stored = self.stores[region].entry(key).or_default();
            *stored = rolled(*stored, sequence);
            *entry = entry.rolled(sequence);
            if was_in == sequence {
                stored.count += unplayed;
                entry.count = entry.count.max(stored.count);
            } else {
                stored.previous += unplayed;
                entry.previous = entry.previous.max(stored.previous);
            }
            entry.fresh_until = now.plus(VIEW_TTL);
            self.loads[region].called(now, self.outages.shard(key), 1);
        }
    }

    /// Writes what passed half of its limit and grew, and reads what others wrote.
    fn publish(&mut self, region: usize, node: usize, now: Nanos) {
        if self.outages.is_world_down(now) || self.processes.len() == 1 {
            return;
        }
        let regions = self.processes.len();
        let mut written = 0;
        let keys: Vec<usize> = self.processes[region][node].entries.keys().copied().collect();
        for key in keys {
            let limit = self.limit(region, node, key, now);
            let Some(entry) = self.processes[region][node].entries.get_mut(&key) else { continue };
            if entry.count * 2 < limit || entry.count == entry.published {
                continue;
            }
            entry.published = entry.count;
            let row = self.rows.entry((entry.sequence, key)).or_insert_with(|| vec![0; regions]);
            row[region] = row[region].max(entry.count);
            written += 1;
        }
        let mut read = 0;
        let process = &mut self.processes[region][node];
        let oldest = |key: usize| cell(&self.keys[key], now).0.saturating_sub(1);
        self.rows.retain(|(sequence, key), _| *sequence >= oldest(*key));
        for ((sequence, key), counts) in &self.rows {
            let others: u64 = counts.iter().sum::<u64>() - counts[region];
            if others == 0 {
                continue;
            }
            read += 1;
            let (current, _) = cell(&self.keys[*key], now);
            let entry = process.entries.entry(*key).or_default();
            *entry = entry.rolled(current);
            let world = if *sequence == current { &mut entry.world } else { &mut entry.world_previous };
            *world = (*world).max(others);
        }
        self.world_load.asked(now, written, read);
        self.world_load.asked(now, 0, 0);
    }
}

impl Scheme for Layered<'_> {
    fn admits(&mut self, region: usize, arrival: &Arrival) -> (bool, bool) {
        let now = arrival.at;
        if now >= self.next_tick {
            self.tick(now);
        }
        let mut waited = false;
        let templates = self.templates;
        let limits = &templates[arrival.template].limits;
        for limit in limits {
            let (passes, asked) = self.passes(region, arrival.node, limit.key, now);
            waited |= asked;
            if !passes {
                return (false, waited);
            }
        }
        limits.iter().for_each(|limit| self.accept(region, arrival.node, limit.key));
        (true, waited)
    }

    fn loads(&self) -> &[RegionLoad] {
        &self.loads
    }

    fn world_load(&self) -> &WorldLoad {
        &self.world_load
    }
}

impl LayeredEntry {
    /// As it is in a cell.
    fn rolled(self, sequence: u64) -> LayeredEntry {
        if self.sequence == sequence {
            return self;
        }
        let is_next = self.sequence + 1 == sequence;
        LayeredEntry {
            sequence,
            count: 0,
            previous: if is_next { self.count } else { 0 },
            world: 0,
            world_previous: if is_next { self.world } else { 0 },
            published: 0,
            is_known: false,
            ..self
        }
    }
}

fn rolled(stored: Stored, sequence: u64) -> Stored {
    match stored.sequence {
        same if same == sequence => stored,
        before if before + 1 == sequence => Stored { sequence, count: 0, previous: stored.count },
        _ => Stored { sequence, count: 0, previous: 0 },
    }
}

fn limit_of(policy: GivenPolicy) -> u64 {
    match policy {
        GivenPolicy::Sliding { limit, .. } | GivenPolicy::Fixed { limit, .. } => limit.get(),
        GivenPolicy::Gcra { burst, .. } => burst.get(),
    }
}

fn period_of(key: &KeyPlan) -> Nanos {
    match key.policy {
        GivenPolicy::Sliding { period, .. } | GivenPolicy::Fixed { period, .. } => period.length(),
        GivenPolicy::Gcra { .. } => Nanos::from_secs(1),
    }
}

/// The cell that an instant is in, and how much of it has passed.
fn cell(key: &KeyPlan, now: Nanos) -> (u64, f64) {
    let period = period_of(key).get();
    (now.get() / period, (now.get() % period) as f64 / period as f64)
}
