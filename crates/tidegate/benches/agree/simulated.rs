//! The scenarios, by the simulator: real engines and real logic on simulated time.

use crate::Case;
use tidegate_core::Nanos;
use tidegate_sim::scenario::{gcra, sliding};
use tidegate_sim::world::scenario::{HEADROOM, WorldScenario};
use tidegate_sim::{
    Arrival, Fault, KeyPlan, Random, START, Scenario, Simulation, WorldSimulation, arrivals,
};

const SEEDS: u64 = 20;
const NODES: usize = 3;
const NODES_PER_REGION: usize = 2;
/// From the world store and back: as far as the real ones.
const MILLIS_AWAY: [u64; 3] = [0, 60, 150];
/// Of 100 a second, before and after, in each region.
pub(crate) const SHIFT: [(u64, u64); 3] = [(60, 15), (45, 15), (45, 120)];

fn after(millis: u64) -> Nanos {
    START.plus(Nanos::from_millis(millis))
}

/// One number for each seed.
pub(crate) fn admitted(case: Case) -> Vec<f64> {
    (0..SEEDS).map(|seed| one(case, seed)).collect()
}

#[expect(clippy::cast_precision_loss, reason = "some thousands")]
fn one(case: Case, seed: u64) -> f64 {
    let mut random = Scenario::random_of(seed);
    let admitted = match case {
        Case::Burst => {
            let requests = arrivals::burst(&mut random, NODES, 2000, START, Nanos::from_millis(100));
            region(seed, KeyPlan::new("bursting", sliding(1000, 3600)), requests, Vec::new())
        }
        Case::Accuracy => {
            let requests = arrivals::even(&mut random, NODES, 20, START, after(30_000));
            region(seed, KeyPlan::new("framed", sliding(100, 10)), requests, Vec::new())
        }
        Case::Forgetting => {
            let requests = arrivals::even(&mut random, NODES, 100, START, after(14_000));
            let faults = vec![(after(6000), Fault::StoreForgets)];
            region(seed, KeyPlan::new("forgotten", sliding(1000, 3600)), requests, faults)
        }
        Case::Regions => world(seed, &KeyPlan::new("even", sliding(1000, 300)), |random, _| {
            arrivals::even(random, NODES_PER_REGION, 10, START, after(45_000))
        }),
        Case::Shift => world(seed, &KeyPlan::new("shifting", gcra(100, 100)), |random, region| {
            let (before, later) = SHIFT[region];
            let mut requests = arrivals::even(random, NODES_PER_REGION, before, START, after(20_000));
            requests.extend(arrivals::even(random, NODES_PER_REGION, later, after(20_000), after(40_000)));
            requests
        }),
    };
    admitted as f64
}

fn region(seed: u64, key: KeyPlan, requests: Vec<Arrival>, faults: Vec<(Nanos, Fault)>) -> u64 {
    let mut scenario = Scenario::calm(seed, NODES, vec![key]).with_arrivals(requests);
    scenario.faults = faults;
    let mut simulation = Simulation::new(scenario);
    simulation.run();
    simulation.ledger(0).admitted()
}

fn world(seed: u64, key: &KeyPlan, requests: impl Fn(&mut Random, usize) -> Vec<Arrival>) -> u64 {
    let mut random = Scenario::random_of(seed);
    let region = |index: usize| {
        let requests = requests(&mut random, index);
        let mut region =
            Scenario::calm(random.next_u64(), NODES_PER_REGION, vec![key.clone()]).with_arrivals(requests);
        // Regions know of each other when traffic comes.
        region.boots_at = START.minus(Nanos::from_secs(20));
        region
    };
    let regions = (0..MILLIS_AWAY.len()).map(region).collect();
    let mut world = WorldSimulation::new(WorldScenario::calm(seed, regions, HEADROOM, &MILLIS_AWAY));
    world.run();
    world.admitted(0)
}
