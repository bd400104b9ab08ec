//! Runs a plan: every request goes to the real engines, to a perfect limiter and to the scheme beside, and what
//! each answers is counted.

use super::course::{Clock, Course, Others};
use super::figures::{FigureVerdict, SchemeTotals};
use super::layered::Layered;
use super::perfect::{Perfect, changes_at_once};
use super::plan::{Beside, FaultName, Plan, PolicyName, instant, length};
use super::quotas::{Quotas, SchemeInputs};
use super::rules::RuleDelivery;
use super::tally::{Stretch, Tally};
use super::traffic::{Traffic, first_keys, templates};
use crate::fault::Fault;
use crate::load::{RegionLoad, WorldLoad};
use crate::random::Random;
use crate::scenario::{Arrival, Audit, KeyPlan, LimitChange, Scenario, Template};
use crate::simulation::shard_of;
use crate::world::scenario::{HEADROOM, WorldFault, WorldScenario};
use crate::{START, WorldSimulation};
use std::collections::BTreeMap;
use std::sync::Arc;
use tidegate_core::Nanos;
use tidegate_origin::ShardId;
use tidegate_world::{PublishPolicy, PublishThreshold};

/// Regions know of each other when traffic comes.
pub(crate) const BOOTED_BEFORE: Nanos = Nanos::from_secs(20);
const FLOOR: PublishPolicy = PublishPolicy { publish: PublishThreshold::Floor(0.5), ..HEADROOM };
/// As many rows as a page of SQL has.
const PAGE_ROWS: usize = 10_000;
/// A key that became hot is leased so long after: measured in `docs/bars.md`, and not simulated.
const HOT_KNOWN_AFTER: Nanos = Nanos::from_millis(500);
/// What is on its way when the traffic ends is answered.
const ENDS_AFTER: Nanos = Nanos::from_millis(500);

/// How far a run is.
#[derive(Clone, Copy, Debug)]
pub struct Progress {
    pub second: u64,
    pub seconds: u64,
    pub requests: u64,
}

/// A number for each second.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Series {
    pub offered: Vec<u64>,
    pub perfect: Vec<u64>,
    pub ours: Vec<u64>,
    pub beside: Vec<u64>,
    pub operations: Vec<u64>,
    pub operations_beside: Vec<u64>,
    pub busiest_shard: Vec<u64>,
    pub busiest_shard_beside: Vec<u64>,
    pub rows_written: Vec<u64>,
    pub rows_written_beside: Vec<u64>,
    pub rows_read: Vec<u64>,
    pub rows_read_beside: Vec<u64>,
}

#[derive(Clone, PartialEq, Debug)]
pub struct FleetReport {
    pub requests: u64,
    pub judged: Vec<FigureVerdict>,
    pub series: Series,
    /// Equal for equal runs.
    pub trace_hash: u64,
}

/// A scheme that is run beside ours.
pub(crate) trait Scheme {
    /// Whether a request passes, and whether it asked its region's store first.
    fn admits(&mut self, region: usize, arrival: &Arrival) -> (bool, bool);
    fn loads(&self) -> &[RegionLoad];
    fn world_load(&self) -> &WorldLoad;
}

/// Which stores can't be reached, and when.
#[derive(Clone, Debug)]
pub(crate) struct Outages {
    pub(crate) shards: u32,
    shard_of: Arc<[u32]>,
    down: Vec<(usize, Option<u32>, Stretch)>,
    world_down: Vec<Stretch>,
}

impl Outages {
    pub(crate) fn is_down(&self, region: usize, key: usize, now: Nanos) -> bool {
        self.down.iter().any(|(in_region, shard, when)| {
            *in_region == region
                && when.contains(now)
                && shard.is_none_or(|shard| shard == self.shard_of[key])
        })
    }

    pub(crate) fn is_world_down(&self, now: Nanos) -> bool {
        self.world_down.iter().any(|when| when.contains(now))
    }

    pub(crate) fn shard(&self, key: usize) -> ShardId {
        ShardId(self.shard_of[key])
    }
}

/// Runs to the end, and tells how far it is once in a simulated second.
pub fn run(plan: &Plan, seed: u64, told: &mut dyn FnMut(Progress)) -> FleetReport {
    let keys = keys_of(plan);
    let templates: Vec<Template> = templates(plan);
    let stretches = stretches_of(plan);
    let mut ours = Tally::new(&stretches, keys.len());
    let RuleDelivery { changes, slowest_ms } = RuleDelivery::new(plan, seed);
    let mut others = Others {
        templates: &templates,
        perfect: Perfect::new(&keys, &templates, changes_at_once(plan)),
        perfect_tally: ours.clone(),
        beside: scheme(plan, &keys, &templates, changes.clone(), seed),
        beside_tally: ours.clone(),
        requests: 0,
        offered: Vec::new(),
    };
    let mut world = WorldSimulation::new(world_of(plan, &keys, &templates, changes, seed));
    world.watch();
    let clock = Clock { told, seconds: plan.seconds, second: 0 };
    let ends_at = instant(plan.seconds as f64).plus(ENDS_AFTER);
    Course { world: &mut world, ours: &mut ours, others: &mut others, clock, ends_at }
        .run(Traffic::new(plan, seed));
    let tallies = [&ours, &others.perfect_tally, &others.beside_tally];
    let mut outcome = judge(plan, &stretches, &world, tallies, &*others.beside, &slowest_ms);
    (outcome.requests, outcome.series.offered) = (others.requests, others.offered);
    outcome
}

fn judge(
    plan: &Plan,
    stretches: &[Stretch],
    world: &WorldSimulation,
    [ours, perfect, beside_tally]: [&Tally; 3],
    beside: &dyn Scheme,
    rules_heard_ms: &[u64],
) -> FleetReport {
    let loads: Vec<RegionLoad> =
        (0..world.region_count()).map(|region| world.region(region).load.clone()).collect();
    let (operations, busiest) = (sum(loads.iter().map(|load| &load.operations)), busiest(&loads));
    let operations_beside = sum(beside.loads().iter().map(|load| &load.operations));
    let busiest_beside = busiest_of(beside.loads());
    let (load, load_beside) = (world.load(), beside.world_load());
    let seen = SchemeTotals {
        tally: ours,
        perfect,
        operations: &operations,
        busiest_shard: &busiest,
        rows_written: &load.rows_written,
        rows_read: &load.rows_read,
        statements: &load.statements,
        rules_heard_ms,
    };
    let seen_beside = SchemeTotals {
        tally: beside_tally,
        perfect,
        operations: &operations_beside,
        busiest_shard: &busiest_beside,
        rows_written: &load_beside.rows_written,
        rows_read: &load_beside.rows_read,
        statements: &load_beside.statements,
        rules_heard_ms,
    };
    let judged = plan.expect.iter().map(|expect| {
        let expect = expect.get_ref();
        let stretch = stretch_of(plan, expect.from_s, expect.until_s);
        let index = stretches.iter().position(|known| *known == stretch).unwrap_or(0);
        let second =
            |at: Nanos| usize::try_from(at.minus(START).get().div_ceil(Nanos::PER_SECOND)).unwrap_or(0);
        let (from, until) = (second(stretch.from), second(stretch.until));
        let figure = |seen: &SchemeTotals<'_>| seen.figure(expect.figure, index, from, until);
        FigureVerdict::new(expect, plan.seconds as f64, figure(&seen), figure(&seen_beside))
    });
    let judged = judged.collect();
    let series = Series {
        offered: Vec::new(),
        perfect: perfect.admitted.clone(),
        ours: ours.admitted.clone(),
        beside: beside_tally.admitted.clone(),
        rows_written: load.rows_written.clone(),
        rows_written_beside: load_beside.rows_written.clone(),
        rows_read: load.rows_read.clone(),
        rows_read_beside: load_beside.rows_read.clone(),
        operations,
        operations_beside,
        busiest_shard: busiest,
        busiest_shard_beside: busiest_beside,
    };
    FleetReport { requests: 0, judged, series, trace_hash: world.trace_hash() }
}

fn sum<'a>(all: impl Iterator<Item = &'a Vec<u64>>) -> Vec<u64> {
    let mut sums = Vec::new();
    for seconds in all {
        for (second, count) in seconds.iter().enumerate() {
            crate::load::add(&mut sums, second, *count);
        }
    }
    sums
}

fn busiest(loads: &[RegionLoad]) -> Vec<u64> {
    busiest_of(loads)
}

/// Second by second, of all servers of all regions.
fn busiest_of(loads: &[RegionLoad]) -> Vec<u64> {
    let each: Vec<Vec<u64>> = loads.iter().map(RegionLoad::busiest_shard).collect();
    let seconds = each.iter().map(Vec::len).max().unwrap_or(0);
    let most = |second: usize| each.iter().filter_map(|load| load.get(second)).copied().max().unwrap_or(0);
    (0..seconds).map(most).collect()
}

fn stretch_of(plan: &Plan, from_s: Option<f64>, until_s: Option<f64>) -> Stretch {
    Stretch { from: instant(from_s.unwrap_or(0.0)), until: instant(until_s.unwrap_or(plan.seconds as f64)) }
}

fn stretches_of(plan: &Plan) -> Vec<Stretch> {
    let mut stretches = vec![stretch_of(plan, None, None)];
    for expect in &plan.expect {
        let stretch = stretch_of(plan, expect.get_ref().from_s, expect.get_ref().until_s);
        if !stretches.contains(&stretch) {
            stretches.push(stretch);
        }
    }
    stretches
}

fn keys_of(plan: &Plan) -> Vec<KeyPlan> {
    let mut keys = Vec::new();
    for group in &plan.keys {
        let group = group.get_ref();
        let Some(policy) = group.policy() else { continue };
        for index in 0..group.count {
            keys.push(KeyPlan {
                class: group.class.class(),
                accuracy: group.accuracy.accuracy(),
                ..KeyPlan::new(&format!("{} {index}", group.name), policy)
            });
        }
    }
    keys
}

fn hot_keys(plan: &Plan) -> BTreeMap<usize, Nanos> {
    let mut hot = BTreeMap::new();
    for ((_, first, count), group) in first_keys(plan).iter().zip(&plan.keys) {
        if let Some(at_s) = group.get_ref().hot_at_s {
            hot.extend((*first..first + count).map(|key| (key, instant(at_s))));
        }
    }
    hot
}

fn scheme<'p>(
    plan: &Plan,
    keys: &'p [KeyPlan],
    templates: &'p [Template],
    changes: Vec<Vec<LimitChange>>,
    seed: u64,
) -> Box<dyn Scheme + 'p> {
    let regions = 0..plan.region_count();
    let nodes: Vec<usize> = regions.clone().map(|region| plan.nodes_of(region)).collect();
    let joined_at = regions.map(|region| plan.joins_at(region).unwrap_or(START)).collect();
    let outages = outages_of(plan, keys);
    match plan.beside {
        Beside::Layered => Box::new(Layered::new(keys, templates, &nodes, changes, outages, seed)),
        Beside::Quotas => {
            let hot_at = hot_keys(plan);
            Box::new(Quotas::new(SchemeInputs {
                keys,
                templates,
                nodes,
                joined_at,
                hot_at,
                changes,
                outages,
            }))
        }
    }
}

fn outages_of(plan: &Plan, keys: &[KeyPlan]) -> Outages {
    let shards = u32::try_from(plan.fleet.shards).unwrap_or(1);
    let (mut down, mut world_down) = (Vec::new(), Vec::new());
    for fault in &plan.fault {
        let fault = fault.get_ref();
        let from = instant(fault.at_s);
        let when = Stretch { from, until: from.plus(length(fault.lasts_s.unwrap_or(0.0))) };
        let region = usize::try_from(fault.region).unwrap_or(0);
        match fault.kind {
            FaultName::ShardFailsOver => down.push((region, u32::try_from(fault.shard).ok(), when)),
            FaultName::StoreDown => down.push((region, None, when)),
            FaultName::WorldDown => world_down.push(when),
            // The model's replay brings it back, in its favour at once.
            FaultName::StoreForgets => {}
            FaultName::BrokersDown | FaultName::ControlDown => {}
        }
    }
    Outages {
        shards,
        shard_of: keys.iter().map(|key| shard_of(key.id(), shards).0).collect(),
        down,
        world_down,
    }
}

fn world_of(
    plan: &Plan,
    keys: &[KeyPlan],
    templates: &[Template],
    changes: Vec<Vec<LimitChange>>,
    seed: u64,
) -> WorldScenario {
    let ends_at = instant(plan.seconds as f64).plus(ENDS_AFTER);
    let mut random = Random::new(seed ^ 0x666c_6565);
    let mut regions = Vec::new();
    for (region, changes) in changes.into_iter().enumerate() {
        let mut scenario = Scenario::calm(random.next_u64(), plan.nodes_of(region), keys.to_vec());
        scenario.templates = templates.to_vec();
        scenario.shards = u32::try_from(plan.fleet.shards).unwrap_or(1);
        scenario.boots_at = plan.joins_at(region).unwrap_or_else(|| START.minus(BOOTED_BEFORE));
        scenario.ends_at = ends_at;
        scenario.keys_max = plan.room_of(region, keys.len());
        scenario.changes = changes;
        scenario.audit = if plan.audit { Audit::EveryStep } else { Audit::CountsOnly };
        scenario.faults = faults_of(plan, region);
        regions.push(scenario);
    }
    let policy = if plan.fleet.policy == PolicyName::Floor { FLOOR } else { HEADROOM };
    let mut world = WorldScenario::calm(seed, regions, policy, &plan.fleet.away_ms);
    if plan.fleet.regions == 1 {
        world.regions[0].world = None;
    }
    world.page_rows = PAGE_ROWS;
    world.ends_at = ends_at;
    for fault in plan.fault.iter().map(|fault| fault.get_ref()) {
        if fault.kind == FaultName::WorldDown {
            let at = instant(fault.at_s);
            world.faults.push((at, WorldFault::StoreGoesDown));
            world.faults.push((at.plus(length(fault.lasts_s.unwrap_or(0.0))), WorldFault::StoreComesBack));
        }
    }
    world
}

fn faults_of(plan: &Plan, region: usize) -> Vec<(Nanos, Fault)> {
    let mut faults = Vec::new();
    for fault in plan.fault.iter().map(|fault| fault.get_ref()) {
        if usize::try_from(fault.region) != Ok(region) {
            continue;
        }
        let (at, shard) = (instant(fault.at_s), usize::try_from(fault.shard).unwrap_or(0));
        let ends = at.plus(length(fault.lasts_s.unwrap_or(0.0)));
        match fault.kind {
            FaultName::ShardFailsOver => faults.extend([
                (at.minus(Nanos::from_millis(fault.behind_ms)), Fault::ShardIsCopied { shard }),
                (at, Fault::ShardGoesDown { shard }),
                (ends, Fault::ShardFailsOver { shard }),
            ]),
            FaultName::StoreDown => {
                faults.extend([(at, Fault::StoreGoesDown), (ends, Fault::StoreComesBack)]);
            }
            FaultName::StoreForgets => faults.push((at, Fault::StoreForgets)),
            FaultName::WorldDown | FaultName::BrokersDown | FaultName::ControlDown => {}
        }
    }
    for (key, at) in hot_keys(plan) {
        faults.push((at.plus(HOT_KNOWN_AFTER), Fault::KeyIsHot { key }));
    }
    faults
}
