//! What was asked for here, of keys that are shared by quotas: a bounded book of averages.
//!
//! Only keys that use something of their part get in: most keys never do. Those that turn out to ask for little
//! leave with the next report, so that there is room for others.

use super::KeyMap;
use parking_lot::Mutex;
use tidegate_core::demand::Average;
use tidegate_core::slice::Lease;
use tidegate_core::{KeyId, Nanos, Spec};
use tidegate_origin::Offered;

/// Each with a lock of its own: a decision takes one.
const SHARDS: usize = 64;
const SHARD_KEYS_MAX: usize = 256;
/// In how long an average halves. The design has 5 s, with which a shift is half seen after 5 s and followed after
/// 20: it is to be followed within 10, of which the way to the slices takes 4.
const HALF_LIFE: Nanos = Nanos::from_millis(1_500);
const HALF_LIFE_ABUSE: Nanos = Nanos::from_secs(1);
/// A key is reported from this part of the region's even part on, and kept from half of that on. Slices are made
/// at half of an even part, by what all nodes report together.
const REPORTED_FROM: u64 = 8;
/// And never below one in 100 s: among hundreds of nodes a part of a part is nothing, and an average that is rounded
/// never gets there. A key that came once would be reported four times a second for good.
const REPORTED_LEAST: u64 = 10;

#[derive(Debug)]
struct Tracked {
    average: Average,
    whole: Spec,
    is_abuse: bool,
}

#[derive(Debug)]
pub(super) struct DemandBook {
    shards: Vec<Mutex<KeyMap<Tracked>>>,
}

impl Default for DemandBook {
    fn default() -> Self {
        DemandBook { shards: (0..SHARDS).map(|_| Mutex::default()).collect() }
    }
}

impl DemandBook {
    pub(super) fn len(&self) -> usize {
        self.shards.iter().map(|shard| shard.lock().len()).sum()
    }

    /// Counts what was asked for. False when there is no room for the key.
    pub(super) fn add(&self, key: KeyId, whole: &Spec, is_abuse: bool, cost: u64, now: Nanos) -> bool {
        // Below 64, so it fits.
        let index = usize::try_from(key.get() >> 122).unwrap_or(0) % SHARDS;
        let mut shard = self.shards[index].lock();
        if let Some(tracked) = shard.get_mut(&key) {
            tracked.whole = *whole;
            tracked.average.add(cost);
            return true;
        }
        if shard.len() >= SHARD_KEYS_MAX {
            return false;
        }
        let mut average = Average::new(now);
        average.add(cost);
        shard.insert(key, Tracked { average, whole: *whole, is_abuse });
        true
    }

    /// What is worth a report: keys with a slice, and those that ask for a good part of what one of `divisor` nodes
    /// has of an even split, `most` at most. Others are forgotten.
    pub(super) fn offered(
        &self,
        held: &KeyMap<Lease>,
        divisor: u64,
        most: usize,
        now: Nanos,
    ) -> Vec<Offered> {
        let mut offered = Vec::new();
        for shard in &self.shards {
            shard.lock().retain(|key, tracked| {
                let half_life = if tracked.is_abuse { HALF_LIFE_ABUSE } else { HALF_LIFE };
                tracked.average.fold(now, half_life);
                let milli_per_second = tracked.average.milli_per_second();
                let threshold = milli_of(&tracked.whole) / divisor.saturating_mul(REPORTED_FROM).max(1);
                let threshold = threshold.max(REPORTED_LEAST);
                let is_sliced = held.contains_key(key);
                if is_sliced || milli_per_second >= threshold {
                    let Tracked { whole, is_abuse, .. } = *tracked;
                    offered.push(Offered { key: *key, spec: whole, is_abuse, milli_per_second });
                }
                is_sliced || milli_per_second >= threshold / 2
            });
        }
        // The most asked for first: what is beyond the bound matters least.
        offered.sort_by_key(|offered| (std::cmp::Reverse(offered.milli_per_second), offered.key));
        offered.truncate(most);
        offered
    }

    pub(super) fn clock_stepped(&self, delta_ns: i64) {
        for shard in &self.shards {
            shard.lock().values_mut().for_each(|tracked| tracked.average.stepped(delta_ns));
        }
    }
}

/// What a limit admits over time, in thousandths a second. At least 1.
fn milli_of(spec: &Spec) -> u64 {
    let (count, length) = match *spec {
        Spec::Gcra { rate, .. } => (rate.interval_denominator(), rate.interval_numerator_ns()),
        Spec::Sliding { limit, period } | Spec::Fixed { limit, period } => (limit.get(), period.get()),
        Spec::Calendar { limit, cell, .. } => (limit.get(), cell.end.minus(cell.start).get()),
    };
    let milli = u128::from(count) * 1_000 * u128::from(Nanos::PER_SECOND) / u128::from(length.max(1));
    u64::try_from(milli).unwrap_or(u64::MAX).max(1)
}
