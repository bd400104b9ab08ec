//! A new rules file from the one in use and the deltas since, written aside.
//!
//! Overrides of a file are in the order of their hashes, so the two are merged in one pass: memory holds what was
//! changed, and never the file. The seed stays, so that whoever looks callers up by it goes on as before.

use super::log::Log;
use super::{RULES, RuleFiles, RuleFilesError, beside};
use crate::bytes::{DecodeError, put_parts};
use crate::change::{Delta, OverrideName, RuleChange};
use crate::overrides::Override;
use crate::snapshot::{Builder, Contents, RuleWithExact, Snapshot, WriteError};
use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

type RuleName = (Arc<str>, Arc<str>, Arc<str>);

/// What is to be merged. Owns all it needs: it may run on a thread of its own while the log goes on.
pub struct Compaction {
    path: PathBuf,
    snapshot: Arc<Snapshot>,
    log: Log,
}

impl std::fmt::Debug for Compaction {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Compaction").field("path", &self.path).finish_non_exhaustive()
    }
}

/// A file that was written and checked, and isn't in use yet.
#[derive(Debug)]
pub struct CompactedFile {
    path: PathBuf,
    from: Arc<Snapshot>,
    snapshot: Arc<Snapshot>,
}

impl RuleFiles {
    /// What to write a new file from; `None` when the log is empty.
    pub fn compaction(&self) -> Result<Option<Compaction>, RuleFilesError> {
        let Some(current) = self.current.as_ref().filter(|current| current.log.count() > 0) else {
            return Ok(None);
        };
        let path = beside(&self.path(current.log.last_version(), RULES), "partial");
        let log = current.log.copy().map_err(RuleFilesError::io(&path))?;
        Ok(Some(Compaction { path, snapshot: current.snapshot.clone(), log }))
    }

    /// Puts a file in the place of the one that it was made from; the log keeps what came since. `None` when another
    /// one is in use by now.
    pub fn adopt(&mut self, compacted: CompactedFile) -> Result<Option<Arc<Snapshot>>, RuleFilesError> {
        let CompactedFile { path, from, snapshot } = compacted;
        let current = self.current.as_ref().filter(|current| Arc::ptr_eq(&current.snapshot, &from));
        let Some(current) = current else {
            let _ = fs::remove_file(&path);
            return Ok(None);
        };
        let version = snapshot.version();
        let records = current.log.records_after(version).map_err(RuleFilesError::io(&path))?;
        let log = Log::create(&beside(&path, "log"), version, &records)?;
        self.use_file(&path, &snapshot, log)?;
        Ok(Some(snapshot))
    }
}

impl Compaction {
    /// Writes the file and checks it. Takes as long as that takes.
    pub fn run(self) -> Result<CompactedFile, RuleFilesError> {
        let Compaction { path, snapshot, log } = self;
        let changes = Changes::read(&snapshot, &log)?;
        if let Err(error) = changes.write(&path, &snapshot) {
            // A full disk gets its room back.
            let _ = fs::remove_file(&path);
            return Err(RuleFilesError::Unwritten { path, error });
        }
        match Snapshot::open(&path) {
            Ok(compacted) => Ok(CompactedFile { path, from: snapshot, snapshot: Arc::new(compacted) }),
            Err(error) => {
                let _ = fs::remove_file(&path);
                Err(RuleFilesError::Refused { path, error })
            }
        }
    }
}

struct ChangedExact {
    rule: RuleName,
    /// As `bytes.rs` writes them.
    parts: Box<[u8]>,
    applied: Option<Override>,
}

/// A file's contents after the log, and the exact overrides that the log changed.
struct Changes {
    contents: Contents,
    exact: BTreeMap<u128, ChangedExact>,
}

impl Changes {
    fn read(snapshot: &Snapshot, log: &Log) -> Result<Self, RuleFilesError> {
        let contents = Contents {
            version: log.last_version(),
            seed: snapshot.seed(),
            fleet_mode: snapshot.fleet_mode(),
            documents: snapshot.documents().map(|(name, text)| (name, text.into())).collect(),
            patterns: snapshot.patterns().collect(),
            rules: Vec::new(),
        };
        let mut changes = Changes { contents, exact: BTreeMap::new() };
        for version in snapshot.version() + 1..=log.last_version() {
            let bytes = log.read(version).map_err(RuleFilesError::io(log.path()))?;
            let delta = bytes.and_then(|bytes| Delta::decode(&bytes).ok());
            let delta = delta.ok_or(RuleFilesError::Gap { last: version - 1, found: version })?;
            delta.changes.into_iter().for_each(|change| changes.take(change));
        }
        changes.count_rules(snapshot);
        Ok(changes)
    }

    fn take(&mut self, change: RuleChange) {
        match change {
            RuleChange::Document { name, text: Some(text) } => {
                self.contents.documents.insert(name, text);
            }
            RuleChange::Document { name, text: None } => {
                self.contents.documents.remove(&name);
            }
            RuleChange::Override { name, value } if name.is_exact() => self.take_exact(&name, value),
            RuleChange::Override { name, value: Some(applied) } => {
                self.contents.patterns.insert(name, applied);
            }
            RuleChange::Override { name, value: None } => {
                self.contents.patterns.remove(&name);
            }
            RuleChange::FleetMode(mode) => self.contents.fleet_mode = mode,
            // A reset is over once it was heard.
            RuleChange::Reset { .. } => {}
        }
    }

    fn take_exact(&mut self, name: &OverrideName, applied: Option<Override>) {
        let prefix = self.contents.seed.prefix(&name.tenant, &name.namespace, &name.rule);
        let hash = prefix.hash_of_parts(name.parts.iter().map(|part| &**part));
        let mut parts = Vec::new();
        put_parts(&mut parts, &name.parts);
        let rule = (name.tenant.clone(), name.namespace.clone(), name.rule.clone());
        self.exact.insert(hash, ChangedExact { rule, parts: parts.into(), applied });
    }

    /// Which rules will have how many.
    fn count_rules(&mut self, snapshot: &Snapshot) {
        let mut counts: BTreeMap<RuleName, u64> = BTreeMap::new();
        for rule in snapshot.rules_with_exact() {
            counts.insert(name_of(rule), rule.exact);
        }
        for (hash, changed) in &self.exact {
            let count = counts.entry(changed.rule.clone()).or_default();
            let had = u64::from(snapshot.find(*hash).is_some());
            *count = (*count + u64::from(changed.applied.is_some())).saturating_sub(had);
        }
        let kept = counts.into_iter().filter(|(_, exact)| *exact > 0);
        self.contents.rules = kept
            .map(|((tenant, namespace, rule), exact)| RuleWithExact { tenant, namespace, rule, exact })
            .collect();
    }

    fn write(&self, path: &Path, snapshot: &Snapshot) -> Result<(), WriteError> {
        let positions: HashMap<RuleName, u32> = self.contents.rules.iter().map(name_of).zip(0..).collect();
        let old_positions: Vec<Option<u32>> =
            snapshot.rules_with_exact().iter().map(|rule| positions.get(&name_of(rule)).copied()).collect();
        let nobody = WriteError::Refused(DecodeError("an override is of no rule"));
        let mut builder = Builder::new(path, &self.contents)?;
        let mut changed = self.exact.iter().peekable();
        for old in snapshot.exact() {
            while let Some((hash, new)) = changed.next_if(|(hash, _)| **hash < old.hash) {
                push_new(&mut builder, *hash, new, &positions)?;
            }
            if let Some((hash, new)) = changed.next_if(|(hash, _)| **hash == old.hash) {
                push_new(&mut builder, *hash, new, &positions)?;
                continue;
            }
            let position = usize::try_from(old.rule).ok().and_then(|rule| *old_positions.get(rule)?);
            let Some(position) = position else { return Err(nobody) };
            builder.push(old.hash, position, old.parts.encoded(), &old.applied)?;
        }
        for (hash, new) in changed {
            push_new(&mut builder, *hash, new, &positions)?;
        }
        builder.finish().map(drop)
    }
}

fn push_new(
    builder: &mut Builder<'_>,
    hash: u128,
    new: &ChangedExact,
    positions: &HashMap<RuleName, u32>,
) -> Result<(), WriteError> {
    match (&new.applied, positions.get(&new.rule)) {
        (None, _) => Ok(()),
        (Some(applied), Some(position)) => builder.push(hash, *position, &new.parts, applied),
        (Some(_), None) => Err(WriteError::Refused(DecodeError("an override is of no rule"))),
    }
}

fn name_of(rule: &RuleWithExact) -> RuleName {
    (rule.tenant.clone(), rule.namespace.clone(), rule.rule.clone())
}
