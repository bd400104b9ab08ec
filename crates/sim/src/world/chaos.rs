//! Scenarios of many regions made of nothing but a seed and what may go wrong.

use super::scenario::{HEADROOM, WorldFault, WorldScenario};
use crate::START;
use crate::chaos::{faults, network, perhaps_ruled, signed};
use crate::fault::Fault;
use crate::network::{NetworkOptions, Odds, Way};
use crate::random::Random;
use crate::scenario::{Arrival, KeyPlan, LimitUse, Scenario, Template, fixed, sliding};
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

/// A scenario of 2 to 4 regions of 1 to 3 nodes, and one that joins in the last fifth.
/// It ends when all must be well again.
pub fn scenario(seed: u64, trouble: WorldTrouble) -> WorldScenario {
    let mut random = Scenario::random_of(seed ^ 0x00c0_ffee);
    let keys: Vec<KeyPlan> = (0..=random.below(3)).map(|index| key(&mut random, index)).collect();
    let mut of_rules = Scenario::random_of(seed ^ 0x7275_6c65);
    let keys: Vec<KeyPlan> = keys.into_iter().map(|key| perhaps_ruled(&mut of_rules, key)).collect();
    let length = Nanos::from_millis(random.between(1_000, 15_000));
    let calendar = keys.iter().find_map(|key| key.calendar.as_ref());
    let boundary = calendar.map_or(START, |window| window.cell_at(START).end);
    let begins = if random.one_in(4) || calendar.is_some() {
        boundary.minus(Nanos::new(random.below(length.get())))
    } else {
        START
    };
    let reports = *random.pick(&[Reports::Fitting, Reports::OnUnusedKeys, Reports::Overdrawing]);
    let plan = RegionPlan { keys: &keys, begins, length, trouble, reports };
    let count = 3 + random.index(3);
    let mut regions: Vec<Scenario> = (1..count).map(|_| region(&mut random, &plan)).collect();
    regions.push(late_region(&mut random, &plan));
    let millis: Vec<u64> = (0..count).map(|_| *random.pick(&[0, 0, 60, 150])).collect();
    let mut scenario = WorldScenario::calm(seed, regions, HEADROOM, &millis);
    if trouble != WorldTrouble::None {
        scenario.networks.iter_mut().for_each(|network| worsen(&mut random, network));
        let worst_ns = *random.pick(&[0, 50_000_000, 5_000_000_000]);
        scenario.store_offset_ns = signed(&mut random, worst_ns);
        scenario.commits_within = Nanos::from_millis(*random.pick(&[0, 0, 300, 900]));
        scenario.faults = world_faults(&mut random, &scenario, begins, length);
        scenario.faults.extend(operations(&mut random, &scenario, &plan));
        scenario.judges_data_loss = true;
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

/// What all regions of a scenario have in common.
#[derive(Clone, Copy, Debug)]
struct RegionPlan<'a> {
    keys: &'a [KeyPlan],
    begins: Nanos,
    length: Nanos,
    trouble: WorldTrouble,
    reports: Reports,
}

impl RegionPlan<'_> {
    fn instant(&self, random: &mut Random) -> Nanos {
        self.begins.plus(Nanos::new(random.below(self.length.get())))
    }

    fn ends(&self) -> Nanos {
        self.begins.plus(self.length)
    }
}

fn region(random: &mut Random, plan: &RegionPlan<'_>) -> Scenario {
    let RegionPlan { keys, begins, length, trouble, .. } = *plan;
    let nodes = 1 + random.index(3);
    let mut region = Scenario::calm(random.next_u64(), nodes, keys.to_vec());
    region.boots_at = begins.minus(crate::BOOTED_BEFORE);
    let joins_late = trouble == WorldTrouble::Everything && random.one_in(6);
    if joins_late {
        region.boots_at = plan.instant(random);
    }
    if trouble != WorldTrouble::None {
        wrong_clocks(random, &mut region);
    }
    if trouble == WorldTrouble::Everything {
        region.network = network(random);
        region.faults = faults(random, nodes, length)
            .into_iter()
            .map(|(at, fault)| (shifted(at, begins), fault))
            .collect();
        if random.one_in(2) {
            let key = random.index(keys.len());
            let fault = *random.pick(&[
                Fault::StoreForgets,
                Fault::KeyIsLost { key },
                Fault::ShardForgets { shard: 0 },
            ]);
            region.faults.push((plan.instant(random), fault));
        }
    }
    let (mut arrivals, unused) = reports(random, &mut region, plan);
    let mut requests = traffic(random, &region, plan);
    requests.retain(|request| !unused.contains(&request.template));
    arrivals.extend(requests);
    arrivals.sort_by_key(|arrival| arrival.at);
    region.with_arrivals(arrivals)
}

/// A region that knows nothing, and joins in the last fifth.
fn late_region(random: &mut Random, plan: &RegionPlan<'_>) -> Scenario {
    let fifth = plan.length.get() / 5;
    let mut region = Scenario::calm(random.next_u64(), 1 + random.index(2), plan.keys.to_vec());
    region.boots_at = plan.begins.plus(Nanos::new(4 * fifth + random.below(fifth)));
    if plan.trouble != WorldTrouble::None {
        wrong_clocks(random, &mut region);
    }
    let rest = plan.ends().minus(region.boots_at).get();
    let (boots_at, nodes) = (region.boots_at, region.nodes);
    let arrival = |template| {
        let at = boots_at.plus(Nanos::new(random.below(rest)));
        Arrival { at, node: random.index(nodes), template }
    };
    let mut arrivals: Vec<Arrival> = (0..plan.keys.len()).flat_map(|key| [key; 8]).map(arrival).collect();
    arrivals.sort_by_key(|arrival| arrival.at);
    region.with_arrivals(arrivals)
}

fn wrong_clocks(random: &mut Random, region: &mut Scenario) {
    let worst_ns = *random.pick(&[0, 20_000_000, 2_000_000_000_u64]);
    region.origin_offset_ns = signed(random, worst_ns);
    let near = |random: &mut Random| region.origin_offset_ns + signed(random, 10_000_000);
    region.clock_offsets_ns = (0..region.nodes).map(|_| near(random)).collect();
}

/// How a region uses a key.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Profile {
    /// All the time.
    Busy,
    /// A little at the beginning, and never again.
    Idle,
    /// Spent at the beginning, and denied from then on.
    Spent,
    /// Not at all.
    Unused,
}

fn traffic(random: &mut Random, region: &Scenario, plan: &RegionPlan<'_>) -> Vec<Arrival> {
    let first = region.boots_at.max(plan.begins);
    let span = plan.ends().minus(first).get();
    let all = [Profile::Busy, Profile::Busy, Profile::Busy, Profile::Idle, Profile::Spent, Profile::Unused];
    let profiles: Vec<Profile> = plan.keys.iter().map(|_| *random.pick(&all)).collect();
    let mut arrivals = Vec::new();
    let mut arrive = |random: &mut Random, within: u64, template: usize| {
        let at = first.plus(Nanos::new(random.below(within.max(1))));
        arrivals.push(Arrival { at, node: random.index(region.nodes), template });
    };
    for (key, _) in profiles.iter().enumerate().filter(|(_, profile)| **profile == Profile::Spent) {
        for _ in 0..(plan.keys[key].size() + 5).min(120) {
            arrive(random, span / 4, key);
        }
    }
    for _ in 0..random.between(0, 400) {
        let key = random.index(plan.keys.len());
        match profiles[key] {
            Profile::Busy | Profile::Spent => arrive(random, span, key),
            Profile::Idle => arrive(random, span / 10, key),
            Profile::Unused => {}
        }
    }
    arrivals
}

/// What reports cost, beside their limits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Reports {
    /// As much as a limit at most.
    Fitting,
    /// More than a limit, in a region that doesn't use the key in any other way.
    OnUnusedKeys,
    /// Up to many limits.
    Overdrawing,
}

/// Requests that have passed already, and are charged whatever the limits say. Returns the keys that the region must
/// not use in any other way, too.
fn reports(random: &mut Random, region: &mut Scenario, plan: &RegionPlan<'_>) -> (Vec<Arrival>, Vec<usize>) {
    let (mut arrivals, mut unused) = (Vec::new(), Vec::new());
    for _ in 0..random.below(3) {
        let key = random.index(plan.keys.len());
        let size = plan.keys[key].size();
        let cost = match plan.reports {
            Reports::Fitting => *random.pick(&[1, 2.min(size), size.div_ceil(3), size]),
            Reports::OnUnusedKeys => *random.pick(&[size + 1, 2 * size, 5 * size]),
            Reports::Overdrawing => *random.pick(&[15 * size, 17 * size, 40 * size]),
        };
        if plan.reports == Reports::OnUnusedKeys {
            unused.push(key);
        }
        region
            .templates
            .push(Template { limits: smallvec::smallvec![LimitUse { key, cost }], is_report: true });
        let at = region.boots_at.max(plan.instant(random));
        let node = random.index(region.nodes);
        arrivals.push(Arrival { at, node, template: region.templates.len() - 1 });
    }
    (arrivals, unused)
}

/// What operators and broken databases do.
fn operations(
    random: &mut Random,
    scenario: &WorldScenario,
    plan: &RegionPlan<'_>,
) -> Vec<(Nanos, WorldFault)> {
    let mut faults = Vec::new();
    // The last one has just joined.
    let region = random.index(scenario.regions.len() - 1);
    if random.one_in(8) {
        faults.push((plan.instant(random), WorldFault::RegionLeaves { region }));
    }
    if random.one_in(6) {
        let region = random.index(scenario.regions.len() - 1);
        faults.push((plan.instant(random), WorldFault::RegionIsRenamed { region }));
    }
    if random.one_in(4) {
        let at = plan.instant(random);
        match random.below(4) {
            0 => faults.push((at, WorldFault::RowsAreLost)),
            1 => faults.push((at, WorldFault::RowsOfKeyAreLost { key: random.index(plan.keys.len()) })),
            2 => faults.push((at, WorldFault::RowsOfRegionAreLost { region })),
            _ => {
                let copied = plan.begins.plus(Nanos::new(random.below(at.minus(plan.begins).get().max(1))));
                faults.extend([(copied, WorldFault::StoreIsCopied), (at, WorldFault::StoreIsRestored)]);
            }
        }
    }
    faults
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
