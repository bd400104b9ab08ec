//! Scenarios made of nothing but a seed and what may go wrong.

mod patterns;
pub(crate) mod situations;

pub use patterns::ChaosPattern;

use crate::START;
use crate::fault::Fault;
use crate::network::{Latency, NetworkOptions, Odds, Way};
use crate::random::Random;
use crate::ruled::{CalendarWindow, Unit};
use crate::scenario::{Arrival, KeyPlan, LimitUse, Scenario, Template, fixed, gcra, sliding};
use smallvec::SmallVec;
use tidegate_core::{Accuracy, Class, Nanos};
use tidegate_node::GivenPolicy;

/// A scenario that aims at one known failure.
pub(crate) fn aimed_at(pattern: ChaosPattern, seed: u64) -> Scenario {
    patterns::scenario(pattern, seed)
}

/// What may go wrong in a scenario, beside its traffic.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Trouble {
    /// Nothing: every call is answered in time.
    None,
    /// Messages are slow, lost and executed twice.
    Network,
    /// Beside that, nodes crash and stand still, links break one way, and the store forgets, fails over,
    /// stands still and goes down.
    Everything,
    /// Beside that, clocks are wrong and are set.
    Clocks,
}

/// A scenario of 1 to 9 nodes and up to 600 requests of 1 to 5 limits each.
pub fn scenario(seed: u64, trouble: Trouble) -> Scenario {
    let mut random = Scenario::random_of(seed);
    let nodes = 1 + random.index(9);
    let keys: Vec<KeyPlan> = (0..=random.below(4)).map(|index| key(&mut random, index)).collect();
    let mut of_rules = Scenario::random_of(seed ^ 0x7275_6c65);
    let keys = keys.into_iter().map(|key| perhaps_ruled(&mut of_rules, key)).collect();
    // The last of them joins late, and knows nothing.
    let mut scenario = Scenario::calm(seed, nodes + 1, keys);
    scenario.absent = vec![nodes];
    scenario.shards = *random.pick(&[1, 1, 3]);
    scenario.templates = templates(&mut random, &scenario.keys);
    let longest_ms = *random.pick(&[20_000, 20_000, 20_000, 20_000, 20_000, 90_000]);
    let length = Nanos::from_millis(random.between(200, longest_ms));
    let joins_at = START.plus(Nanos::new(length.get() / 5 * 4 + random.below(length.get() / 5)));
    let mut requests = arrivals(&mut random, nodes, &scenario, length);
    requests.extend(of_late_node(&mut random, &scenario, joins_at, length));
    requests.sort_by_key(|arrival| arrival.at);
    if trouble != Trouble::None {
        scenario.wakes_within = Nanos::new(random.below(200_000));
        scenario.network = network(&mut random);
        scenario.keys_max = if random.one_in(8) { 2 } else { scenario.keys_max };
    }
    if matches!(trouble, Trouble::Everything | Trouble::Clocks) {
        scenario.faults = region_faults(&mut random, &scenario, length);
    }
    if trouble == Trouble::Clocks {
        let worst_ns = *random.pick(&WRONG_CLOCKS_NS);
        let offset = |_| signed(&mut random, worst_ns);
        scenario.clock_offsets_ns = (0..=nodes).map(offset).collect();
        if random.one_in(2) {
            clock_steps(&mut random, nodes, length, &mut scenario.faults);
        }
    }
    scenario.judges_free = true;
    scenario.judges_overshot = true;
    scenario.faults.push((joins_at, Fault::Start { node: nodes }));
    scenario.with_arrivals(requests)
}

/// How far clocks are off at most before their nodes hear the region's time: too little to be set, or a cell and more.
const WRONG_CLOCKS_NS: [u64; 5] = [50_000_000, 50_000_000, 2_000_000_000, 30_000_000_000, 200_000_000_000];
/// What the protocol waits for, in milliseconds: what goes wrong lasts a little less, or a little longer.
const WAITS_MS: [u64; 8] = [50, 100, 250, 300, 1_500, 5_000, 20_000, 60_000];
/// A little less or more than something that the protocol waits for.
fn near_a_wait(random: &mut Random) -> Nanos {
    let wait = Nanos::from_millis(*random.pick(&WAITS_MS));
    let tenth = wait.get() / 10;
    Nanos::new(wait.get() - tenth + random.below(2 * tenth + 1))
}

pub(crate) fn signed(random: &mut Random, most: u64) -> i64 {
    signed_between(random, 0, most)
}

pub(crate) fn signed_between(random: &mut Random, least: u64, most: u64) -> i64 {
    let size = i64::try_from(random.between(least, most)).unwrap_or(i64::MAX);
    if random.one_in(2) { size } else { -size }
}

fn key(random: &mut Random, index: u64) -> KeyPlan {
    let limit = *random.pick(&[1, 3, 10, 10, 50, 100, 1_000]);
    let is_hot = random.one_in(4);
    let period_s = *random.pick(&PERIODS_S);
    let policy = match random.below(5) {
        0 | 1 => sliding(limit, period_s),
        2 => fixed(limit, period_s),
        _ => gcra(*random.pick(&[1, 3, 10, 100, 700]), *random.pick(&[1, 5, 10, 100])),
    };
    KeyPlan {
        class: *random.pick(&[Class::Paid, Class::Free, Class::Abuse]),
        accuracy: *random.pick(&[
            Accuracy::Bounded,
            Accuracy::Bounded,
            Accuracy::Fast,
            Accuracy::Exact,
            Accuracy::Async,
        ]),
        is_hot,
        ..KeyPlan::new(&format!("key {index}"), policy)
    }
}

/// Now and then only a rule can limit the key so: by the calendar, or charged whatever the limit says.
pub(crate) fn perhaps_ruled(random: &mut Random, plan: KeyPlan) -> KeyPlan {
    match random.below(12) {
        0 => by_calendar(random, plan),
        // What a bucket owes beyond its burst, and a store lost, is more than the oracle of conservation knows of.
        1 if !matches!(plan.policy, GivenPolicy::Gcra { .. }) => KeyPlan { charges_always: true, ..plan },
        2 => KeyPlan { charges_always: true, ..by_calendar(random, plan) },
        _ => plan,
    }
}

/// The same number of requests in each hour, day, week or month somewhere.
fn by_calendar(random: &mut Random, plan: KeyPlan) -> KeyPlan {
    let unit = *random.pick(&Unit::ALL);
    let time_zone = (*random.pick(&TIME_ZONES)).to_owned();
    let policy = fixed(plan.size(), unit.length_s());
    KeyPlan { policy, calendar: Some(CalendarWindow { unit, time_zone }), ..plan }
}

/// Some whose clocks change by an hour or by half of one, and some whose clocks don't.
const TIME_ZONES: [&str; 6] =
    ["UTC", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Asia/Kathmandu", "Pacific/Apia"];
/// When clocks change next there: in Berlin, in New York and on Lord Howe Island, in seconds.
const CLOCKS_CHANGE_AT_S: [u64; 3] = [1_806_195_600, 1_805_007_600, 1_806_764_400];

const PERIODS_S: [u64; 6] = [1, 2, 5, 10, 60, 3_600];

fn templates(random: &mut Random, keys: &[KeyPlan]) -> Vec<Template> {
    let limit = |random: &mut Random| {
        let key = random.index(keys.len());
        let size = keys[key].size();
        let cost = *random.pick(&[1, 1, 1, 1, 1, 2, 3, 0, size.div_ceil(3), size, size + 1]);
        LimitUse { key, cost }
    };
    let template = |random: &mut Random| {
        let count = *random.pick(&[1, 1, 1, 2, 3, 5]);
        let mut limits: SmallVec<[LimitUse; 5]> = (0..count).map(|_| limit(random)).collect();
        // A rule's namespace has no other key.
        if let Some(ruled) = limits.iter().copied().find(|limit| keys[limit.key].is_ruled()) {
            limits = smallvec::smallvec![ruled];
        }
        Template { limits, is_report: random.one_in(20) }
    };
    // One that is plain for each key, so that every scenario admits something.
    let others: Vec<Template> = (0..random.below(5)).map(|_| template(random)).collect();
    (0..keys.len()).map(Template::of_key).chain(others).collect()
}

/// How a key is used.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Profile {
    /// By all nodes, all the time.
    Busy,
    /// A little at the beginning, and never again.
    Idle,
    /// Spent at the beginning, and denied from then on.
    Spent,
    /// By one node alone.
    OneNode(usize),
    /// By nobody but the node that joins late.
    ReadLate,
}

fn profile(random: &mut Random, nodes: usize) -> Profile {
    match random.below(8) {
        0 => Profile::Idle,
        1 | 2 => Profile::Spent,
        3 => Profile::OneNode(random.index(nodes)),
        4 => Profile::ReadLate,
        _ => Profile::Busy,
    }
}

/// Some even traffic and some bursts, of each key by its profile.
fn arrivals(random: &mut Random, nodes: usize, scenario: &Scenario, length: Nanos) -> Vec<Arrival> {
    let profiles: Vec<Profile> = scenario.keys.iter().map(|_| profile(random, nodes)).collect();
    let (count, bursts) = (random.between(20, 600), random.below(4));
    let mut arrivals = Vec::new();
    let favourite = random.index(nodes);
    let arrival = |random: &mut Random, at: Nanos| {
        let template = if random.one_in(2) { 0 } else { random.index(scenario.templates.len()) };
        let key = scenario.templates[template].limits[0].key;
        let passed = at.minus(START).get();
        let node = match profiles[key] {
            Profile::Idle if passed > length.get() / 10 => return None,
            Profile::ReadLate => return None,
            Profile::OneNode(node) => node,
            Profile::Busy | Profile::Idle | Profile::Spent if random.one_in(3) => favourite,
            Profile::Busy | Profile::Idle | Profile::Spent => random.index(nodes),
        };
        Some(Arrival { at, node, template })
    };
    for (key, _) in profiles.iter().enumerate().filter(|(_, profile)| **profile == Profile::Spent) {
        for _ in 0..(scenario.keys[key].size() + 5).min(120) {
            let at = START.plus(Nanos::new(random.below(length.get() / 4)));
            arrivals.push(Arrival { at, node: random.index(nodes), template: key });
        }
    }
    let even = count / (bursts + 1);
    for _ in 0..even {
        let at = START.plus(Nanos::new(random.below(length.get())));
        arrivals.extend(arrival(random, at));
    }
    for _ in 0..bursts {
        let begins = START.plus(Nanos::new(random.below(length.get())));
        let width = Nanos::from_millis(*random.pick(&[1, 20, 200]));
        for _ in 0..even {
            let at = begins.plus(Nanos::new(random.below(width.get())));
            arrivals.extend(arrival(random, at));
        }
    }
    arrivals
}

/// What comes to the node that joins late: all keys.
fn of_late_node(random: &mut Random, scenario: &Scenario, joins_at: Nanos, length: Nanos) -> Vec<Arrival> {
    let rest = START.plus(length).minus(joins_at).get();
    let node = scenario.nodes - 1;
    let arrival = |template| Arrival { at: joins_at.plus(Nanos::new(random.below(rest))), node, template };
    (0..scenario.keys.len()).flat_map(|key| [key; 8]).map(arrival).collect()
}

pub(crate) fn network(random: &mut Random) -> NetworkOptions {
    let millis = |random: &mut Random, choices: &[u64]| Nanos::from_millis(*random.pick(choices));
    let odds = |random: &mut Random| Odds(*random.pick(&[0, 0, 0, 50, 500, 3_000]));
    NetworkOptions {
        latency: Latency {
            least: Nanos::new(50_000),
            most: millis(random, &[1, 1, 2, 5, 20]),
            spikes: odds(random),
            spike: millis(random, &[5, 10, 60, 200]),
        },
        lost_out: odds(random),
        lost_back: odds(random),
        doubled: odds(random),
    }
}

pub(crate) fn faults(random: &mut Random, nodes: usize, length: Nanos) -> Vec<(Nanos, Fault)> {
    let mut faults = Vec::new();
    for _ in 0..random.below(6) {
        let begins = START.plus(Nanos::new(random.below(length.get())));
        let pause = Nanos::from_millis(*random.pick(&[1, 10, 100, 1_000, 4_000]));
        let ends = begins.plus(pause);
        let node = random.index(nodes);
        let way = *random.pick(&[Way::Out, Way::Back]);
        let pair = match random.below(8) {
            0 => [(begins, Fault::Crash { node }), (ends, Fault::Start { node })],
            1 => [(begins, Fault::Cut { node, way }), (ends, Fault::Mend { node, way })],
            2 => [(begins, Fault::StoreIsCopied), (ends, Fault::StoreFailsOver)],
            3 => [(begins, Fault::StoreGoesDown), (ends, Fault::StoreComesBack)],
            4 => [(begins, Fault::StoreForgets), (begins, Fault::Pause { node, length: pause })],
            5 => [(begins, Fault::StoreForgets); 2],
            6 => [(begins, Fault::StorePauses { length: pause }); 2],
            _ => [(begins, Fault::Pause { node, length: pause }); 2],
        };
        faults.extend(pair);
    }
    faults
}

/// What goes wrong in a region that is alone, with what is known to fail if that is switched on.
fn region_faults(random: &mut Random, scenario: &Scenario, length: Nanos) -> Vec<(Nanos, Fault)> {
    let nodes = scenario.nodes - 1;
    let mut faults = Vec::new();
    for _ in 0..random.below(7) {
        let begins = START.plus(Nanos::new(random.below(length.get())));
        let pause = near_a_wait(random);
        let ends = begins.plus(pause);
        let (node, key) = (random.index(nodes), random.index(scenario.keys.len()));
        let shard = random.index(3);
        let way = *random.pick(&[Way::Out, Way::Back]);
        match random.below(18) {
            0 | 1 => faults.extend([(begins, Fault::Crash { node }), (ends, Fault::Start { node })]),
            2 => faults.extend([(begins, Fault::Cut { node, way }), (ends, Fault::Mend { node, way })]),
            3 => faults.extend([(begins, Fault::StoreGoesDown), (ends, Fault::StoreComesBack)]),
            4 => faults.push((begins, Fault::StorePauses { length: pause })),
            5 | 6 => faults.push((begins, Fault::Pause { node, length: pause })),
            7 => faults.push((begins, Fault::Leave { node })),
            8 | 9 => faults.push((begins, data_loss(random, key, node, shard))),
            10 => {
                faults.extend([(begins, Fault::StoreIsCopied), (ends, Fault::StoreFailsOver)]);
            }
            11 => faults.push((begins, Fault::Reset { node, key })),
            12 => faults.push((begins, Fault::ResetIsOrdered { key })),
            13 => {
                let lost = begins.plus(Nanos::from_millis(random.below(3_000)));
                faults.extend([
                    (begins, Fault::ForeignNodeStarts),
                    (lost, Fault::StoreForgets),
                    (lost.plus(pause), Fault::ForeignNodeStops),
                ]);
            }
            14 => faults.extend([(begins, Fault::KeyIsHot { key }), (ends, Fault::KeyIsCold { key })]),
            15 => faults.push((begins, Fault::SlotMoves { key, length: pause.min(SLOT_MOVES_WITHIN) })),
            16 if scenario.keys.len() > 1 => {
                let to = (key + 1) % scenario.keys.len();
                faults.push((begins, Fault::DurationChanges { from: key, to }));
            }
            _ => faults.push((begins, Fault::CoordinationIsLost)),
        }
    }
    if random.one_in(2) {
        let begins = START.plus(Nanos::new(random.below(length.get())));
        let (key, node) = (random.index(scenario.keys.len()), random.index(nodes));
        let shard = random.index(3);
        faults.push((begins, data_loss(random, key, node, shard)));
    }
    faults
}

/// All nodes stand still for a while that is longer than what the protocol remembers: what comes later comes then.
pub(crate) fn suspend(random: &mut Random, scenario: &mut Scenario) {
    let length = Nanos::from_secs(*random.pick(&SUSPENDED_S));
    let at = START.plus(Nanos::new(random.below(scenario.ends_at.minus(START).get())));
    let length = until_a_boundary(random, scenario, at).unwrap_or(length);
    let later = |instant: &mut Nanos| {
        if *instant > at {
            *instant = instant.plus(length);
        }
    };
    scenario.arrivals.iter_mut().for_each(|arrival| later(&mut arrival.at));
    scenario.faults.iter_mut().for_each(|(instant, _)| later(instant));
    scenario.faults.push((at, Fault::AllPause { length }));
    scenario.ends_at = scenario.ends_at.plus(length);
}

/// How long to stand still for a calendar's window to end, or for clocks to change, soon after that.
fn until_a_boundary(random: &mut Random, scenario: &Scenario, at: Nanos) -> Option<Nanos> {
    let window = scenario.keys.iter().find_map(|key| key.calendar.as_ref())?;
    let boundary = if random.one_in(2) {
        window.cell_at(at).end
    } else {
        Nanos::from_secs(*random.pick(&CLOCKS_CHANGE_AT_S))
    };
    let rest = scenario.ends_at.minus(at).get();
    let length = boundary.minus(at).minus(Nanos::new(random.below(rest)));
    (length > Nanos::ZERO).then_some(length)
}

/// Hundreds of nodes join in the first third, take requests, and leave in the last third.
pub(crate) fn grow_and_shrink(random: &mut Random, scenario: &mut Scenario) {
    let (stay, third) = (scenario.nodes, Nanos::new(scenario.ends_at.minus(START).get() / 3));
    scenario.nodes = LARGE_FLEET;
    scenario.absent.extend(stay..LARGE_FLEET);
    let last_third = START.plus(third).plus(third);
    for node in stay..LARGE_FLEET {
        let joins_at = START.plus(Nanos::new(random.below(third.get())));
        let leaves_at = last_third.plus(Nanos::new(random.below(third.get())));
        scenario.faults.push((joins_at, Fault::Start { node }));
        scenario.faults.push((leaves_at, Fault::Leave { node }));
        let at = joins_at.plus(Nanos::new(random.below(leaves_at.minus(joins_at).get())));
        scenario.arrivals.push(Arrival { at, node, template: random.index(scenario.keys.len()) });
    }
    scenario.arrivals.sort_by_key(|arrival| arrival.at);
}

const LARGE_FLEET: usize = 300;

/// Two minutes, an hour, five hours, a day, a month: cells, epochs and orders expire in between.
const SUSPENDED_S: [u64; 5] = [120, 3_600, 18_000, 86_400, 31 * 86_400];
const SLOT_MOVES_WITHIN: Nanos = Nanos::from_secs(5);

fn data_loss(random: &mut Random, key: usize, node: usize, shard: usize) -> Fault {
    match random.below(6) {
        0 | 1 => Fault::StoreForgets,
        2 => Fault::ShardForgets { shard },
        3 => Fault::KeyIsLost { key },
        4 => Fault::EpochIsLost { key },
        _ => Fault::ComponentIsLost { key, node },
    }
}

fn clock_steps(random: &mut Random, nodes: usize, length: Nanos, faults: &mut Vec<(Nanos, Fault)>) {
    for _ in 0..=random.below(3) {
        let at = START.plus(Nanos::new(random.below(length.get())));
        let worst_ns = *random.pick(&[300_000_000, 5_000_000_000, 100_000_000_000_u64]);
        let delta_ns = signed(random, worst_ns);
        faults.push((at, Fault::WallClockIsSet { node: random.index(nodes), delta_ns }));
    }
}

/// What a key is limited to, in short.
pub fn describe(plan: &KeyPlan) -> String {
    let policy = match plan.policy {
        GivenPolicy::Sliding { limit, period } => {
            format!("sliding {} per {} s", limit.get(), period.get() / Nanos::PER_SECOND)
        }
        GivenPolicy::Fixed { limit, .. } if plan.calendar.is_some() => {
            format!("{} per window of {:?}", limit.get(), plan.calendar)
        }
        GivenPolicy::Fixed { limit, period } => {
            format!("fixed {} per {} s", limit.get(), period.get() / Nanos::PER_SECOND)
        }
        GivenPolicy::Gcra { rate, burst } => format!(
            "gcra {} / {} ns, burst {}",
            rate.interval_denominator(),
            rate.interval_numerator_ns(),
            burst.get()
        ),
    };
    format!("{policy}, {:?}, {:?}", plan.accuracy, plan.class)
}
