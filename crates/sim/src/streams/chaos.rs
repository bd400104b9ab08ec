//! Bad luck on the way of rules, drawn from a seed.

use super::{ProcessId, StreamFault, StreamRegion, StreamScenario};
use crate::random::Random;
use crate::scenario::Scenario;
use crate::{BOOTED_BEFORE, Fault};
use tidegate_core::Nanos;

/// How long something is wrong: a blip, longer than a server may be silent, longer than one may be behind.
const LENGTHS_MS: [u64; 5] = [20, 400, 1_500, 4_000, 12_000];

/// Everything has to be well again a while after the last fault.
const PAUSES_WITHIN: Nanos = Nanos::from_secs(12);

/// The way to the nodes of a region whose own faults are known, with some of its own.
pub(crate) fn scenario(region: &Scenario, changes: Vec<Nanos>, random: &mut Random) -> StreamScenario {
    let (planes, brokers) = (1 + random.index(2), 1 + random.index(2));
    let away = Nanos::from_millis(*random.pick(&[1, 20, 75]));
    let begins_at = region.boots_at.minus(BOOTED_BEFORE);
    let length = region.ends_at.minus(begins_at);
    let mut faults: Vec<(Nanos, StreamFault)> =
        region.faults.iter().filter_map(|(at, fault)| Some((*at, of_node(*fault)?))).collect();
    for _ in 0..2 + random.below(7) {
        let begins = begins_at.plus(Nanos::new(random.below(length.get())));
        let lasts = Nanos::from_millis(*random.pick(&LENGTHS_MS));
        add(&mut faults, begins, lasts, Fleet { planes, brokers, nodes: region.nodes }, random);
    }
    faults.sort_by_key(|(at, _)| *at);
    StreamScenario {
        seed: random.next_u64(),
        planes,
        regions: vec![StreamRegion { brokers, nodes: region.nodes, away }],
        changes,
        faults,
        flaw: None,
        begins_at,
        ends_at: region.ends_at,
    }
}

#[derive(Clone, Copy)]
struct Fleet {
    planes: usize,
    brokers: usize,
    nodes: usize,
}

fn add(
    faults: &mut Vec<(Nanos, StreamFault)>,
    begins: Nanos,
    lasts: Nanos,
    fleet: Fleet,
    random: &mut Random,
) {
    let ends = begins.plus(lasts);
    let plane = random.index(fleet.planes);
    let broker = ProcessId::Broker(random.index(fleet.brokers));
    let node = ProcessId::Node(random.index(fleet.nodes));
    match random.below(7) {
        0 => {
            let who = ProcessId::Plane(plane);
            faults.push((begins, StreamFault::Crash { who }));
            faults.push((ends, StreamFault::Start { who, forgets: random.one_in(3) }));
        }
        1 => {
            faults.push((begins, StreamFault::Crash { who: broker }));
            faults.push((ends, StreamFault::Start { who: broker, forgets: false }));
        }
        2 => {
            faults.push((begins, StreamFault::Crash { who: broker }));
            faults.push((ends, StreamFault::Start { who: broker, forgets: true }));
        }
        3 => {
            let who = *random.pick(&[broker, ProcessId::Plane(plane)]);
            faults.push((begins, StreamFault::Pause { who, length: lasts }));
        }
        4 => {
            let who = *random.pick(&[broker, node]);
            faults.push((begins, StreamFault::Cut { who }));
            faults.push((ends, StreamFault::Mend { who }));
        }
        5 => {
            let who = *random.pick(&[broker, node]);
            faults.push((begins, StreamFault::Break { who }));
        }
        _ => {
            faults.push((begins, StreamFault::LogAway { plane }));
            faults.push((ends, StreamFault::LogBack { plane }));
        }
    }
}

/// What a node's own fault does to its rules: they are on its disk when it is back.
fn of_node(fault: Fault) -> Option<StreamFault> {
    Some(match fault {
        Fault::Crash { node } => StreamFault::Crash { who: ProcessId::Node(node) },
        Fault::Start { node } => StreamFault::Start { who: ProcessId::Node(node), forgets: false },
        // One that lasts longer changes nothing here: a node that stands still decides nothing.
        Fault::Pause { node, length } => {
            StreamFault::Pause { who: ProcessId::Node(node), length: length.min(PAUSES_WITHIN) }
        }
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::START;
    use crate::streams::Streams;

    #[test]
    fn rules_reach_everybody_whatever_goes_wrong() {
        for seed in 0..500 {
            let mut random = Random::new(seed);
            let mut region = Scenario::calm(seed, 1 + random.index(5), Vec::new());
            region.ends_at = START.plus(Nanos::from_secs(20));
            let mut changes: Vec<Nanos> = (0..1 + random.below(12))
                .map(|_| START.plus(Nanos::from_millis(random.below(20_000))))
                .collect();
            changes.sort_unstable();
            let way = scenario(&region, changes, &mut random);
            println!("seed {seed}: {way:?}");
            let travelled = Streams::new(way).run_and_heal();
            assert!(travelled.heard_at.len() >= travelled.pushed_at.len());
        }
    }
}
