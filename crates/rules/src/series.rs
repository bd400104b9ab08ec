//! A rule's place among the counters of its process, remembered in the rule so that a decision needn't look for it.
//!
//! It says nothing about the rule and is no part of it: a rule that is read again has none until it is counted. Who
//! counts gives it, by the rule's name, and so the counts of a rule outlive the set that it was in.

use std::num::NonZeroU32;
use std::sync::atomic::{AtomicU32, Ordering};

/// The index of a rule's counters; 0 until it is given.
#[derive(Debug, Default)]
pub struct SeriesSlot(AtomicU32);

impl SeriesSlot {
    #[inline]
    pub fn get(&self) -> Option<NonZeroU32> {
        NonZeroU32::new(self.0.load(Ordering::Relaxed))
    }

    /// Whoever gives it gives the same, so that nobody need wait for another.
    pub fn set(&self, place: NonZeroU32) {
        self.0.store(place.get(), Ordering::Relaxed);
    }
}
