//! A small seeded generator (SplitMix64), so that a failing run is replayed by its seed alone.

#[derive(Clone, Debug)]
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Random(seed ^ 0x5851_f42d_4c95_7f2d)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// 0 up to but without `bound`.
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        let scaled = u128::from(self.next()) * u128::from(bound.max(1));
        u64::try_from(scaled >> 64).unwrap_or(0)
    }

    pub(crate) fn one_in(&mut self, odds: u64) -> bool {
        self.below(odds) == 0
    }

    pub(crate) fn pick<T: Copy>(&mut self, among: &[T]) -> T {
        among[usize::try_from(self.below(among.len() as u64)).unwrap()]
    }
}
