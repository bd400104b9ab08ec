//! Many seeds of everything that can go wrong: regions alone and regions together, each step compared with the
//! truth, and all well again at the end. A seed that fails is made as small as it stays failing.
//!
//! A seed is as many episodes as fill the time that is asked for, each a scenario of its own, so that one that
//! fails is short, and is replayed by its seed alone.

mod aimed;
mod epilogue;
mod episode;
mod minimise;

pub use aimed::{Aim, CoverageReport, aims, cover};
pub use episode::{Episode, Mistake};
pub use minimise::{Smallest, minimise};

use crate::coverage::Coverage;
use crate::fired::Fired;
use tidegate_core::Nanos;

/// So many episodes fill any time.
const EPISODES_MAX: u64 = 10_000;

/// What a seed came to.
#[derive(Clone, Debug)]
pub struct SeedReport {
    pub fired: Fired,
    pub episodes: u64,
    pub simulated: Nanos,
    /// Equal for equal runs.
    pub trace_hash: u64,
    pub failure: Option<Failure>,
}

#[derive(Clone, Debug)]
pub struct Failure {
    pub episode: u64,
    pub message: String,
}

/// Runs a seed for so long, of simulated time, or until something is violated.
pub fn run(seed: u64, length: Nanos, mistake: Option<Mistake>) -> SeedReport {
    let mut ran = SeedReport {
        fired: Fired::default(),
        episodes: 0,
        simulated: Nanos::ZERO,
        trace_hash: 0,
        failure: None,
    };
    while ran.simulated < length && ran.episodes < EPISODES_MAX {
        let number = ran.episodes;
        ran.episodes += 1;
        match Episode::new(seed, number, mistake).run() {
            Ok(done) => {
                ran.fired.add_all(&done.fired);
                ran.simulated = ran.simulated.plus(done.simulated);
                ran.trace_hash = ran.trace_hash.rotate_left(11) ^ done.trace_hash;
            }
            Err(message) => {
                ran.failure = Some(Failure { episode: number, message });
                break;
            }
        }
    }
    ran
}

/// Runs a seed's first episodes without judging them, and returns which situations they met.
pub fn coverage(seed: u64, episodes: u64) -> Coverage {
    let mut coverage = Coverage::default();
    for number in 0..episodes {
        coverage.add_all(&Episode::new(seed, number, None).coverage());
    }
    coverage
}
