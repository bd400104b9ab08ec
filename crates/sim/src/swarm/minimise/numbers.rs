//! What can be smaller or rounder in an episode: costs, limits, lengths and times. Nothing is ever made larger, so that
//! the search comes to an end.

use super::Search;
use crate::START;
use crate::scenario::{KeyPlan, Scenario, burst_of, limit_of, size_of};
use crate::swarm::Episode;
use serde::Serialize;
use serde::de::DeserializeOwned;
use tidegate_core::{Accuracy, Class, Nanos};
use tidegate_node::GivenPolicy;
use toml::Value;

/// Times are rounded down to whole ones of these; the coarsest that leaves the violation stays.
const STEPS_MS: [u64; 4] = [1_000, 100, 10, 1];
/// Seeds below need no other.
const SEEDS: u64 = 4;
/// No scenario has more.
const REGIONS_MAX: u64 = 8;
/// Requests are rounded one by one when there are no more.
const ROUNDED_ONE_BY_ONE: usize = 40;
/// A region is simulated for so long after its last request, if that is enough.
const ENDS_AFTER: Nanos = Nanos::from_millis(500);

impl Search {
    pub(super) fn shrink_numbers(&mut self) {
        let regions = self.smallest.regions().len();
        self.shrink_keys();
        for region in 0..regions {
            self.shrink_costs(region);
            self.round_times(region);
            self.round_faults(move |episode| &mut episode.regions_mut()[region].faults);
            self.try_change(|episode| end_early(&mut episode.regions_mut()[region]));
        }
        if self.smallest.world().is_some_and(|world| !world.faults.is_empty()) {
            self.round_faults(|episode| {
                episode.world_mut().map(|world| &mut world.faults).expect("there is a world")
            });
        }
        self.round_changes();
        self.round_ends();
        self.shrink_seeds();
    }

    /// Makes keys what they are by default, and their limits smaller.
    fn shrink_keys(&mut self) {
        for key in 0..self.smallest.regions()[0].keys.len() {
            let mut each = |change: &dyn Fn(&mut KeyPlan)| {
                self.try_change(|episode| {
                    episode.regions_mut().iter_mut().for_each(|region| change(&mut region.keys[key]));
                })
            };
            each(&|key| key.is_hot = false);
            each(&|key| key.class = Class::default());
            each(&|key| key.accuracy = Accuracy::default());
            for divisor in [100, 10, 2] {
                while each(&|key| key.policy = smaller(key.policy, divisor)) {}
            }
        }
    }

    fn shrink_costs(&mut self, region: usize) {
        for template in 0..self.smallest.regions()[region].templates.len() {
            self.try_change(|episode| episode.regions_mut()[region].templates[template].is_report = false);
            for limit in 0..self.smallest.regions()[region].templates[template].limits.len() {
                let mut cost = |change: fn(u64) -> u64| {
                    self.try_change(|episode| {
                        let cost = &mut episode.regions_mut()[region].templates[template].limits[limit].cost;
                        *cost = change(*cost).min(*cost);
                    })
                };
                cost(|_| 1);
                while cost(|cost| cost.div_ceil(2)) {}
            }
        }
    }

    fn round_times(&mut self, region: usize) {
        for step in STEPS_MS {
            self.try_change(|episode| {
                let arrivals = &mut episode.regions_mut()[region].arrivals;
                arrivals.iter_mut().for_each(|arrival| arrival.at = rounded(arrival.at, step));
            });
        }
        let count = self.smallest.regions()[region].arrivals.len();
        if count <= ROUNDED_ONE_BY_ONE {
            for step in STEPS_MS {
                self.try_each(count, |episode, index| {
                    let arrivals = &mut episode.regions_mut()[region].arrivals;
                    let earliest = index.checked_sub(1).map_or(Nanos::ZERO, |before| arrivals[before].at);
                    // What would overtake the request before it comes together with it.
                    arrivals[index].at = rounded(arrivals[index].at, step).max(earliest);
                });
            }
        }
        self.try_change(|episode| come_together(&mut episode.regions_mut()[region]));
    }

    fn round_faults<F: Clone + PartialEq + Serialize + DeserializeOwned>(
        &mut self,
        list: impl Fn(&mut Episode) -> &mut Vec<(Nanos, F)>,
    ) {
        for index in 0..list(&mut self.smallest).len() {
            while self.try_change(|episode| halve_lengths(&mut list(episode)[index].1)) {}
            for step in STEPS_MS {
                self.try_change(|episode| round_lengths(&mut list(episode)[index].1, step));
                self.try_change(|episode| {
                    let at = &mut list(episode)[index].0;
                    *at = rounded(*at, step);
                });
            }
        }
    }

    fn round_changes(&mut self) {
        for step in STEPS_MS {
            self.try_change(|episode| {
                for at in episode.regions_mut().iter_mut().flat_map(|region| &mut region.changes) {
                    at.heard_at.iter_mut().for_each(|at| *at = rounded(*at, step));
                }
            });
        }
    }

    fn round_ends(&mut self) {
        for step in STEPS_MS {
            self.try_change(|episode| {
                episode
                    .regions_mut()
                    .iter_mut()
                    .for_each(|region| region.ends_at = rounded(region.ends_at, step));
            });
            self.try_change(|episode| {
                episode
                    .world_mut()
                    .into_iter()
                    .for_each(|world| world.ends_at = rounded(world.ends_at, step));
            });
        }
    }

    /// Regions keep seeds of their own: those of one seed would be one owner in the world store.
    fn shrink_seeds(&mut self) {
        let is_large = |seed: u64| seed >= SEEDS + REGIONS_MAX;
        for small in 0..SEEDS {
            self.try_change(|episode| {
                for (seed, region) in (small..).zip(episode.regions_mut()) {
                    if is_large(region.seed) {
                        region.seed = seed;
                    }
                }
                episode
                    .world_mut()
                    .into_iter()
                    .filter(|world| is_large(world.seed))
                    .for_each(|world| world.seed = small);
            });
        }
        for small in 0..SEEDS {
            self.try_change(|episode| {
                if let Episode::Region(_, Some(streams)) = episode
                    && is_large(streams.seed)
                {
                    streams.seed = small;
                }
            });
        }
    }
}

fn rounded(at: Nanos, step_ms: u64) -> Nanos {
    if at == Nanos::MAX {
        return at;
    }
    // A whole number of seconds after 1970, so that instants before and after it are rounded alike.
    debug_assert_eq!(START.get() % Nanos::PER_SECOND, 0);
    Nanos::new(at.get() - at.get() % (step_ms * Nanos::PER_MILLI))
}

/// Requests that are alike and follow each other come at once.
fn come_together(region: &mut Scenario) {
    for index in 1..region.arrivals.len() {
        let before = region.arrivals[index - 1];
        let arrival = &mut region.arrivals[index];
        if (arrival.node, arrival.template) == (before.node, before.template) {
            arrival.at = before.at;
        }
    }
}

fn end_early(region: &mut Scenario) {
    let last_arrival = region.arrivals.last().map_or(region.boots_at, |arrival| arrival.at);
    let last_fault = region.faults.iter().map(|(at, _)| *at).max().unwrap_or(last_arrival);
    region.ends_at = region.ends_at.min(last_arrival.max(last_fault).max(START).plus(ENDS_AFTER));
}

/// A limit that is so many times smaller, and at least 1.
fn smaller(policy: GivenPolicy, divisor: u64) -> GivenPolicy {
    let size = (size_of(&policy) / divisor).max(1).min(size_of(&policy));
    match policy {
        GivenPolicy::Sliding { period, .. } => GivenPolicy::Sliding { limit: limit_of(size), period },
        GivenPolicy::Fixed { period, .. } => GivenPolicy::Fixed { limit: limit_of(size), period },
        GivenPolicy::Gcra { rate, .. } => GivenPolicy::Gcra { rate, burst: burst_of(size) },
    }
}

fn halve_lengths<F: Serialize + DeserializeOwned>(fault: &mut F) {
    change_lengths(fault, &|millis| millis / 2.0);
}

fn round_lengths<F: Serialize + DeserializeOwned>(fault: &mut F, step_ms: u64) {
    let step = step_ms as f64;
    change_lengths(fault, &|millis| if millis >= step { (millis / step).floor() * step } else { millis });
}

/// Changes what a fault has in milliseconds, whatever it is called.
fn change_lengths<F: Serialize + DeserializeOwned>(fault: &mut F, change: &dyn Fn(f64) -> f64) {
    let Ok(mut value) = Value::try_from(&*fault) else { return };
    change_values(&mut value, change);
    if let Ok(changed) = value.try_into() {
        *fault = changed;
    }
}

fn change_values(value: &mut Value, change: &dyn Fn(f64) -> f64) {
    let Value::Table(table) = value else { return };
    for (name, value) in table.iter_mut() {
        match value {
            Value::Integer(millis) if name.ends_with("_ms") => {
                *value = Value::Float(change(*millis as f64).trunc());
            }
            Value::Float(millis) if name.ends_with("_ms") => *value = Value::Float(change(*millis).trunc()),
            value => change_values(value, change),
        }
    }
}
