//! What is told of each shard and of the region as a whole: how often it was called and why, how long it took, what went
//! wrong, and by how much keys were found beyond their limits.

use super::Region;
use crate::histogram::{DURATIONS, Histogram, HistogramSnapshot, RATIOS};
use crate::stats::Counter;
use tidegate_core::Nanos;
use tidegate_core::ask::AskReason;
use tidegate_origin::{OriginError, ShardId};

const REASONS: [&str; 5] = ["cold", "stale", "strict", "credit", "exact"];

/// Of one shard. Kept beside its breaker, behind the same lock.
#[derive(Debug)]
pub(super) struct Figures {
    answered: Histogram,
    failed: [u64; OriginError::KINDS.len()],
}

impl Default for Figures {
    fn default() -> Self {
        Figures { answered: Histogram::new(&DURATIONS), failed: Default::default() }
    }
}

impl Figures {
    /// A call ended, so long after it was made.
    pub(super) fn ended(&mut self, error: Option<&OriginError>, length: Nanos) {
        match error {
            None => self.answered.add(length.get()),
            Some(error) => self.failed[error.kind()] += 1,
        }
    }
}

/// Why requests asked, and what it showed.
#[derive(Debug)]
pub(super) struct AskFigures {
    reasons: [Counter; REASONS.len()],
    overshoot: Histogram,
}

impl Default for AskFigures {
    fn default() -> Self {
        AskFigures { reasons: Default::default(), overshoot: Histogram::new(&RATIOS) }
    }
}

impl AskFigures {
    pub(super) fn asked(&self, reason: AskReason) {
        let index = match reason {
            AskReason::Cold => 0,
            AskReason::Stale => 1,
            AskReason::Strict => 2,
            AskReason::Credit => 3,
            AskReason::Exact => 4,
        };
        self.reasons[index].add(1);
    }

    /// A key was found to be beyond its limit by so many thousandths of it.
    pub(super) fn overshot(&self, thousandths: u64) {
        self.overshoot.add(thousandths);
    }
}

/// What is told of one shard.
#[derive(Clone, PartialEq, Debug)]
pub struct ShardFigures {
    pub shard: ShardId,
    /// How long it took to answer, of the calls that it answered.
    pub answered: HistogramSnapshot,
    /// Calls that failed, for each of [`OriginError::KINDS`].
    pub failed: [u64; OriginError::KINDS.len()],
}

impl ShardFigures {
    /// Calls that came to an end.
    pub fn operations(&self) -> u64 {
        self.answered.counts.iter().chain(&self.failed).sum()
    }
}

impl Region {
    /// Of every shard that was ever called.
    pub fn shard_figures(&self) -> Vec<ShardFigures> {
        let pending = self.pending.lock();
        let told = |(shard, figures): (&ShardId, &Figures)| ShardFigures {
            shard: *shard,
            answered: figures.answered.measured(),
            failed: figures.failed,
        };
        pending.figures.iter().map(told).collect()
    }

    /// How often limits had to ask, by why.
    pub fn asks_by_reason(&self) -> [(&'static str, u64); REASONS.len()] {
        std::array::from_fn(|index| (REASONS[index], self.asks.reasons[index].get()))
    }

    /// By how much of their limit keys were beyond it when somebody asked about them.
    pub fn overshoot(&self) -> HistogramSnapshot {
        self.asks.overshoot.measured()
    }
}
