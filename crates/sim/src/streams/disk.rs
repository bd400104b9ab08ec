//! What a process keeps of the rules, on a disk that is simulated; and the rules themselves, which say their version.
//!
//! Nothing is kept that isn't what the log has for its version: that is what is simulated here.

use bytes::Bytes;
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use tidegate_control::stream::{ApplyResult, Feed, PastReset, RuleStore, RulesStatus};
use tidegate_core::Nanos;
use tidegate_rules::{
    Delta, DocumentName, LookupSeed, OverrideName, RuleChange, Snapshot, SnapshotId, SnapshotWriter,
};

/// A document that every file has, so that a file is several messages.
const LARGE_BYTES: usize = 150_000;
/// One version in so many also resets a caller.
const RESETS_ONE_IN: u64 = 3;

#[derive(Debug, Default)]
pub(super) struct Disk {
    pub(super) file: Option<Arc<Snapshot>>,
    /// Those after the file.
    pub(super) changes: Vec<(u64, Bytes)>,
    partial: Option<(SnapshotId, Vec<u8>)>,
    /// Versions whose resets were heard of.
    pub(super) resets: BTreeSet<u64>,
}

impl Disk {
    /// 0: nothing.
    pub(super) fn version(&self) -> u64 {
        let Some(file) = &self.file else { return 0 };
        self.changes.last().map_or(file.version(), |(version, _)| *version)
    }

    /// A new file takes the place of the old one and of the changes that it has.
    pub(super) fn use_file(&mut self, file: Arc<Snapshot>) {
        self.changes.retain(|(version, _)| *version > file.version());
        self.file = Some(file);
    }
}

/// A disk in use: by a node, or by a broker, which serves what it has.
pub(super) struct Keeping<'p> {
    pub(super) disk: &'p mut Disk,
    pub(super) feed: Option<&'p Feed>,
    /// By the process's own clock.
    pub(super) now: Nanos,
}

impl RuleStore for Keeping<'_> {
    fn status(&self) -> RulesStatus {
        let partial = self.disk.partial.as_ref();
        let partial = partial.filter(|(_, bytes)| !bytes.is_empty());
        RulesStatus {
            version: self.disk.version(),
            partial: partial.map(|(id, bytes)| (*id, bytes.len() as u64)),
        }
    }

    fn begin(&mut self, id: &SnapshotId, _length: u64, offset: u64) -> Result<(), String> {
        let goes_on =
            matches!(&self.disk.partial, Some((of, bytes)) if of == id && bytes.len() as u64 == offset);
        if !goes_on {
            self.disk.partial = Some((*id, Vec::new()));
        }
        Ok(())
    }

    fn write(&mut self, offset: u64, bytes: &[u8]) -> Result<(), String> {
        let (_, have) = self.disk.partial.as_mut().ok_or("no snapshot was begun")?;
        if have.len() as u64 != offset {
            return Err(format!("{offset} doesn't follow {}", have.len()));
        }
        have.extend_from_slice(bytes);
        Ok(())
    }

    fn install(&mut self) -> Result<u64, String> {
        let (_, bytes) = self.disk.partial.take().ok_or("no snapshot was begun")?;
        let came = Snapshot::from_bytes(bytes).map_err(|error| error.to_string())?;
        // One copy for all who have it.
        let file = file_of(came.version());
        assert!(came.bytes() == file.bytes(), "rules: a file of version {} is another", came.version());
        self.disk.changes.clear();
        self.disk.file = Some(Arc::clone(&file));
        if let Some(feed) = self.feed {
            feed.offer(file);
        }
        Ok(came.version())
    }

    fn apply(&mut self, changes: &[(u64, Bytes)]) -> ApplyResult {
        for (version, delta) in changes {
            assert!(*version == self.disk.version() + 1, "rules: version {version} came out of turn");
            assert!(*delta == delta_of(*version), "rules: what came as version {version} is another");
            self.disk.changes.push((*version, delta.clone()));
            self.disk.resets.extend(resets_in(*version).then_some(*version));
        }
        match self.feed {
            Some(feed) => feed.take(changes, self.now),
            None => ApplyResult { version: self.disk.version(), refused: None },
        }
    }

    fn reset(&mut self, reset: &PastReset) {
        assert!(resets_in(reset.version), "rules: version {} reset nobody", reset.version);
        self.disk.resets.insert(reset.version);
        if let Some(feed) = self.feed {
            feed.receive_reset(reset.clone(), self.now);
        }
    }

    fn confirmed(&mut self, ago: Nanos) {
        if let Some(feed) = self.feed {
            feed.confirm(self.now, ago);
        }
    }
}

/// Whether a version resets a caller.
pub(super) fn resets_in(version: u64) -> bool {
    version.is_multiple_of(RESETS_ONE_IN)
}

fn document(namespace: &str) -> DocumentName {
    DocumentName { tenant: "default".into(), namespace: namespace.into() }
}

fn text_of(version: u64) -> String {
    format!("version {version}")
}

/// What the log has as a version.
pub(super) fn delta_of(version: u64) -> Bytes {
    let mut changes =
        vec![RuleChange::Document { name: document("api"), text: Some(text_of(version).into()) }];
    if resets_in(version) {
        let name = OverrideName {
            tenant: "default".into(),
            namespace: "api".into(),
            rule: "per-user".into(),
            parts: Box::new(["someone".into()]),
        };
        changes.push(RuleChange::Reset { name, epoch: u32::try_from(version).unwrap_or(u32::MAX) });
    }
    Delta { version, changes }.encode().expect("a change within all bounds").into()
}

/// The file of a version: made once in a process, since files can't be made but on a disk.
pub(super) fn file_of(version: u64) -> Arc<Snapshot> {
    static FILES: Mutex<Vec<Arc<Snapshot>>> = Mutex::new(Vec::new());
    let place = usize::try_from(version).unwrap_or(usize::MAX);
    let mut files = FILES.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    while files.len() <= place {
        let next = make_file(files.len() as u64);
        files.push(next);
    }
    Arc::clone(&files[place])
}

fn make_file(version: u64) -> Arc<Snapshot> {
    let path = std::env::temp_dir().join(format!("tidegate-sim-{}-{version}.rules", std::process::id()));
    let mut writer =
        SnapshotWriter::new(&path, version, LookupSeed::new([7; 16])).expect("a place for files");
    writer.document(&document("api"), &text_of(version)).expect("a document");
    writer.document(&document("large"), &"#".repeat(LARGE_BYTES)).expect("a document");
    writer.finish().expect("room for a file");
    let file = Snapshot::open(&path).expect("the file that was written");
    let _ = std::fs::remove_file(&path);
    Arc::new(file)
}
