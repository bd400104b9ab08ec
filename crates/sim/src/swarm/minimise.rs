//! Makes a failing episode smaller for as long as it fails in the same way: fewer faults, fewer requests, a network
//! and clocks that are well.

use super::Episode;
use crate::network::NetworkOptions;
use crate::scenario::Scenario;
use crate::world::scenario::WorldFault;
use std::fmt::Write as _;

/// Enough for some hundreds of requests and a dozen faults.
const RUNS_MAX: u32 = 600;
/// So many faults are told.
const TOLD_MAX: usize = 40;

/// What is left of an episode.
#[derive(Clone, Debug)]
pub struct Smallest {
    pub episode: Episode,
    pub message: String,
    pub runs: u32,
}

struct Search {
    smallest: Episode,
    message: String,
    wanted: String,
    runs: u32,
}

/// The smallest that was found of an episode that fails; `None` when it doesn't.
pub fn minimise(episode: &Episode) -> Option<Smallest> {
    let message = episode.run().err()?;
    let wanted = signature(&message);
    let mut search = Search { smallest: episode.clone(), message, wanted, runs: 1 };
    search.try_change(|episode| {
        episode.regions_mut().iter_mut().for_each(|region| region.network = NetworkOptions::LOOPBACK);
    });
    search.try_change(|episode| episode.regions_mut().iter_mut().for_each(calm_clocks));
    search.try_change(|episode| episode.regions_mut().iter_mut().for_each(|region| region.changes.clear()));
    for region in 0..episode.regions().len() {
        search.drop_parts(move |episode| &mut episode.regions_mut()[region].faults);
    }
    if episode.streams().is_some() {
        search.drop_stream_faults();
    }
    if episode.world().is_some() {
        search.drop_world_faults();
    }
    for region in 0..episode.regions().len() {
        search.drop_parts(move |episode| &mut episode.regions_mut()[region].arrivals);
    }
    let Search { smallest, message, runs, .. } = search;
    Some(Smallest { episode: smallest, message, runs })
}

fn calm_clocks(region: &mut Scenario) {
    region.clock_offsets_ns.clear();
    region.clock_drifts_ppm.clear();
    region.origin_offset_ns = 0;
    region.wakes_within = tidegate_core::Nanos::ZERO;
}

/// What is violated, without the numbers.
fn signature(message: &str) -> String {
    let after_seed = message.split_once(": ").map_or(message, |(_, rest)| rest);
    if let Some(problem) = after_seed.strip_prefix("liveness: ") {
        // Of what didn't heal there are several kinds.
        return problem.chars().filter(|char| !char.is_ascii_digit()).take(24).collect();
    }
    after_seed.split([':', '\n']).next().unwrap_or_default().chars().take(60).collect()
}

impl Search {
    fn try_change(&mut self, change: impl FnOnce(&mut Episode)) -> bool {
        if self.runs >= RUNS_MAX {
            return false;
        }
        let mut smaller = self.smallest.clone();
        change(&mut smaller);
        self.runs += 1;
        match smaller.run() {
            Err(message) if signature(&message) == self.wanted => {
                (self.smallest, self.message) = (smaller, message);
                true
            }
            _ => false,
        }
    }

    /// Leaves out ever smaller parts of a list.
    fn drop_parts<T: Clone>(&mut self, list: impl Fn(&mut Episode) -> &mut Vec<T>) {
        let mut part = list(&mut self.smallest.clone()).len();
        while part > 0 && self.runs < RUNS_MAX {
            let mut from = 0;
            while from < list(&mut self.smallest.clone()).len() && self.runs < RUNS_MAX {
                let is_smaller = self.try_change(|episode| {
                    let list = list(episode);
                    let until = (from + part).min(list.len());
                    list.drain(from..until);
                });
                if !is_smaller {
                    from += part;
                }
            }
            part /= 2;
        }
    }

    fn drop_stream_faults(&mut self) {
        let mut index = 0;
        while self.smallest.streams().is_some_and(|streams| index < streams.faults.len())
            && self.runs < RUNS_MAX
        {
            let is_smaller = self.try_change(|episode| {
                if let Episode::Region(_, Some(streams)) = episode {
                    streams.faults.remove(index);
                }
            });
            index += usize::from(!is_smaller);
        }
    }

    fn drop_world_faults(&mut self) {
        let mut index = 0;
        while self.smallest.world().is_some_and(|world| index < world.faults.len()) && self.runs < RUNS_MAX {
            // Without it nothing could heal.
            let ends = self.smallest.world().is_some_and(|world| world.faults[index].1 == WorldFault::Calm);
            let is_smaller = !ends
                && self.try_change(|episode| {
                    if let Some(world) = episode.world_mut() {
                        world.faults.remove(index);
                    }
                });
            index += usize::from(!is_smaller);
        }
    }
}

impl Smallest {
    /// What is left, for people.
    pub fn describe(&self) -> String {
        let mut text = String::new();
        for (index, region) in self.episode.regions().iter().enumerate() {
            // Writing to a string can't fail.
            let _ = writeln!(
                text,
                "region {index}: {} nodes, {} keys, {} requests, {} faults",
                region.nodes,
                region.keys.len(),
                region.arrivals.len(),
                region.faults.len()
            );
            for (at, fault) in region.faults.iter().take(TOLD_MAX) {
                let _ = writeln!(text, "  at {:.3} s {fault:?}", seconds(*at));
            }
        }
        for (at, fault) in self.episode.streams().iter().flat_map(|streams| &streams.faults).take(TOLD_MAX) {
            let _ = writeln!(text, "on the way of rules: at {:.3} s {fault:?}", seconds(*at));
        }
        for (at, fault) in self.episode.world().iter().flat_map(|world| &world.faults).take(TOLD_MAX) {
            let _ = writeln!(text, "between regions: at {:.3} s {fault:?}", seconds(*at));
        }
        let _ = writeln!(text, "{}", self.message.lines().next().unwrap_or_default());
        text
    }
}

fn seconds(at: tidegate_core::Nanos) -> f64 {
    (at.get() as f64 - crate::START.get() as f64) / 1e9
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_violated_is_told_without_numbers() {
        assert_eq!(signature("seed 4: INV-3: node 1 believes in 7\nthe last"), "INV-3");
        assert_eq!(signature("it panicked"), "it panicked");
    }
}
