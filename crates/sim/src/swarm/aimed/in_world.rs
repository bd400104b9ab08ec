//! Episodes in which something comes to regions that share limits, while a node of one of them is in a situation.

use super::{JUST_AFTER, LOOKED_FOR_WITHIN};
use crate::START;
use crate::WorldSimulation;
use crate::chaos::situations::{SUBJECT, history};
use crate::coverage::{EventKind, NodeState, StoreState, Triple};
use crate::random::Random;
use crate::scenario::{Arrival, Audit, KeyPlan, LimitChange, Scenario, policy_of_size};
use crate::swarm::episode::Episode;
use crate::world::scenario::{HEADROOM, WorldFault, WorldScenario};
use tidegate_core::Nanos;

/// A region that joins late has so long for its requests, and regions so long to agree then.
const AFTERWARDS: Nanos = Nanos::from_secs(6);
const AGREES_WITHIN: Nanos = Nanos::from_secs(16);

/// The region of the situation, and another one.
pub(super) struct Regions {
    seed: u64,
    subject: Scenario,
    other: Scenario,
}

impl Regions {
    pub(super) fn draw(aim: Triple, seed: u64, random: &mut Random) -> Regions {
        let subject = history(aim, seed, true);
        let other = region(&subject.keys, random, 2, None);
        Regions { seed, subject, other }
    }

    /// When node 0 of the first region is in the situation.
    pub(super) fn instant_of(
        &self,
        (node, store): (NodeState, StoreState),
        random: &mut Random,
    ) -> Option<Nanos> {
        let dry = |region: &Scenario| Scenario { audit: Audit::CountsOnly, ..region.clone() };
        let from = START.plus(Nanos::new(random.below(LOOKED_FOR_WITHIN.get())));
        let mut world = WorldSimulation::new(self.together(vec![dry(&self.subject), dry(&self.other)]));
        world.observe_from_now();
        Some(world.run_until_met((node, Some(store)), from, self.subject.ends_at)?.plus(JUST_AFTER))
    }

    fn together(&self, regions: Vec<Scenario>) -> WorldScenario {
        WorldScenario::calm(self.seed, regions, HEADROOM, &[0])
    }

    /// What happens with the event in its place.
    pub(super) fn with(&self, event: EventKind, at: Nanos, random: &mut Random) -> Episode {
        let mut regions = vec![self.subject.clone(), self.other.clone()];
        let later = Nanos::from_millis(random.below(500));
        if event == EventKind::QuotaChange {
            let policy = policy_of_size(&regions[0].keys[0].policy, 2 * regions[0].keys[0].size());
            for region in &mut regions {
                let mut heard_at = vec![at.plus(later); region.nodes];
                heard_at[SUBJECT] = at;
                region.changes.push(LimitChange { keys: 0..1, policy, heard_at });
            }
        }
        if event == EventKind::RegionJoin {
            regions.push(region(&self.subject.keys, random, 1, Some(at)));
        }
        let mut world = self.together(regions);
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
        match event {
            EventKind::QuotaChange => Episode::Quotas(Box::new(world)),
            _ => Episode::Counts(Box::new(world)),
        }
    }
}

fn region(keys: &[KeyPlan], random: &mut Random, nodes: usize, boots_at: Option<Nanos>) -> Scenario {
    let mut region = Scenario::calm(random.next_u64(), nodes, keys.to_vec());
    region.boots_at = boots_at.unwrap_or(region.boots_at);
    let first = START.max(region.boots_at);
    let arrivals = (0..random.below(4)).map(|index| Arrival {
        at: first.plus(Nanos::from_millis(700 * index + 500)),
        node: 0,
        template: 0,
    });
    let arrivals = arrivals.collect();
    region.with_arrivals(arrivals)
}
