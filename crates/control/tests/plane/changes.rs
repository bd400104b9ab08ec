//! One control plane: changes, what they mean, and the way back.

use crate::support::*;
use tidegate_control::plane::json::{ChangeJson, EntryJson};
use tidegate_control::plane::{OverrideRetention, OverrideTarget, PlaneError, PushChange, Replace};
use tidegate_core::Nanos;
use tidegate_rules::{Mode, RuleChange};
use tidegate_world::RuleLog;

#[tokio::test(start_paused = true)]
async fn a_push_is_logged_with_what_it_replaced_and_everybody_hears_of_it() {
    let plane = open(&store()).await;
    let mut heard = plane.subscribe();
    let first = pushed(&plane, files(RULES)).await;
    assert_eq!((first.version, first.changes.len(), plane.rules().version), (1, 3, 1));
    let meaning = said(&first);
    assert!(meaning.contains("+ per-user: about 100 over a sliding 1 minute, for each user"), "{meaning}");
    assert!(meaning.contains("+ per-user user=acme-*: limit 1000"), "{meaning}");
    assert!(meaning.contains("+ per-user user=mallory: blocked"), "{meaning}");
    let lowered = RULES.replace("100 per 1m", "50 per 1m");
    let second = pushed(&plane, files(&lowered)).await;
    assert!(
        said(&second).contains("over a sliding 1 minute, for each user: counts stay"),
        "{}",
        said(&second)
    );
    let entry = plane.entry(2).await.unwrap();
    assert_eq!((&*entry.summary.author, &*entry.summary.reason), ("alice", "because"));
    let [RuleChange::Document { text: Some(before), .. }] = &entry.replaced.changes[..] else {
        panic!("{entry:?}")
    };
    let [RuleChange::Document { text: Some(after), .. }] = &entry.changed.changes[..] else {
        panic!("{entry:?}")
    };
    assert!(before.contains("100 per 1m") && after.contains("50 per 1m") && !after.contains("overrides"));
    for version in 1..=2 {
        let logged = heard.recv().await.unwrap();
        assert_eq!((logged.delta.version, logged.bytes.is_empty()), (version, false));
    }
    let again = pushed(&plane, files(&lowered)).await;
    assert_eq!((again.version, again.changes.len()), (2, 0), "nothing changes: no version");
}

#[tokio::test(start_paused = true)]
async fn what_cannot_be_in_force_is_never_stored() {
    let store = store();
    let plane = open(&store).await;
    pushed(&plane, files(RULES)).await;
    let before = overrides(&plane).await;
    let bad = [
        set("{ rule: per-usr, user: bob, limit: 5 }"),
        set("{ rule: per-user, usr: bob, limit: 5 }"),
        set("{ rule: per-user, user: bob, rate: 5/s }"),
        set("{ rule: per-user, user: bob }"),
        set("{ rule: per-user, limit: 5 }"),
        set("{ rule: per-user, user: bob, limit: 5"),
        set(""),
        set("a: 1\n---\nb: 2\n"),
    ];
    for ask in bad {
        let error = refused(&plane, ask.clone()).await;
        assert!(matches!(error, PlaneError::Invalid(_)), "{ask:?}: {error}");
    }
    let unknown = PushChange::SetOverride {
        document: tidegate_rules::DocumentName { tenant: "default".into(), namespace: "apx".into() },
        entry: source("{ rule: per-user, user: bob, limit: 5 }"),
    };
    assert!(matches!(refused(&plane, unknown).await, PlaneError::Unknown(_)));
    let line = |text: &str| serde_json::from_str::<ChangeJson>(text).unwrap().change().unwrap();
    for text in [
        r#"{"override":{"namespace":"api","rule":"gone","key":["bob"],"limit":5}}"#,
        r#"{"override":{"namespace":"api","rule":"per-user","key":["bob","x"],"limit":5}}"#,
        r#"{"override":{"namespace":"api","rule":"search","key":["bob","x"],"limit":5}}"#,
        r#"{"document":{"namespace":"web","text":"namespace: other\n"}}"#,
        r#"{"document":{"namespace":"web","text":"namespace: web\nfleet_mode: off\n"}}"#,
        r#"{"document":{"namespace":"web","text":"namespace: web\nrulez: []\n"}}"#,
    ] {
        let error = refused(&plane, PushChange::Changes(vec![line(text)])).await;
        assert!(matches!(error, PlaneError::Refused { .. } | PlaneError::Invalid(_)), "{text}: {error}");
    }
    assert_eq!(store.head().await, Ok(1));
    assert_eq!(overrides(&plane).await, before);
}

#[tokio::test(start_paused = true)]
async fn overrides_are_set_removed_kept_and_replaced() {
    let plane = open(&store()).await;
    pushed(&plane, files(RULES)).await;
    let outcome =
        pushed(&plane, set("{ rule: per-user, user: bob, limit: 7, until: 2030-01-01T00:00:00Z }")).await;
    assert!(
        said(&outcome).contains("+ per-user user=bob: limit 7 until 2030-01-01T00:00:00Z"),
        "{}",
        said(&outcome)
    );
    let outcome = pushed(&plane, set("{ rule: search, user: bob, rate: 5/s, hot: true }")).await;
    assert!(
        said(&outcome).contains("+ search user=bob endpoint=*: 5 per second, burst 5, hot"),
        "{}",
        said(&outcome)
    );
    assert_eq!(overrides(&plane).await.len(), 4);
    let outcome = pushed(&plane, set("{ rule: per-user, user: bob, unlimited: true }")).await;
    assert!(
        said(&outcome).contains("~ per-user user=bob: limit 7 until")
            && said(&outcome).contains("→ unlimited")
    );
    let kept =
        pushed(&plane, files_as(&RULES.replace("1000", "2000"), Replace::Named, OverrideRetention::Kept))
            .await;
    assert_eq!((kept.changes.len(), overrides(&plane).await.len()), (1, 4));
    let replaced = pushed(&plane, files(&RULES.replace("1000", "2000"))).await;
    assert_eq!((replaced.changes.len(), overrides(&plane).await.len()), (2, 2), "{}", said(&replaced));
    let target = OverrideTarget::Entry(source("{ rule: per-user, user: mallory }"));
    pushed(&plane, PushChange::RemoveOverride { document: api(), target: target.clone() }).await;
    assert_eq!(overrides(&plane).await.len(), 1);
    assert_eq!(pushed(&plane, PushChange::RemoveOverride { document: api(), target }).await.changes.len(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_push_says_which_counts_start_afresh_and_whom_it_forgets() {
    let plane = open(&store()).await;
    pushed(&plane, files(RULES)).await;
    let preview = async |text: &str| {
        let push = push(files_as(text, Replace::Named, OverrideRetention::Kept));
        said(&plane.preview(&push).await.unwrap())
    };
    let rules = RULES.split("overrides:").next().unwrap();
    let longer = preview(&rules.replace("100 per 1m", "100 per 5m")).await;
    assert!(longer.contains("period or algorithm changed: counts start afresh"), "{longer}");
    let rekeyed = preview(&rules.replace("key: [user], limit", "key: [org], limit")).await;
    assert!(rekeyed.contains("re-keyed: starts afresh, and 2 overrides no longer apply"), "{rekeyed}");
    let renamed = preview(&rules.replace("per-user", "each-user")).await;
    assert!(
        renamed.contains("- per-user is now each-user: counts start afresh, and 2 overrides"),
        "{renamed}"
    );
    let gone =
        preview("namespace: api\nrules:\n  - { name: search, key: [user, endpoint], rate: 10/s }\n").await;
    assert!(
        gone.contains("- per-user: about 100") && gone.contains("and 2 overrides no longer apply"),
        "{gone}"
    );
    let shadowed = preview(&rules.replace("100 per 1m }", "100 per 1m, shadow: true }")).await;
    assert!(shadowed.contains("shadow: never denies: counts stay"), "{shadowed}");
    assert!(
        preview(&format!("# a comment\n{rules}")).await.contains("the text changes, its meaning doesn't")
    );
    assert_eq!(plane.rules().version, 1, "nothing of this was pushed");
}

#[tokio::test(start_paused = true)]
async fn a_roll_back_is_a_new_version_with_the_old_content() {
    let plane = open(&store()).await;
    pushed(&plane, files(RULES)).await;
    let (rules, known) = (plane.rules().documents.clone(), overrides(&plane).await);
    pushed(
        &plane,
        files_as("namespace: web\nfleet_mode: shadow\nrules: []\n", Replace::All, OverrideRetention::Pruned),
    )
    .await;
    pushed(&plane, files(&RULES.replace("mallory", "eve"))).await;
    pushed(&plane, set("{ rule: per-user, user: bob, limit: 7 }")).await;
    assert_eq!(plane.rules().fleet_mode, Mode::Shadow);
    let back = pushed(&plane, PushChange::RollBack { to: 1 }).await;
    assert_eq!((back.version, plane.rules().fleet_mode), (5, Mode::Enforce), "{}", said(&back));
    assert_eq!((&plane.rules().documents, overrides(&plane).await), (&rules, known));
    pushed(&plane, PushChange::RollBack { to: 0 }).await;
    assert!(plane.rules().documents.is_empty() && overrides(&plane).await.is_empty());
    assert!(matches!(refused(&plane, PushChange::RollBack { to: 7 }).await, PlaneError::Unknown(_)));
}

#[tokio::test(start_paused = true)]
async fn an_address_is_named_by_its_group_however_it_comes() {
    let plane = open(&store()).await;
    let rules = "namespace: api\nrules:\n  - { name: per-ip, key: [ip/64], limit: 100 per 1m }\n";
    pushed(&plane, files(rules)).await;
    pushed(&plane, set("{ rule: per-ip, ip: '2001:db8::1', limit: 5 }")).await;
    let [known] = &overrides(&plane).await[..] else { panic!("one") };
    let group = serde_json::from_str::<ChangeJson>(known).unwrap().change().unwrap();
    let outcome = pushed(&plane, PushChange::Changes(vec![group])).await;
    assert_eq!(outcome.changes.len(), 0, "what was exported is what is there: {known}");
    let line = r#"{"override":{"namespace":"api","rule":"per-ip","key":["2001:db8::1"],"limit":5}}"#;
    let single = serde_json::from_str::<ChangeJson>(line).unwrap().change().unwrap();
    let error = refused(&plane, PushChange::Changes(vec![single])).await;
    assert!(error.to_string().contains("write its group"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn a_caller_starts_afresh_once_more_each_time() {
    let plane = open(&store()).await;
    pushed(&plane, files(RULES)).await;
    let reset = || PushChange::Reset { document: api(), entry: source("{ rule: per-user, user: bob }") };
    for epoch in 1..=3 {
        let outcome = pushed(&plane, reset()).await;
        let RuleChange::Reset { epoch: found, .. } = outcome.changes[0].after else { panic!("{outcome:?}") };
        assert_eq!(found, epoch);
    }
    let pattern = PushChange::Reset { document: api(), entry: source("{ rule: per-user, user: 'b*' }") };
    assert!(matches!(refused(&plane, pattern).await, PlaneError::Refused { .. }));
    pushed(&plane, PushChange::RollBack { to: 1 }).await;
    let RuleChange::Reset { epoch, .. } = pushed(&plane, reset()).await.changes[0].after else { panic!() };
    assert_eq!(epoch, 4, "a roll back takes no reset back");
}

/// A control plane that starts anew tells nodes of the latest, which its file doesn't have.
#[tokio::test(start_paused = true)]
async fn the_latest_resets_are_found_among_all_versions() {
    let plane = open(&store()).await;
    pushed(&plane, files(RULES)).await;
    let mut versions = Vec::new();
    for number in 0..5 {
        pushed(&plane, set(&format!("{{ rule: per-user, user: u{number}, limit: {number} }}"))).await;
        let entry = source(&format!("{{ rule: per-user, user: u{number} }}"));
        versions.insert(0, pushed(&plane, PushChange::Reset { document: api(), entry }).await.version);
    }
    let at = Nanos::from_secs(1_800_000_000);
    let found = plane.resets_since(at, 100).await.unwrap();
    assert!(found.iter().all(|(ordered_at, _)| *ordered_at == at));
    assert_eq!(found.iter().map(|(_, delta)| delta.version).collect::<Vec<_>>(), versions);
    assert_eq!(plane.resets_since(at, 2).await.unwrap().len(), 2, "the latest");
    assert!(plane.resets_since(at.plus(Nanos::from_secs(1)), 100).await.unwrap().is_empty(), "too old");
}

#[tokio::test(start_paused = true)]
async fn a_backup_restores_every_version_into_an_empty_store() {
    let plane = open(&store()).await;
    pushed(&plane, files(RULES)).await;
    for number in 0..20 {
        pushed(
            &plane,
            set(&format!("{{ rule: per-user, user: 'user \u{1F980} {number}', limit: {number} }}")),
        )
        .await;
    }
    pushed(&plane, set("{ rule: search, user: bob, rate: 700000/s, burst: 3 }")).await;
    pushed(&plane, PushChange::FleetMode(Mode::Shadow)).await;
    pushed(&plane, PushChange::Reset { document: api(), entry: source("{ rule: per-user, user: bob }") })
        .await;
    let mut lines = Vec::new();
    while let Some(last) = {
        let after = u64::try_from(lines.len()).unwrap();
        let page = plane.entries_after(after).await.unwrap();
        lines.extend(page.iter().map(|entry| {
            let json = EntryJson {
                version: entry.summary.version,
                at_us: entry.summary.at.get() / 1000,
                author: entry.summary.author.clone(),
                reason: entry.summary.reason.clone(),
                changed: entry.changed.changes.iter().map(ChangeJson::from).collect(),
                replaced: entry.replaced.changes.iter().map(ChangeJson::from).collect(),
            };
            serde_json::to_string(&json).unwrap()
        }));
        page.last().map(|entry| entry.summary.version)
    } {
        assert!(last <= plane.rules().version);
    }
    let entries: Vec<EntryJson> = lines.iter().map(|line| serde_json::from_str(line).unwrap()).collect();
    let other_store = store();
    let other = open(&other_store).await;
    assert_eq!(other.restore(entries.clone()).await.unwrap(), plane.rules().version);
    assert_eq!(other.rules().documents, plane.rules().documents);
    assert_eq!(other.rules().fleet_mode, Mode::Shadow);
    assert_eq!(overrides(&other).await, overrides(&plane).await);
    let (theirs, ours) = (other.entries_after(0).await.unwrap(), plane.entries_after(0).await.unwrap());
    assert_eq!(format!("{theirs:?}"), format!("{ours:?}"), "times and authors too");
    let twice = other.restore(entries).await.expect_err("it isn't empty");
    assert!(twice.to_string().contains("into an empty store"), "{twice}");
}

#[tokio::test(start_paused = true)]
async fn patterns_that_make_a_check_slow_are_refused() {
    let plane = open(&store()).await;
    pushed(&plane, files(RULES)).await;
    for number in 0..62 {
        pushed(&plane, set(&format!("{{ rule: per-user, user: '*bot{number}*', limit: 7 }}"))).await;
    }
    let error = plane.push(push(set("{ rule: per-user, user: '*more*', limit: 7 }"))).await.unwrap_err();
    assert!(error.to_string().contains("may take over 1 ms"), "{error}");
    for user in ["bob", "acme-*", "*-acme", "*bot1*"] {
        pushed(&plane, set(&format!("{{ rule: per-user, user: '{user}', limit: 8 }}"))).await;
    }
    let document = api();
    let target = OverrideTarget::Entry(source("{ rule: per-user, user: '*bot1*' }"));
    pushed(&plane, PushChange::RemoveOverride { document, target }).await;
    pushed(&plane, set("{ rule: per-user, user: '*more*', limit: 7 }")).await;
}
