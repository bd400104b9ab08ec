//! When requests come, and where.

use crate::random::Random;
use crate::scenario::Arrival;
use tidegate_core::Nanos;

/// One request after the other at an even pace from `from` on and before `until`, each at a random node.
pub fn even(random: &mut Random, nodes: usize, per_second: u64, from: Nanos, until: Nanos) -> Vec<Arrival> {
    let at = |index: u64| Nanos::new(from.get() + index * Nanos::PER_SECOND / per_second);
    let instants = (0..).map(at).take_while(|at| *at < until);
    instants.map(|at| Arrival { at, node: random.index(nodes), template: 0 }).collect()
}

/// `each` requests to every node, at random instants within `length`.
pub fn burst(random: &mut Random, nodes: usize, each: u64, from: Nanos, length: Nanos) -> Vec<Arrival> {
    let mut arrivals = Vec::new();
    for node in 0..nodes {
        for _ in 0..each {
            let at = from.plus(Nanos::new(random.below(length.get())));
            arrivals.push(Arrival { at, node, template: 0 });
        }
    }
    arrivals.sort_by_key(|arrival| arrival.at);
    arrivals
}
