//! How much history a tenant has: enough to go back, and no more than its bound.

use crate::support::*;
use std::sync::Arc;
use tidegate_control::plane::json::{ChangeJson, EntryJson};
use tidegate_control::plane::{ControlPlane, Push, PushChange, Replace, Retention, RuleVersion};
use tidegate_world::MemoryWorld;

const RETAINED: usize = 5;

/// A control plane that keeps little, and looks at a tenant's history at its first push.
async fn open_small(store: &Arc<MemoryWorld>, bytes: u64) -> Arc<ControlPlane> {
    let retention = Retention { versions: RETAINED, bytes };
    let (plane, worker) = ControlPlane::with_retention(store.clone(), retention);
    tokio::spawn(worker.run());
    while plane.problem().is_some() {
        tokio::time::sleep(std::time::Duration::from_millis(1)).await;
    }
    plane
}

fn document(tenant: &str, namespace: &str, limit: usize) -> PushChange {
    let rules = format!("rules: [{{ name: own, key: [user], limit: {limit} per 1h }}]");
    files(&format!("tenant: {tenant}\nnamespace: {namespace}\n{rules}\n"))
}

async fn push_as(plane: &ControlPlane, tenant: &str, ask: PushChange) -> u64 {
    plane.push(Push { tenant: Some(tenant.into()), ..push(ask) }).await.unwrap().version
}

async fn all_entries(plane: &ControlPlane) -> Vec<RuleVersion> {
    let mut entries: Vec<RuleVersion> = Vec::new();
    loop {
        let after = entries.last().map_or(0, |entry| entry.summary.version);
        let page = plane.entries_after(after).await.unwrap();
        if page.is_empty() {
            return entries;
        }
        entries.extend(page);
    }
}

fn pruned(entries: &[RuleVersion]) -> Vec<u64> {
    entries.iter().filter(|entry| entry.is_pruned()).map(|entry| entry.summary.version).collect()
}

/// Versions 1 to 40: what stays as it is, what others have, and what mallory pushes again and again.
async fn filled(store: &Arc<MemoryWorld>) -> Arc<ControlPlane> {
    let plane = open_small(store, u64::MAX).await;
    push_as(&plane, "mallory", document("mallory", "first", 1)).await;
    push_as(&plane, "honest", document("honest", "api", 1)).await;
    push_as(&plane, "honest", document("honest", "api", 2)).await;
    for limit in 4..=40 {
        push_as(&plane, "mallory", document("mallory", "again", limit)).await;
    }
    // Nobody waits for the worker to prune; the next push does.
    push_as(&plane, "mallory", document("mallory", "again", 41)).await;
    plane
}

#[tokio::test(start_paused = true)]
async fn a_tenant_has_its_latest_versions_in_full_and_of_others_what_is_in_force() {
    let plane = filled(&store()).await;
    let entries = all_entries(&plane).await;
    let gone = pruned(&entries);
    assert!(gone.len() >= 25 && gone.iter().all(|version| *version < 41 - 4), "{gone:?}");
    assert!(!gone.contains(&2) && !gone.contains(&3), "another's history stays: {gone:?}");
    let changes = |version: u64| entries[usize::try_from(version).unwrap() - 1].changed.changes.len();
    assert_eq!((changes(1), changes(4)), (1, 0), "what is still in force stays in the log");
    let summaries = plane.history(Some("mallory"), None, u64::MAX, 1000).await.unwrap();
    assert_eq!(summaries.len(), 39, "who pushed, when and why is known of all");
    assert_eq!(summaries.last().unwrap().changes, 1);
}

#[tokio::test(start_paused = true)]
async fn a_tenant_goes_back_within_its_history_and_an_operator_anywhere() {
    let plane = filled(&store()).await;
    let back = |tenant: Option<&str>, to| Push {
        tenant: tenant.map(Into::into),
        ..push(PushChange::RollBack { to })
    };
    let refused = plane.push(back(Some("mallory"), 3)).await.expect_err("pruned").to_string();
    assert!(refused.contains("no longer kept"), "{refused}");
    plane.push(back(Some("mallory"), 39)).await.unwrap();
    let text = |tenant: &str, namespace: &str| {
        let standing = plane.rules();
        let found = standing
            .documents
            .iter()
            .find(|(name, _)| *name.tenant == *tenant && *name.namespace == *namespace);
        found.map(|(_, text)| text.to_string())
    };
    assert!(text("mallory", "again").unwrap().contains("limit: 39 per"));
    plane.push(back(Some("honest"), 2)).await.unwrap();
    assert!(
        text("honest", "api").unwrap().contains("limit: 1 per"),
        "another's pruned versions don't matter"
    );
    plane.push(back(None, 2)).await.unwrap();
    let oldest = text("mallory", "again").unwrap();
    assert!(!oldest.contains("limit: 41 per"), "as far back as its history goes: {oldest}");
    assert!(text("mallory", "first").is_some());
}

#[tokio::test(start_paused = true)]
async fn bytes_bound_a_history_too_and_the_latest_version_stays() {
    let plane = open_small(&store(), 1).await;
    for limit in 1..=40 {
        push_as(&plane, "mallory", document("mallory", "again", limit)).await;
    }
    let entries = all_entries(&plane).await;
    assert!(pruned(&entries).len() >= 32, "{:?}", pruned(&entries));
    assert!(!entries.last().unwrap().is_pruned());
}

#[tokio::test(start_paused = true)]
async fn a_backup_of_a_pruned_history_restores_the_same_rules() {
    let plane = filled(&store()).await;
    let changes = |changes: &[tidegate_rules::RuleChange]| changes.iter().map(ChangeJson::from).collect();
    let lines = all_entries(&plane).await.into_iter().map(|entry| EntryJson {
        version: entry.summary.version,
        at_us: entry.summary.at.get() / 1000,
        author: entry.summary.author.clone(),
        reason: entry.summary.reason.clone(),
        changed: changes(&entry.changed.changes),
        replaced: changes(&entry.replaced.changes),
    });
    let other = open(&store()).await;
    assert_eq!(other.restore(lines.collect()).await.unwrap(), 41);
    assert_eq!(other.rules().documents, plane.rules().documents);
}

/// A process that was away for longer than a tenant's history goes back reads the rules anew.
#[tokio::test(start_paused = true)]
async fn who_is_behind_a_pruned_version_misses_nothing_that_was_removed() {
    let store = store();
    let plane = open_small(&store, u64::MAX).await;
    push_as(&plane, "mallory", document("mallory", "gone", 1)).await;
    let late = open(&store).await;
    let PushChange::Files { pushed, overrides, .. } = document("mallory", "again", 2) else { unreachable!() };
    push_as(&plane, "mallory", PushChange::Files { pushed, replace: Replace::All, overrides }).await;
    for limit in 3..=40 {
        push_as(&plane, "mallory", document("mallory", "again", limit)).await;
    }
    assert_eq!(late.rules().version, 1, "it has yet to look");
    assert!(pruned(&all_entries(&plane).await).contains(&2), "the version that removed it");
    assert_eq!(late.wait_beyond(39, std::time::Duration::from_secs(5)).await, 40);
    assert_eq!(late.rules().documents, plane.rules().documents);
}
