//! Which key each request is about: all alike, few of them most of the time (Zipf), or one after the other.
//!
//! Seeded, so that a run can be repeated. Zipf's law by rejection-inversion (Hörmann and Derflinger, 1996): no
//! table, so ten million keys cost what ten do.

/// As many keys fit in the digits of a template.
pub(crate) const KEYS_MAX: u64 = 1_000_000_000_000;
/// Beyond, nearly everything is about the first key.
pub(crate) const EXPONENT_MAX: f64 = 10.0;

#[derive(Clone, Debug)]
pub(crate) struct Keys {
    state: u64,
    count: u64,
    order: KeyOrder,
}

#[derive(Clone, Copy, Debug)]
enum KeyOrder {
    Alike,
    Zipf(Zipf),
    /// Each once before any comes again: the state is the next one.
    InTurn {
        step: u64,
    },
}

impl Keys {
    /// Of `count` keys, at least one; with an exponent above 0 by Zipf's law.
    pub(crate) fn new(count: u64, exponent: Option<f64>, seed: u64) -> Self {
        let order = exponent.map_or(KeyOrder::Alike, |exponent| KeyOrder::Zipf(Zipf::new(count, exponent)));
        Keys { state: seed, count: count.max(1), order }
    }

    /// One after the other from `first` on, `step` apart: what one of `step` threads asks for.
    pub(crate) fn in_turn(count: u64, first: u64, step: u64) -> Self {
        Keys { state: first, count: count.max(1), order: KeyOrder::InTurn { step } }
    }

    #[inline]
    pub(crate) fn next(&mut self) -> u64 {
        match self.order {
            KeyOrder::Alike => scaled(self.random(), self.count),
            KeyOrder::InTurn { step } => {
                let key = self.state % self.count;
                self.state = self.state.wrapping_add(step);
                key
            }
            KeyOrder::Zipf(zipf) => loop {
                if let Some(rank) = zipf.rank(unit(self.random())) {
                    // Popular keys shouldn't be neighbours: their digits are mixed among all.
                    break scaled(mixed(rank), self.count);
                }
            },
        }
    }

    /// SplitMix64.
    #[inline]
    fn random(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mixed(self.state)
    }
}

#[inline]
fn mixed(mut bits: u64) -> u64 {
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ (bits >> 31)
}

/// From 0 to below `count`.
#[inline]
fn scaled(bits: u64, count: u64) -> u64 {
    u64::try_from((u128::from(bits) * u128::from(count)) >> 64).unwrap_or(0)
}

/// From 0 to below 1.
fn unit(bits: u64) -> f64 {
    (bits >> 11) as f64 / (1_u64 << 53) as f64
}

#[derive(Clone, Copy, Debug)]
struct Zipf {
    count: f64,
    exponent: f64,
    /// The integral of the density at both ends.
    low: f64,
    high: f64,
    /// Closer to its rank than this, a point needs no second look.
    near: f64,
}

impl Zipf {
    fn new(count: u64, exponent: f64) -> Self {
        let mut zipf = Zipf { count: count.max(1) as f64, exponent, low: 0.0, high: 0.0, near: 0.0 };
        zipf.low = zipf.integral(1.5) - 1.0;
        zipf.high = zipf.integral(zipf.count + 0.5);
        zipf.near = 2.0 - zipf.inverse(zipf.integral(2.5) - zipf.density(2.0));
        zipf
    }

    fn density(self, at: f64) -> f64 {
        at.powf(-self.exponent)
    }

    fn integral(self, at: f64) -> f64 {
        let power = 1.0 - self.exponent;
        if power.abs() < 1e-9 { at.ln() } else { (at.powf(power) - 1.0) / power }
    }

    fn inverse(self, area: f64) -> f64 {
        let power = 1.0 - self.exponent;
        if power.abs() < 1e-9 { area.exp() } else { (1.0 + area * power).max(0.0).powf(1.0 / power) }
    }

    /// A rank from 1 on, or none: then another number has to be drawn.
    fn rank(self, random: f64) -> Option<u64> {
        let area = self.high + random * (self.low - self.high);
        let at = self.inverse(area);
        let rank = at.round().clamp(1.0, self.count);
        let is_under = rank - at <= self.near || area >= self.integral(rank + 0.5) - self.density(rank);
        is_under.then(|| whole(rank))
    }
}

/// A whole number from 1 to [`KEYS_MAX`], as it is.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "clamped to 1..=KEYS_MAX before")]
fn whole(number: f64) -> u64 {
    number as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shares(exponent: f64, count: u64) -> Vec<f64> {
        let mut keys = Keys::new(count, None, 7);
        let zipf = Zipf::new(count, exponent);
        let mut seen = vec![0_u32; usize::try_from(count).unwrap()];
        let mut drawn = 0;
        while drawn < 200_000 {
            if let Some(rank) = zipf.rank(unit(keys.random())) {
                seen[usize::try_from(rank).unwrap() - 1] += 1;
                drawn += 1;
            }
        }
        seen.iter().map(|seen| f64::from(*seen) / f64::from(drawn)).collect()
    }

    #[test]
    fn ranks_follow_zipfs_law() {
        for exponent in [0.5, 1.0, 1.1, 2.0] {
            let shares = shares(exponent, 50);
            let total: f64 = (1..=50).map(|rank| f64::from(rank).powf(-exponent)).sum();
            for rank in [1, 2, 3, 10, 50] {
                let wanted = f64::from(rank).powf(-exponent) / total;
                let found = shares[usize::try_from(rank).unwrap() - 1];
                assert!(
                    (found - wanted).abs() < 0.004 + 0.03 * wanted,
                    "{exponent}, {rank}: {found} {wanted}"
                );
            }
        }
    }

    #[test]
    fn uniform_keys_are_all_drawn_and_none_beyond() {
        let mut keys = Keys::new(10, None, 1);
        let mut seen = [0; 10];
        (0..10_000).for_each(|_| seen[usize::try_from(keys.next()).unwrap()] += 1);
        assert!(seen.iter().all(|count| (850..1150).contains(count)), "{seen:?}");
    }

    #[test]
    fn threads_that_ask_in_turn_ask_for_every_key_once() {
        let mut threads = [0, 1, 2].map(|first| Keys::in_turn(10, first, 3));
        let mut seen = [0; 10];
        for draw in 0..10 {
            seen[usize::try_from(threads[draw % 3].next()).unwrap()] += 1;
        }
        assert_eq!(seen, [1; 10]);
    }

    #[test]
    fn a_seed_repeats_a_run_and_zipf_stays_within_the_keys() {
        let draw = |seed| {
            let mut keys = Keys::new(1000, Some(1.1), seed);
            (0..100).map(|_| keys.next()).collect::<Vec<_>>()
        };
        assert_eq!(draw(1), draw(1));
        assert_ne!(draw(1), draw(2));
        assert!(draw(3).iter().all(|key| *key < 1000));
        assert_eq!(Keys::new(1, Some(1.1), 0).next(), 0);
    }
}
