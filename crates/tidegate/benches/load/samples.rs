//! What came of the requests of a run, and what can be said about them.

use crate::figures::{count, ratio};
use std::time::Duration;

/// Which of a run's streams of requests it belongs to.
pub(crate) type Kind = u16;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Verdict {
    Admitted,
    Denied,
    /// No answer, or one that isn't a decision.
    Error,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Sample {
    pub(crate) kind: Kind,
    /// When it was meant to be sent, since the start of the run.
    pub(crate) at: Duration,
    /// From when it was meant to be sent until its answer was read: what waits for a slow answer before it
    /// is in here.
    pub(crate) latency: Duration,
    pub(crate) verdict: Verdict,
    pub(crate) unverified: bool,
    /// Of its limit.
    pub(crate) remaining: u64,
}

impl Sample {
    pub(crate) fn is_admitted(&self) -> bool {
        self.verdict == Verdict::Admitted
    }

    pub(crate) fn answered_at(&self) -> Duration {
        self.at + self.latency
    }
}

/// Some of a run's samples.
#[derive(Clone, Debug, Default)]
pub(crate) struct Samples(pub(crate) Vec<Sample>);

impl Samples {
    pub(crate) fn only(&self, keep: impl Fn(&Sample) -> bool) -> Samples {
        Samples(self.0.iter().copied().filter(|sample| keep(sample)).collect())
    }

    pub(crate) fn of_kind(&self, kind: Kind) -> Samples {
        self.only(|sample| sample.kind == kind)
    }

    /// Those that were meant to be sent in that time.
    pub(crate) fn between(&self, from: Duration, to: Duration) -> Samples {
        self.only(|sample| (from..to).contains(&sample.at))
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    pub(crate) fn admitted(&self) -> usize {
        self.0.iter().filter(|sample| sample.is_admitted()).count()
    }

    pub(crate) fn errors(&self) -> usize {
        self.0.iter().filter(|sample| sample.verdict == Verdict::Error).count()
    }

    pub(crate) fn unverified(&self) -> usize {
        self.0.iter().filter(|sample| sample.unverified).count()
    }

    /// When the last answer came.
    pub(crate) fn ended_at(&self) -> Duration {
        self.0.iter().map(Sample::answered_at).max().unwrap_or_default()
    }

    /// The latency in milliseconds that so many of a thousand don't exceed.
    pub(crate) fn latency_ms(&self, per_mille: usize) -> f64 {
        let mut latencies: Vec<Duration> = self.0.iter().map(|sample| sample.latency).collect();
        latencies.sort_unstable();
        let rank = (latencies.len() * per_mille).div_ceil(1000).max(1) - 1;
        latencies.get(rank).map_or(f64::NAN, |latency| latency.as_secs_f64() * 1000.0)
    }

    /// The part that was answered within so long.
    pub(crate) fn share_within(&self, length: Duration) -> f64 {
        let quick = self.0.iter().filter(|sample| sample.latency <= length).count();
        ratio(quick, count(self.len()))
    }
}
