//! Episodes that aim at a situation: a history runs until a node and the store are in it, and the event happens then.
//!
//! The history is run twice: first to find the instant, then with the event in its place. So an episode is plain data,
//! as every other is. Most events can follow the same history, so it is looked for once for all of them.

mod drawing;
mod in_world;

use super::episode::Episode;
use crate::START;
use crate::chaos;
use crate::chaos::situations::{NEWCOMER, SUBJECT, history, requests_of};
use crate::coverage::{Coverage, EventKind, NodeState, StoreState, Triple};
use crate::fault::Fault;
use crate::random::Random;
use crate::scenario::{Arrival, Audit, LimitChange, Scenario, policy_of_size};
use crate::simulation::{Simulation, shard_of};
use in_world::Regions;
use tidegate_core::Nanos;

/// The situation may come up several times: it is looked for from some instant before this on.
const LOOKED_FOR_WITHIN: Nanos = Nanos::from_secs(2);
/// What comes at the same instant otherwise comes first.
const JUST_AFTER: Nanos = Nanos::new(2);
const NEVER: Nanos = Nanos::from_secs(100 * 365 * 86_400);

/// So many seeds are tried for each situation.
const TRIES_MAX: u64 = 2_000;

/// What a node knows of a key and what the store holds of its cell, and how often which events are still to come then.
/// All these events can follow the same histories.
#[derive(Clone, Debug)]
pub struct Aim {
    node: NodeState,
    store: StoreState,
    /// The event that the histories are made for.
    story: EventKind,
    wanted: Vec<(EventKind, u64)>,
}

/// What is to be aimed at, so that each of these situations is met so many times more.
pub fn aims(missing: impl IntoIterator<Item = (Triple, u64)>) -> Vec<Aim> {
    let mut aims: Vec<Aim> = Vec::new();
    for ((node, store, event), count) in missing {
        let story = story_of(event);
        let is_alike = |aim: &&mut Aim| (aim.node, aim.store, aim.story) == (node, store, story);
        match aims.iter_mut().find(is_alike) {
            Some(aim) => aim.wanted.push((event, count)),
            None => aims.push(Aim { node, store, story, wanted: vec![(event, count)] }),
        }
    }
    aims
}

/// What episodes that aim at some situations came to.
#[derive(Clone, Debug, Default)]
pub struct CoverageReport {
    pub coverage: Coverage,
    pub episodes: u64,
    /// For each situation the first seed of an episode in which something was violated, and what.
    pub violations: Vec<(Triple, u64, String)>,
}

/// Runs and judges episodes that aim at some situations until each was met as often as wanted.
pub fn cover(aim: &Aim) -> CoverageReport {
    let mut covered = CoverageReport::default();
    for seed in 0..TRIES_MAX {
        let is_wanted = |(event, wanted): &&(EventKind, u64)| {
            covered.coverage.of((aim.node, aim.store, *event)) < *wanted
        };
        let events: Vec<EventKind> = aim.wanted.iter().filter(is_wanted).map(|(event, _)| *event).collect();
        if events.is_empty() {
            break;
        }
        let Some(prefix) = Prefix::find((aim.node, aim.store, aim.story), seed) else { continue };
        for event in events {
            let triple = (aim.node, aim.store, event);
            let Some(episode) = prefix.with(triple, seed) else { continue };
            let (coverage, done) = episode.run_observed();
            covered.coverage.add_all(&coverage);
            covered.episodes += 1;
            let is_first = covered.violations.iter().all(|(of, ..)| *of != triple);
            if let Some(message) = done.err().filter(|_| is_first) {
                covered.violations.push((triple, seed, message));
            }
        }
    }
    covered
}

impl Episode {
    /// An episode in which the event comes to node 0 and key 0 in this situation. `None` where the history that the seed
    /// draws doesn't pass through it.
    pub fn aimed((node, store, event): Triple, seed: u64) -> Option<Episode> {
        Prefix::find((node, store, story_of(event)), seed)?.with((node, store, event), seed)
    }
}

/// The event that a history is made for: the same one for all events that don't need any of their own.
fn story_of(event: EventKind) -> EventKind {
    match event {
        EventKind::Reset | EventKind::Restart | EventKind::LeaseGranted | EventKind::QuotaChange => event,
        event if is_of_world(event) => EventKind::RegionJoin,
        _ => EventKind::SmallRequest,
    }
}

/// Whether an event comes to regions that share limits only.
fn is_of_world(event: EventKind) -> bool {
    matches!(
        event,
        EventKind::WorldRowsLost
            | EventKind::RegionJoin
            | EventKind::RegionLeave
            | EventKind::RegionRename
            | EventKind::QuotaChange
    )
}

/// A history, and when it is in the situation that it leads to.
enum Prefix {
    Region(Box<Scenario>, Nanos),
    World(Box<Regions>, Nanos),
}

impl Prefix {
    /// `None` where the history that the seed draws doesn't pass through the situation.
    fn find(aim: Triple, seed: u64) -> Option<Prefix> {
        let mut random = Random::new(seed ^ 0x6169_6d65);
        if is_of_world(aim.2) {
            let regions = Regions::draw(aim, seed, &mut random);
            let at = regions.instant_of((aim.0, aim.1), &mut random)?;
            return Some(Prefix::World(Box::new(regions), at));
        }
        let scenario = history(aim, seed, false);
        let at = instant_of(&scenario, aim, &mut random)?;
        Some(Prefix::Region(Box::new(scenario), at))
    }

    /// The history with the event in it.
    fn with(&self, aim: Triple, seed: u64) -> Option<Episode> {
        let mut random = Random::new(seed.wrapping_mul(31) ^ (0x6576_656e ^ (aim.2 as u64) << 32));
        match self {
            Prefix::World(regions, at) => Some(regions.with(aim.2, *at, &mut random)),
            Prefix::Region(scenario, at) => {
                let mut scenario = scenario.clone();
                if aim.2 == EventKind::LeaseGranted {
                    drawing::draw(&mut scenario, aim, *at, &mut random)?;
                } else {
                    let_happen(&mut scenario, aim, *at, &mut random);
                }
                Some(Episode::Region(scenario, None))
            }
        }
    }
}

/// When a history is in the situation.
fn instant_of(scenario: &Scenario, aim: Triple, random: &mut Random) -> Option<Nanos> {
    let mut scenario = Scenario { audit: Audit::CountsOnly, ..scenario.clone() };
    if aim.2 == EventKind::Reset {
        // Nodes ask for resets where there are some.
        scenario.faults.push((NEVER, Fault::Reset { node: SUBJECT, key: 0 }));
    }
    let from = START.plus(Nanos::new(random.below(LOOKED_FOR_WITHIN.get())));
    let until = scenario.ends_at;
    let mut simulation = Simulation::new(scenario);
    simulation.observe_from_now();
    Some(simulation.run_until_met(drawing::before(aim), from, until)?.plus(JUST_AFTER))
}

/// Puts the event into a history.
fn let_happen(scenario: &mut Scenario, (node, _, event): Triple, at: Nanos, random: &mut Random) {
    let requests = requests_of(scenario);
    let key = 0;
    let shard = usize::try_from(shard_of(scenario.keys[key].id(), scenario.shards).0).unwrap_or(0);
    let pause = Nanos::from_millis(*random.pick(&[10, 300, 2_000, 25_000]));
    let fault = match event {
        EventKind::SmallRequest => return arrive(scenario, at, SUBJECT, 0),
        EventKind::SkewedClock => {
            // Nodes follow their region's time: a clock that is off from the beginning is right after a heartbeat.
            let delta_ns = chaos::signed_between(random, 60_000_000, 2_000_000_000);
            scenario.faults.push((at, Fault::StepClock { node: SUBJECT, delta_ns }));
            return arrive(scenario, at.plus(JUST_AFTER), SUBJECT, 0);
        }
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
            let delta_ns = chaos::signed_between(random, 100_000_000, 5_000_000_000);
            Fault::StepClock { node: SUBJECT, delta_ns }
        }
        EventKind::StoreLost => Fault::StoreForgets,
        EventKind::ShardLost => Fault::ShardForgets { shard },
        EventKind::KeyLost => Fault::KeyIsLost { key },
        EventKind::FieldsLost => Fault::ComponentIsLost { key, node: random.index(NEWCOMER) },
        EventKind::EpochLost => Fault::EpochIsLost { key },
        EventKind::CoordinationLost => Fault::CoordinationIsLost,
        EventKind::FailOver => {
            let copied_at = START.plus(Nanos::new(random.below(at.minus(START).get())));
            scenario.faults.push((copied_at, Fault::StoreIsCopied));
            Fault::StoreFailsOver
        }
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
    scenario.changes.push(LimitChange { keys: 0..1, policy, heard_at });
}
