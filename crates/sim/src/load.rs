//! What stores have to do, second by second: calls and operations at each server of a region, and statements and
//! rows at the world store.

use crate::START;
use tidegate_core::Nanos;
use tidegate_origin::ShardId;

/// What came before the traffic isn't counted, and a run ends some time.
const SECONDS_MAX: usize = 24 * 3600;

/// The second of the traffic that an instant is in.
pub(crate) fn second_of(at: Nanos) -> Option<usize> {
    let second = usize::try_from(at.minus(START).get() / Nanos::PER_SECOND).ok()?;
    (at >= START && second < SECONDS_MAX).then_some(second)
}

/// Adds to a second's number.
pub(crate) fn add(seconds: &mut Vec<u64>, second: usize, amount: u64) {
    if seconds.len() <= second {
        seconds.resize(second + 1, 0);
    }
    seconds[second] += amount;
}

/// Load of a region's store.
#[derive(Clone, Debug, Default)]
pub struct RegionLoad {
    shards: usize,
    pub calls: Vec<u64>,
    pub operations: Vec<u64>,
    /// For each second, the operations at each server.
    by_shard: Vec<Vec<u32>>,
}

impl RegionLoad {
    pub(crate) fn new(shards: u32) -> Self {
        RegionLoad { shards: usize::try_from(shards.max(1)).unwrap_or(1), ..RegionLoad::default() }
    }

    pub(crate) fn called(&mut self, at: Nanos, shard: ShardId, operations: usize) {
        let Some(second) = second_of(at) else { return };
        let count = u32::try_from(operations.max(1)).unwrap_or(u32::MAX);
        add(&mut self.calls, second, 1);
        add(&mut self.operations, second, u64::from(count));
        while self.by_shard.len() <= second {
            self.by_shard.push(vec![0; self.shards]);
        }
        let shard = usize::try_from(shard.0).unwrap_or(0) % self.shards;
        self.by_shard[second][shard] = self.by_shard[second][shard].saturating_add(count);
    }

    /// Operations of the busiest server, second by second.
    pub fn busiest_shard(&self) -> Vec<u64> {
        self.by_shard.iter().map(|shards| u64::from(shards.iter().copied().max().unwrap_or(0))).collect()
    }
}

/// Of the world store.
#[derive(Clone, Debug, Default)]
pub struct WorldLoad {
    pub statements: Vec<u64>,
    pub rows_written: Vec<u64>,
    pub rows_read: Vec<u64>,
}

impl WorldLoad {
    pub(crate) fn asked(&mut self, at: Nanos, rows_written: usize, rows_read: usize) {
        let Some(second) = second_of(at) else { return };
        let count = |rows: usize| u64::try_from(rows).unwrap_or(u64::MAX);
        add(&mut self.statements, second, 1);
        add(&mut self.rows_written, second, count(rows_written));
        add(&mut self.rows_read, second, count(rows_read));
    }
}
