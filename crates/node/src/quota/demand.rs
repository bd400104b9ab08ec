//! What was asked for here, of keys that are shared by quotas: a bounded book of averages.
//!
//! Only keys that use something of their part get in: most keys never do. Those that turn out to ask for little
//! leave with the next report, so that there is room for others.

use super::KeyMap;
use parking_lot::Mutex;
use tidegate_core::demand::Average;
use tidegate_core::slice::Lease;
use tidegate_core::{KeyId, Nanos, Spec};
use tidegate_origin::OfferedDemand;

/// Each with a lock of its own: a decision takes one.
const SHARDS: usize = 64;
const SHARD_KEYS_MAX: usize = 256;
/// In how long an average halves. A shift is to be followed within 10 s, of which the way to the slices takes 4: with a
/// half-life of 5 s it would be followed after 20.
const HALF_LIFE: Nanos = Nanos::from_millis(1_500);
const HALF_LIFE_ABUSE: Nanos = Nanos::from_secs(1);
/// A key is reported from this part of the region's even part on, and kept from half of that on. Slices are made
/// at half of an even part, by what all nodes report together.
const REPORTED_FROM: u64 = 8;
/// And never below one in 100 s: among hundreds of nodes a part of a part is nothing, and an average that is rounded
/// never gets there. A key that came once would be reported four times a second for good.
const REPORTED_LEAST: u64 = 10;

#[derive(Debug)]
struct TrackedDemand {
    average: Average,
    limit: Spec,
    is_abuse: bool,
}

/// Demand of keys whose limits regions share, on this node. Bounded.
#[derive(Debug)]
pub(super) struct DemandTable {
    shards: Vec<Mutex<KeyMap<TrackedDemand>>>,
}

impl Default for DemandTable {
    fn default() -> Self {
        DemandTable { shards: (0..SHARDS).map(|_| Mutex::default()).collect() }
    }
}

impl DemandTable {
    pub(super) fn len(&self) -> usize {
        self.shards.iter().map(|shard| shard.lock().len()).sum()
    }

    /// Counts what was asked for. False when there is no room for the key.
    pub(super) fn add(&self, key: KeyId, limit: &Spec, is_abuse: bool, cost: u64, now: Nanos) -> bool {
        // Below 64, so it fits.
        let index = usize::try_from(key.get() >> 122).unwrap_or(0) % SHARDS;
        let mut shard = self.shards[index].lock();
        if let Some(tracked) = shard.get_mut(&key) {
            tracked.limit = *limit;
            tracked.average.add(cost);
            return true;
        }
        if shard.len() >= SHARD_KEYS_MAX {
            return false;
        }
        let mut average = Average::new(now);
        average.add(cost);
        shard.insert(key, TrackedDemand { average, limit: *limit, is_abuse });
        true
    }

    /// What is worth a report: keys with a slice, and those that ask for a good part of what one of `divisor` nodes
    /// has of an even split, `most` at most. Others are forgotten. Every node has a `seed` of its own.
    pub(super) fn offered(
        &self,
        held: &KeyMap<Lease>,
        divisor: u64,
        most: usize,
        seed: u64,
        now: Nanos,
    ) -> Vec<OfferedDemand> {
        let mut offered = Vec::new();
        for shard in &self.shards {
            shard.lock().retain(|key, tracked| {
                let half_life = if tracked.is_abuse { HALF_LIFE_ABUSE } else { HALF_LIFE };
                tracked.average.fold(now, half_life);
                let milli_per_second = tracked.average.milli_per_second();
                let threshold =
                    tracked.limit.milli_per_second() / divisor.saturating_mul(REPORTED_FROM).max(1);
                let threshold = threshold.max(REPORTED_LEAST);
                let is_sliced = held.contains_key(key);
                if is_sliced || milli_per_second >= threshold {
                    let TrackedDemand { limit, is_abuse, .. } = *tracked;
                    offered.push(OfferedDemand { key: *key, spec: limit, is_abuse, milli_per_second });
                }
                is_sliced || milli_per_second >= threshold / 2
            });
        }
        offered.sort_by_key(|offered| (std::cmp::Reverse(offered.milli_per_second), offered.key));
        thin(&mut offered, most, seed ^ now.get());
        offered
    }

    pub(super) fn clock_stepped(&self, delta_ns: i64) {
        for shard in &self.shards {
            shard.lock().values_mut().for_each(|tracked| tracked.average.stepped(delta_ns));
        }
    }
}

/// Of more keys than can be said: those that ask for much as they are, of the others every so many, in the place of all
/// that they stand for. Of a caller who comes to hundreds of nodes in turn, each node sees next to nothing: sums over
/// nodes stay right, where the most asked for first would leave such callers out on all of them.
fn thin(offered: &mut Vec<OfferedDemand>, most: usize, seed: u64) {
    if offered.len() <= most {
        return;
    }
    // Far beyond any limit, and the book's keys together fit.
    offered.iter_mut().for_each(|offered| offered.milli_per_second = offered.milli_per_second.min(1 << 48));
    let mut rest: u64 = offered.iter().map(|offered| offered.milli_per_second).sum();
    let mut limit = 0;
    // What one entry stands for, if the first ones are said as they are.
    let mut step = rest.div_ceil(most as u64).max(1);
    while limit < most && offered[limit].milli_per_second >= step {
        rest -= offered[limit].milli_per_second;
        limit += 1;
        step = rest.div_ceil((most - limit).max(1) as u64).max(1);
    }
    // From another place in every report, so that nobody is passed over by all.
    let mut passed = mixed(seed) % step;
    let mut thinned = offered.split_off(limit);
    thinned.retain_mut(|offered| {
        passed += std::mem::replace(&mut offered.milli_per_second, step);
        let is_said = passed >= step;
        passed -= if is_said { step } else { 0 };
        is_said
    });
    offered.append(&mut thinned);
    offered.truncate(most);
}

/// Neighbouring numbers, spread apart.
fn mixed(number: u64) -> u64 {
    let mixed = (number ^ number >> 32).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (mixed ^ mixed >> 29).wrapping_mul(0xbf58_476d_1ce4_e5b9) >> 16
}
