//! Snapshots where they are kept: directories that are missing, taken or broken, and the regular saving.

use super::*;
use crate::engine::EngineOptions;
use std::fs;
use std::sync::atomic::{AtomicU32, Ordering};
use tidegate_rules::RuleSet;

/// A directory of this test's own, removed in the end.
struct Directory(PathBuf);

impl Directory {
    fn new() -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let name = format!("snapshot-{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        let path = std::env::temp_dir().join(name);
        fs::create_dir(&path).unwrap();
        Directory(path)
    }

    fn names(&self) -> Vec<String> {
        let entries = fs::read_dir(&self.0).unwrap();
        let mut names: Vec<String> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn node(directory: PathBuf) -> Snapshots {
    let options = EngineOptions { secret: SECRET, keys_max: 10_000 };
    let (clock, _) = Clock::manual(NOW);
    let engine = Arc::new(Engine::new(options, RuleSet::empty()));
    Snapshots::new(engine, Arc::new(clock), directory)
}

impl Snapshots {
    fn count(&self) -> usize {
        self.engine.key_count()
    }

    fn ask(&self, number: u64) -> Decision {
        let moment = self.clock.now();
        ask(self.engine.lone_table().unwrap(), number, specs(moment.now)[0], moment)
    }
}

#[test]
fn a_node_finds_again_what_another_saved() {
    let directory = Directory::new();
    let data = directory.0.join("new/data");
    let first = node(data.clone());
    first.restore();
    for _ in 0..5 {
        first.ask(1);
    }
    first.save(Extent::Live);
    let denied = first.ask(1);
    drop(first);
    let second = node(data.clone());
    second.restore();
    assert_eq!(second.ask(1), denied);
    assert_eq!(fs::read_dir(data).unwrap().count(), 1, "nothing but the snapshot is left");
}

#[test]
fn an_idle_node_writes_once() {
    let directory = Directory::new();
    let node = node(directory.0.clone());
    node.save(Extent::Lasting);
    assert_eq!(directory.names(), [FILE_NAME]);
    fs::remove_file(node.path()).unwrap();
    node.save(Extent::Lasting);
    assert_eq!(directory.names(), [""; 0]);
    node.ask(1);
    node.save(Extent::Lasting);
    assert_eq!(directory.names(), [FILE_NAME]);
}

#[test]
fn two_nodes_never_overwrite_each_other() {
    let directory = Directory::new();
    let first = node(directory.0.clone());
    first.ask(1);
    first.save(Extent::Live);
    let second = node(directory.0.clone());
    second.restore();
    assert_eq!(second.count(), 0, "they are the first one's");
    second.save(Extent::Live);
    assert!(second.progress.lock().is_failing);
    drop(first);
    second.save(Extent::Live);
    assert!(!second.progress.lock().is_failing, "the first one has ended");
}

#[test]
fn a_file_that_cannot_be_used_is_set_aside_and_replaced() {
    let directory = Directory::new();
    let path = directory.0.join(FILE_NAME);
    fs::write(&path, b"not a snapshot").unwrap();
    let node = node(directory.0.clone());
    node.restore();
    node.ask(1);
    node.save(Extent::Live);
    assert_eq!(directory.names(), [FILE_NAME, "counts.snapshot.refused"]);
    assert_eq!(fs::read(directory.0.join("counts.snapshot.refused")).unwrap(), b"not a snapshot");
}

#[test]
fn trouble_with_the_disk_lasts_only_as_long_as_it_does() {
    let directory = Directory::new();
    let data = directory.0.join("data");
    fs::write(&data, b"a file where the directory should be").unwrap();
    let node = node(data.clone());
    node.restore();
    node.ask(1);
    node.save(Extent::Live);
    assert!(node.progress.lock().is_failing);
    fs::remove_file(&data).unwrap();
    node.save(Extent::Live);
    assert!(!node.progress.lock().is_failing);
    assert_eq!(fs::read_dir(&data).unwrap().count(), 1);
}

#[test]
fn a_save_that_fails_leaves_the_one_before_it() {
    let directory = Directory::new();
    let node = node(directory.0.clone());
    node.ask(1);
    node.save(Extent::Live);
    let before = fs::read(node.path()).unwrap();
    // Where the new one is to be written there is something that can't be replaced.
    fs::create_dir(directory.0.join("counts.snapshot.partial")).unwrap();
    node.ask(2);
    node.save(Extent::Live);
    assert!(node.progress.lock().is_failing);
    assert_eq!(fs::read(node.path()).unwrap(), before);
}

#[tokio::test(start_paused = true)]
async fn saving_regularly_saves_at_once_and_then_again() {
    let directory = Directory::new();
    let node = Arc::new(node(directory.0.clone()));
    node.ask(1);
    let size = || fs::metadata(node.path()).map_or(0, |file| file.len());
    let saving = tokio::spawn(save_regularly(node.clone(), Duration::from_secs(30)));
    while size() == 0 {
        tokio::task::yield_now().await;
    }
    let one = size();
    node.ask(2);
    while size() == one {
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    assert_eq!(size(), one + 48);
    saving.abort();
}
