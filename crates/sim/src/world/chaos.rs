//! Scenarios of many regions made of nothing but a seed and what may go wrong.

use super::scenario::{HEADROOM, WorldFault, WorldScenario};
use crate::START;
use crate::chaos::{faults, network, signed};
use crate::network::{NetworkOptions, Odds, Way};
use crate::random::Random;
use crate::scenario::{Arrival, KeyPlan, Scenario, fixed, sliding};
use tidegate_core::{Accuracy, Class, Nanos};

/// What may go wrong, beside the traffic.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum WorldTrouble {
    /// Nothing; regions are apart.
    None,
    /// Between regions and the world store: what is slow, lost, doubled, down and hanging; workers that die and
    /// that stand still; clocks.
    World,
    /// Beside that, everything inside of the regions too.
    Everything,
}

/// All regions agree so long after the last fault.
const HEALS_WITHIN: Nanos = Nanos::from_secs(10);
/// A region whose origin forgot what it had hears it again from its nodes first, with their next look at all keys
/// when nobody asks for them.
const HEALS_INSIDE_WITHIN: Nanos = Nanos::from_secs(6);

/// A scenario of 2 to 4 regions of 1 to 3 nodes. It ends when all must be well again.
pub fn scenario(seed: u64, trouble: WorldTrouble) -> WorldScenario {
    let mut random = Scenario::random_of(seed ^ 0x00c0_ffee);
    let keys: Vec<KeyPlan> = (0..=random.below(3)).map(|index| key(&mut random, index)).collect();
    let length = Nanos::from_millis(random.between(1_000, 15_000));
    let begins = if random.one_in(4) { START.minus(Nanos::new(random.below(length.get()))) } else { START };
    let count = 2 + random.index(3);
    let regions: Vec<Scenario> =
        (0..count).map(|_| region(&mut random, &keys, begins, length, trouble)).collect();
    let millis: Vec<u64> = (0..count).map(|_| *random.pick(&[0, 0, 60, 150])).collect();
    let mut scenario = WorldScenario::calm(seed, regions, HEADROOM, &millis);
    if trouble != WorldTrouble::None {
        scenario.networks.iter_mut().for_each(|network| worsen(&mut random, network));
        let worst_ns = *random.pick(&[0, 50_000_000, 5_000_000_000]);
        scenario.store_offset_ns = signed(&mut random, worst_ns);
        scenario.commits_within = Nanos::from_millis(*random.pick(&[0, 0, 300, 900]));
        scenario.faults = world_faults(&mut random, &scenario, begins, length);
    }
    let calms = begins.plus(length).plus(Nanos::from_secs(5));
    scenario.faults.push((calms, WorldFault::Calm));
    scenario.ends_at = calms.plus(HEALS_WITHIN);
    if trouble == WorldTrouble::Everything {
        scenario.ends_at = scenario.ends_at.plus(HEALS_INSIDE_WITHIN);
    }
    scenario
}

fn key(random: &mut Random, index: u64) -> KeyPlan {
    let limit = *random.pick(&[1, 10, 30, 100, 100, 1_000]);
    let period_s = *random.pick(&[60, 60, 120, 3_600]);
    let policy = if random.one_in(3) { fixed(limit, period_s) } else { sliding(limit, period_s) };
    KeyPlan {
        class: *random.pick(&[Class::Paid, Class::Free, Class::Abuse]),
        accuracy: *random.pick(&[Accuracy::Bounded, Accuracy::Bounded, Accuracy::Exact, Accuracy::Async]),
        is_hot: index == 1,
        ..KeyPlan::new(&format!("key {index}"), policy)
    }
}

fn region(
    random: &mut Random,
    keys: &[KeyPlan],
    begins: Nanos,
    length: Nanos,
    trouble: WorldTrouble,
) -> Scenario {
    let nodes = 1 + random.index(3);
    let mut region = Scenario::calm(random.next_u64(), nodes, keys.to_vec());
    region.boots_at = begins.minus(crate::BOOTED_BEFORE);
    let joins_late = trouble == WorldTrouble::Everything && random.one_in(6);
    if joins_late {
        region.boots_at = begins.plus(Nanos::new(random.below(length.get())));
    }
    if trouble != WorldTrouble::None {
        let worst_ns = *random.pick(&[0, 20_000_000, 2_000_000_000_u64]);
        region.origin_offset_ns = signed(random, worst_ns);
        let near = |random: &mut Random| region.origin_offset_ns + signed(random, 10_000_000);
        region.clock_offsets_ns = (0..nodes).map(|_| near(random)).collect();
    }
    if trouble == WorldTrouble::Everything {
        region.network = network(random);
        region.faults = faults(random, nodes, length)
            .into_iter()
            .map(|(at, fault)| (shifted(at, begins), fault))
            .collect();
    }
    let count = random.between(0, 400);
    let mut arrivals: Vec<Arrival> = (0..count)
        .map(|_| {
            let first = region.boots_at.max(begins);
            let at = first.plus(Nanos::new(random.below(begins.plus(length).minus(first).get())));
            Arrival { at, node: random.index(nodes), template: random.index(keys.len()) }
        })
        .collect();
    arrivals.sort_by_key(|arrival| arrival.at);
    region.with_arrivals(arrivals)
}

/// Faults are made for runs that begin at [`START`].
fn shifted(at: Nanos, begins: Nanos) -> Nanos {
    begins.plus(at.minus(START))
}

fn worsen(random: &mut Random, network: &mut NetworkOptions) {
    let odds = |random: &mut Random| Odds(*random.pick(&[0, 0, 0, 200, 2_000]));
    network.latency.spikes = odds(random);
    network.latency.spike = Nanos::from_millis(*random.pick(&[300, 1_000, 3_000]));
    network.lost_out = odds(random);
    network.lost_back = odds(random);
    network.doubled = odds(random);
}

fn world_faults(
    random: &mut Random,
    scenario: &WorldScenario,
    begins: Nanos,
    length: Nanos,
) -> Vec<(Nanos, WorldFault)> {
    let mut faults = Vec::new();
    for _ in 0..random.below(6) {
        let at = begins.plus(Nanos::new(random.below(length.get())));
        let pause = Nanos::from_millis(*random.pick(&[100, 1_000, 3_000, 4_500]));
        let ends = at.plus(pause);
        let region = random.index(scenario.regions.len());
        let way = *random.pick(&[Way::Out, Way::Back]);
        match random.below(7) {
            0 => faults.extend([(at, WorldFault::StoreGoesDown), (ends, WorldFault::StoreComesBack)]),
            1 => faults.push((at, WorldFault::StorePauses { length: pause })),
            2 => faults
                .extend([(at, WorldFault::Cut { region, way }), (ends, WorldFault::Mend { region, way })]),
            3 => faults.extend([
                (at, WorldFault::AnswersLost { of_10_000: 10_000 }),
                (ends, WorldFault::AnswersLost { of_10_000: 0 }),
            ]),
            4 | 5 => {
                faults.push((at, WorldFault::WorkerDiesInMidPublish { region, comes_back_after: pause }));
            }
            _ => faults.push((at, WorldFault::WorkerPauses { region, length: pause })),
        }
    }
    faults
}
