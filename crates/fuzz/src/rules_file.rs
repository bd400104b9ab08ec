//! The rules file and deltas: what is accepted is what would have been written, and can be looked up and applied.
//!
//! Each input is tried as it is and with its checksums mended, since no fuzzer finds those.

use std::sync::Arc;
use tidegate_core::{FleetSecret, Nanos};
use tidegate_rules::{Attributes, Delta, Matches, RuleOptions, RuleSet, Snapshot};

const NOW: Nanos = Nanos::from_secs(1_800_000_000);
const HEAD_BYTES: usize = 192;
const SECTIONS_AT: usize = 80;
const SECTIONS: usize = 6;

fn options() -> RuleOptions<'static> {
    RuleOptions::new(&FleetSecret::BUILT_IN)
}

pub(crate) fn file(bytes: &[u8]) {
    read_file(bytes.to_vec());
    if let Some(mended) = mended(bytes.to_vec()) {
        read_file(mended);
    }
}

/// With the checksums of its sections, as far as its head says where they are, and of its head.
fn mended(mut file: Vec<u8>) -> Option<Vec<u8>> {
    let mut begin = HEAD_BYTES;
    for at in (0..SECTIONS).map(|section| SECTIONS_AT + 16 * section) {
        let length = file.get(at..at + 8)?.try_into().map(u64::from_le_bytes).ok()?;
        let end = begin.checked_add(usize::try_from(length).ok()?)?;
        let checksum = crc32fast::hash(file.get(begin..end)?);
        file.get_mut(at + 8..at + 12)?.copy_from_slice(&checksum.to_le_bytes());
        begin = end;
    }
    let checksum = crc32fast::hash(file.get(..HEAD_BYTES - 4)?);
    file.get_mut(HEAD_BYTES - 4..HEAD_BYTES)?.copy_from_slice(&checksum.to_le_bytes());
    Some(file)
}

fn read_file(bytes: Vec<u8>) {
    let snapshot = match Snapshot::from_bytes(bytes) {
        Ok(snapshot) => Arc::new(snapshot),
        Err(error) => return assert!(!error.to_string().is_empty()),
    };
    let (exact, patterns) = snapshot.override_counts();
    assert_eq!(snapshot.overrides().count() as u64, exact + patterns);
    if let Ok(set) = RuleSet::from_snapshot(&snapshot, options()) {
        look_up(&set);
    }
}

fn look_up(set: &RuleSet) {
    let attributes = [("user", "alice"), ("ip", "2001:db8::1"), ("endpoint", "/search")];
    for namespace in set.namespaces() {
        let mut matches = Matches::new();
        set.matches(&namespace.tenant, &namespace.name, Attributes(&attributes), NOW, &mut matches);
    }
    assert!(set.describe(NOW).namespaces.len() >= set.namespaces().len());
}

pub(crate) fn delta(bytes: &[u8]) {
    read_delta(bytes);
    let mut mended = bytes.to_vec();
    if let Some(body) = mended.len().checked_sub(4) {
        let checksum = crc32fast::hash(&mended[..body]);
        mended[body..].copy_from_slice(&checksum.to_le_bytes());
        read_delta(&mended);
    }
}

fn read_delta(bytes: &[u8]) {
    let mut delta = match Delta::decode(bytes) {
        Ok(delta) => delta,
        Err(error) => return assert!(!error.to_string().is_empty()),
    };
    assert_eq!(delta.encode().as_deref(), Ok(bytes));
    delta.version = 1;
    match RuleSet::empty().apply(&delta, options()) {
        Ok(set) => look_up(&set),
        Err(error) => assert!(!error.to_string().is_empty()),
    }
}
