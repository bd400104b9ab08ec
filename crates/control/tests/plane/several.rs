//! Several control planes over one store are equal.

use crate::support::*;
use std::collections::BTreeMap;
use tidegate_control::plane::{PlaneError, Push};
use tidegate_world::{RuleLog, WorldError};

#[tokio::test(start_paused = true)]
async fn of_two_pushes_at_once_one_wins_and_the_other_is_told_what_changed() {
    let store = store();
    let (one, two) = (open(&store).await, open(&store).await);
    pushed(&one, files(RULES)).await;
    two.wait_beyond(0, std::time::Duration::from_secs(5)).await;
    let upon = |text: String, author: &str| Push {
        if_version: Some(1),
        author: author.to_owned(),
        ..push(files(&text))
    };
    let (first, second) = tokio::join!(
        one.push(upon(RULES.replace("100 per 1m", "50 per 1m"), "alice")),
        two.push(upon(RULES.replace("mallory", "eve"), "bob")),
    );
    let (won, lost) = match (first, second) {
        (Ok(won), Err(lost)) | (Err(lost), Ok(won)) => (won, lost),
        both => panic!("one of them: {both:?}"),
    };
    assert_eq!(won.version, 2);
    let PlaneError::Conflict(conflict) = lost else { panic!("{lost}") };
    assert_eq!((conflict.expected, conflict.head, conflict.entries.len()), (1, 2, 1));
    assert_eq!(lines(&conflict.lines), said(&won), "the diff that it lost to");
    assert_eq!(store.head().await, Ok(2));
}

#[tokio::test(start_paused = true)]
async fn a_version_that_another_process_told_of_is_known_before_it_is_polled() {
    let store = store();
    let (one, two) = (open(&store).await, open(&store).await);
    for version in 0..20 {
        let upon = |limit: u64| Push {
            if_version: Some(version),
            ..push(files(&RULES.replace("100 per 1m", &format!("{limit} per 1m"))))
        };
        let (first, second) = if version % 2 == 0 { (&one, &two) } else { (&two, &one) };
        assert_eq!(first.push(upon(version + 1)).await.unwrap().version, version + 1);
        let preview = second.preview(&Push { if_version: Some(version + 1), ..upon(500) }).await.unwrap();
        assert_eq!((preview.version, preview.changes.len()), (version + 1, 1));
    }
}

#[tokio::test(start_paused = true)]
async fn hundreds_of_changes_at_once_have_a_version_each_and_all_hear_them_in_order() {
    const CHANGES: u64 = 300;
    let store = store();
    let planes = [open(&store).await, open(&store).await];
    pushed(&planes[0], files(RULES)).await;
    let mut listeners: Vec<_> = planes.iter().map(|plane| plane.subscribe()).collect();
    planes[1].wait_beyond(0, std::time::Duration::from_secs(5)).await;
    let tasks: Vec<_> = (0..CHANGES)
        .map(|number| {
            let plane = planes[usize::try_from(number % 2).unwrap()].clone();
            let ask = set(&format!("{{ rule: per-user, user: u{number}, limit: {number} }}"));
            tokio::spawn(async move { pushed(&plane, ask).await.version })
        })
        .collect();
    let mut versions = BTreeMap::new();
    for task in tasks {
        *versions.entry(task.await.unwrap()).or_insert(0) += 1;
    }
    assert_eq!(versions, (2..=CHANGES + 1).map(|version| (version, 1)).collect::<BTreeMap<_, _>>());
    for (plane, listener) in planes.iter().zip(&mut listeners) {
        plane.wait_beyond(CHANGES, std::time::Duration::from_secs(5)).await;
        let mut last = None;
        while let Ok(logged) = listener.try_recv() {
            assert!(last.is_none_or(|last| logged.delta.version == last + 1), "{last:?}");
            last = Some(logged.delta.version);
        }
        assert_eq!(last, Some(CHANGES + 1));
        assert_eq!(plane.recent_after(CHANGES - 9).map(|recent| recent.len()), Some(10));
        assert_eq!(overrides(plane).await.len(), 302);
    }
}

#[tokio::test(start_paused = true)]
async fn a_store_that_is_away_is_told_of_and_found_again() {
    let store = store();
    let plane = open(&store).await;
    pushed(&plane, files(RULES)).await;
    store.set_outage(Some(WorldError::Unreachable { cause: "pulled the plug".to_owned() }));
    let error = refused(&plane, set("{ rule: per-user, user: bob, limit: 7 }")).await;
    assert!(error.to_string().contains("pulled the plug"), "{error}");
    tokio::time::sleep(std::time::Duration::from_secs(1)).await;
    assert!(plane.problem().is_some_and(|problem| problem.contains("pulled the plug")));
    assert_eq!(plane.rules().version, 1, "what is known stays");
    store.set_outage(None);
    tokio::time::sleep(std::time::Duration::from_secs(1)).await;
    assert_eq!(plane.problem(), None);
    assert_eq!(pushed(&plane, set("{ rule: per-user, user: bob, limit: 7 }")).await.version, 2);
}
