//! How long things took, or how large they were, in buckets: a few counts that nobody waits for.
//!
//! Never per key. What is measured comes in its own whole unit (nanoseconds, thousandths), and is told in the base
//! unit (seconds, one).

use std::sync::atomic::{AtomicU64, Ordering};
use tidegate_core::Nanos;

/// The last bucket has no bound.
const BUCKETS: usize = 16;

#[derive(Debug)]
pub struct Histogram {
    scale: &'static Scale,
    counts: [AtomicU64; BUCKETS],
    sum: AtomicU64,
}

/// Where the buckets end.
#[derive(Debug)]
pub struct Scale {
    /// In what is measured, ascending.
    ends: [u64; BUCKETS - 1],
    /// The same in the base unit.
    bounds: [f64; BUCKETS - 1],
    unit: f64,
}

impl Scale {
    const fn new(ends: [u64; BUCKETS - 1], per_base_unit: u64) -> Self {
        // Exact: the numbers are small.
        let unit = per_base_unit as f64;
        let mut bounds = [0.0; BUCKETS - 1];
        let mut index = 0;
        while index < bounds.len() {
            let end = ends[index] as f64;
            bounds[index] = end / unit;
            index += 1;
        }
        Scale { ends, bounds, unit }
    }

    /// In the base unit, ascending. The last bucket has none.
    pub fn bounds(&self) -> &[f64] {
        &self.bounds
    }
}

/// From half a microsecond to 50 milliseconds.
pub static DURATIONS: Scale = Scale::new(
    [
        500, 1_000, 2_000, 5_000, 10_000, 25_000, 50_000, 100_000, 250_000, 500_000, 1_000_000, 2_500_000,
        5_000_000, 10_000_000, 50_000_000,
    ],
    Nanos::PER_SECOND,
);

/// From a thousandth to ten times, in thousandths.
pub static RATIOS: Scale =
    Scale::new([1, 2, 5, 10, 25, 50, 75, 100, 150, 250, 500, 1_000, 2_000, 5_000, 10_000], 1_000);

/// What was measured so far.
#[derive(Clone, PartialEq, Debug)]
pub struct HistogramSnapshot {
    /// In the base unit.
    pub bounds: &'static [f64],
    /// Of each bucket alone, up to and including its bound; the last has none.
    pub counts: Vec<u64>,
    /// In the base unit.
    pub sum: f64,
}

impl Histogram {
    pub const fn new(scale: &'static Scale) -> Self {
        Histogram { scale, counts: [const { AtomicU64::new(0) }; BUCKETS], sum: AtomicU64::new(0) }
    }

    pub fn add(&self, value: u64) {
        let bucket = self.scale.ends.partition_point(|end| *end < value);
        self.counts[bucket].fetch_add(1, Ordering::Relaxed);
        self.sum.fetch_add(value, Ordering::Relaxed);
    }

    pub fn measured(&self) -> HistogramSnapshot {
        let sum = self.sum.load(Ordering::Relaxed) as f64 / self.scale.unit;
        let counts = self.counts.iter().map(|count| count.load(Ordering::Relaxed)).collect();
        HistogramSnapshot { bounds: &self.scale.bounds, counts, sum }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_ends_at_a_bound_is_within_it() {
        let histogram = Histogram::new(&DURATIONS);
        for nanos in [0, 500, 501, 50_000_000, 50_000_001] {
            histogram.add(nanos);
        }
        let measured = histogram.measured();
        assert_eq!((measured.counts[0], measured.counts[1]), (2, 1));
        assert_eq!((measured.counts[14], measured.counts[15]), (1, 1));
        assert!((measured.sum - 0.100_001_002).abs() < 1e-12, "{measured:?}");
        assert_eq!((measured.bounds[0], measured.bounds[14]), (0.000_000_5, 0.05));
    }

    #[test]
    fn bounds_ascend() {
        for scale in [&DURATIONS, &RATIOS] {
            assert!(scale.bounds.is_sorted() && scale.ends.is_sorted());
        }
    }
}
