//! What runs behind the requests: the clock's samples, the sweep, and the watch over the rules files.
//!
//! Timers and files live here, in `region_driver.rs` and in `snapshot.rs`. A bad rules file is reported and the
//! rules in force stay.

use crate::clock::{Clock, ClockJump, SAMPLE_EVERY_MS};
use crate::engine::Engine;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tidegate_core::FleetSecret;
use tidegate_rules::envoy::Windows;
use tidegate_rules::{ReadError, RuleSet, Source, Stamp, read_sources};
use tokio::time::{Interval, MissedTickBehavior};

/// Every shard is swept once in about ten seconds.
const SWEEP_TICK: Duration = Duration::from_millis(100);
const SWEEP_TICKS_PER_ROUND: usize = 100;
/// The tenant of callers without a token.
pub const DEFAULT_TENANT: &str = "default";
/// How often the rules files are looked at. A change is in force after two looks that saw the same.
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
pub(crate) fn calm_interval(period: Duration) -> Interval {
    let mut interval = tokio::time::interval(period);
    interval.set_missed_tick_behavior(MissedTickBehavior::Delay);
    interval
}

/// Steers the clock.
pub fn sample_clock(engine: &Engine, clock: &Clock) {
    if let Some(step) = clock.sample() {
        let is_regions = clock.wall_offset_ns().is_some();
        let source = if is_regions { "the region's time" } else { "the wall clock" };
        tracing::warn!(delta_ms = step.delta_ns / 1_000_000, "{source} moved at once; this node follows it");
        follow_step(engine, clock, step);
    }
}

/// Makes a step: tells the table before the clock moves, so that no limit refills.
pub(crate) fn follow_step(engine: &Engine, clock: &Clock, step: ClockJump) {
    let id = engine.clock_stepped(step.delta_ns, clock.now().now.shifted(step.delta_ns));
    clock.follow(step, id);
}

/// Reads the rules files again when they changed, and says what came of it.
#[derive(Debug)]
pub struct RulesWatch {
    path: PathBuf,
    windows: Windows,
    /// The texts that were read last, valid or not: a bad set is reported once. `None` after a failure.
    seen: Option<u64>,
    stamp: Option<Stamp>,
    /// The files were read after they had stood still.
    is_read: bool,
}

impl RulesWatch {
    pub fn new(path: PathBuf, seen: &[Source]) -> Self {
        let (windows, seen) = (Windows::default(), Some(fingerprint(seen)));
        RulesWatch { path, windows, seen, stamp: None, is_read: false }
    }

    /// The same, with windows of another kind in files of envoyproxy/ratelimit.
    #[must_use]
    pub fn with_windows(self, windows: Windows) -> Self {
        RulesWatch { windows, ..self }
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Polls the files once. Returns `Some` if their texts changed.
    pub fn poll(&mut self, secret: &FleetSecret) -> Option<Result<RuleSet, String>> {
        match self.read_when_still() {
            Ok(None) => None,
            Ok(Some(sources)) => {
                let fingerprint = fingerprint(&sources);
                let is_new = self.seen.replace(fingerprint) != Some(fingerprint);
                let parse = || RuleSet::parse_as(&sources, secret, self.windows);
                is_new.then(|| parse().map_err(|errors| errors.to_string()))
            }
            Err(error) => {
                self.stamp = None;
                // Reported once; the files may be on their way.
                self.seen.take().map(|_| Err(error.to_string()))
            }
        }
    }

    /// Reads the files once they have stood still for a look, and during the reading: half a file can be
    /// valid, and would lift the limits in the other half.
    fn read_when_still(&mut self) -> Result<Option<Vec<Source>>, ReadError> {
        let stamp = Stamp::read(&self.path)?;
        if self.stamp.as_ref() != Some(&stamp) {
            self.stamp = Some(stamp);
            self.is_read = false;
            return Ok(None);
        }
        if self.is_read {
            return Ok(None);
        }
        let sources = read_sources(&self.path)?;
        self.is_read = Stamp::read(&self.path)? == stamp;
        Ok(self.is_read.then_some(sources))
    }
}

/// Which tenants callers can be of.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Tenancy {
    /// There are no tokens.
    DefaultOnly,
    ByToken,
}

/// Tells what is valid and hardly meant.
pub fn log_warnings(rules: &RuleSet, tenancy: Tenancy) {
    for warning in rules.warnings() {
        tracing::warn!(%warning, "rules");
    }
    if tenancy == Tenancy::ByToken {
        return;
    }
    for namespace in rules.namespaces().iter().filter(|namespace| *namespace.tenant != *DEFAULT_TENANT) {
        let (tenant, namespace) = (&*namespace.tenant, &*namespace.name);
        tracing::warn!(
            tenant,
            namespace,
            "without tokens every caller is of tenant `default`: these rules never apply"
        );
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
pub async fn watch_rules(engine: Arc<Engine>, mut watch: RulesWatch, tenancy: Tenancy) {
    let mut tick = calm_interval(WATCH_EVERY);
    loop {
        tick.tick().await;
        let secret = *engine.secret();
        // Reading and parsing may take seconds for a large set: not on a thread that serves requests.
        let looked = tokio::task::spawn_blocking(move || {
            let outcome = watch.poll(&secret);
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
                let (before, counts) = (engine.rules().set.counts(), rules.counts());
                log_warnings(&rules, tenancy);
                if counts.rules == 0 && before.rules > 0 {
                    tracing::warn!(
                        before = before.rules,
                        "the rules have no rule any more: everything is allowed"
                    );
                }
                let version = engine.replace_rules(rules);
                engine.stats().reloaded();
                tracing::info!(version, rules = counts.rules, overrides = counts.overrides, "rules reloaded");
            }
            Some(Err(problem)) => {
                engine.stats().reload_failed(&problem);
                tracing::error!(%problem, "rules can't be reloaded; the old ones stay in force");
            }
        }
    }
}
