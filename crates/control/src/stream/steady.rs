//! A clock that only goes on, for what measures lengths of time: who was heard when.

use tidegate_core::Nanos;
use tokio::time::Instant;

/// Counts from when it was made.
#[derive(Clone, Copy, Debug)]
pub struct Steady(Instant);

impl Steady {
    pub fn begin() -> Self {
        Steady(Instant::now())
    }

    pub fn now(self) -> Nanos {
        Nanos::new(u64::try_from(self.0.elapsed().as_nanos()).unwrap_or(u64::MAX))
    }

    /// When the clock will say so, for timers.
    pub fn instant(self, at: Nanos) -> Instant {
        self.0 + std::time::Duration::from_nanos(at.get())
    }
}
