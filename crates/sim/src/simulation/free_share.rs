//! What a node may admit of a `free` limit while it has never reached its store: its share among the nodes that live.

use super::Simulation;
use crate::trace::AnswerPath;
use std::collections::BTreeMap;
use tidegate_core::{Class, Nanos};
use tidegate_node::GivenPolicy;

/// As in `crates/node/src/sharing.rs`: four thirds of an even share, and 100 ms of it at once.
const FACTOR: (u64, u64) = (4, 3);
const AT_ONCE: Nanos = Nanos::from_millis(100);

/// What a node admitted of a key without ever having reached its store.
#[derive(Clone, Copy, Debug)]
pub(crate) struct UnheardAdmissions {
    since: Nanos,
    units: u64,
    largest_cost: u64,
    /// How many nodes share the limit: as many as the node last heard of, else the fewest that lived meanwhile.
    nodes: u64,
}

pub(crate) type UnheardByKey = BTreeMap<usize, UnheardAdmissions>;

impl Simulation {
    /// Counts an unverified admission, and compares it with the node's share.
    pub(super) fn check_free_share(
        &mut self,
        node: usize,
        template: usize,
        path: AnswerPath,
    ) -> Result<(), String> {
        let is_judged =
            self.scenario.judges_free && !self.nodes[node].has_heard && path == AnswerPath::Unverified;
        // A key that finds no room in a full table is unverified too, and shares one limit with its like.
        if !is_judged || self.scenario.templates[template].is_report || self.refused_keys() > 0 {
            return Ok(());
        }
        // Of several limits another one may be unverified, and this one granted.
        if self.scenario.templates[template].limits.len() > 1 {
            return Ok(());
        }
        let up = self.nodes.iter().filter(|node| node.is_up).count() as u64;
        let nodes = self.nodes[node].known_nodes.map_or(up, u64::from);
        for limit in self.scenario.templates[template].limits.clone() {
            let plan = &self.scenario.keys[limit.key];
            if plan.class != Class::Free || limit.cost == 0 {
                continue;
            }
            let (now, per_second) = (self.now, units_per_second(&plan.policy));
            let new = UnheardAdmissions { since: now, units: 0, largest_cost: 0, nodes };
            let unheard = self.nodes[node].unheard.entry(limit.key).or_insert(new);
            unheard.units += limit.cost;
            unheard.largest_cost = unheard.largest_cost.max(limit.cost);
            unheard.nodes = unheard.nodes.min(nodes);
            let most = unheard.most(now, per_second);
            if unheard.units as f64 > most {
                return Err(format!(
                    "unverified: node {node} never reached its store and admitted {} of key {}, where its share of \
                     {} nodes is {most:.1}",
                    unheard.units, limit.key, unheard.nodes
                ));
            }
        }
        Ok(())
    }
}

impl UnheardAdmissions {
    /// Its share of what the limit admits in that time, and one request of the largest cost.
    fn most(&self, now: Nanos, per_second: f64) -> f64 {
        let seconds = now.minus(self.since).plus(AT_ONCE).get() as f64 / 1e9;
        let share = FACTOR.0 as f64 / (FACTOR.1 * self.nodes.max(1)) as f64;
        seconds * per_second * share + self.largest_cost as f64 + 1.0
    }
}

fn units_per_second(policy: &GivenPolicy) -> f64 {
    match policy {
        GivenPolicy::Sliding { limit, period } | GivenPolicy::Fixed { limit, period } => {
            limit.get() as f64 * 1e9 / period.length().get() as f64
        }
        GivenPolicy::Gcra { rate, .. } => {
            rate.interval_denominator() as f64 * 1e9 / rate.interval_numerator_ns() as f64
        }
    }
}
