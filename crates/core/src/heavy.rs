//! Which keys come most often, of millions, in a hundred kilobytes.
//!
//! HeavyKeeper: two rows of buckets, each with a fingerprint and a count. A key that meets its own fingerprint
//! raises the count; one that meets another's lowers it with a chance that shrinks with the count, and moves in where
//! nothing is left. So what comes often stays, and the many that come once leave hardly a trace: where a Count-Min
//! Sketch of this size adds all of them to everybody's count, this one never counts too high, but for two keys with
//! one fingerprint. The keys with the highest counts are kept by name and counted exactly from then on.

use crate::identity::KeyId;
use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

const ROWS: usize = 2;
/// Of a bucket: the upper half is the fingerprint, the lower one the count.
const COUNT_BITS: u32 = 16;
const COUNT_MAX: u32 = (1 << COUNT_BITS) - 1;
/// The chance to lower a count of n is 1.08⁻ⁿ: from here on there is none.
const LOWERED_MAX: usize = 256;

/// A key among those that come most often.
#[derive(Clone, Debug)]
pub struct Heavy<L> {
    pub key: KeyId,
    /// How often it came; halved with everything else ([`HeavyHitters::halve`]). What it came before it was noticed
    /// is an estimate.
    pub count: u32,
    /// Whatever is to be known of it.
    pub label: L,
}

#[derive(Debug)]
pub struct HeavyHitters<L> {
    buckets: Box<[u32]>,
    heaviest: Vec<Heavy<L>>,
    heaviest_max: usize,
    /// Where a key is, by half of it.
    places: HashMap<u64, u16, BuildHasherDefault<HalfHasher>>,
    /// No count among the heaviest is lower.
    least: u32,
    random: u64,
    /// Of lowering a count of n, in 2⁻³².
    chances: Box<[u32]>,
}

impl<L> HeavyHitters<L> {
    /// With so many buckets in each row, four bytes each, and the names of so many keys (at most 65,535).
    pub fn new(buckets: usize, heaviest_max: usize) -> Self {
        let heaviest_max = heaviest_max.clamp(1, usize::from(u16::MAX));
        HeavyHitters {
            buckets: vec![0; ROWS * buckets.max(1)].into_boxed_slice(),
            heaviest: Vec::with_capacity(heaviest_max),
            heaviest_max,
            places: HashMap::with_capacity_and_hasher(heaviest_max, BuildHasherDefault::default()),
            least: 0,
            random: 0x9e37_79b9_7f4a_7c15,
            chances: chances(),
        }
    }

    /// Counts a key once. It is given back when it is among the heaviest; `label` is asked when it comes there.
    pub fn add(&mut self, key: KeyId, label: impl FnOnce() -> L) -> Option<&mut Heavy<L>> {
        let half = half(key);
        if let Some(place) = self.places.get(&half).map(|place| usize::from(*place)) {
            let heavy = &mut self.heaviest[place];
            heavy.count = heavy.count.saturating_add(1);
            return Some(heavy);
        }
        let count = self.count(half);
        if self.heaviest.len() < self.heaviest_max {
            return self.insert(self.heaviest.len(), Heavy { key, count, label: label() });
        }
        if count <= self.least {
            return None;
        }
        // What is kept may have grown since: the least is looked for only when it matters.
        let lightest = self.heaviest.iter().enumerate().min_by_key(|(_, heavy)| heavy.count);
        let (place, least) = lightest.map(|(place, heavy)| (place, heavy.count))?;
        self.least = least;
        if count <= least {
            return None;
        }
        self.insert(place, Heavy { key, count, label: label() })
    }

    fn insert(&mut self, place: usize, heavy: Heavy<L>) -> Option<&mut Heavy<L>> {
        self.places.insert(half(heavy.key), u16::try_from(place).ok()?);
        match self.heaviest.get_mut(place) {
            Some(before) => {
                self.places.remove(&half(before.key));
                *before = heavy;
            }
            None => self.heaviest.push(heavy),
        }
        self.heaviest.get_mut(place)
    }

    /// Counts in the buckets: how often it came, at most.
    fn count(&mut self, half: u64) -> u32 {
        let width = self.buckets.len() / ROWS;
        // A fingerprint of 0 would be that of an empty bucket.
        let fingerprint = u32::try_from(half & u64::from(u16::MAX)).unwrap_or(0).max(1) << COUNT_BITS;
        let mut most = 0;
        for (row, spread) in [half, mixed(half)].into_iter().enumerate() {
            let at = row * width + usize::try_from(((spread >> 32) * width as u64) >> 32).unwrap_or(0);
            let bucket = self.buckets[at];
            let count = bucket & COUNT_MAX;
            if count == 0 {
                self.buckets[at] = fingerprint | 1;
                most = most.max(1);
            } else if bucket & !COUNT_MAX == fingerprint {
                let count = (count + 1).min(COUNT_MAX);
                self.buckets[at] = fingerprint | count;
                most = most.max(count);
            } else if self.is_lowered(count) {
                let is_gone = count == 1;
                self.buckets[at] = if is_gone { fingerprint | 1 } else { bucket - 1 };
                most = most.max(u32::from(is_gone));
            }
        }
        most
    }

    fn is_lowered(&mut self, count: u32) -> bool {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        let chance = self.chances.get(count as usize).copied().unwrap_or(0);
        self.random >> 32 < u64::from(chance)
    }

    /// Halves everything, so that what was counts for less than what is. Keys of which nothing is left are dropped.
    pub fn halve(&mut self) {
        for bucket in &mut self.buckets {
            let count = (*bucket & COUNT_MAX) / 2;
            *bucket = if count == 0 { 0 } else { *bucket & !COUNT_MAX | count };
        }
        self.heaviest.iter_mut().for_each(|heavy| heavy.count /= 2);
        self.heaviest.retain(|heavy| heavy.count > 0);
        self.places.clear();
        let places = (0_u16..).zip(&self.heaviest).map(|(place, heavy)| (half(heavy.key), place));
        self.places.extend(places);
        self.least = 0;
    }

    /// In no order.
    pub fn heaviest(&self) -> &[Heavy<L>] {
        &self.heaviest
    }

    pub fn heaviest_mut(&mut self) -> &mut [Heavy<L>] {
        &mut self.heaviest
    }

    pub fn get(&self, key: KeyId) -> Option<&Heavy<L>> {
        self.places.get(&half(key)).map(|place| &self.heaviest[usize::from(*place)])
    }

    /// What it holds, but for what labels point at.
    pub fn bytes(&self) -> usize {
        let place = size_of::<(u64, u16)>() + 1;
        size_of_val(&*self.buckets)
            + self.heaviest_max * size_of::<Heavy<L>>()
            + (self.heaviest_max * 8 / 7).next_power_of_two() * place
            + size_of_val(&*self.chances)
    }
}

fn chances() -> Box<[u32]> {
    let mut chance = f64::from(u32::MAX);
    let chances = std::iter::repeat_with(|| {
        let now = chance;
        chance /= 1.08;
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "between 0 and the largest"
        )]
        let now = now as u32;
        now
    });
    chances.take(LOWERED_MAX).collect()
}

/// The half of a key in which its place isn't: it is as good as a hash.
fn half(key: KeyId) -> u64 {
    u64::try_from(key.get() >> 64).unwrap_or(0)
}

fn mixed(half: u64) -> u64 {
    let mixed = (half ^ (half >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

/// What is hashed is one already.
#[derive(Clone, Copy, Default, Debug)]
struct HalfHasher(u64);

impl Hasher for HalfHasher {
    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = self.0.rotate_left(8) ^ u64::from(*byte);
        }
    }

    fn write_u64(&mut self, half: u64) {
        self.0 = half;
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    fn key(number: u64) -> KeyId {
        KeyId::from_hash(
            u128::from(mixed(number.wrapping_mul(0x9e37_79b9_7f4a_7c15))) << 64 | u128::from(number),
        )
    }

    struct Random(u64);

    impl Random {
        fn unit(&mut self) -> f64 {
            self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
            f64::from(u32::try_from(mixed(self.0) >> 32).unwrap()) / 4_294_967_296.0
        }

        /// Of the first ten million, the n-th with a chance of 1 / n: by the inverse of the sum, which is a logarithm,
        /// and a second look where that is too coarse.
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "up to ten million")]
        fn zipf(&mut self) -> u64 {
            let (low, high) = (1.5_f64.ln() - 1.0, 10_000_000.5_f64.ln());
            loop {
                let drawn = low + self.unit() * (high - low);
                let rank = (drawn.exp() + 0.5).floor().clamp(1.0, 10_000_000.0);
                if drawn >= (rank + 0.5).ln() - 1.0 / rank {
                    return rank as u64;
                }
            }
        }
    }

    /// Of the keys that came most often, how many are among as many that are said to.
    fn recall(hitters: &HeavyHitters<u64>, most: usize, counts: &[u32]) -> f64 {
        let mut ranks: Vec<usize> = (1..counts.len()).collect();
        ranks.sort_by_key(|rank| std::cmp::Reverse(counts[*rank]));
        let wanted: HashSet<u64> = ranks.iter().take(most).map(|rank| *rank as u64).collect();
        let mut heaviest: Vec<_> =
            hitters.heaviest().iter().map(|heavy| (heavy.count, heavy.label)).collect();
        heaviest.sort_unstable_by(|a, b| b.cmp(a));
        let found = heaviest.iter().take(most).filter(|(_, rank)| wanted.contains(rank)).count();
        f64::from(u32::try_from(found).unwrap()) / f64::from(u32::try_from(most).unwrap())
    }

    /// On six million requests: more of them make it no harder.
    #[test]
    fn the_heaviest_of_ten_million_keys_are_found() {
        let small = (6144, 1000, 128 << 10, [(100, 0.99), (1000, 0.85)]);
        let large = (80_000, 2000, 1 << 20, [(100, 0.99), (1000, 0.98)]);
        for (buckets, heaviest_max, bytes_max, bars) in [small, large] {
            let mut hitters = HeavyHitters::new(buckets, heaviest_max);
            assert!(hitters.bytes() <= bytes_max, "{} bytes", hitters.bytes());
            let (mut random, mut counts) = (Random(1), vec![0_u32; 4000]);
            for _ in 0..6_000_000 {
                let rank = random.zipf();
                if let Some(count) = usize::try_from(rank).ok().and_then(|rank| counts.get_mut(rank)) {
                    *count += 1;
                }
                hitters.add(key(rank), || rank);
            }
            for (most, bar) in bars {
                let recall = recall(&hitters, most, &counts);
                assert!(recall >= bar, "{recall} of the first {most} with {buckets} buckets");
            }
            // Nothing is counted too high but where fingerprints meet, which is seldom.
            let came =
                |heavy: &Heavy<u64>| usize::try_from(heavy.label).ok().and_then(|rank| counts.get(rank));
            let too_high = |heavy: &&Heavy<u64>| heavy.count > came(heavy).copied().unwrap_or(0);
            let too_high = hitters.heaviest().iter().filter(too_high).count();
            assert!(too_high * 20 <= hitters.heaviest().len(), "{too_high} are counted too high");
        }
    }

    #[test]
    fn a_key_is_counted_exactly_from_when_it_is_kept() {
        let mut hitters = HeavyHitters::new(64, 4);
        for _ in 0..1000 {
            assert!(hitters.add(key(1), || ()).is_some());
        }
        for number in 10..2000 {
            hitters.add(key(number), || ());
        }
        assert_eq!(hitters.get(key(1)).map(|heavy| heavy.count), Some(1000));
        assert_eq!(hitters.heaviest().len(), 4);
    }

    /// Adds a key so often; says how often it is said to have come, if it is among the heaviest.
    fn came<L: Default>(hitters: &mut HeavyHitters<L>, number: u64, times: u32) -> Option<u32> {
        for _ in 0..times {
            hitters.add(key(number), L::default);
        }
        hitters.get(key(number)).map(|heavy| heavy.count)
    }

    #[test]
    fn a_key_takes_the_place_of_the_lightest_when_it_has_come_more_often() {
        let mut hitters = HeavyHitters::<()>::new(1024, 2);
        assert_eq!((came(&mut hitters, 1, 5), came(&mut hitters, 2, 9)), (Some(5), Some(9)));
        assert_eq!((came(&mut hitters, 3, 5), came(&mut hitters, 3, 1)), (None, Some(6)));
        assert_eq!((came(&mut hitters, 1, 0), came(&mut hitters, 2, 0)), (None, Some(9)));
        assert_eq!((came(&mut hitters, 4, 6), came(&mut hitters, 4, 1)), (None, Some(7)));
    }

    #[test]
    fn halving_halves_also_what_is_not_among_the_heaviest() {
        let mut hitters = HeavyHitters::<()>::new(1024, 1);
        assert_eq!((came(&mut hitters, 1, 100), came(&mut hitters, 2, 41)), (Some(100), None));
        hitters.halve();
        assert_eq!((came(&mut hitters, 2, 30), came(&mut hitters, 2, 1)), (None, Some(51)), "20 and 31");
    }

    #[test]
    fn a_bucket_is_left_to_who_comes_often() {
        // All keys meet in one bucket of each row.
        let mut hitters = HeavyHitters::<()>::new(1, 1);
        came(&mut hitters, 1, 1000);
        came(&mut hitters, 2, 30);
        for number in 10..30 {
            came(&mut hitters, number, 1);
        }
        let often = hitters.buckets.iter().map(|bucket| bucket & COUNT_MAX).max();
        assert!(often.is_some_and(|count| (20..30).contains(&count)), "{often:?} of 30: lowered, not lost");
        let mut hitters = HeavyHitters::<()>::new(1, 1);
        came(&mut hitters, 1, 1000);
        came(&mut hitters, 2, 2);
        came(&mut hitters, 3, 50);
        let often = hitters.buckets.iter().map(|bucket| bucket & COUNT_MAX).max();
        assert!(often.is_some_and(|count| (40..=50).contains(&count)), "{often:?} of 50");
    }

    #[test]
    fn the_chance_to_lower_a_count_shrinks_with_it() {
        let mut hitters = HeavyHitters::<()>::new(1, 1);
        for count in [1, 5, 10, 20, 40] {
            let lowered = (0..20_000).filter(|_| hitters.is_lowered(count)).count();
            let expected = 20_000.0 / 1.08_f64.powf(f64::from(count));
            let lowered = f64::from(u32::try_from(lowered).unwrap());
            assert!((lowered - expected).abs() < 0.02 * 20_000.0, "{lowered} for {expected} at {count}");
        }
        assert!((0..20_000).all(|_| !hitters.is_lowered(1000)));
    }

    #[test]
    fn it_says_what_it_holds_and_lets_labels_be_changed() {
        let mut hitters = HeavyHitters::<u64>::new(6144, 1000);
        let least = 2 * 4 * 6144 + 1000 * size_of::<Heavy<u64>>() + 4 * LOWERED_MAX;
        // What is beyond that is the map of places: 1,024 to 2,048 of up to 17 bytes.
        let map = hitters.bytes() - least;
        assert!((1024 * 10..=2048 * 17).contains(&map), "{map} bytes");
        came(&mut hitters, 1, 1);
        hitters.heaviest_mut()[0].label = 7;
        assert_eq!(hitters.get(key(1)).map(|heavy| heavy.label), Some(7));
    }

    #[test]
    fn what_stops_coming_is_forgotten() {
        let mut hitters = HeavyHitters::new(64, 4);
        for _ in 0..100 {
            hitters.add(key(1), || ());
        }
        for _ in 0..6 {
            hitters.halve();
        }
        assert_eq!(hitters.get(key(1)).map(|heavy| heavy.count), Some(1));
        hitters.halve();
        assert!(hitters.heaviest().is_empty() && hitters.get(key(1)).is_none());
        for number in 1..=4 {
            assert!(hitters.add(key(number), || ()).is_some());
        }
        assert_eq!(hitters.heaviest().len(), 4);
    }
}
