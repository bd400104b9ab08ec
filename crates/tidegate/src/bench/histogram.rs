//! Latencies counted in buckets that grow with them, as HDR histograms do: 128 to each doubling.
//!
//! A bucket is at most 0.8 % wide, so no percentile is further off; recording is a shift and an addition.

/// Values below have a bucket each.
const LINEAR: u64 = 128;
const LINEAR_BITS: u32 = LINEAR.trailing_zeros();
/// Every nanosecond count has a bucket: 57 doublings after the linear part.
const BUCKETS: usize = 128 * 58;

#[derive(Clone, Debug)]
pub(crate) struct Histogram {
    counts: Vec<u64>,
    count: u64,
    sum: u128,
    max: u64,
}

impl Default for Histogram {
    fn default() -> Self {
        Histogram { counts: vec![0; BUCKETS], count: 0, sum: 0, max: 0 }
    }
}

impl Histogram {
    #[inline]
    pub(crate) fn record(&mut self, nanos: u64) {
        self.counts[bucket(nanos)] += 1;
        self.count += 1;
        self.sum += u128::from(nanos);
        self.max = self.max.max(nanos);
    }

    pub(crate) fn add(&mut self, other: &Histogram) {
        for (count, more) in self.counts.iter_mut().zip(&other.counts) {
            *count += more;
        }
        self.count += other.count;
        self.sum += other.sum;
        self.max = self.max.max(other.max);
    }

    pub(crate) fn count(&self) -> u64 {
        self.count
    }

    pub(crate) fn max(&self) -> u64 {
        self.max
    }

    pub(crate) fn mean(&self) -> u64 {
        u64::try_from(self.sum / u128::from(self.count.max(1))).unwrap_or(u64::MAX)
    }

    /// Values from the lowest on, with the share of all that don't exceed them.
    pub(crate) fn shares(&self) -> impl Iterator<Item = (f64, u64)> {
        let filled = self.counts.iter().enumerate().filter(|(_, count)| **count > 0);
        filled.scan(0_u64, |seen, (index, count)| {
            *seen += count;
            Some((*seen as f64 / self.count as f64, highest(index).min(self.max)))
        })
    }

    /// What so many of all values don't exceed, to the width of a bucket; `part` and `of` as in 999 of 1000.
    pub(crate) fn at(&self, part: u64, of: u64) -> u64 {
        let wanted = (u128::from(self.count) * u128::from(part)).div_ceil(u128::from(of.max(1)));
        let mut seen = 0_u128;
        for (index, count) in self.counts.iter().enumerate() {
            seen += u128::from(*count);
            if seen >= wanted && *count > 0 {
                return highest(index).min(self.max);
            }
        }
        self.max
    }
}

/// The bucket of a value.
#[inline]
fn bucket(nanos: u64) -> usize {
    let doublings = (u64::BITS - nanos.leading_zeros()).saturating_sub(LINEAR_BITS + 1);
    // From 128 to 255 once something was shifted away; the doublings before take 128 each.
    let within = nanos >> doublings;
    usize::try_from(u64::from(doublings) * LINEAR + within).unwrap_or(BUCKETS - 1)
}

/// The highest value of a bucket.
fn highest(index: usize) -> u64 {
    let index = u64::try_from(index).unwrap_or(u64::MAX);
    let doublings = (index / LINEAR).saturating_sub(1);
    let within = index - doublings * LINEAR;
    u64::try_from(((u128::from(within) + 1) << doublings) - 1).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_value_is_in_a_bucket_that_is_narrow_and_whose_end_is_its_own() {
        let mut values: Vec<u64> = (0..100_000).collect();
        values.extend((0..64).flat_map(|shift| [1_u64 << shift, (1 << shift) - 1, u64::MAX >> shift]));
        for value in values {
            let index = bucket(value);
            assert!(index < BUCKETS, "{value}");
            let end = highest(index);
            assert!(end >= value && end - value <= value / 128, "{value} ends at {end}");
            assert_eq!(bucket(end), index);
        }
    }

    #[test]
    fn percentiles_are_those_of_the_values() {
        let mut histogram = Histogram::default();
        (1..=1000).for_each(|value| histogram.record(value * 1000));
        for (part, wanted) in [(1, 1_000), (500, 500_000), (990, 990_000), (999, 999_000), (1000, 1_000_000)]
        {
            let found = histogram.at(part, 1000);
            assert!(found >= wanted && found <= wanted + wanted / 100, "{part}: {found}");
        }
        assert_eq!((histogram.count(), histogram.max(), histogram.mean()), (1000, 1_000_000, 500_500));
        assert_eq!(Histogram::default().at(99, 100), 0);
    }

    #[test]
    fn two_histograms_add_up() {
        let mut histograms = [Histogram::default(), Histogram::default()];
        histograms[0].record(10);
        histograms[1].record(30);
        let [mut first, second] = histograms;
        first.add(&second);
        assert_eq!((first.count(), first.max(), first.at(1, 2), first.mean()), (2, 30, 10, 20));
    }
}
