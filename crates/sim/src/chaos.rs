//! Scenarios made of nothing but a seed and what may go wrong.

use crate::START;
use crate::fault::Fault;
use crate::network::{Latency, NetworkOptions, Odds, Way};
use crate::random::Random;
use crate::scenario::{Arrival, KeyPlan, LimitUse, Scenario, Template, fixed, gcra, sliding};
use tidegate_core::{Accuracy, Class, Nanos};
use tidegate_node::GivenPolicy;

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
    let mut scenario = Scenario::calm(seed, nodes, keys);
    scenario.shards = *random.pick(&[1, 1, 3]);
    scenario.templates = templates(&mut random, &scenario.keys);
    let length = Nanos::from_millis(random.between(200, 20_000));
    let requests = arrivals(&mut random, nodes, scenario.templates.len(), length);
    if trouble != Trouble::None {
        scenario.wakes_within = Nanos::new(random.below(200_000));
        scenario.network = network(&mut random);
        scenario.keys_max = if random.one_in(8) { 2 } else { scenario.keys_max };
    }
    if matches!(trouble, Trouble::Everything | Trouble::Clocks) {
        scenario.faults = faults(&mut random, nodes, length);
    }
    if trouble == Trouble::Clocks {
        let worst_ns = *random.pick(&[50_000_000, 50_000_000, 2_000_000_000_u64]);
        let offset = |_| signed(&mut random, worst_ns);
        scenario.clock_offsets_ns = (0..nodes).map(offset).collect();
        if random.one_in(2) {
            clock_steps(&mut random, nodes, length, &mut scenario.faults);
        }
    }
    scenario.with_arrivals(requests)
}

pub(crate) fn signed(random: &mut Random, most: u64) -> i64 {
    let size = i64::try_from(random.between(0, most)).unwrap_or(i64::MAX);
    if random.one_in(2) { size } else { -size }
}

fn key(random: &mut Random, index: u64) -> KeyPlan {
    let limit = *random.pick(&[1, 3, 10, 10, 50, 100, 1_000]);
    let period_s = *random.pick(&[1, 2, 5, 10, 60]);
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
        is_hot: random.one_in(4),
        ..KeyPlan::new(&format!("key {index}"), policy)
    }
}

fn templates(random: &mut Random, keys: &[KeyPlan]) -> Vec<Template> {
    let limit = |random: &mut Random| {
        let key = random.index(keys.len());
        let size = keys[key].size();
        let cost = *random.pick(&[1, 1, 1, 1, 1, 2, 3, 0, size.div_ceil(3), size, size + 1]);
        LimitUse { key, cost }
    };
    let template = |random: &mut Random| {
        let count = *random.pick(&[1, 1, 1, 2, 3, 5]);
        let limits = (0..count).map(|_| limit(random)).collect();
        Template { limits, is_report: random.one_in(20) }
    };
    // One that is plain, so that every scenario admits something.
    let plain = Template::of_key(0);
    let others: Vec<Template> = (0..random.below(5)).map(|_| template(random)).collect();
    std::iter::once(plain).chain(others).collect()
}

/// Some even traffic, and some bursts.
fn arrivals(random: &mut Random, nodes: usize, templates: usize, length: Nanos) -> Vec<Arrival> {
    let (count, bursts) = (random.between(20, 600), random.below(4));
    let mut arrivals = Vec::new();
    let favourite = random.index(nodes);
    let arrival = |random: &mut Random, at: Nanos| {
        let node = if random.one_in(3) { favourite } else { random.index(nodes) };
        let template = if random.one_in(2) { 0 } else { random.index(templates) };
        Arrival { at, node, template }
    };
    let even = count / (bursts + 1);
    for _ in 0..even {
        let at = START.plus(Nanos::new(random.below(length.get())));
        arrivals.push(arrival(random, at));
    }
    for _ in 0..bursts {
        let begins = START.plus(Nanos::new(random.below(length.get())));
        let width = Nanos::from_millis(*random.pick(&[1, 20, 200]));
        for _ in 0..even {
            let at = begins.plus(Nanos::new(random.below(width.get())));
            arrivals.push(arrival(random, at));
        }
    }
    arrivals.sort_by_key(|arrival| arrival.at);
    arrivals
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

fn clock_steps(random: &mut Random, nodes: usize, length: Nanos, faults: &mut Vec<(Nanos, Fault)>) {
    for _ in 0..=random.below(3) {
        let at = START.plus(Nanos::new(random.below(length.get())));
        let worst_ns = *random.pick(&[300_000_000, 5_000_000_000, 100_000_000_000_u64]);
        let delta_ns = signed(random, worst_ns);
        faults.push((at, Fault::StepClock { node: random.index(nodes), delta_ns }));
    }
}

/// What a key is limited to, in short.
pub fn describe(plan: &KeyPlan) -> String {
    let policy = match plan.policy {
        GivenPolicy::Sliding { limit, period } => {
            format!("sliding {} per {} s", limit.get(), period.get() / Nanos::PER_SECOND)
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
