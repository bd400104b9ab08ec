//! The log of the rules.

use crate::fixture::{Fixture, PAGE_ROWS};
use std::collections::BTreeMap;
use std::sync::Arc;
use tidegate_core::Nanos;
use tidegate_world::{
    HistoryPage, NewRuleLogEntry, REASON_CHARS_MAX, Remainder, RuleItem, RuleItemId, RuleItemsPage, RuleLog,
    RuleLogEntry, RuleLogEntrySize, RuleLogSubject, WorldError,
};

fn subject(number: u8) -> RuleLogSubject {
    RuleLogSubject([number; 16])
}

fn id(place: u8, item: u16) -> RuleItemId {
    let mut bytes = [0; 32];
    // Zeros and high bytes alike: nothing may be trimmed, and nothing compared as text.
    bytes[..2].copy_from_slice(&item.to_le_bytes());
    RuleItemId { place: subject(place), item: bytes }
}

fn entry(author: &str, items: Vec<(RuleItemId, Option<Vec<u8>>)>) -> NewRuleLogEntry {
    NewRuleLogEntry {
        author: author.to_owned(),
        reason: "because".to_owned(),
        changes: u32::try_from(items.len()).unwrap(),
        changed: vec![0, 255, b'\'', 7],
        replaced: vec![9, 0],
        subjects: vec![subject(1)],
        items,
        at: None,
    }
}

async fn all_items(log: &Arc<dyn RuleLog>, place: Option<RuleLogSubject>) -> Vec<RuleItem> {
    let (mut items, mut after) = (Vec::new(), None);
    for _ in 0..1000 {
        let page = log.items(RuleItemsPage { place, after }).await.expect("a page");
        let Some(last) = page.last() else { return items };
        assert!(page.len() <= PAGE_ROWS);
        after = Some(last.id);
        items.extend(page);
    }
    panic!("pages that never end");
}

async fn all_entries(log: &Arc<dyn RuleLog>) -> Vec<RuleLogEntry> {
    let mut entries: Vec<RuleLogEntry> = Vec::new();
    loop {
        let after = entries.last().map_or(0, |entry| entry.summary.version);
        let page = log.entries(after).await.expect("a page");
        if page.is_empty() {
            return entries;
        }
        entries.extend(page);
    }
}

pub(crate) async fn an_entry_comes_back_as_it_was_written(fixture: Fixture) {
    let log = fixture.open_log();
    assert_eq!(log.head().await, Ok(0));
    assert_eq!(log.entries(0).await, Ok(Vec::new()));
    assert_eq!(log.entry(0).await, Ok(None));
    let items = vec![(id(1, 0), Some(vec![1, 0, 255])), (id(2, 0xffff), Some(Vec::new()))];
    let written = entry("änne 🦀 o'hara \\ {now}", items.clone());
    log.append(0, std::slice::from_ref(&written)).await.unwrap();
    let old = Nanos::from_secs(1_500_000_000);
    log.append(1, &[NewRuleLogEntry { at: Some(old), ..entry("bob", vec![(id(1, 0), None)]) }])
        .await
        .unwrap();
    assert_eq!(log.head().await, Ok(2));
    let first = log.entry(1).await.unwrap().expect("the first");
    assert_eq!((first.summary.version, &first.summary.author), (1, &written.author));
    assert_eq!((&first.summary.reason, first.summary.changes), (&written.reason, 2));
    assert_eq!((&first.changed, &first.replaced), (&written.changed, &written.replaced));
    assert!(first.summary.at > Nanos::from_secs(1_700_000_000), "the store's present");
    assert_eq!(log.entry(2).await.unwrap().expect("the second").summary.at, old);
    assert_eq!(log.entry(3).await, Ok(None));
    assert_eq!(log.entry(u64::MAX).await, Ok(None));
    let left = RuleItem { id: id(2, 0xffff), value: Vec::new(), version: 1 };
    assert_eq!(all_items(&log, None).await, std::slice::from_ref(&left));
    assert_eq!(log.find(&[id(1, 0), id(2, 0xffff), id(2, 1)]).await, Ok(vec![left]));
    for bad in ["a\0b".to_owned(), "x".repeat(REASON_CHARS_MAX + 1)] {
        let refused = log.append(2, &[NewRuleLogEntry { reason: bad, ..entry("eve", Vec::new()) }]).await;
        assert!(matches!(refused, Err(WorldError::Refused { .. })), "{refused:?}");
    }
    let long = NewRuleLogEntry { reason: "𝔘".repeat(REASON_CHARS_MAX), ..entry("bob", Vec::new()) };
    log.append(2, &[long]).await.unwrap();
}

pub(crate) async fn who_is_late_is_told_and_writes_nothing(fixture: Fixture) {
    let (one, two) = (fixture.open_log(), fixture.open_log());
    one.append(0, &[entry("one", vec![(id(1, 1), Some(vec![1]))])]).await.unwrap();
    let late = [entry("two", vec![(id(1, 2), Some(vec![2]))])];
    assert_eq!(two.append(0, &late).await, Err(WorldError::Outdated { theirs: 1 }));
    assert_eq!(two.append(7, &late).await, Err(WorldError::Outdated { theirs: 1 }), "no gaps");
    assert_eq!(two.append(0, &[]).await, Err(WorldError::Outdated { theirs: 1 }));
    assert_eq!((two.head().await, all_items(&two, None).await.len()), (Ok(1), 1));
    let both = [entry("two", vec![(id(1, 1), Some(vec![5]))]), entry("two", vec![(id(1, 1), None)])];
    two.append(1, &both).await.unwrap();
    assert_eq!((one.head().await, all_items(&one, None).await), (Ok(3), Vec::new()));
    // All or none: the second can't be written.
    let bad = NewRuleLogEntry { author: "a\nb".to_owned(), ..entry("", Vec::new()) };
    assert!(one.append(3, &[entry("one", vec![(id(3, 3), Some(vec![3]))]), bad]).await.is_err());
    assert_eq!((one.head().await, all_items(&one, None).await), (Ok(3), Vec::new()));
}

pub(crate) async fn a_pruned_entry_has_its_summary_and_what_is_left(fixture: Fixture) {
    let log = fixture.open_log();
    let of = |number: u8| NewRuleLogEntry {
        subjects: vec![subject(number)],
        ..entry("one", vec![(id(1, number.into()), Some(vec![number; 9]))])
    };
    log.append(0, &[of(1), of(2), of(1)]).await.unwrap();
    let size = |version, changed, replaced| RuleLogEntrySize { version, changed, replaced };
    assert_eq!(log.sizes(subject(1), 10).await, Ok(vec![size(3, 4, 2), size(1, 4, 2)]));
    assert_eq!(log.sizes(subject(1), 1).await, Ok(vec![size(3, 4, 2)]));
    assert_eq!(log.sizes(subject(9), 10).await, Ok(Vec::new()));
    let before = (log.entry(1).await.unwrap().unwrap(), all_items(&log, None).await);
    let left = Remainder { version: 1, changed: vec![0, b'\'', 255], replaced: Vec::new() };
    log.prune(&[left.clone(), Remainder { version: 77, ..left.clone() }]).await.unwrap();
    let pruned = log.entry(1).await.unwrap().unwrap();
    assert_eq!((&pruned.changed, &pruned.replaced), (&left.changed, &left.replaced));
    assert_eq!((pruned.summary, all_items(&log, None).await), (before.0.summary, before.1));
    assert_eq!(log.sizes(subject(1), 10).await, Ok(vec![size(3, 4, 2), size(1, 3, 0)]));
    assert_eq!(log.entry(2).await.unwrap().unwrap().changed, of(2).changed);
    assert_eq!((log.head().await, log.entries(0).await.map(|entries| entries.len())), (Ok(3), Ok(3)));
}

/// The head, asked for until a busy server has time.
async fn patient_head(log: &Arc<dyn RuleLog>) -> u64 {
    loop {
        match log.head().await {
            Err(WorldError::Timeout { .. }) => {}
            head => return head.unwrap(),
        }
    }
}

pub(crate) async fn many_writers_at_once_leave_no_gap_and_no_double(fixture: Fixture) {
    const WRITERS: u16 = 6;
    const EACH: u16 = 10;
    let writers = (0..WRITERS).map(|writer| {
        let log = fixture.open_log();
        tokio::spawn(async move {
            let mut conflicts = 0;
            for number in 0..EACH {
                let new = [entry(&format!("{writer}"), vec![(id(1, writer * EACH + number), Some(vec![1]))])];
                let mut head = patient_head(&log).await;
                while let Err(error) = log.append(head, &new).await {
                    // A busy server may also say that it took too long for a lock: then nothing was written.
                    conflicts += 1;
                    assert!(
                        matches!(error, WorldError::Outdated { .. } | WorldError::Timeout { .. }),
                        "{error}"
                    );
                    head = patient_head(&log).await;
                }
            }
            conflicts
        })
    });
    let mut conflicts = 0;
    for writer in writers.collect::<Vec<_>>() {
        conflicts += writer.await.unwrap();
    }
    let log = fixture.open_log();
    let entries = all_entries(&log).await;
    let versions: Vec<u64> = entries.iter().map(|entry| entry.summary.version).collect();
    assert_eq!(versions, (1..=u64::from(WRITERS * EACH)).collect::<Vec<_>>(), "{conflicts} conflicts");
    let mut of_each: BTreeMap<String, u16> = BTreeMap::new();
    for entry in entries {
        *of_each.entry(entry.summary.author).or_default() += 1;
    }
    assert!(of_each.len() == usize::from(WRITERS) && of_each.values().all(|count| *count == EACH));
    assert_eq!(all_items(&log, None).await.len(), usize::from(WRITERS * EACH));
}

pub(crate) async fn pages_bring_every_item_once_and_in_order(fixture: Fixture) {
    let log = fixture.open_log();
    let count = u16::try_from(2 * PAGE_ROWS + 3).unwrap();
    let of = |place: u8| (0..count).map(move |item| (id(place, item), Some(item.to_be_bytes().to_vec())));
    log.append(0, &[entry("a", of(0).chain(of(255)).chain(of(128)).collect())]).await.unwrap();
    let all = all_items(&log, None).await;
    assert_eq!(all.len(), 3 * usize::from(count));
    assert!(all.is_sorted_by(|a, b| a.id < b.id), "in the order of bytes");
    let some = all_items(&log, Some(subject(128))).await;
    assert_eq!(some, all[usize::from(count)..2 * usize::from(count)]);
    let first = async |after| {
        log.items(RuleItemsPage { place: Some(subject(128)), after: Some(after) }).await.unwrap()
    };
    assert_eq!(first(id(0, 5)).await, some[..PAGE_ROWS], "behind another place's");
    assert_eq!(first(id(255, 5)).await, Vec::new());
    let asked: Vec<RuleItemId> = (0..2 * count).map(|item| id(255, item)).collect();
    assert_eq!(log.find(&asked).await.unwrap().len(), usize::from(count));
    let gone = (0..count).map(|item| (id(128, item), None));
    log.append(1, &[entry("a", gone.collect())]).await.unwrap();
    assert_eq!(all_items(&log, Some(subject(128))).await, Vec::new());
    assert_eq!(all_items(&log, None).await.len(), 2 * usize::from(count));
}

pub(crate) async fn history_is_found_by_what_it_is_about(fixture: Fixture) {
    let log = fixture.open_log();
    let about = |subjects: Vec<RuleLogSubject>| NewRuleLogEntry { subjects, ..entry("a", Vec::new()) };
    let entries: Vec<NewRuleLogEntry> = (1..=9)
        .map(|number| about(if number % 3 == 0 { vec![subject(3), subject(9)] } else { vec![] }))
        .collect();
    log.append(0, &entries).await.unwrap();
    let versions = async |subject, before, rows_max| {
        let page = log.history(HistoryPage { subject, before, rows_max }).await.unwrap();
        page.iter().map(|summary| summary.version).collect::<Vec<_>>()
    };
    assert_eq!(versions(None, u64::MAX, 3).await, [9, 8, 7]);
    assert_eq!(versions(None, 3, 100).await, [2, 1]);
    assert_eq!(versions(Some(subject(3)), u64::MAX, 100).await, [9, 6, 3]);
    assert_eq!(versions(Some(subject(9)), 9, 1).await, [6]);
    assert_eq!(versions(Some(subject(4)), u64::MAX, 100).await, [0; 0]);
}

pub(crate) async fn entries_of_megabytes_are_kept_and_read_in_pages(fixture: Fixture) {
    let log = fixture.open_log();
    let long = |byte: u8| NewRuleLogEntry {
        changed: vec![byte; 3 << 20],
        replaced: vec![!byte; 2 << 20],
        items: vec![(id(1, u16::from(byte)), Some(vec![byte; 3 << 20]))],
        ..entry("a", Vec::new())
    };
    for byte in 0..3 {
        log.append(u64::from(byte), &[long(byte)]).await.unwrap();
    }
    let entries = all_entries(&log).await;
    assert_eq!(entries.len(), 3);
    for (byte, entry) in (0..).zip(&entries) {
        let same = long(byte);
        assert!(entry.changed == same.changed && entry.replaced == same.replaced, "entry {byte}");
    }
    if !fixture.is_memory() {
        assert_eq!(log.entries(0).await.unwrap().len(), 1, "a page has some megabytes");
    }
}
