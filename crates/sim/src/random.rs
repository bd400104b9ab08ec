//! A small seeded generator (SplitMix64): a run is replayed by its seed alone.

use tidegate_core::Nanos;

#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Self {
        Random(seed ^ 0x5851_f42d_4c95_7f2d)
    }

    pub fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A generator of its own, so that what one part draws doesn't change what another gets.
    #[must_use]
    pub fn fork(&mut self) -> Random {
        Random(self.next_u64())
    }

    /// 0 up to but without `bound`.
    pub fn below(&mut self, bound: u64) -> u64 {
        let scaled = u128::from(self.next_u64()) * u128::from(bound.max(1));
        u64::try_from(scaled >> 64).unwrap_or(0)
    }

    pub fn index(&mut self, len: usize) -> usize {
        usize::try_from(self.below(u64::try_from(len).unwrap_or(u64::MAX))).unwrap_or(0)
    }

    /// Both ends included.
    pub fn between(&mut self, least: u64, most: u64) -> u64 {
        least + self.below(most.saturating_sub(least).saturating_add(1))
    }

    pub fn nanos_between(&mut self, least: Nanos, most: Nanos) -> Nanos {
        Nanos::new(self.between(least.get(), most.get()))
    }

    pub fn one_in(&mut self, odds: u64) -> bool {
        self.below(odds) == 0
    }

    pub fn pick<'a, T>(&mut self, choices: &'a [T]) -> &'a T {
        &choices[self.index(choices.len())]
    }
}
