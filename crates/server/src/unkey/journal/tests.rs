//! What is on the disk after a change, a crash, and damage.

use super::*;
use crate::unkey::requests::LimitTarget;
use std::borrow::Cow;
use std::fs;
use std::sync::atomic::{AtomicU32, Ordering};

/// A directory of this test's own, removed in the end.
struct Directory(PathBuf);

impl Directory {
    fn new() -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let name = format!("overrides-{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        let path = std::env::temp_dir().join(name);
        fs::create_dir(&path).unwrap();
        Directory(path)
    }

    fn data(&self) -> PathBuf {
        self.0.join("data")
    }

    fn text(&self) -> String {
        fs::read_to_string(self.data().join(FILE_NAME)).unwrap()
    }

    fn write(&self, text: &str) {
        fs::write(self.data().join(FILE_NAME), text).unwrap();
    }

    /// What the next process finds.
    fn restored(&self) -> Vec<(String, u64)> {
        names(&Journal::new(self.data()).read())
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn change(identifier: &str, limit: Option<u64>) -> Change {
    let named = LimitTarget { namespace: Cow::Borrowed("n \"é\""), identifier: Cow::Borrowed(identifier) };
    let period = Period::new(Nanos::from_secs(60)).unwrap();
    Change::new("default", &named, limit.map(|limit| Override::new(Limit::new(limit).unwrap(), period)))
}

fn names(in_force: &OverridesInForce) -> Vec<(String, u64)> {
    let mut names = Vec::new();
    in_force.each(|change| {
        let limit = change.to.as_ref().unwrap().numbers().0.get();
        names.push((change.identifier.to_string(), limit));
    });
    names.sort();
    names
}

fn made(journal: &mut Journal, in_force: &mut OverridesInForce, mut change: Change) {
    in_force.apply(&mut change).unwrap();
    journal.append(&change, in_force);
}

#[test]
fn the_next_process_finds_every_change_as_it_was_made() {
    let directory = Directory::new();
    let (mut journal, mut in_force) = (Journal::new(directory.data()), OverridesInForce::default());
    for (identifier, limit) in
        [("a", Some(1)), ("vip_*", Some(0)), ("a", Some(3)), ("b", Some(4)), ("b", None)]
    {
        made(&mut journal, &mut in_force, change(identifier, limit));
        assert_eq!(directory.restored(), names(&in_force), "after {identifier}");
    }
    let again = Journal::new(directory.data()).read();
    let id = |in_force: &OverridesInForce| {
        in_force.namespace("default", "n \"é\"").unwrap().named("a").unwrap().1.id().to_owned()
    };
    assert_eq!(id(&again), id(&in_force));
    assert_eq!(directory.text().lines().count(), 1 + 5, "appended, not written anew");
}

#[test]
fn a_process_that_goes_on_keeps_what_the_one_before_it_kept() {
    let directory = Directory::new();
    let (mut journal, mut in_force) = (Journal::new(directory.data()), OverridesInForce::default());
    made(&mut journal, &mut in_force, change("a", Some(1)));
    drop(journal);
    let mut journal = Journal::new(directory.data());
    let mut in_force = journal.read();
    made(&mut journal, &mut in_force, change("b", Some(2)));
    assert_eq!(directory.restored(), [("a".to_owned(), 1), ("b".to_owned(), 2)]);
}

#[test]
fn lines_that_say_nothing_any_more_are_dropped_in_time() {
    let directory = Directory::new();
    let (mut journal, mut in_force) = (Journal::new(directory.data()), OverridesInForce::default());
    for limit in 0..3 {
        made(&mut journal, &mut in_force, change("a", Some(limit)));
    }
    assert_eq!(directory.text().lines().count(), 1 + 3);
    // As if there had been so many.
    journal.lines = 2 + STALE_LINES_MIN;
    made(&mut journal, &mut in_force, change("a", Some(3)));
    assert_eq!(directory.text().lines().count(), 1 + 4);
    made(&mut journal, &mut in_force, change("a", Some(4)));
    assert_eq!(directory.text().lines().count(), 1 + 1);
    assert_eq!(directory.restored(), [("a".to_owned(), 4)]);
}

#[test]
fn a_line_that_a_crash_cut_off_is_nothing() {
    let directory = Directory::new();
    let (mut journal, mut in_force) = (Journal::new(directory.data()), OverridesInForce::default());
    made(&mut journal, &mut in_force, change("a", Some(1)));
    made(&mut journal, &mut in_force, change("b", Some(2)));
    let text = directory.text();
    directory.write(&text[..text.len() - 10]);
    assert_eq!(directory.restored(), [("a".to_owned(), 1)]);
    assert!(!directory.data().join("overrides.jsonl.refused").exists());
}

#[test]
fn of_a_damaged_file_what_can_be_read_is_used_and_the_rest_set_aside() {
    let directory = Directory::new();
    let (mut journal, mut in_force) = (Journal::new(directory.data()), OverridesInForce::default());
    for identifier in ["a", "b", "c"] {
        made(&mut journal, &mut in_force, change(identifier, Some(1)));
    }
    drop(journal);
    let damaged = directory.text().replace("\"b\"", "b");
    directory.write(&damaged);
    let usable = [("a".to_owned(), 1), ("c".to_owned(), 1)];
    assert_eq!(directory.restored(), usable);
    assert_eq!(fs::read_to_string(directory.data().join("overrides.jsonl.refused")).unwrap(), damaged);
    assert_eq!(directory.restored(), usable, "and is in its place again");
}

#[test]
fn a_file_of_another_version_is_set_aside_whole() {
    let directory = Directory::new();
    fs::create_dir(directory.data()).unwrap();
    for text in ["", "\n", "{\"tidegate_overrides\":2}\n", &"x".repeat(100_000)] {
        directory.write(text);
        assert_eq!(directory.restored(), []);
        assert_eq!(fs::read_to_string(directory.data().join("overrides.jsonl.refused")).unwrap(), text);
    }
}

#[test]
fn what_can_not_be_written_is_in_force_and_is_written_when_it_can() {
    let directory = Directory::new();
    fs::write(directory.data(), "not a directory").unwrap();
    let (mut journal, mut in_force) = (Journal::new(directory.data()), OverridesInForce::default());
    made(&mut journal, &mut in_force, change("a", Some(1)));
    assert!(journal.is_failing);
    fs::remove_file(directory.data()).unwrap();
    made(&mut journal, &mut in_force, change("b", Some(2)));
    assert!(!journal.is_failing);
    assert_eq!(directory.restored(), [("a".to_owned(), 1), ("b".to_owned(), 2)]);
}

#[test]
fn a_second_node_in_the_same_directory_leaves_the_firsts_alone() {
    let directory = Directory::new();
    let (mut first, mut in_force) = (Journal::new(directory.data()), OverridesInForce::default());
    made(&mut first, &mut in_force, change("a", Some(1)));
    let mut second = Journal::new(directory.data());
    let mut of_second = second.read();
    made(&mut second, &mut of_second, change("b", Some(2)));
    assert!(second.is_failing);
    assert_eq!(directory.restored(), [("a".to_owned(), 1)]);
}
