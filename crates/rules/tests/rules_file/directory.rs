//! The directory of a node or broker over restarts, cut-off writes, downloads and new files.

use crate::made::{
    Scratch, decisions, limit, named, options, sample_bytes, sample_delta, sample_overrides, sample_set,
    set_override, write_file,
};
use std::fs;
use std::sync::Arc;
use tidegate_rules::{Delta, Finding, RuleChange, RuleFiles, RuleFilesError, RuleSet, Snapshot};

fn open(scratch: &Scratch) -> (RuleFiles, Vec<Finding>) {
    RuleFiles::open(&scratch.0).unwrap()
}

/// What a node does at a start.
fn set_of(files: &RuleFiles) -> RuleSet {
    let mut set = RuleSet::from_snapshot(files.snapshot().expect("a file"), options()).unwrap();
    while let Some(bytes) = files.delta(set.version() + 1).unwrap() {
        set = set.apply(&Delta::decode(&bytes).unwrap(), options()).unwrap();
    }
    assert_eq!(set.version(), files.version());
    set
}

fn with_file(version: u64) -> (Scratch, RuleFiles) {
    let scratch = Scratch::new();
    write_file(&scratch.path(&format!("{version}.rules")), version, &sample_overrides());
    let (files, findings) = open(&scratch);
    assert_eq!(findings, []);
    (scratch, files)
}

fn caller(number: u64) -> RuleChange {
    set_override(named("api", "per-user", &[&format!("user-{number}")]), limit(10_000 + number))
}

fn append(files: &mut RuleFiles, changes: Vec<RuleChange>) -> Delta {
    let delta = Delta { version: files.version() + 1, changes };
    files.append(&[(delta.version, &delta.encode().unwrap())]).unwrap();
    delta
}

#[test]
fn a_restart_finds_the_rules_as_they_were() {
    let (scratch, mut files) = with_file(42);
    append(&mut files, sample_delta(43).changes);
    for number in 0..30 {
        append(&mut files, vec![caller(number)]);
    }
    files.sync().unwrap();
    let said = decisions(&set_of(&files));
    drop(files);
    let (files, findings) = open(&scratch);
    assert_eq!((findings, files.version(), files.delta_count()), (Vec::new(), 73, 31));
    assert_eq!(decisions(&set_of(&files)), said);
    assert_eq!(files.delta(42).unwrap(), None);
    assert_eq!(files.delta(74).unwrap(), None);
}

#[test]
fn an_empty_directory_has_nothing_and_takes_no_delta() {
    let scratch = Scratch::new();
    let (mut files, findings) = RuleFiles::open(&scratch.path("made/below")).unwrap();
    assert_eq!((findings.len(), files.version(), files.snapshot().is_none()), (0, 0, true));
    let error = files.append(&[(1, &sample_delta(1).encode().unwrap())]).unwrap_err();
    assert!(matches!(error, RuleFilesError::NoFile { version: 1 }), "{error}");
}

#[test]
fn a_delta_that_does_not_follow_is_refused_and_nothing_of_its_batch_is_written() {
    let (_scratch, mut files) = with_file(5);
    let bytes = sample_delta(6).encode().unwrap();
    let error = files.append(&[(6, &bytes), (8, &bytes)]).unwrap_err();
    assert!(matches!(error, RuleFilesError::Gap { last: 6, found: 8 }), "{error}");
    let error = files.append(&[(6, &bytes), (7, &bytes)]).unwrap_err();
    assert!(matches!(error, RuleFilesError::NotADelta { version: 7 }), "{error}");
    assert_eq!((files.version(), files.delta_count()), (5, 0));
}

#[test]
fn a_torn_tail_is_dropped_wherever_it_tears() {
    let (scratch, mut files) = with_file(5);
    append(&mut files, vec![caller(1)]);
    let said = decisions(&set_of(&files));
    let whole = fs::read(scratch.path("5.log")).unwrap();
    append(&mut files, vec![caller(2)]);
    let longer = fs::read(scratch.path("5.log")).unwrap();
    for length in whole.len() + 1..longer.len() {
        fs::write(scratch.path("5.log"), &longer[..length]).unwrap();
        let (mut files, findings) = open(&scratch);
        assert_eq!((findings.len(), files.version()), (1, 6), "cut at {length}: {findings:?}");
        assert_eq!(decisions(&set_of(&files)), said);
        append(&mut files, vec![caller(2)]);
        assert_eq!(fs::read(scratch.path("5.log")).unwrap(), longer, "it goes on where it was whole");
    }
}

#[test]
fn a_damaged_middle_takes_the_rest_along_and_is_kept_aside() {
    let (scratch, mut files) = with_file(5);
    append(&mut files, vec![caller(1)]);
    let first = fs::read(scratch.path("5.log")).unwrap().len();
    for number in 2..5 {
        append(&mut files, vec![caller(number)]);
    }
    let mut bytes = fs::read(scratch.path("5.log")).unwrap();
    bytes[first + 40] ^= 1;
    fs::write(scratch.path("5.log"), &bytes).unwrap();
    let (files, findings) = open(&scratch);
    assert_eq!(files.version(), 6);
    assert!(findings[0].problem.contains("ends with version 6"), "{findings:?}");
    assert_eq!(fs::read(scratch.path("5.log.refused")).unwrap(), bytes);
}

#[test]
fn the_newest_good_file_wins_and_a_damaged_one_is_set_aside() {
    let (scratch, mut files) = with_file(5);
    append(&mut files, vec![caller(1)]);
    let said = decisions(&set_of(&files));
    drop(files);
    let mut bytes = sample_bytes(9);
    let middle = bytes.len() / 2;
    bytes[middle] ^= 4;
    fs::write(scratch.path("9.rules"), &bytes).unwrap();
    fs::write(scratch.path("11.rules"), sample_bytes(10)).unwrap();
    fs::write(scratch.path("7.rules.partial"), b"half").unwrap();
    let (files, findings) = open(&scratch);
    assert_eq!((files.version(), decisions(&set_of(&files))), (6, said));
    assert_eq!(findings.len(), 2, "{findings:?}");
    assert_eq!(scratch.names(), ["11.rules.refused", "5.log", "5.rules", "9.rules.refused"]);
    drop(files);
    fs::write(scratch.path("8.rules"), sample_bytes(8)).unwrap();
    let (files, _) = open(&scratch);
    assert_eq!(files.version(), 8);
    assert!(!scratch.path("5.rules").exists() && !scratch.path("5.log").exists());
}

#[test]
fn a_download_is_resumed_checked_and_installed() {
    let (scratch, mut files) = with_file(5);
    append(&mut files, vec![caller(1)]);
    let bytes = sample_bytes(9);
    let id = Snapshot::from_bytes(bytes.clone()).unwrap().id();
    let total = bytes.len() as u64;
    let mut download = files.download(id, total).unwrap();
    download.write(0, &bytes[..1000]).unwrap();
    assert!(download.write(2000, &bytes[2000..2100]).is_err(), "not the next chunk");
    assert!(download.write(1000, &vec![0; bytes.len()]).is_err(), "past the end");
    assert_eq!(files.pending_download(), Some((id, 1000)));
    drop((download, files));
    let (mut files, findings) = open(&scratch);
    assert_eq!((findings, files.version(), files.pending_download()), (Vec::new(), 6, Some((id, 1000))));
    let mut download = files.download(id, total).unwrap();
    let mut server = bytes.as_slice()[1000..].chunks(777);
    while !download.is_complete() {
        download.write(download.have(), server.next().unwrap()).unwrap();
    }
    let snapshot = files.install(download).unwrap();
    assert_eq!((snapshot.id(), files.version(), files.delta_count()), (id, 9, 0));
    assert_eq!(decisions(&set_of(&files)), decisions(&sample_set(9)));
    assert_eq!(scratch.names(), ["9.log", "9.rules"]);
    assert_eq!(files.pending_download(), None);
}

#[test]
fn a_download_that_is_not_what_was_asked_for_changes_nothing() {
    let (scratch, mut files) = with_file(5);
    let bytes = sample_bytes(9);
    let id = Snapshot::from_bytes(bytes.clone()).unwrap().id();
    let mut damaged = bytes.clone();
    damaged[700] ^= 1;
    for (sent, id) in [(damaged, id), (bytes, tidegate_rules::SnapshotId { digest: 7, ..id })] {
        let mut download = files.download(id, sent.len() as u64).unwrap();
        assert!(files.install(files.download(id, sent.len() as u64).unwrap()).is_err(), "not complete");
        download.write(0, &sent).unwrap();
        let error = files.install(download).unwrap_err();
        assert!(
            matches!(error, RuleFilesError::Refused { .. } | RuleFilesError::AnotherFile { .. }),
            "{error}"
        );
        assert_eq!((files.version(), files.pending_download()), (5, None));
    }
    drop(files);
    assert_eq!(open(&scratch).0.version(), 5);
}

#[test]
fn chunks_of_a_file_make_it_up() {
    let (scratch, files) = with_file(5);
    let snapshot = files.snapshot().unwrap();
    let mut bytes = Vec::new();
    while !snapshot.chunk(bytes.len() as u64, 1000).is_empty() {
        bytes.extend_from_slice(snapshot.chunk(bytes.len() as u64, 1000));
    }
    assert_eq!(bytes, fs::read(scratch.path("5.rules")).unwrap());
    assert_eq!(snapshot.chunk(u64::MAX, 10), [0_u8; 0]);
}

#[test]
fn a_new_file_says_what_the_old_one_and_its_log_said() {
    let (scratch, mut files) = with_file(42);
    append(&mut files, sample_delta(43).changes);
    for number in 20..60 {
        append(&mut files, vec![caller(number)]);
    }
    // All of a rule's overrides go, and with them the rule from the file.
    append(&mut files, vec![RuleChange::Override { name: named("api", "renamed", &["alice"]), value: None }]);
    let set = set_of(&files);
    let compaction = files.compaction().unwrap().expect("something to do");
    // Meanwhile the log goes on: one that the file has is removed, one that it hasn't comes.
    let late =
        vec![RuleChange::Override { name: named("api", "per-user", &["carol"]), value: None }, caller(99)];
    let set = set.apply(&append(&mut files, late), options()).unwrap();
    let compacted = compaction.run().unwrap();
    let old = files.snapshot().unwrap().clone();
    let snapshot = files.adopt(compacted).unwrap().expect("the same file is in use");
    assert_eq!((snapshot.version(), files.version(), files.delta_count()), (84, 85, 1));
    let rebased = set.rebase(&snapshot).expect("the same rules");
    assert!(rebased.rebase(&old).is_none(), "an older file lacks what the set no longer keeps");
    assert_eq!((decisions(&rebased), rebased.changed_callers()), (decisions(&set), 2));
    assert_eq!(decisions(&set_of(&files)), decisions(&set));
    assert_eq!(scratch.names(), ["84.log", "84.rules"]);
    drop(files);
    let (files, findings) = open(&scratch);
    assert_eq!(findings, []);
    assert_eq!(decisions(&set_of(&files)), decisions(&set));
}

#[test]
fn the_same_rules_make_the_same_file_whichever_way() {
    let (scratch, mut files) = with_file(1);
    append(&mut files, vec![caller(7), RuleChange::Override { name: named("api", "all", &[]), value: None }]);
    let compacted = files.compaction().unwrap().expect("something to do").run().unwrap();
    files.adopt(compacted).unwrap().unwrap();
    let mut overrides = sample_overrides();
    overrides.retain(|(name, _)| *name.rule != *"all");
    for (name, applied) in &mut overrides {
        if *name == named("api", "per-user", &["user-7"]) {
            *applied = limit(10_007);
        }
    }
    write_file(&scratch.path("direct"), 2, &overrides);
    assert!(fs::read(scratch.path("direct")).unwrap() == fs::read(scratch.path("2.rules")).unwrap());
}

#[test]
fn a_new_file_is_dropped_when_another_was_installed_meanwhile() {
    let (scratch, mut files) = with_file(5);
    assert!(files.compaction().unwrap().is_none(), "nothing to do");
    append(&mut files, vec![caller(1)]);
    let compacted = files.compaction().unwrap().unwrap().run().unwrap();
    let new = files.path_for_new(9);
    write_file(&new, 9, &sample_overrides());
    let installed: Arc<Snapshot> = files.install_file(&new).unwrap();
    assert!(files.adopt(compacted).unwrap().is_none());
    assert_eq!((installed.version(), files.version()), (9, 9));
    assert_eq!(scratch.names(), ["9.log", "9.rules"]);
}
