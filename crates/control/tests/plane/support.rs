//! A control plane of a test's own, and short ways to ask it.

use std::sync::Arc;
use tidegate_control::plane::{
    ControlPlane, OverrideRetention, PlaneError, Push, PushChange, PushOutcome, Replace,
};
use tidegate_core::{FleetSecret, Nanos};
use tidegate_rules::envoy::Windows;
use tidegate_rules::{DocumentName, PushedRules, Source};
use tidegate_world::MemoryWorld;

pub(crate) const RULES: &str = "\
namespace: api
rules:
  - { name: per-user, key: [user], limit: 100 per 1m }
  - { name: search, key: [user, endpoint], rate: 10/s }
overrides:
  - { rule: per-user, user: 'acme-*', limit: 1000 }
  - { rule: per-user, user: mallory, limit: 0 }
";

pub(crate) fn store() -> Arc<MemoryWorld> {
    Arc::new(MemoryWorld::new(Box::new(|| Nanos::from_secs(1_800_000_000))).with_page_rows(3))
}

/// One process over a store, ready.
pub(crate) async fn open(store: &Arc<MemoryWorld>) -> Arc<ControlPlane> {
    let (plane, worker) = ControlPlane::new(store.clone());
    tokio::spawn(worker.run());
    while plane.problem().is_some() {
        tokio::time::sleep(std::time::Duration::from_millis(1)).await;
    }
    plane
}

pub(crate) fn source(text: &str) -> Source {
    Source { name: "rules.yaml".to_owned(), text: text.as_bytes().to_vec() }
}

pub(crate) fn files(text: &str) -> PushChange {
    files_as(text, Replace::Named, OverrideRetention::Pruned)
}

pub(crate) fn files_as(text: &str, replace: Replace, overrides: OverrideRetention) -> PushChange {
    let pushed = PushedRules::read(&[source(text)], &FleetSecret::BUILT_IN, Windows::Fixed);
    PushChange::Files { pushed: pushed.unwrap_or_else(|errors| panic!("{errors}")), replace, overrides }
}

pub(crate) fn api() -> DocumentName {
    DocumentName { tenant: "default".into(), namespace: "api".into() }
}

pub(crate) fn set(entry: &str) -> PushChange {
    PushChange::SetOverride { document: api(), entry: source(entry) }
}

pub(crate) fn push(ask: PushChange) -> Push {
    let (author, reason) = ("alice".to_owned(), "because".to_owned());
    Push { change: ask, if_version: None, author, reason, tenant: None }
}

pub(crate) async fn pushed(plane: &ControlPlane, ask: PushChange) -> PushOutcome {
    plane.push(push(ask)).await.unwrap_or_else(|error| panic!("{error}"))
}

pub(crate) async fn refused(plane: &ControlPlane, ask: PushChange) -> PlaneError {
    plane.push(push(ask)).await.expect_err("this can't be")
}

/// What an outcome means, as lines.
pub(crate) fn said(outcome: &PushOutcome) -> String {
    lines(&outcome.lines)
}

pub(crate) fn lines(lines: &[tidegate_control::plane::Line]) -> String {
    lines.iter().map(|line| format!("{} {}\n", line.sign.symbol(), line.text)).collect()
}

/// All overrides, for comparing: names and values.
pub(crate) async fn overrides(plane: &ControlPlane) -> Vec<String> {
    let (mut all, mut after) = (Vec::new(), None);
    loop {
        let (page, next) = plane.overrides(&api(), after).await.expect("a page");
        all.extend(page.iter().map(|change| {
            serde_json::to_string(&tidegate_control::plane::json::ChangeJson::from(change)).expect("JSON")
        }));
        if next.is_none() {
            all.sort();
            return all;
        }
        after = next;
    }
}
