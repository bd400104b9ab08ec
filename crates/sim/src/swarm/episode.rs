//! One scenario of a seed: which it is, how it is run, and what must hold at its end.

use crate::chaos::{self, Trouble};
use crate::fault::Fault;
use crate::fired::Fired;
use crate::random::Random;
use crate::scenario::{Arrival, Change, NodeFlaw, Scenario, gcra, sliding};
use crate::simulation::Simulation;
use crate::streams::{StreamScenario, Streams, chaos as stream_chaos};
use crate::trace::AnswerPath;
use crate::world::chaos::{self as world_chaos, WorldTrouble};
use crate::world::quota_chaos;
use crate::world::scenario::{WorldFlaw, WorldScenario};
use crate::{START, WorldSimulation};
use std::panic::{AssertUnwindSafe, catch_unwind};
use tidegate_control::Flaw;
use tidegate_core::Nanos;
use tidegate_node::GivenPolicy;

/// Nodes of a region know of each other, and of their store, so long after the last fault.
const HEALS_WITHIN: Nanos = Nanos::from_secs(15);
const ANSWERED_WITHIN: Nanos = Nanos::from_secs(1);

/// Made on purpose, to see that it is found.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mistake {
    /// The world store adds what grew instead of taking the larger count.
    AddsDeltas,
    /// What was imported is published again as the region's own.
    RepublishesImports,
    /// A slice is raised before the lowering of another was acknowledged.
    RaisesFirst,
    /// No admission asks because its credit is spent.
    LosesCreditCheck,
}

impl Mistake {
    /// With the word that names it.
    pub const ALL: [(&'static str, Mistake); 4] = [
        ("delta", Mistake::AddsDeltas),
        ("republish", Mistake::RepublishesImports),
        ("raise-first", Mistake::RaisesFirst),
        ("credit", Mistake::LosesCreditCheck),
    ];
}

#[derive(Clone, Debug)]
pub enum Episode {
    /// A region alone, and how changed rules get to its nodes.
    Region(Box<Scenario>, Option<Box<StreamScenario>>),
    /// Regions that share counts; whether all is well again at the end is looked at.
    Counts(Box<WorldScenario>),
    /// Regions that share quotas.
    Quotas(Box<WorldScenario>),
}

/// An episode that went well.
#[derive(Clone, Debug)]
pub struct Done {
    pub fired: Fired,
    pub simulated: Nanos,
    pub trace_hash: u64,
}

impl Episode {
    /// A seed's scenario of that number.
    pub fn new(seed: u64, number: u64, mistake: Option<Mistake>) -> Self {
        let seed = seed.wrapping_add(number.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let mut random = Random::new(seed ^ 0x7377_6172);
        let mut episode = match random.below(8) {
            0 => Episode::Region(Box::new(chaos::scenario(seed, Trouble::None)), None),
            1 => worse(chaos::scenario(seed, Trouble::Network), &mut random),
            2 => worse(chaos::scenario(seed, Trouble::Everything), &mut random),
            3 => worse(chaos::scenario(seed, Trouble::Clocks), &mut random),
            4 => Episode::Counts(Box::new(world_chaos::scenario(seed, WorldTrouble::World))),
            5 | 6 => Episode::Counts(Box::new(world_chaos::scenario(seed, WorldTrouble::Everything))),
            _ => Episode::Quotas(Box::new(quota_chaos::scenario(seed))),
        };
        if let Some(mistake) = mistake {
            episode.make(mistake);
        }
        episode
    }

    fn make(&mut self, mistake: Mistake) {
        match (self, mistake) {
            (Episode::Region(region, _), Mistake::LosesCreditCheck) => {
                region.node_flaw = Some(NodeFlaw::LosesCreditCheck);
            }
            (Episode::Counts(world), Mistake::AddsDeltas) => world.flaw = Some(WorldFlaw::AddsDeltas),
            (Episode::Counts(world), Mistake::RepublishesImports) => {
                world.flaw = Some(WorldFlaw::RepublishesImports);
            }
            (Episode::Quotas(world), Mistake::RaisesFirst) => {
                world.regions.iter_mut().for_each(|region| region.flaw = Flaw::RaisesFirst);
            }
            _ => {}
        }
    }

    /// All regions' scenarios.
    pub fn regions(&self) -> &[Scenario] {
        match self {
            Episode::Region(region, _) => std::slice::from_ref(region),
            Episode::Counts(world) | Episode::Quotas(world) => &world.regions,
        }
    }

    pub(super) fn regions_mut(&mut self) -> &mut [Scenario] {
        match self {
            Episode::Region(region, _) => std::slice::from_mut(region),
            Episode::Counts(world) | Episode::Quotas(world) => &mut world.regions,
        }
    }

    pub fn streams(&self) -> Option<&StreamScenario> {
        match self {
            Episode::Region(_, streams) => streams.as_deref(),
            Episode::Counts(_) | Episode::Quotas(_) => None,
        }
    }

    pub fn world(&self) -> Option<&WorldScenario> {
        match self {
            Episode::Region(..) => None,
            Episode::Counts(world) | Episode::Quotas(world) => Some(world),
        }
    }

    pub(super) fn world_mut(&mut self) -> Option<&mut WorldScenario> {
        match self {
            Episode::Region(..) => None,
            Episode::Counts(world) | Episode::Quotas(world) => Some(world),
        }
    }

    /// Runs it; what is violated is the error.
    pub fn run(&self) -> Result<Done, String> {
        let run = || match self {
            Episode::Region(region, streams) => run_region(Scenario::clone(region), streams.as_deref()),
            Episode::Counts(world) => run_world(WorldScenario::clone(world), true),
            Episode::Quotas(world) => run_world(WorldScenario::clone(world), false),
        };
        catch_unwind(AssertUnwindSafe(run)).map_err(|panicked| {
            let message = panicked.downcast_ref::<String>().map(String::as_str);
            message.or_else(|| panicked.downcast_ref::<&str>().copied()).unwrap_or("it panicked").to_owned()
        })
    }
}

fn run_region(mut scenario: Scenario, streams: Option<&StreamScenario>) -> Done {
    let (begins, ends, seed) = (scenario.boots_at, scenario.ends_at, scenario.seed);
    let travelled = streams.map(|streams| Streams::new(streams.clone()).run_and_heal());
    if let Some(travelled) = &travelled {
        for (change, heard_at) in scenario.changes.iter_mut().zip(&travelled.heard_at) {
            change.heard_at.clone_from(heard_at);
        }
    }
    let mut simulation = Simulation::new(scenario);
    simulation.run();
    simulation.calm(ends);
    let healed = ends.plus(HEALS_WITHIN);
    simulation.run_until(healed);
    let nodes = simulation.node_count();
    for node in 0..nodes {
        let known = simulation.live_nodes(node);
        assert!(
            usize::try_from(known) == Ok(nodes),
            "seed {seed}: liveness: node {node} knows of {known} nodes of {nodes}"
        );
    }
    simulation.answers = Some(Vec::new());
    let refused_before = simulation.refused_keys();
    for node in 0..nodes {
        simulation.inject_request(Arrival { at: healed, node, template: 0 });
    }
    simulation.run_until(healed.plus(ANSWERED_WITHIN));
    let answers = simulation.answers.take().unwrap_or_default();
    let unverified = answers.iter().filter(|answer| answer.path == AnswerPath::Unverified).count();
    // Of some scenarios a table has room for two keys, and cells of before may last for longer than this: who finds
    // it full is decided by its class, which is unverified as well.
    let refused = simulation.refused_keys() - refused_before;
    assert!(
        answers.len() == nodes && unverified as u64 <= refused,
        "seed {seed}: liveness: of {nodes} requests {} were answered, {unverified} of them unverified",
        answers.len()
    );
    let simulated = simulation.now().minus(begins);
    let (mut fired, mut trace_hash) = (simulation.fired(), simulation.trace_hash());
    if let Some(travelled) = &travelled {
        fired.add_all(&travelled.fired);
        trace_hash = trace_hash.rotate_left(7) ^ travelled.trace_hash;
    }
    Done { fired, simulated, trace_hash }
}

fn run_world(scenario: WorldScenario, heals: bool) -> Done {
    let (seed, ends) = (scenario.seed, scenario.ends_at);
    let begins = scenario.regions.iter().map(|region| region.boots_at).min().unwrap_or(START);
    let mut world = WorldSimulation::new(scenario);
    world.run();
    if heals {
        let mut problems = world.unhealed();
        problems.extend(world.admits_what_is_spent());
        assert!(problems.is_empty(), "seed {seed}: liveness: {}", problems.join("\n"));
    }
    Done { fired: world.fired(), simulated: ends.minus(begins), trace_hash: world.trace_hash() }
}

/// Adds what the generators of a region's scenario leave out.
fn worse(mut scenario: Scenario, random: &mut Random) -> Episode {
    let length = scenario.ends_at.minus(START);
    let instant = |random: &mut Random| START.plus(Nanos::new(random.below(length.get())));
    if random.one_in(2) {
        let drift = |_| chaos::signed(random, 500);
        scenario.clock_drifts_ppm = (0..scenario.nodes).map(drift).collect();
    }
    if random.one_in(2) {
        let (begins, shard) = (instant(random), random.index(3));
        let ends = begins.plus(Nanos::from_millis(*random.pick(&[10, 1_000, 3_000])));
        scenario.faults.extend([
            (begins.minus(Nanos::from_millis(random.below(200))), Fault::ShardIsCopied { shard }),
            (begins, Fault::ShardGoesDown { shard }),
            (ends, Fault::ShardFailsOver { shard }),
        ]);
    }
    if random.one_in(3) {
        let begins = instant(random);
        let ends = begins.plus(Nanos::from_millis(*random.pick(&[100, 2_000])));
        scenario.faults.push((begins, Fault::RepliesLost { of_10_000: *random.pick(&[1_000, 10_000]) }));
        scenario.faults.push((ends, Fault::RepliesLost { of_10_000: 0 }));
    }
    if random.one_in(3) {
        let key = random.index(scenario.keys.len());
        scenario.faults.push((instant(random), Fault::KeyIsHot { key }));
    }
    let streams = random.one_in(3).then(|| Box::new(with_changes(&mut scenario, random)));
    Episode::Region(Box::new(scenario), streams)
}

/// Some limits are changed, and that is heard of as its way allows.
fn with_changes(scenario: &mut Scenario, random: &mut Random) -> StreamScenario {
    let length = scenario.ends_at.minus(START);
    let mut changed_at = Vec::new();
    for _ in 0..1 + random.below(4) {
        let key = random.index(scenario.keys.len());
        changed_at.push(START.plus(Nanos::new(random.below(length.get()))));
        let policy = changed(scenario.keys[key].policy, random);
        scenario.changes.push(Change { keys: key..key + 1, policy, heard_at: Vec::new() });
    }
    changed_at.sort_unstable();
    stream_chaos::scenario(scenario, changed_at, random)
}

/// The same limit with another number.
fn changed(policy: GivenPolicy, random: &mut Random) -> GivenPolicy {
    match policy {
        GivenPolicy::Sliding { period, .. } => {
            sliding(*random.pick(&[1, 5, 200]), period.get() / Nanos::PER_SECOND)
        }
        GivenPolicy::Fixed { limit, period } => GivenPolicy::Fixed { limit, period },
        GivenPolicy::Gcra { .. } => gcra(*random.pick(&[2, 50]), *random.pick(&[2, 50])),
    }
}
