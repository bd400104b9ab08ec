//! When a view stops being fresh, or a pause ends: in four bytes of a key's state.

use crate::time::Nanos;

/// An instant in milliseconds modulo 2^32, for deadlines of at most a minute: 32 bits of them last 49 days,
/// then wrap.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Deadline(pub(super) u32);

impl Deadline {
    #[inline]
    pub(super) fn at(instant: Nanos) -> Self {
        let [a, b, c, d, ..] = (instant.get() / Nanos::PER_MILLI).to_le_bytes();
        Deadline(u32::from_le_bytes([a, b, c, d]))
    }

    /// No deadline is set further ahead, in milliseconds: `origin.fresh_ms` and strict mode last a minute at
    /// most. What seems to be was set weeks ago, or never.
    const AHEAD_MAX: u32 = 1 << 16;

    /// Whether it lies ahead of the tick `now`.
    #[inline]
    pub(super) fn is_ahead_of(self, now: Deadline) -> bool {
        (1..=Self::AHEAD_MAX).contains(&self.0.wrapping_sub(now.0))
    }
}
