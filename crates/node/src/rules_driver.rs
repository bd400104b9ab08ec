//! Rules of a control plane in a node: kept in files, put in force, followed.
//!
//! Runs on a thread of its own, and no request waits for it: a change is prepared aside and swapped in whole. A node
//! that can reach nobody starts from its files, and goes by them. What is refused changes nothing.

mod resets;

use resets::RecentResets;
pub use resets::{ResetCommand, carry_out};

use crate::driver::{Tenancy, log_warnings};
use crate::engine::Engine;
use bytes::Bytes;
use std::path::Path;
use std::sync::Arc;
use tidegate_control::stream::{
    ApplyResult, PastReset, RuleStore, RulesStatus, StoredRules, StoredRulesError,
};
use tidegate_core::FleetSecret;
use tidegate_rules::envoy::Windows;
use tidegate_rules::{ApplyError, Delta, RuleChange, RuleOptions, RuleSet, Snapshot, SnapshotId};
use tokio::sync::mpsc;

/// Resets that wait to be carried out; what comes beyond isn't, and is said.
const RESET_COMMANDS_MAX: usize = 10_000;

/// Options for loading rules.
#[derive(Clone, Copy, Debug)]
pub struct RuleLoadOptions {
    pub secret: FleetSecret,
    pub windows: Windows,
    pub tenancy: Tenancy,
}

impl RuleLoadOptions {
    fn options(&self) -> RuleOptions<'_> {
        RuleOptions { secret: &self.secret, windows: self.windows }
    }
}

/// What a node's directory has, before there is an engine.
#[derive(Debug)]
pub struct RulesOnDisk {
    stored: StoredRules,
    reading: RuleLoadOptions,
    /// Empty where nothing is there that can be used.
    pub set: RuleSet,
}

impl RulesOnDisk {
    /// What is there and can't be used is said, and loaded again.
    pub fn read(directory: &Path, reading: RuleLoadOptions) -> Result<Self, StoredRulesError> {
        let stored = StoredRules::open(directory)?;
        let set = match read_set(&stored, &reading) {
            Ok(set) => set,
            Err(error) => {
                tracing::error!(%error, "the rules on the disk are refused; there are none until others are loaded");
                RuleSet::empty()
            }
        };
        Ok(RulesOnDisk { stored, reading, set })
    }

    /// What keeps an engine's rules, and the orders that come with them. The engine has been given the set.
    pub fn rule_store(self, engine: Arc<Engine>) -> (NodeRules, mpsc::Receiver<ResetCommand>) {
        let RulesOnDisk { stored, reading, set } = self;
        let (orders, ordered) = mpsc::channel(RESET_COMMANDS_MAX);
        let recent_resets = RecentResets::up_to(set.version());
        (NodeRules { stored, reading, set, engine, orders, recent_resets }, ordered)
    }
}

/// The file, and the log as far as it can be applied.
fn read_set(stored: &StoredRules, reading: &RuleLoadOptions) -> Result<RuleSet, ApplyError> {
    let Some(snapshot) = stored.snapshot() else { return Ok(RuleSet::empty()) };
    let mut set = RuleSet::from_snapshot(snapshot, reading.options())?;
    let applied = stored.each_change(|_, bytes| {
        let delta = Delta::decode(&bytes).map_err(|error| error.to_string())?;
        set = set.apply(&delta, reading.options()).map_err(|error| error.to_string())?;
        Ok::<(), String>(())
    });
    if let Err(problem) = applied {
        let version = set.version();
        tracing::warn!(
            problem,
            version,
            "the log of the rules isn't used to its end; the rest is loaded again"
        );
    }
    Ok(set)
}

/// What keeps a node's rules.
#[derive(Debug)]
pub struct NodeRules {
    stored: StoredRules,
    reading: RuleLoadOptions,
    /// In force.
    set: RuleSet,
    engine: Arc<Engine>,
    orders: mpsc::Sender<ResetCommand>,
    recent_resets: RecentResets,
}

impl NodeRules {
    fn put_in_force(&mut self, set: RuleSet) {
        self.set = set.clone();
        self.engine.replace_rules(set);
    }

    fn command_resets(&mut self, delta: &Delta) {
        let is_reset = |change: &RuleChange| matches!(change, RuleChange::Reset { .. });
        if !delta.changes.iter().any(is_reset) || !self.recent_resets.is_news(delta.version) {
            return;
        }
        for change in &delta.changes {
            let RuleChange::Reset { name, .. } = change else { continue };
            let order = ResetCommand { number: delta.version, name: name.clone() };
            if self.orders.try_send(order).is_err() {
                tracing::error!(%name, version = delta.version, "too many resets wait; this one isn't carried out here");
            }
        }
    }
}

/// Changes up to the first that can't be read, and why that can't.
fn read(changes: &[(u64, Bytes)]) -> (Vec<Delta>, Option<String>) {
    let mut deltas = Vec::with_capacity(changes.len());
    for (version, bytes) in changes {
        match Delta::decode(bytes) {
            Ok(delta) if delta.version == *version => deltas.push(delta),
            Ok(delta) => {
                let reason = format!("version {version} was announced, and {} came", delta.version);
                return (deltas, Some(reason));
            }
            Err(error) => return (deltas, Some(error.to_string())),
        }
    }
    (deltas, None)
}

impl RuleStore for NodeRules {
    fn status(&self) -> RulesStatus {
        self.stored.status(self.set.version())
    }

    fn begin(&mut self, id: &SnapshotId, length: u64, offset: u64) -> Result<(), String> {
        self.stored.begin(id, length, offset)
    }

    fn write(&mut self, offset: u64, bytes: &[u8]) -> Result<(), String> {
        self.stored.write(offset, bytes)
    }

    fn install(&mut self) -> Result<u64, String> {
        let reading = self.reading;
        let read = |snapshot: &Arc<Snapshot>| {
            RuleSet::from_snapshot(snapshot, reading.options()).map_err(|error| error.to_string())
        };
        let (snapshot, set) =
            self.stored.install(read).inspect_err(|problem| self.engine.stats().reload_failed(problem))?;
        log_warnings(&set, self.reading.tenancy);
        if self.set.version() == 0 && self.engine.shared().is_none() {
            // Who is alone and had no rules has counted nothing by them.
            self.recent_resets = RecentResets::up_to(snapshot.version());
        }
        // Read from the file in its place, which is kept anyway: one is enough in memory.
        let set = set.rebase(&snapshot).unwrap_or(set);
        self.put_in_force(set);
        self.engine.stats().reloaded();
        Ok(snapshot.version())
    }

    fn apply(&mut self, changes: &[(u64, Bytes)]) -> ApplyResult {
        let (mut deltas, mut refused) = read(changes);
        let (set, applied) = self.set.apply_all(&deltas, self.reading.options());
        let count = set.version().saturating_sub(self.set.version());
        deltas.truncate(usize::try_from(count).unwrap_or(usize::MAX));
        if let Err(error) = applied {
            refused = Some(error.to_string());
        }
        if let Some(problem) = &refused {
            self.engine.stats().reload_failed(problem);
        }
        if deltas.is_empty() {
            return ApplyResult { version: self.set.version(), refused };
        }
        self.put_in_force(set);
        for delta in &deltas {
            self.command_resets(delta);
        }
        if deltas
            .iter()
            .flat_map(|delta| &delta.changes)
            .any(|change| matches!(change, RuleChange::Document { .. }))
        {
            log_warnings(&self.set, self.reading.tenancy);
            self.engine.stats().reloaded();
        }
        // In force already: a disk that is slow or full holds up nothing.
        self.stored.append(&changes[..deltas.len()]);
        ApplyResult { version: self.set.version(), refused }
    }

    fn reset(&mut self, reset: &PastReset) {
        match reset.read() {
            Ok(delta) => self.command_resets(&delta),
            Err(problem) => tracing::warn!(version = reset.version, problem, "a reset isn't carried out"),
        }
    }

    fn tend(&mut self) {
        if let Some(snapshot) = self.stored.tend(false)
            && let Some(rebased) = self.set.rebase(&snapshot)
        {
            self.put_in_force(rebased);
        }
    }
}
