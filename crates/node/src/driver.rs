//! What runs behind the requests: the clock's samples, the sweep, and the watch over the rules files.
//!
//! Timers and files live here and nowhere else in this crate. A bad rules file is reported and the rules in
//! force stay.

use crate::clock::{Clock, SAMPLE_EVERY_MS};
use crate::engine::Engine;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tidegate_core::FleetSecret;
use tidegate_rules::{RuleSet, Source, Stamp, read_sources};
use tokio::time::{Interval, MissedTickBehavior};

/// Every shard is swept once in about ten seconds.
const SWEEP_TICK: Duration = Duration::from_millis(100);
const SWEEP_TICKS_PER_ROUND: usize = 100;
/// How soon a changed rules file is noticed.
const WATCH_EVERY: Duration = Duration::from_millis(500);

/// Keeps the engine's clock and table in order until the future is dropped.
pub async fn run_upkeep(engine: Arc<Engine>, clock: Arc<Clock>) {
    let mut sample = calm_interval(Duration::from_millis(SAMPLE_EVERY_MS));
    let mut sweep = calm_interval(SWEEP_TICK);
    let shards_per_tick = engine.shard_count().div_ceil(SWEEP_TICKS_PER_ROUND);
    let mut shard = 0;
    loop {
        tokio::select! {
            _ = sample.tick() => sample_clock(&engine, &clock),
            _ = sweep.tick() => {
                for _ in 0..shards_per_tick {
                    engine.sweep(shard, clock.now());
                    shard = (shard + 1) % engine.shard_count();
                }
            }
        }
    }
}

/// After a pause, goes on at its pace instead of making up for it.
fn calm_interval(period: Duration) -> Interval {
    let mut interval = tokio::time::interval(period);
    interval.set_missed_tick_behavior(MissedTickBehavior::Delay);
    interval
}

/// Steers the clock; tells the table of a step before the clock makes it, so that no limit refills.
pub fn sample_clock(engine: &Engine, clock: &Clock) {
    if let Some(step) = clock.sample() {
        tracing::warn!(delta_ms = step.delta_ns / 1_000_000, "the wall clock was set; following it");
        let id = engine.clock_stepped(step.delta_ns);
        clock.follow(step, id);
    }
}

/// Reads the rules files again when they changed, and says what came of it.
#[derive(Debug)]
pub struct RulesWatch {
    path: PathBuf,
    /// The texts that were read last, valid or not: a bad set is reported once. `None` after a failure.
    seen: Option<u64>,
    stamp: Option<Stamp>,
    /// The files were read when their stamp had not changed for a whole look. Only then it is enough to look
    /// at the stamp: two changes within one tick of the file system's clock have the same.
    is_settled: bool,
}

impl RulesWatch {
    pub fn new(path: PathBuf, seen: &[Source]) -> Self {
        RulesWatch { path, seen: Some(fingerprint(seen)), stamp: None, is_settled: false }
    }

    /// Looks once; `Some` when the texts changed.
    pub fn look(&mut self, secret: &FleetSecret) -> Option<Result<RuleSet, String>> {
        let read = Stamp::read(&self.path).and_then(|stamp| {
            let is_same = self.stamp.as_ref() == Some(&stamp);
            if is_same && self.is_settled {
                return Ok(None);
            }
            self.is_settled = is_same;
            self.stamp = Some(stamp);
            read_sources(&self.path).map(Some)
        });
        match read {
            Ok(None) => None,
            Ok(Some(sources)) => {
                let fingerprint = fingerprint(&sources);
                let is_new = self.seen.replace(fingerprint) != Some(fingerprint);
                is_new.then(|| RuleSet::parse(&sources, secret).map_err(|errors| errors.to_string()))
            }
            Err(error) => {
                self.stamp = None;
                // Reported once; the files may be on their way.
                self.seen.take().map(|_| Err(error.to_string()))
            }
        }
    }
}

/// Tells texts apart from those read before, in this process only.
fn fingerprint(sources: &[Source]) -> u64 {
    let mut hasher = DefaultHasher::new();
    for source in sources {
        (&source.name, &source.text).hash(&mut hasher);
    }
    hasher.finish()
}

/// Watches the rules files until the future is dropped.
pub async fn watch_rules(engine: Arc<Engine>, mut watch: RulesWatch) {
    let mut tick = calm_interval(WATCH_EVERY);
    loop {
        tick.tick().await;
        let secret = *engine.secret();
        // Reading and parsing may take seconds for a large set: not on a thread that serves requests.
        let looked = tokio::task::spawn_blocking(move || {
            let outcome = watch.look(&secret);
            (watch, outcome)
        });
        let Ok((returned, outcome)) = looked.await else {
            tracing::error!("the watch over the rules files failed; rules are no longer reloaded");
            return;
        };
        watch = returned;
        match outcome {
            None => {}
            Some(Ok(rules)) => {
                let counts = rules.counts();
                let version = engine.replace_rules(rules);
                engine.stats().reloaded(true);
                tracing::info!(version, rules = counts.rules, overrides = counts.overrides, "rules reloaded");
            }
            Some(Err(problem)) => {
                engine.stats().reloaded(false);
                tracing::error!(%problem, "rules can't be reloaded; the old ones stay in force");
            }
        }
    }
}
