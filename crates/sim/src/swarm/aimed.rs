//! Episodes that aim at a situation: a history runs until a node and the store are in it, and the event happens then.
//!
//! The history is run twice: first to find the instant, then with the event in its place. So an episode is plain data,
//! as every other is.

use super::episode::Episode;
use crate::START;
use crate::WorldSimulation;
use crate::chaos::situations::{HELPER, NEWCOMER, SUBJECT, history, requests_of};
use crate::coverage::{Coverage, EventKind, NodeState, StoreState, Triple};
use crate::fault::Fault;
use crate::random::Random;
use crate::scenario::{Arrival, Audit, Change, Scenario, policy_of_size};
use crate::simulation::{Simulation, shard_of};
use crate::world::scenario::{HEADROOM, WorldFault, WorldScenario};
use tidegate_core::Nanos;

/// The situation may come up several times: it is looked for from some instant before this on.
const LOOKED_FOR_WITHIN: Nanos = Nanos::from_secs(2);
/// What comes at the same instant otherwise comes first.
const JUST_AFTER: Nanos = Nanos::new(2);
const NEVER: Nanos = Nanos::from_secs(100 * 365 * 86_400);
/// A region that joins late has so long for its requests, and regions so long to agree then.
const AFTERWARDS: Nanos = Nanos::from_secs(6);
const AGREES_WITHIN: Nanos = Nanos::from_secs(16);

/// So many seeds are tried for each situation.
const TRIES_MAX: u64 = 400;

/// What episodes that aim at one situation came to.
#[derive(Clone, Debug, Default)]
pub struct Covered {
    pub coverage: Coverage,
    pub episodes: u64,
    /// The first seed of an episode in which something was violated, and what.
    pub violation: Option<(u64, String)>,
}

/// Runs and judges episodes that aim at a situation until it was met so many times more.
pub fn cover(aim: Triple, wanted: u64) -> Covered {
    let mut covered = Covered::default();
    for seed in 0..TRIES_MAX {
        if covered.coverage.of(aim) >= wanted {
            break;
        }
        let Some(episode) = Episode::aimed(aim, seed) else { continue };
        let (coverage, done) = episode.run_observed();
        covered.coverage.add_all(&coverage);
        covered.episodes += 1;
        if let Err(message) = done {
            covered.violation.get_or_insert((seed, message));
        }
    }
    covered
}

impl Episode {
    /// An episode in which the event comes to node 0 and key 0 in this situation. `None` where the history that the seed
    /// draws doesn't pass through it.
    pub fn aimed(aim: Triple, seed: u64) -> Option<Episode> {
        let mut random = Random::new(seed ^ 0x6169_6d65);
        if is_of_world(aim.2) {
            return in_world(aim, seed, &mut random).map(|world| Episode::of_world(world, aim.2));
        }
        let mut scenario = history(aim, seed, false);
        let at = instant_of(&scenario, aim, &mut random)?;
        if aim.2 == EventKind::LeaseGranted {
            draw(&mut scenario, aim, at)?;
        } else {
            let_happen(&mut scenario, aim, at, &mut random);
        }
        Some(Episode::Region(Box::new(scenario), None))
    }

    fn of_world(world: WorldScenario, event: EventKind) -> Episode {
        match event {
            EventKind::QuotaChange => Episode::Quotas(Box::new(world)),
            _ => Episode::Counts(Box::new(world)),
        }
    }
}

/// Whether an event comes to regions that share limits only.
pub(super) fn is_of_world(event: EventKind) -> bool {
    matches!(
        event,
        EventKind::WorldRowsLost
            | EventKind::RegionJoin
            | EventKind::RegionLeave
            | EventKind::RegionRename
            | EventKind::QuotaChange
    )
}

/// When a history is in the situation.
fn instant_of(scenario: &Scenario, (node, store, event): Triple, random: &mut Random) -> Option<Nanos> {
    // What is drawn is counted at the store first, whatever it holds before.
    let is_after = event == EventKind::LeaseGranted && happens_after(node, store);
    let situation = (node_before(node, event), (!is_after).then_some(store));
    let mut scenario = Scenario { audit: Audit::CountsOnly, ..scenario.clone() };
    if event == EventKind::Reset {
        // Nodes ask for resets where there are some.
        scenario.faults.push((NEVER, Fault::Reset { node: SUBJECT, key: 0 }));
    }
    let from = START.plus(Nanos::new(random.below(LOOKED_FOR_WITHIN.get())));
    let until = scenario.ends_at;
    let mut simulation = Simulation::new(scenario);
    simulation.observe_from_now();
    Some(simulation.run_until_met(situation, from, until)?.plus(JUST_AFTER))
}

/// What a node is in before it draws a lease, so that it is in `node` when that is granted.
fn node_before(node: NodeState, event: EventKind) -> NodeState {
    match (node, event) {
        (
            NodeState::Spent | NodeState::Unsynced | NodeState::Evicted | NodeState::BehindEpoch,
            EventKind::LeaseGranted,
        ) => NodeState::WithRoom,
        _ => node,
    }
}

/// Whether the store gets into its state after it has granted a lease.
fn happens_after(node: NodeState, store: StoreState) -> bool {
    match (node, store) {
        (NodeState::Holding, _) | (_, StoreState::Absent | StoreState::OtherEpoch) => true,
        (_, StoreState::Reserved) => node != NodeState::PreviousOnly,
        _ => false,
    }
}

/// A key becomes hot, and its node draws. While the answer is on its way, the node and the store get into the situation.
/// `None` where the node draws nothing.
fn draw(scenario: &mut Scenario, (node, store, _): Triple, at: Nanos) -> Option<()> {
    let (requests, way) = (requests_of(scenario), scenario.network.latency.least);
    if !scenario.keys[0].is_hot {
        scenario.faults.push((at, Fault::KeyIsHot { key: 0 }));
    }
    let count = if scenario.keys[0].is_hot { 40 } else { 1 };
    (0..count).for_each(|index| arrive(scenario, at.plus(Nanos::new(index + 1)), SUBJECT, 0));
    if node == NodeState::Prepaid && matches!(store, StoreState::BelowFloor | StoreState::Expiring) {
        // More than was granted: the node asks, and draws beside it.
        arrive(scenario, at.plus(Nanos::new(2)), SUBJECT, requests.much);
    }
    scenario.ends_at = scenario.ends_at.max(at.plus(Nanos::from_millis(500)));
    let drawn_at = drawn_at(scenario, at)?;
    let eighths = |eighths: u64| Nanos::new(way.get() / 8 * eighths);
    let later = drawn_at.plus(eighths(4));
    let mut faults = Vec::new();
    match (node, store) {
        (_, StoreState::Absent) => faults.push((later, Fault::KeyIsLost { key: 0 })),
        // Somebody makes the cell anew, without what is held.
        (NodeState::Holding, StoreState::AtFloor | StoreState::Expiring) => {
            faults.push((drawn_at.plus(eighths(2)), Fault::KeyIsLost { key: 0 }));
            arrive(scenario, drawn_at.minus(eighths(4)), HELPER, 0);
        }
        (NodeState::Holding, StoreState::BelowFloor) => {
            faults.push((drawn_at.plus(eighths(2)), Fault::StoreForgets));
            arrive(scenario, drawn_at.minus(eighths(4)), HELPER, 0);
        }
        (NodeState::BehindEpoch, StoreState::OtherEpoch) => {}
        (_, StoreState::OtherEpoch) => faults.push((later, Fault::EpochIsLost { key: 0 })),
        (_, StoreState::Reserved) => arrive(scenario, drawn_at.minus(eighths(4)), HELPER, requests.both),
        _ => {}
    }
    let reset = Fault::Reset { node: HELPER, key: 0 };
    match (node, store) {
        (NodeState::BehindEpoch, StoreState::OtherEpoch) => {
            faults.push((drawn_at.minus(eighths(6)), reset));
        }
        // Another node knows of the reset, and the store doesn't any more.
        (NodeState::BehindEpoch, _) => {
            faults.push((drawn_at.minus(eighths(12)), reset));
            faults.push((drawn_at.minus(eighths(2)), Fault::EpochIsLost { key: 0 }));
        }
        (NodeState::Unsynced, _) => arrive(scenario, later, SUBJECT, requests.report),
        (NodeState::Spent, _) => {
            let policy = policy_of_size(&scenario.keys[0].policy, 0);
            let mut heard_at = vec![Nanos::MAX; scenario.nodes];
            heard_at[SUBJECT] = later;
            scenario.changes.push(Change { keys: 0..1, policy, heard_at });
        }
        (NodeState::Evicted, _) => {
            (2..scenario.keys.len()).for_each(|key| arrive(scenario, later, SUBJECT, key));
        }
        _ => {}
    }
    scenario.faults.extend(faults);
    Some(())
}

/// When the store grants node 0 a lease.
fn drawn_at(scenario: &Scenario, from: Nanos) -> Option<Nanos> {
    let scenario = Scenario { audit: Audit::CountsOnly, ..scenario.clone() };
    let until = scenario.ends_at;
    let mut simulation = Simulation::new(scenario);
    simulation.observe_from_now();
    simulation.run_until_drawn(from, until)
}

fn in_world(aim: Triple, seed: u64, random: &mut Random) -> Option<WorldScenario> {
    let (node, store, event) = aim;
    let subject = history(aim, seed, true);
    let keys = subject.keys.clone();
    let region = |random: &mut Random, nodes: usize, boots_at: Option<Nanos>| {
        let mut region = Scenario::calm(random.next_u64(), nodes, keys.clone());
        region.boots_at = boots_at.unwrap_or(region.boots_at);
        let first = START.max(region.boots_at);
        let arrivals = (0..random.below(4)).map(|index| Arrival {
            at: first.plus(Nanos::from_millis(700 * index + 500)),
            node: 0,
            template: 0,
        });
        let arrivals = arrivals.collect();
        region.with_arrivals(arrivals)
    };
    let other = region(random, 2, None);
    let scenario = |regions: Vec<Scenario>| WorldScenario::calm(seed, regions, HEADROOM, &[0]);
    let dry = |region: &Scenario| Scenario { audit: Audit::CountsOnly, ..region.clone() };
    let from = START.plus(Nanos::new(random.below(LOOKED_FOR_WITHIN.get())));
    let mut world = WorldSimulation::new(scenario(vec![dry(&subject), dry(&other)]));
    world.observe_from_now();
    let at = world.run_until_met((node, Some(store)), from, subject.ends_at)?.plus(JUST_AFTER);
    let mut regions = vec![subject, other];
    let later = Nanos::from_millis(random.below(500));
    if event == EventKind::QuotaChange {
        let policy = policy_of_size(&regions[0].keys[0].policy, 2 * regions[0].keys[0].size());
        for region in &mut regions {
            let mut heard_at = vec![at.plus(later); region.nodes];
            heard_at[SUBJECT] = at;
            region.changes.push(Change { keys: 0..1, policy, heard_at });
        }
    }
    if event == EventKind::RegionJoin {
        let late = region(random, 1, Some(at));
        regions.push(late);
    }
    let mut world = scenario(regions);
    let fault = match event {
        EventKind::WorldRowsLost => Some(*random.pick(&[
            WorldFault::RowsAreLost,
            WorldFault::RowsOfKeyAreLost { key: 0 },
            WorldFault::RowsOfRegionAreLost { region: 0 },
        ])),
        EventKind::RegionLeave => Some(WorldFault::RegionLeaves { region: random.index(2) }),
        EventKind::RegionRename => Some(WorldFault::RegionIsRenamed { region: random.index(2) }),
        _ => None,
    };
    world.faults.extend(fault.map(|fault| (at, fault)));
    world.judges_data_loss = true;
    let calms = world.ends_at.max(at).plus(AFTERWARDS);
    world.faults.push((calms, WorldFault::Calm));
    world.ends_at = calms.plus(AGREES_WITHIN);
    Some(world)
}

/// Puts the event into a history.
fn let_happen(scenario: &mut Scenario, (node, _, event): Triple, at: Nanos, random: &mut Random) {
    let requests = requests_of(scenario);
    let key = 0;
    let shard = usize::try_from(shard_of(scenario.keys[key].id(), scenario.shards).0).unwrap_or(0);
    let pause = Nanos::from_millis(*random.pick(&[10, 300, 2_000, 25_000]));
    let fault = match event {
        EventKind::SmallRequest | EventKind::SkewedClock => return arrive(scenario, at, SUBJECT, 0),
        // Where nothing is left there is no credit.
        EventKind::BeyondCredit if node == NodeState::Spent => return arrive(scenario, at, SUBJECT, 0),
        EventKind::BeyondCredit => return arrive(scenario, at, SUBJECT, requests.all_at_once),
        EventKind::BeyondLimit => return arrive(scenario, at, SUBJECT, requests.beyond_limit),
        EventKind::Peek => return arrive(scenario, at, SUBJECT, requests.peek),
        EventKind::Report => return arrive(scenario, at, SUBJECT, requests.report),
        EventKind::LimitRaised => return change(scenario, at, random, |size| 2 * size),
        EventKind::LimitLowered => return change(scenario, at, random, |size| size / 2),
        EventKind::LimitZero => return change(scenario, at, random, |_| 0),
        EventKind::LeaseEnded => {
            if !scenario.keys[key].is_hot {
                scenario.faults.push((at, Fault::KeyIsHot { key }));
            }
            Fault::KeyIsCold { key }
        }
        EventKind::Reset if random.one_in(2) => Fault::ResetIsOrdered { key },
        EventKind::Reset => Fault::Reset { node: random.index(NEWCOMER), key },
        EventKind::DurationChanged => Fault::DurationChanges { from: key, to: 1 },
        EventKind::Crash => {
            scenario.faults.push((at.plus(pause), Fault::Start { node: SUBJECT }));
            Fault::Crash { node: SUBJECT }
        }
        EventKind::Restart => Fault::Start { node: NEWCOMER - 1 },
        EventKind::Join => Fault::Start { node: NEWCOMER },
        EventKind::Leave => Fault::Leave { node: SUBJECT },
        EventKind::Pause => Fault::Pause { node: SUBJECT, length: pause },
        EventKind::ClockStep => {
            let delta = i64::try_from(random.between(100, 5_000)).unwrap_or(100) * 1_000_000;
            let delta_ns = if random.one_in(2) { delta } else { -delta };
            Fault::StepClock { node: SUBJECT, delta_ns }
        }
        EventKind::StoreLost => Fault::StoreForgets,
        EventKind::ShardLost => Fault::ShardForgets { shard },
        EventKind::KeyLost => Fault::KeyIsLost { key },
        EventKind::FieldsLost => Fault::ComponentIsLost { key, node: random.index(NEWCOMER) },
        EventKind::EpochLost => Fault::EpochIsLost { key },
        EventKind::CoordinationLost => Fault::CoordinationIsLost,
        EventKind::FailOver => Fault::StoreFailsOver,
        EventKind::SlotMove => Fault::SlotMoves { key, length: Nanos::from_millis(random.between(1, 500)) },
        EventKind::LeaseGranted
        | EventKind::WorldRowsLost
        | EventKind::RegionJoin
        | EventKind::RegionLeave
        | EventKind::RegionRename
        | EventKind::QuotaChange => return,
    };
    scenario.faults.push((at, fault));
    scenario.ends_at = scenario.ends_at.max(at.plus(Nanos::from_millis(500)));
}

fn arrive(scenario: &mut Scenario, at: Nanos, node: usize, template: usize) {
    scenario.arrivals.push(Arrival { at, node, template });
    scenario.arrivals.sort_by_key(|arrival| arrival.at);
    scenario.ends_at = scenario.ends_at.max(at.plus(Nanos::from_millis(500)));
}

/// The node hears of another limit, and the others a little later.
fn change(scenario: &mut Scenario, at: Nanos, random: &mut Random, size_of: impl Fn(u64) -> u64) {
    let key = &scenario.keys[0];
    let policy = policy_of_size(&key.policy, size_of(key.size()));
    let mut heard_at = vec![at.plus(Nanos::from_millis(random.below(500))); scenario.nodes];
    heard_at[SUBJECT] = at;
    scenario.changes.push(Change { keys: 0..1, policy, heard_at });
}
