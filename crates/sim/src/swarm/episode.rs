//! One scenario of a seed: which it is, how it is run, and what must hold at its end.

use super::epilogue;
use crate::chaos::{self, ChaosPattern, Trouble};
use crate::coverage::Coverage;
use crate::fault::Fault;
use crate::fired::Fired;
use crate::random::Random;
use crate::scenario::{Audit, LimitChange, NodeFlaw, Scenario, burst_of, gcra, limit_of, size_of};
use crate::simulation::Simulation;
use crate::streams::{RuleDeliveryTimes, StreamScenario, Streams, chaos as stream_chaos};
use crate::world::chaos::{self as world_chaos, WorldTrouble};
use crate::world::quota_chaos;
use crate::world::scenario::{WorldFlaw, WorldScenario};
use crate::{START, WorldSimulation};
use std::panic::{AssertUnwindSafe, catch_unwind};
use tidegate_control::Flaw;
use tidegate_core::Nanos;
use tidegate_node::GivenPolicy;

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
    /// Counts of more than 16 limits don't reach the other regions.
    IgnoresOverdrawn,
    /// An origin whose region is renamed is another owner in the world store.
    OwnersByName,
    /// Regions never hear that the world store lost rows of theirs.
    ForgetsLosses,
    /// Regions never learn that the world store went back to older slices.
    HidesRestores,
    /// Slices of a limit whose number changed are rounded up.
    RoundsSlicesUp,
    /// What was leased is spent and renewed by the limit of before it was lowered.
    KeepsLeasedLimit,
    /// A node leases half of what is left of a long window.
    DrawsHalf,
    /// A node that starts in an outage takes itself for the only one.
    AssumesToBeAlone,
    /// The store keeps the whole debt of a bucket whose burst was lowered.
    KeepsDebts,
    /// Callers are told to wait half as long as they must.
    HalvesWaits,
    /// Nobody notices that the store lost data, and nothing is published again.
    NeverNoticesLoss,
    /// What only survivors remember of a node is merged by maximum.
    MergesFloorByMax,
    /// Asks of a node that missed a reset are unverified.
    AsksInOldEpoch,
    /// A node that stood still isn't told of the resets that it missed.
    MissesResets,
    /// A node with another secret wins a store that lost its data.
    ForgetsAcceptance,
    /// What is held for a request is relied on after it has expired.
    TrustsExpiredHolds,
    /// A reset that the store lost is carried out again.
    RepeatsOrders,
    /// Nodes count by their own wall clocks.
    FollowsWallClock,
    /// The store drops a cell as soon as it was counted in.
    SendsPastExpiries,
}

impl Mistake {
    /// With the word that names it.
    pub const ALL: [(&'static str, Mistake); 23] = [
        ("delta", Mistake::AddsDeltas),
        ("republish", Mistake::RepublishesImports),
        ("raise-first", Mistake::RaisesFirst),
        ("credit", Mistake::LosesCreditCheck),
        ("overdrawn", Mistake::IgnoresOverdrawn),
        ("owner-by-name", Mistake::OwnersByName),
        ("lost-rows", Mistake::ForgetsLosses),
        ("restored-slices", Mistake::HidesRestores),
        ("round-up", Mistake::RoundsSlicesUp),
        ("leased-limit", Mistake::KeepsLeasedLimit),
        ("draw-half", Mistake::DrawsHalf),
        ("alone", Mistake::AssumesToBeAlone),
        ("keep-debt", Mistake::KeepsDebts),
        ("half-wait", Mistake::HalvesWaits),
        ("unnoticed-loss", Mistake::NeverNoticesLoss),
        ("floor-max", Mistake::MergesFloorByMax),
        ("old-epoch", Mistake::AsksInOldEpoch),
        ("missed-reset", Mistake::MissesResets),
        ("foreign-secret", Mistake::ForgetsAcceptance),
        ("late-hold", Mistake::TrustsExpiredHolds),
        ("order-twice", Mistake::RepeatsOrders),
        ("wall-clock", Mistake::FollowsWallClock),
        ("past-expiry", Mistake::SendsPastExpiries),
    ];

    /// What every second episode aims at, so that the mistake matters.
    fn pattern(self) -> Option<ChaosPattern> {
        match self {
            Mistake::KeepsLeasedLimit => Some(ChaosPattern::LoweredLease),
            Mistake::DrawsHalf => Some(ChaosPattern::LeaseBurst),
            Mistake::AssumesToBeAlone => Some(ChaosPattern::FreeOutage),
            Mistake::KeepsDebts => Some(ChaosPattern::LoweredBurst),
            Mistake::MergesFloorByMax => Some(ChaosPattern::FloorGrowth),
            Mistake::MissesResets => Some(ChaosPattern::MissedReset),
            Mistake::TrustsExpiredHolds => Some(ChaosPattern::HeldPause),
            Mistake::RepeatsOrders => Some(ChaosPattern::ReplayedReset),
            Mistake::FollowsWallClock => Some(ChaosPattern::SkewedClocks),
            _ => None,
        }
    }

    /// What nodes do wrong, where it is them.
    fn of_node(self) -> Option<NodeFlaw> {
        match self {
            Mistake::LosesCreditCheck => Some(NodeFlaw::LosesCreditCheck),
            Mistake::KeepsLeasedLimit => Some(NodeFlaw::KeepsLeasedLimit),
            Mistake::DrawsHalf => Some(NodeFlaw::DrawsHalf),
            Mistake::AssumesToBeAlone => Some(NodeFlaw::AssumesToBeAlone),
            Mistake::KeepsDebts => Some(NodeFlaw::StoreKeepsDebts),
            Mistake::HalvesWaits => Some(NodeFlaw::HalvesWaits),
            Mistake::NeverNoticesLoss => Some(NodeFlaw::NeverNoticesLoss),
            Mistake::MergesFloorByMax => Some(NodeFlaw::MergesFloorByMax),
            Mistake::AsksInOldEpoch => Some(NodeFlaw::AsksInOldEpoch),
            Mistake::MissesResets => Some(NodeFlaw::MissesResets),
            Mistake::ForgetsAcceptance => Some(NodeFlaw::ForgetsAcceptance),
            Mistake::TrustsExpiredHolds => Some(NodeFlaw::TrustsExpiredHolds),
            Mistake::RepeatsOrders => Some(NodeFlaw::RepeatsOrders),
            Mistake::FollowsWallClock => Some(NodeFlaw::FollowsWallClock),
            Mistake::SendsPastExpiries => Some(NodeFlaw::SendsPastExpiries),
            Mistake::AddsDeltas
            | Mistake::RepublishesImports
            | Mistake::RaisesFirst
            | Mistake::IgnoresOverdrawn
            | Mistake::OwnersByName
            | Mistake::ForgetsLosses
            | Mistake::HidesRestores
            | Mistake::RoundsSlicesUp => None,
        }
    }
}

#[derive(Clone, PartialEq, Debug)]
pub enum Episode {
    /// A region alone, and how changed rules get to its nodes.
    Region(Box<Scenario>, Option<Box<StreamScenario>>),
    /// Regions that share counts; whether all is well again at the end is looked at.
    Counts(Box<WorldScenario>),
    /// Regions that share quotas.
    Quotas(Box<WorldScenario>),
}

/// The report of an episode that passed.
#[derive(Clone, Debug)]
pub struct EpisodeReport {
    pub fired: Fired,
    pub simulated: Nanos,
    pub trace_hash: u64,
}

impl Episode {
    /// A seed's scenario of that number.
    pub fn new(seed: u64, number: u64, mistake: Option<Mistake>) -> Self {
        let seed = seed.wrapping_add(number.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let mut random = Random::new(seed ^ 0x7377_6172);
        let aim = mistake.and_then(Mistake::pattern).filter(|_| random.one_in(2));
        // What was mended stays mended: some of the ordinary episodes aim at it.
        let mended =
            (mistake.is_none() && random.one_in(MENDED_ONE_IN)).then(|| *random.pick(&ChaosPattern::ALL));
        let aim = aim.or(mended);
        let mut episode = match (aim, random.below(8)) {
            (Some(pattern), _) => Episode::Region(Box::new(chaos::aimed_at(pattern, seed)), None),
            (None, 0) => calm_or_growing(seed, &mut random),
            (None, 1) => worse(chaos::scenario(seed, Trouble::Network), &mut random),
            (None, 2) => worse(chaos::scenario(seed, Trouble::Everything), &mut random),
            (None, 3) => worse(chaos::scenario(seed, Trouble::Clocks), &mut random),
            (None, 4) => Episode::Counts(Box::new(world_chaos::scenario(seed, WorldTrouble::World))),
            (None, 5 | 6) => Episode::Counts(Box::new(world_chaos::scenario(seed, WorldTrouble::Everything))),
            (None, _) => Episode::Quotas(Box::new(quota_chaos::scenario(seed))),
        };
        if let Some(mistake) = mistake {
            episode.make(mistake);
        }
        episode
    }

    fn make(&mut self, mistake: Mistake) {
        match (self, mistake) {
            (Episode::Region(region, _), mistake) => region.node_flaw = mistake.of_node(),
            (Episode::Counts(world), Mistake::AddsDeltas) => world.flaw = Some(WorldFlaw::AddsDeltas),
            (Episode::Counts(world), Mistake::IgnoresOverdrawn) => {
                world.flaw = Some(WorldFlaw::IgnoresOverdrawn);
            }
            (Episode::Counts(world), Mistake::ForgetsLosses) => world.flaw = Some(WorldFlaw::ForgetsLosses),
            (Episode::Counts(world), Mistake::OwnersByName) => world.flaw = Some(WorldFlaw::OwnersByName),
            (Episode::Counts(world), Mistake::RepublishesImports) => {
                world.flaw = Some(WorldFlaw::RepublishesImports);
            }
            (Episode::Quotas(world), Mistake::HidesRestores) => world.flaw = Some(WorldFlaw::HidesRestores),
            (Episode::Quotas(world), Mistake::RaisesFirst) => {
                world.regions.iter_mut().for_each(|region| region.flaw = Flaw::RaisesFirst);
            }
            (Episode::Quotas(world), Mistake::RoundsSlicesUp) => {
                world.regions.iter_mut().for_each(|region| region.flaw = Flaw::RoundsUp);
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

    /// Runs it without judging anything, and returns which situations it met.
    pub fn coverage(&self) -> Coverage {
        match self {
            Episode::Region(region, streams) => {
                let mut scenario = Scenario { audit: Audit::CountsOnly, ..Scenario::clone(region) };
                deliver_rules(&mut scenario, streams.as_deref());
                let mut simulation = Simulation::new(scenario);
                simulation.observe_from_now();
                simulation.run();
                simulation.take_coverage()
            }
            Episode::Counts(world) | Episode::Quotas(world) => {
                let mut scenario = WorldScenario::clone(world);
                scenario.regions.iter_mut().for_each(|region| region.audit = Audit::CountsOnly);
                let mut world = WorldSimulation::new(scenario);
                world.observe_from_now();
                world.run();
                world.take_coverage()
            }
        }
    }

    /// Runs it; what is violated is the error.
    pub fn run(&self) -> Result<EpisodeReport, String> {
        self.run_with(None)
    }

    /// The same; also returns which situations it met before its end. Regions together aren't judged where a key is reset
    /// or a table is too small for the keys: the books between regions know neither epochs nor what was evicted.
    pub fn run_observed(&self) -> (Coverage, Result<EpisodeReport, String>) {
        if self.is_beyond_the_books() {
            let done = EpisodeReport { fired: Fired::default(), simulated: Nanos::ZERO, trace_hash: 0 };
            return (self.coverage(), Ok(done));
        }
        let mut coverage = Coverage::default();
        let done = self.run_with(Some(&mut coverage));
        (coverage, done)
    }

    fn is_beyond_the_books(&self) -> bool {
        let is_reset = |fault: &Fault| matches!(fault, Fault::Reset { .. } | Fault::ResetIsOrdered { .. });
        let is_beyond = |region: &Scenario| {
            region.keys_max < region.keys.len() || region.faults.iter().any(|(_, fault)| is_reset(fault))
        };
        self.world().is_some_and(|world| world.regions.iter().any(is_beyond))
    }

    fn run_with(&self, coverage: Option<&mut Coverage>) -> Result<EpisodeReport, String> {
        let run = || match self {
            Episode::Region(region, streams) => {
                run_region(Scenario::clone(region), streams.as_deref(), coverage)
            }
            Episode::Counts(world) => run_world(WorldScenario::clone(world), true, coverage),
            Episode::Quotas(world) => run_world(WorldScenario::clone(world), false, coverage),
        };
        catch_unwind(AssertUnwindSafe(run)).map_err(|panicked| {
            let message = panicked.downcast_ref::<String>().map(String::as_str);
            message.or_else(|| panicked.downcast_ref::<&str>().copied()).unwrap_or("it panicked").to_owned()
        })
    }
}

fn run_region(
    mut scenario: Scenario,
    streams: Option<&StreamScenario>,
    coverage: Option<&mut Coverage>,
) -> EpisodeReport {
    let (begins, ends, seed) = (scenario.boots_at, scenario.ends_at, scenario.seed);
    let suspended = scenario.faults.iter().filter_map(|(_, fault)| match fault {
        Fault::AllPause { length } => Some(*length),
        _ => None,
    });
    let suspended = suspended.fold(Nanos::ZERO, Nanos::plus);
    let travelled = deliver_rules(&mut scenario, streams);
    let mut simulation = Simulation::new(scenario);
    if coverage.is_some() {
        simulation.observe_from_now();
    }
    simulation.run();
    if let Some(coverage) = coverage {
        *coverage = simulation.take_coverage();
    }
    let ended = epilogue::run(&mut simulation, ends);
    assert!(ended.is_ok(), "seed {seed}: {}", ended.unwrap_err());
    let simulated = ends.minus(begins).minus(suspended);
    let (mut fired, mut trace_hash) = (simulation.fired(), simulation.trace_hash());
    if let Some(travelled) = &travelled {
        fired.add_all(&travelled.fired);
        trace_hash = trace_hash.rotate_left(7) ^ travelled.trace_hash;
    }
    EpisodeReport { fired, simulated, trace_hash }
}

/// Lets the changed rules travel to the nodes, and notes when each of them arrives.
fn deliver_rules(scenario: &mut Scenario, streams: Option<&StreamScenario>) -> Option<RuleDeliveryTimes> {
    let travelled = Streams::new(streams?.clone()).run_and_heal();
    for (change, heard_at) in scenario.changes.iter_mut().zip(&travelled.heard_at) {
        change.heard_at.clone_from(heard_at);
    }
    Some(travelled)
}

fn run_world(scenario: WorldScenario, heals: bool, coverage: Option<&mut Coverage>) -> EpisodeReport {
    let seed = scenario.seed;
    let begins = scenario.regions.iter().map(|region| region.boots_at).min().unwrap_or(START);
    let mut world = WorldSimulation::new(scenario);
    if coverage.is_some() {
        world.observe_from_now();
    }
    world.run();
    if let Some(coverage) = coverage {
        *coverage = world.take_coverage();
    }
    if heals {
        let conserved = world.is_conserved();
        assert!(conserved.is_ok(), "seed {seed}: {}", conserved.unwrap_err());
        let mut problems = world.unhealed();
        problems.extend(world.admits_what_is_spent());
        assert!(problems.is_empty(), "seed {seed}: liveness: {}", problems.join("\n"));
        let ended = world.join_cold();
        assert!(ended.is_ok(), "seed {seed}: {}", ended.unwrap_err());
    }
    EpisodeReport {
        fired: world.fired(),
        simulated: world.now().minus(begins),
        trace_hash: world.trace_hash(),
    }
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
    let has_calendar = scenario.keys.iter().any(|key| key.calendar.is_some());
    if streams.is_none() && random.one_in(GROWS_ONE_IN) {
        chaos::grow_and_shrink(random, &mut scenario);
    }
    if streams.is_none() && (random.one_in(4) || has_calendar && random.one_in(2)) {
        chaos::suspend(random, &mut scenario);
    }
    Episode::Region(Box::new(scenario), streams)
}

/// Nothing goes wrong. Now and then the fleet grows from a few nodes to hundreds, and shrinks again.
fn calm_or_growing(seed: u64, random: &mut Random) -> Episode {
    let mut scenario = chaos::scenario(seed, Trouble::None);
    if random.one_in(GROWS_ONE_IN) {
        chaos::grow_and_shrink(random, &mut scenario);
    }
    Episode::Region(Box::new(scenario), None)
}

const GROWS_ONE_IN: u64 = 40;
const MENDED_ONE_IN: u64 = 12;

/// Some limits are changed, and that is heard of as its way allows.
fn with_changes(scenario: &mut Scenario, random: &mut Random) -> StreamScenario {
    let length = scenario.ends_at.minus(START);
    let mut changed_at = Vec::new();
    for _ in 0..1 + random.below(4) {
        let key = random.index(scenario.keys.len());
        changed_at.push(START.plus(Nanos::new(random.below(length.get()))));
        let policy = changed(scenario.keys[key].policy, random);
        scenario.changes.push(LimitChange { keys: key..key + 1, policy, heard_at: Vec::new() });
    }
    changed_at.sort_unstable();
    stream_chaos::scenario(scenario, changed_at, random)
}

/// The same limit with another number: a larger one, a smaller one, or none at all.
fn changed(policy: GivenPolicy, random: &mut Random) -> GivenPolicy {
    let size = size_of(&policy);
    let other = match random.below(4) {
        0 => 0,
        1 | 2 => size / *random.pick(&[2, 10, 100]),
        _ => size.saturating_mul(*random.pick(&[2, 10])),
    };
    match policy {
        GivenPolicy::Sliding { period, .. } => GivenPolicy::Sliding { limit: limit_of(other), period },
        GivenPolicy::Fixed { period, .. } => GivenPolicy::Fixed { limit: limit_of(other), period },
        GivenPolicy::Gcra { .. } if random.one_in(2) => gcra(*random.pick(&[2, 50]), other.max(1)),
        GivenPolicy::Gcra { rate, .. } => GivenPolicy::Gcra { rate, burst: burst_of(other) },
    }
}
