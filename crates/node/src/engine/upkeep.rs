//! What the engine's table needs from time to time, whether anybody asks or not: sweeping, and clock steps.
//!
//! It must never hold up a decision for longer than one shard takes.

use super::{Counters, Engine};
use tidegate_core::{Moment, Nanos, StepId};

impl Engine {
    /// Drops what has expired in one shard of the table; called in turn for all of them.
    pub fn sweep(&self, shard: usize, moment: Moment) {
        let swept = match &self.counters {
            Counters::Alone(table) => table.sweep_shard(shard % table.shard_count(), moment),
            Counters::Shared(sharing) => sharing.sweep(shard, moment),
        };
        self.stats.swept(u64::try_from(swept).unwrap_or(0));
    }

    pub fn shard_count(&self) -> usize {
        match &self.counters {
            Counters::Alone(table) => table.shard_count(),
            Counters::Shared(sharing) => sharing.table.shard_count(),
        }
    }

    /// Tells the table of a clock step, before the clock makes it.
    pub fn clock_stepped(&self, delta_ns: i64, lands_at: Nanos) -> StepId {
        self.stats.clock_stepped();
        self.record_clock_step(delta_ns, lands_at);
        match &self.counters {
            Counters::Alone(table) => table.clock_stepped(delta_ns, lands_at),
            Counters::Shared(sharing) => sharing.clock_stepped(delta_ns, lands_at),
        }
    }
}
